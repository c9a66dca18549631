"""Settings of the formats in which models are written: what `tfnlp export` takes for each."""

from typing import ClassVar

from tfnlp.settings.options import Settings, option
from tfnlp.settings.use import POOLINGS, ModelSettings

_NETWORKS = "modules of encoders, GPTs and fine-tuned models"  # a heading of `--help`


class FormatSettings(Settings):
    """What every format takes.

    Attributes:
        title: What is written, in sentences; also a heading of `--help`.
    """

    title: ClassVar[str] = ""

    overwrite: bool = option(False, "replace an earlier export")


class StoredSettings(FormatSettings):
    """Of what can hold its matrices in fewer bits."""

    weights: str | None = option(
        None, "store matrices so, for inference alone: the module can't be trained then; says what "
        "is won and lost (default: float32)", choices=("bfloat16", "int8"), group=_NETWORKS,
    )  # fmt: skip


class GraphSettings(StoredSettings):
    """Of modules that have a graph of ids for other runtimes."""

    litert: str | None = option(
        None, "write a graph of ids for LiteRT too (BERT, GPT: of --seq-length): a .tflite file, "
        "or a folder with it, the vocabulary, the labels and an example", metavar="PATH",
        group=_NETWORKS,
    )  # fmt: skip
    onnx: str | None = option(
        None, "the same for ONNX Runtime, of any length: a .onnx file, or a folder",
        metavar="PATH", group=_NETWORKS,
    )  # fmt: skip


class GPTPairSettings(GraphSettings):
    """Of the modules `model` and `preprocessor`."""

    title: ClassVar[str] = "the pair of a GPT"

    seq_length: int | None = option(
        None, "BERT, GPT: length to pack to (default: 128)", group=_NETWORKS
    )


class EncoderPairSettings(GPTPairSettings):
    """Of the modules `encoder` and `preprocessor`."""

    title: ClassVar[str] = "the pair of an encoder"

    combined: bool = option(False, "write one module instead, of strings to the encoder's outputs")


_PROMPT = (
    "with --sentences or of an index: what precedes each text, see `tfnlp embed` (default: the "
    "model's, or the index's)"
)


class FillModuleSettings(FormatSettings):
    """Of a module of strings with masks to the words there."""

    title: ClassVar[str] = "a module that fills masks (`fill`)"

    fill: bool = option(
        False, "BERT: write one module instead, of strings with [MASK] to the words there"
    )
    top: int | None = option(
        None, "with --fill: guesses a mask; of an index: texts (default: 5)", at_least=1
    )


class SentencesModuleSettings(GPTPairSettings):
    """Of a module of strings to one vector each."""

    title: ClassVar[str] = "a module of vectors of texts (`sentences`)"

    sentences: bool = option(
        False, "BERT, GPT: write one module instead, of strings to one vector each"
    )
    pooling: str | None = option(
        None, "with --sentences: of the vectors of tokens (default: the model's, else mean)",
        choices=POOLINGS,
    )  # fmt: skip
    prompt: str | None = option(None, _PROMPT)


class ElmoModuleSettings(FormatSettings):
    """Of the module of an ELMo."""

    title: ClassVar[str] = "the module of an ELMo"

    trainable: str = option(
        "mix", "what users of the module train, the mixing scalars or all weights",
        choices=("mix", "all"),
    )  # fmt: skip
    cache: str | None = option(
        None, "words, one a line, to compute the vectors of now", metavar="FILE"
    )
    l2: float = option(0.0, "penalty of the squared mixing scalars")


class WordVectorsModuleSettings(FormatSettings):
    """Of a module of texts to combined word vectors."""

    title: ClassVar[str] = "the module of word vectors"

    combiner: str = option(
        "sqrtn", "how those of a text's words are combined", choices=("sqrtn", "mean", "sum")
    )
    oov_buckets: int = option(1, "rows for unseen words")
    lowercase: bool = option(False, "the module lower-cases its texts")
    strip_punctuation: bool = option(False, "the module leaves punctuation out")


class TranslationModuleSettings(FormatSettings):
    """Of a module of sentences to translations."""

    title: ClassVar[str] = "the module of a translator"

    beams: int = option(4, "hypotheses kept at a time", at_least=1)
    length_penalty: float = option(0.6, "above 0 it favours long translations")


class TaskModuleSettings(GraphSettings):
    """Of the module of a fine-tuned model."""

    title: ClassVar[str] = "the module of a fine-tuned model"

    keep_adapters: bool = option(
        False, "fine-tuned with --lora: keep the updates apart, which alone can then be trained"
    )
    examples: int = option(
        5, "rows of the dev set that the module carries, to try it out with `tfnlp serve`",
        at_least=0, at_most=20,
    )  # fmt: skip

    def check(self) -> None:
        """Check also that adapters are merged where matrices are stored in another way."""
        super().check()
        for name in ("weights", "litert", "onnx"):
            if self.keep_adapters and getattr(self, name) is not None:
                raise ValueError(f"`{name}` is for a model whose adapters are merged")


class SearchModuleSettings(FormatSettings):
    """Of a module of strings to the texts of an index."""

    title: ClassVar[str] = "the module of an index"

    top: int = option(5, "texts for each query", at_least=1)
    prompt: str | None = option(None, _PROMPT)


class PeftSettings(FormatSettings):
    """Of the low-rank updates that PEFT reads."""

    title: ClassVar[str] = "the adapters of PEFT"

    base: str | None = option(
        None, "name or path of the model that the adapters belong to (default: that which was "
        "fine-tuned)", metavar="NAME",
    )  # fmt: skip


# In the order of `tfnlp export --help`.
FORMAT_SETTINGS: tuple[type[FormatSettings], ...] = (
    EncoderPairSettings, GPTPairSettings, FillModuleSettings, SentencesModuleSettings,
    TaskModuleSettings, ElmoModuleSettings, WordVectorsModuleSettings, TranslationModuleSettings,
    SearchModuleSettings, PeftSettings,
)  # fmt: skip


class ExportSettings(ModelSettings):
    """What `tfnlp export` takes of every model, beside the settings of the format."""

    output: str = option(
        help="BERT, GPT: folder for the pair; others: the module, or the file of --format",
        metavar="DIR",
    )  # fmt: skip
    format: str | None = option(
        None,
        "SavedModels, or what other libraries read: Hugging Face, PEFT of what was fine-tuned with "
        "--lora, sentence-transformers, bilm-tf and AllenNLP, word vectors, ONNX and LiteRT "
        "(default: savedmodel)",
        choices=(
            "savedmodel", "huggingface", "peft", "sentence-transformers", "bilm", "word2vec",
            "word2vec-binary", "fasttext", "fasttext-binary", "glove", "onnx", "litert",
        ),
    )  # fmt: skip
