"""DistilBERT's checkpoints, by the names of Hugging Face's modeling_distilbert.py."""

from tfnlp.checkpoints.config import ConfigNames
from tfnlp.checkpoints.encoder_files import EncoderFiles
from tfnlp.checkpoints.heads import task_heads
from tfnlp.checkpoints.names import BERT_EMBEDDINGS, TensorNames
from tfnlp.models import distilbert, distilbert_pretrainer

DISTILBERT_FILES = EncoderFiles(
    title="DistilBERT",
    encoder=distilbert,
    pretrainer=distilbert_pretrainer,
    config=ConfigNames(
        "distilbert",
        sizes={
            "vocab_size": "vocab_size",
            "n_layers": "num_layers",
            "dim": "hidden_size",
            "n_heads": "num_heads",
            "hidden_dim": "intermediate_size",
            "max_position_embeddings": "max_positions",
        },
        numbers={
            "dropout": ("dropout", 0.1, 0.0, 1.0),
            "attention_dropout": ("attention_dropout", 0.1, 0.0, 1.0),
            "initializer_range": ("initializer_range", 0.02, 0.0, 1000.0),
        },
        activation="activation",
        # Sinusoids are only initial values of the table, which is stored.
        written={"sinusoidal_pos_embds": False, "pad_token_id": 0},
        constants={"norm_epsilon": 1e-12},
    ),
    formats=(
        TensorNames(
            layers=BERT_EMBEDDINGS,
            block={
                "attention/qkv": tuple(f"attention.{part}_lin" for part in "qkv"),
                "attention/output": "attention.out_lin",
                "attention_norm": "sa_layer_norm",
                "intermediate": "ffn.lin1",
                "output": "ffn.lin2",
                "output_norm": "output_layer_norm",
            },
            prefix="transformer.layer.{}.",
            heads={
                "masked_lm": {
                    "masked_lm_head/dense": "vocab_transform",
                    "masked_lm_head/norm": "vocab_layer_norm",
                    "masked_lm_bias": "vocab_projector.bias",
                    "masked_lm_table": "vocab_projector",
                }
            },
            base="distilbert.",
            hint="'distilbert.embeddings.' or 'embeddings.'",
            copies={"vocab_projector.weight": "embeddings.word_embeddings.weight"},
        ),
    ),
    classes={("masked_lm",): "DistilBertForMaskedLM", (): "DistilBertModel"},
    tasks=task_heads("DistilBert", {"hidden": "pre_classifier", "classifier": "classifier"}),
)
load_distilbert, save_distilbert = DISTILBERT_FILES.load, DISTILBERT_FILES.save
