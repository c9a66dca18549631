"""RoBERTa's checkpoints, and those of XLM-RoBERTa and MPNet, by Hugging Face's names."""

import dataclasses

from tfnlp.checkpoints.config import BERT_SIZES, ConfigNames
from tfnlp.checkpoints.encoder_files import EncoderFiles
from tfnlp.checkpoints.heads import task_heads
from tfnlp.checkpoints.names import BERT_BLOCK, BERT_EMBEDDINGS, LEGACY, TensorNames
from tfnlp.checkpoints.tokenizers.byte_pairs import ROBERTA_BYTE_PAIRS
from tfnlp.checkpoints.tokenizers.files import TOKENIZER_JSON
from tfnlp.models import mpnet, mpnet_pretrainer, roberta, roberta_pretrainer
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
_HEADS = (
    {"hidden": "classifier.dense", "classifier": "classifier.out_proj"},
    {"hidden": "pooler.dense", "classifier": "classifier"},
)
ROBERTA_FILES = EncoderFiles(
    title="RoBERTa",
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
    tasks=task_heads("Roberta", *_HEADS),
)
# The same network with a vocabulary of many languages.
XLM_ROBERTA_FILES = dataclasses.replace(
    ROBERTA_FILES,
    title="XLM-RoBERTa",
    config=dataclasses.replace(ROBERTA_FILES.config, model_type="xlm-roberta"),
    classes={heads: f"XLM{name}" for heads, name in ROBERTA_FILES.classes.items()},
    tokenizer=TOKENIZER_JSON,
    tasks=task_heads("XLMRoberta", *_HEADS),
)
_BUCKETS = "relative_attention_num_buckets"
MPNET_FILES = EncoderFiles(
    title="MPNet",
    encoder=mpnet,
    pretrainer=mpnet_pretrainer,
    config=ConfigNames(
        "mpnet",
        sizes={
            **{key: name for key, name in BERT_SIZES.items() if name != "num_segments"},
            _BUCKETS: "position_buckets",
        },
        optional={_BUCKETS: 32},
        counts_from_padding=True,
        fixed={"pad_token_id": PADDING_ID},
    ),
    formats=(
        dataclasses.replace(
            HUGGINGFACE,
            layers={
                **HUGGINGFACE.layers,
                "distance_embedding": "encoder.relative_attention_bias",
            },
            block={
                **BERT_BLOCK,
                "attention/qkv": tuple(f"attention.attn.{part}" for part in "qkv"),
                "attention/output": "attention.attn.o",
                "attention_norm": "attention.LayerNorm",
            },
            base="mpnet.",
            hint="'mpnet.embeddings.' or 'embeddings.'",
        ),
    ),
    classes={("masked_lm",): "MPNetForMaskedLM", (): "MPNetModel"},
    head_activation="gelu",
    tokenizer=TOKENIZER_JSON,
    tasks=task_heads("MPNet", *_HEADS),
)
load_roberta, save_roberta = ROBERTA_FILES.load, ROBERTA_FILES.save
