"""ALBERT's checkpoints: Hugging Face's (modeling_albert.py)."""

from collections.abc import Iterator, Mapping
from typing import Any

from tfnlp.checkpoints.config import BERT_NUMBERS, BERT_SIZES, ConfigNames
from tfnlp.checkpoints.encoder_files import EncoderFiles
from tfnlp.checkpoints.heads import task_heads
from tfnlp.checkpoints.names import BERT_EMBEDDINGS, LEGACY, TensorNames
from tfnlp.checkpoints.tokenizers.sentencepiece import SENTENCEPIECE
from tfnlp.models import albert, albert_pretrainer
from tfnlp.models.albert import shared_blocks


class SharedNames(TensorNames):
    """Names of layers that share their blocks; `prefix` has the numbers of group and block."""

    layer = None

    def blocks(self, config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        groups, size = config["num_groups"], config["group_blocks"]
        for number, name in enumerate(shared_blocks(groups, size)):
            yield f"{name}/", self.prefix.format(*divmod(number, size))


HUGGINGFACE = SharedNames(
    layers={
        **BERT_EMBEDDINGS,
        "embedding_projection": "encoder.embedding_hidden_mapping_in",
        "pooler/dense": "pooler",
    },
    block={
        "attention/qkv": tuple(f"attention.{part}" for part in ("query", "key", "value")),
        "attention/output": "attention.dense",
        "attention_norm": "attention.LayerNorm",
        "intermediate": "ffn",
        "output": "ffn_output",
        "output_norm": "full_layer_layer_norm",
    },
    prefix="encoder.albert_layer_groups.{}.albert_layers.{}.",
    heads={
        "masked_lm": {
            "masked_lm_head/dense": "predictions.dense",
            "masked_lm_head/norm": "predictions.LayerNorm",
            "masked_lm_bias": "predictions.bias",
            "masked_lm_table": "predictions.decoder",
        },
        "sentence_order": {"sentence_order_head/dense": "sop_classifier.classifier"},
    },
    base="albert.",
    hint="'albert.embeddings.' or 'embeddings.' (Hugging Face)",
    copies={
        "predictions.decoder.weight": "embeddings.word_embeddings.weight",
        "predictions.decoder.bias": "predictions.bias",
    },
    renamed=LEGACY,
)
_GROUPS = {"num_hidden_groups": "num_groups", "inner_group_num": "group_blocks"}
ALBERT_FILES = EncoderFiles(
    title="ALBERT",
    encoder=albert,
    pretrainer=albert_pretrainer,
    config=ConfigNames(
        "albert",
        sizes={**BERT_SIZES, "embedding_size": "embedding_size", **_GROUPS},
        numbers={
            **BERT_NUMBERS,
            "hidden_dropout_prob": ("dropout", 0.0, 0.0, 1.0),
            "attention_probs_dropout_prob": ("attention_dropout", 0.0, 0.0, 1.0),
        },
        default_activation="gelu_new",
        optional=dict.fromkeys(_GROUPS, 1),
        written={"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3},
    ),
    formats=(HUGGINGFACE,),
    classes={
        ("masked_lm", "sentence_order"): "AlbertForPreTraining",
        ("masked_lm",): "AlbertForMaskedLM",
        (): "AlbertModel",
    },
    needs_pooler=("sentence_order",),
    tokenizer=SENTENCEPIECE,
    tasks=task_heads("Albert"),
)
load_albert, save_albert = ALBERT_FILES.load, ALBERT_FILES.save
