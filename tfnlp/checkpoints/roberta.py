"""RoBERTa's checkpoints, and XLM-RoBERTa's: Hugging Face's (modeling_roberta.py)."""

import dataclasses

from tfnlp.checkpoints.config import ConfigNames
from tfnlp.checkpoints.encoder_files import EncoderFiles
from tfnlp.checkpoints.heads import task_heads
from tfnlp.checkpoints.names import BERT_EMBEDDINGS, LEGACY, TensorNames
from tfnlp.checkpoints.tokenizers.byte_pairs import ROBERTA_BYTE_PAIRS
from tfnlp.checkpoints.tokenizers.files import TOKENIZER_JSON
from tfnlp.models import roberta, roberta_pretrainer
from tfnlp.models.roberta import PADDING_ID

HUGGINGFACE = TensorNames(
    layers={**BERT_EMBEDDINGS, "pooler/dense": "pooler.dense"},
    heads={
        "masked_lm": {
            "masked_lm_head/dense": "lm_head.dense",
            "masked_lm_head/norm": "lm_head.layer_norm",
            "masked_lm_bias": "lm_head.bias",
            "masked_lm_table": "lm_head.decoder",
        }
    },
    base="roberta.",
    hint="'roberta.embeddings.' or 'embeddings.' (Hugging Face)",
    copies={
        "lm_head.decoder.weight": "embeddings.word_embeddings.weight",
        "lm_head.decoder.bias": "lm_head.bias",
    },
    renamed=LEGACY,
)
# Of whole texts, and of multiple choice.
HEADS = (
    {"hidden": "classifier.dense", "classifier": "classifier.out_proj"},
    {"hidden": "pooler.dense", "classifier": "classifier"},
)
ROBERTA_FILES = EncoderFiles(
    title="RoBERTa",
    loader="load_roberta",
    encoder=roberta,
    pretrainer=roberta_pretrainer,
    config=ConfigNames(
        "roberta",
        optional={"pad_token_id": PADDING_ID, "type_vocab_size": 1},
        counts_from_padding=True,
    ),
    formats=(HUGGINGFACE,),
    classes={("masked_lm",): "RobertaForMaskedLM", (): "RobertaModel"},
    head_activation="gelu",  # whatever the blocks have
    tokenizer=ROBERTA_BYTE_PAIRS,
    tasks=task_heads("Roberta", *HEADS),
)
# The same network with a vocabulary of many languages.
XLM_ROBERTA_FILES = dataclasses.replace(
    ROBERTA_FILES,
    title="XLM-RoBERTa",
    loader="load_encoder",
    config=dataclasses.replace(ROBERTA_FILES.config, model_type="xlm-roberta"),
    classes={heads: f"XLM{name}" for heads, name in ROBERTA_FILES.classes.items()},
    tokenizer=TOKENIZER_JSON,
    tasks=task_heads("XLMRoberta", *HEADS),
)
load_roberta, save_roberta = ROBERTA_FILES.load, ROBERTA_FILES.save
