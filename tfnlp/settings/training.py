"""Settings of training: the run's folder, devices, optimisation, checkpoints, sizes of models."""

from typing import Any

from tfnlp.settings.options import Settings, option

REMAT = ("none", "blocks", "full")  # as in tfnlp.layers, which would import Keras
OPTIMIZERS = ("adam", "adamw", "bert_adamw", "roberta_adamw", "lamb", "adagrad", "rowwise_adagrad")
OPTIMIZER_HELP = (
    "rule of the updates; adamw: the textbook's, bert_adamw: without bias correction, as in BERT's "
    "reference code; roberta_adamw: adamw with b2 = 0.98 and epsilon = 1e-6"
)
MOST_LAYERS = 1000  # a run's `config.json` with more can't be loaded
CHANGED_SIZES = ("num_layers", "hidden_size", "num_heads", "intermediate_size")


class OutputSettings(Settings):
    """The folder of a run."""

    output: str = option(
        help="the run's folder; the same settings again resume a run that was stopped",
        metavar="DIR", group="run",
    )  # fmt: skip
    restart: bool = option(False, "delete an earlier run there first", group="run")


class DeviceSettings(Settings):
    """The devices that a run trains on, and what runs it there."""

    engine: str = option(
        "auto", "what trains; auto: what can use this machine's TPU or GPU, else tensorflow",
        choices=("auto", "tensorflow", "jax"), group="devices",
    )  # fmt: skip
    strategy: str = option(
        "auto", "devices; auto: a TPU, else all GPUs, else the CPU",
        choices=("auto", "cpu", "gpu", "mirrored", "multi_worker", "tpu"), group="devices",
    )  # fmt: skip
    tpu: str | None = option(
        None, "which TPU: a Cloud TPU's name, grpc://host:port, or local",
        metavar="NAME", group="devices",
    )  # fmt: skip
    wait: float = option(
        300.0, "seconds to wait for a TPU or other workers", above=0, group="devices"
    )
    workers: str | None = option(
        None, "all processes that train together, the same list for each (or TF_CONFIG)",
        metavar="HOST:PORT,...", group="devices",
    )  # fmt: skip
    index: int | None = option(
        None, "which of the workers this process is, from 0", group="devices"
    )
    shard_optimizer: bool = option(
        False, "each device keeps a part of the weights and of the optimizer's slots (engine jax)",
        group="devices",
    )  # fmt: skip


class PrecisionSettings(Settings):
    """Whether matrix products are computed in numbers of 16 bits."""

    bf16: bool = option(
        False, "matrix products in bfloat16", group="optimisation", record="training"
    )
    fp16: bool = option(
        False, "matrix products in float16 and a scaled loss, for GPUs without bfloat16",
        group="optimisation", record="training",
    )  # fmt: skip

    def check(self) -> None:
        """Check the fields, and that they name one kind of number."""
        super().check()
        if self.bf16 and self.fp16:
            raise ValueError("give `bf16` or `fp16`, not both")

    def dtype_policy(self) -> str | None:
        """Return the name of the Keras dtype policy; None: the default one, float32."""
        if self.fp16:
            return "mixed_float16"
        return "mixed_bfloat16" if self.bf16 else None


class TrainingSettings(PrecisionSettings, DeviceSettings):
    """Optimisation, evaluations and checkpoints; the defaults are a family's recipe."""

    epochs: float | None = option(10, "times through the text", above=0, group="optimisation")
    steps: int | None = option(
        None, "updates, instead of epochs", at_least=1, group="optimisation",
        record="training",
    )  # fmt: skip
    batch_size: int = option(
        32, "rows an update", at_least=1, group="optimisation", record="training"
    )
    accumulation: int = option(
        1, "micro-batches an update", at_least=1, group="optimisation", record="training"
    )
    learning_rate: float | None = option(
        1e-3, "peak learning rate", above=0, group="optimisation", record="training"
    )
    warmup: float = option(
        0.1, "share of the steps in which the learning rate rises",
        at_least=0, at_most=1, group="optimisation", record="training",
    )  # fmt: skip
    schedule: str = option(
        "linear", "what the learning rate does after the warm-up",
        choices=("linear", "cosine", "inverse_sqrt", "constant"), group="optimisation",
        record="training",
    )  # fmt: skip
    optimizer: str = option(
        "adamw", OPTIMIZER_HELP, choices=OPTIMIZERS, group="optimisation", record="training"
    )
    weight_decay: float = option(
        0.01, "strength", at_least=0, group="optimisation", record="training"
    )
    clip_norm: float = option(
        1.0, "largest norm of the gradient; 0 for no clipping",
        at_least=0, group="optimisation", record="training",
    )  # fmt: skip
    seed: int = option(
        0, "of weights, dropout and the batches", at_least=0, group="optimisation",
        record="training",
    )  # fmt: skip
    jit: bool = option(False, "compile the step with XLA", group="devices")
    steps_per_call: int = option(10, "steps in one call of the engine", at_least=1, group="devices")
    evaluate_every: int | None = option(
        None, "steps (default: ten times a run)", at_least=1, group="checkpoints"
    )
    evaluate_batches: int = option(
        50, "held-out batches of an evaluation", at_least=1, group="checkpoints"
    )
    checkpoint_every: int | None = option(
        None, "steps (default: each evaluation)", at_least=1, group="checkpoints"
    )
    keep: int = option(3, "checkpoints to keep", at_least=1, group="checkpoints")
    patience: int | None = option(
        None, "evaluations without progress before stopping", at_least=1, group="checkpoints"
    )
    profile: Any = option(
        None, "write a TensorFlow profile of steps 20 to 25 of this start to the run's logs",
        const=(20, 25), group="checkpoints",
    )  # fmt: skip


class TokenBatchSettings(Settings):
    """Batches by tokens, for examples of mixed lengths."""

    batch_tokens: int | None = option(
        None,
        "tokens an update, padding included, in place of the batch size: examples of similar "
        "length, more of them where they are short",
        at_least=1, group="optimisation", record="training",
    )  # fmt: skip


class RematSettings(Settings):
    """What of a model of blocks is computed again in the backward pass."""

    remat: str = option(
        "none",
        "compute activations again in the backward pass instead of keeping them: less memory, a "
        "third more work, the same numbers; blocks: those of Transformer blocks and LSTMs; full: "
        "one part of a block at a time, and ELMo's characters",
        choices=REMAT, group="devices",
    )  # fmt: skip


class StartSettings(Settings):
    """The model to go on from."""

    start: Any = option(
        None, "go on from this run, checkpoint or hf:// name, with its sizes and its vocabulary",
        flag="--from", metavar="DIR", group="model", record="training", record_as="from",
    )  # fmt: skip


class SizeSettings(RematSettings):
    """What can be changed of a published size, and dropout."""

    num_layers: int | None = option(
        None, "Transformer blocks, instead of the size's",
        at_least=1, at_most=MOST_LAYERS, group="model",
    )  # fmt: skip
    hidden_size: int | None = option(
        None, "width, instead of the size's", at_least=1, group="model"
    )
    num_heads: int | None = option(
        None, "attention heads, instead of the size's", at_least=1, group="model"
    )
    intermediate_size: int | None = option(
        None, "width of the feed-forward nets, instead of the size's", at_least=1, group="model"
    )
    dropout: float = option(0.1, "dropout rate", at_least=0, below=1, group="model")


class PositionSettings(SizeSettings):
    """Sizes of Transformers with a table of positions."""

    max_positions: int | None = option(
        None, "longest sequence that the model can ever read, instead of the size's",
        at_least=1, group="model",
    )  # fmt: skip
    initializer_range: float | None = option(
        None,
        "standard deviation of the initial weights (default: 0.02; narrower than 768: "
        "0.02 sqrt(768 / width))",
        above=0, group="model",
    )  # fmt: skip


def several_workers(config: Any) -> bool:
    """Return whether a run trains with other processes: TensorFlow must not have run before."""
    strategy, workers = (getattr(config, name, None) for name in ("strategy", "workers"))
    return strategy == "multi_worker" or bool(workers)
