"""MPNet's checkpoints: Hugging Face's (modeling_mpnet.py)."""

import dataclasses

from tfnlp.checkpoints.config import BERT_SIZES, ConfigNames
from tfnlp.checkpoints.encoder_files import EncoderFiles
from tfnlp.checkpoints.heads import task_heads
from tfnlp.checkpoints.names import BERT_BLOCK
from tfnlp.checkpoints.roberta import HEADS, HUGGINGFACE
from tfnlp.checkpoints.tokenizers.files import TOKENIZER_JSON
from tfnlp.models import mpnet, mpnet_pretrainer
from tfnlp.models.roberta import PADDING_ID

_BUCKETS = "relative_attention_num_buckets"
MPNET_FILES = EncoderFiles(
    title="MPNet",
    loader="load_encoder",
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
    tasks=task_heads("MPNet", *HEADS),
)
