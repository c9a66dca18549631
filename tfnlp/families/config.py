"""Arguments that the pretraining of several families shares, as config dataclasses."""

import dataclasses
from typing import Any

from tfnlp.configs import Config, option, redefine
from tfnlp.families.precision import PrecisionConfig
from tfnlp.families.preparation import same_folder

LAYOUTS = ("auto", "lines", "prose", "words")
STRATEGIES = ("auto", "cpu", "gpu", "mirrored", "multi_worker", "tpu")
ENGINES = ("auto", "tensorflow", "jax")
SCHEDULES = ("linear", "cosine", "inverse_sqrt", "constant")
REMAT = ("none", "blocks", "full")  # as in tfnlp.layers, which would import Keras
OPTIMIZERS = ("adam", "adamw", "bert_adamw", "roberta_adamw", "lamb", "adagrad", "rowwise_adagrad")
OPTIMIZER_HELP = (
    "rule of the updates; adamw: the textbook's, bert_adamw: without bias correction, as in BERT's "
    "reference code; roberta_adamw: adamw with b2 = 0.98 and epsilon = 1e-6"
)
MOST_LAYERS = 1000  # a run's `config.json` with more can't be loaded
LAYOUT_HELP = (
    "lines: a sentence a line, blank line between documents; prose: split into sentences; "
    "words: a word a line, blank line between sentences"
)
TEXT_HELP = (
    "text files, globs, .gz files, tfds:NAME[:SPLIT], or book:NAME for one that ships with tfnlp "
    "(book:the_secret_garden)"
)


@dataclasses.dataclass(kw_only=True)
class OutputConfig(Config):
    """The folder of a run."""

    output: str = option(
        help="the run's folder; the same settings again resume a run that was stopped",
        metavar="DIR", group="run",
    )  # fmt: skip
    restart: bool = option(False, "delete an earlier run there first", group="run")


@dataclasses.dataclass(kw_only=True)
class DeviceConfig(Config):
    """The devices that a run trains on, and what runs it there."""

    engine: str = option(
        "auto", "what trains; auto: what can use this machine's TPU or GPU, else tensorflow",
        choices=ENGINES, group="devices",
    )  # fmt: skip
    strategy: str = option(
        "auto", "devices; auto: a TPU, else all GPUs, else the CPU",
        choices=STRATEGIES, group="devices",
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


@dataclasses.dataclass(kw_only=True)
class TrainingConfig(PrecisionConfig, DeviceConfig):
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
        choices=SCHEDULES, group="optimisation", record="training",
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


@dataclasses.dataclass(kw_only=True)
class TextConfig(OutputConfig):
    """The text of a run, its held-out part and its vocabulary."""

    text: Any = option(help=TEXT_HELP, flag="--input", metavar="FILE", group="text")
    layout: str = option("auto", LAYOUT_HELP, choices=LAYOUTS, group="text")
    valid: Any = option(None, "held-out text", metavar="FILE", group="text")
    held_out: float = option(
        0.05, "without held-out text: share of the text that is held out", group="text"
    )
    vocab: str | None = option(
        None, "vocabulary (GPT: its folder); built from the text if absent",
        metavar="FILE", group="text",
    )  # fmt: skip


@dataclasses.dataclass(kw_only=True)
class WordTextConfig(TextConfig):
    """The text of models that predict words from a list."""

    tokenize: bool = option(
        False,
        "split punctuation off the words first, if the text has not been tokenized yet",
        group="text", record="text",
    )  # fmt: skip
    max_vocab: int | None = option(
        None, "words to know, if the vocabulary is built", at_least=1, group="text"
    )
    min_count: int = option(1, "leave rarer words out of the vocabulary", at_least=1, group="text")


@dataclasses.dataclass(kw_only=True)
class SubwordTextConfig(TextConfig):
    """The text of models that read pieces of words: from files or from prepared examples."""

    text: Any = option(None, TEXT_HELP, flag="--input", metavar="FILE", group="text")
    vocab_size: int = option(8000, "size of the vocabulary if it is built", group="text")
    seq_length: int | None = option(
        128, "tokens a training sequence", group="text", record="training"
    )
    examples: str | None = option(
        None,
        "what `tfnlp examples` made of the text, in place of it; it decides the held-out text, "
        "the vocabulary, the sequence length and the seed",
        metavar="DIR", group="text",
    )  # fmt: skip


@dataclasses.dataclass(kw_only=True)
class MaskedTextConfig(SubwordTextConfig):
    """The text of models that fill masked pieces."""

    max_predictions: int | None = option(
        None, "masks a sequence (default 15 %)", at_least=1, group="text", record="training"
    )
    whole_word: bool = option(False, "mask whole words", group="text", record="training")


@dataclasses.dataclass(kw_only=True)
class TokenBatchConfig(Config):
    """Batches by tokens, for examples of mixed lengths."""

    batch_tokens: int | None = option(
        None,
        "tokens an update, padding included, in place of the batch size: examples of similar "
        "length, more of them where they are short",
        at_least=1, group="optimisation", record="training",
    )  # fmt: skip


PACK_PAIRS = (
    "rows of several pairs of segments that do not see each other, each with its own positions "
    "(default: a pair a row)"
)  # help of `pack` where rows are pairs


@dataclasses.dataclass(kw_only=True)
class PackConfig(Config):
    """Whether rows of several documents keep them apart."""

    pack: bool = option(
        False,
        "rows of several documents that do not see each other, each with its own positions "
        "(default: rows run on over the ends of documents)",
        group="text", record="training",
    )  # fmt: skip


@dataclasses.dataclass(kw_only=True)
class RematConfig(Config):
    """What of a model of blocks is computed again in the backward pass."""

    remat: str = option(
        "none",
        "compute activations again in the backward pass instead of keeping them: less memory, a "
        "third more work, the same numbers; blocks: those of Transformer blocks and LSTMs; full: "
        "one part of a block at a time, and ELMo's characters",
        choices=REMAT, group="devices",
    )  # fmt: skip


@dataclasses.dataclass(kw_only=True)
class StartConfig(Config):
    """The model to go on from."""

    start: Any = option(
        None, "go on from this run, checkpoint or hf:// name, with its sizes and its vocabulary",
        flag="--from", metavar="DIR", group="model", record="training", record_as="from",
    )  # fmt: skip


@dataclasses.dataclass(kw_only=True)
class TransformerConfig(RematConfig):
    """What can be changed of a published size, and dropout."""

    num_layers: int | None = option(
        None,
        "Transformer blocks, instead of the size's",
        at_least=1,
        at_most=MOST_LAYERS,
        group="model",
    )
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


@dataclasses.dataclass(kw_only=True)
class PositionConfig(TransformerConfig):
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


@dataclasses.dataclass(kw_only=True)
@redefine(
    epochs=None, steps={"help": "updates (default: 10000, or those of the epochs)"},
    learning_rate=5e-4,
)  # fmt: skip
class EncoderConfig(TrainingConfig, PositionConfig, StartConfig, PackConfig, MaskedTextConfig):
    """The pretraining of BERT and the encoders after it; for small models on one machine."""

    default_steps = 10_000


@dataclasses.dataclass(kw_only=True)
class CasedEncoderConfig(EncoderConfig):
    """The same, of a vocabulary with or without case."""

    cased: bool = option(False, "keep case and accents", group="text")


CHANGED_SIZES = ("num_layers", "hidden_size", "num_heads", "intermediate_size")


def transformer_sizes(config: TransformerConfig, published: dict[str, Any]) -> dict[str, Any]:
    """Return the published sizes with what the config changes of them."""
    sizes = dict(published)
    sizes.update({n: getattr(config, n) for n in CHANGED_SIZES if getattr(config, n) is not None})
    if config.hidden_size and not config.intermediate_size:
        sizes["intermediate_size"] = 4 * config.hidden_size
    if sizes["hidden_size"] % sizes["num_heads"]:
        raise ValueError(
            f"`hidden_size` {sizes['hidden_size']} is not a multiple of `num_heads` "
            f"{sizes['num_heads']}"
        )
    return sizes


def check_length(config: SubwordTextConfig, positions: int) -> None:
    """Check that the training sequences are no longer than the model reads."""
    if config.seq_length > positions:
        raise ValueError(
            f"`seq_length` {config.seq_length} is longer than the model's {positions} positions; "
            "shorten the sequences or raise `max_positions`"
        )


def model_to_go_on_from(
    config: StartConfig, family: str, fixed: tuple[str, ...], vocabulary: tuple[str, ...] = ()
) -> Any:
    """Return the model of a family that `config.start` names, or None.

    The arguments `fixed` follow from that model, and those of `vocabulary` from its vocabulary.
    """
    from tfnlp.families import FAMILIES
    from tfnlp.families.recognition import load_pretrained

    if config.start is None:
        return None
    if same_folder(config.start, config.output):
        raise ValueError(
            f"`start` and `output` are the same folder, {config.output}; give a new `output`, or "
            "leave `start` out to resume the run"
        )
    refuse_with_start(config, fixed, "can't be changed with `start`")
    refuse_with_start(config, vocabulary, "can't be given with `start`, which has a vocabulary")
    return load_pretrained(config.start, family=FAMILIES[family])


def refuse_with_start(config: Any, names: tuple[str, ...], why: str) -> None:
    """Refuse arguments that follow from the model to go on from."""
    for name in names:
        value = getattr(config, name)
        if name in config.given and value is not None and value is not False:
            raise ValueError(f"`{name}` {why}")
