"""Settings of what is done with a model: measure it, export it, predict, embed, search.

Those that only some families take have no default here: each family states its own.
"""

import dataclasses
from typing import Any, ClassVar

from tfnlp.settings.options import Settings, option
from tfnlp.settings.text import LAYOUT_HELP, LAYOUTS, TEXT_HELP

VECTOR_FILES = ("word2vec", "word2vec-binary", "fasttext", "glove")


MODEL_HELP = (
    "a run's folder, a checkpoint of Google, Hugging Face, OpenAI, bilm-tf or AllenNLP, what "
    "`tfnlp export` wrote, or a published name: hf://org/name[@revision], "
    "kaggle://owner/model/framework/variation[/version]"
)


@dataclasses.dataclass(kw_only=True)
class ModelSettings(Settings):
    """The model that a command works with."""

    model: Any = option(help=MODEL_HELP, metavar="DIR")


@dataclasses.dataclass(kw_only=True)
class RowSettings(Settings):
    """How labelled examples are read."""

    # Of rows whose texts and labels have fixed names.
    text_columns: ClassVar[list[str] | None] = None
    label: ClassVar[str | None] = None
    label_columns: ClassVar[list[str] | None] = None
    separator: ClassVar[str | None] = None

    skip_bad_rows: bool = option(
        False, "go on without rows that can't be read, and say how many there were",
        group="examples",
    )  # fmt: skip


@dataclasses.dataclass(kw_only=True)
class ColumnSettings(RowSettings):
    """Where the texts and labels of labelled examples stand."""

    text_columns: list[str] | None = option(
        None, "names of the columns of the texts, or numbers from 0 of files without header",
        flag="--text", metavar="COLUMN", group="examples",
    )  # fmt: skip
    label: str | None = option(
        None, "name or number of the label's column", metavar="COLUMN", group="examples"
    )


@dataclasses.dataclass(kw_only=True)
class LabelSetSettings(ColumnSettings):
    """Where the texts and any number of labels of each stand."""

    label_columns: list[str] | None = option(
        None, "labels: the columns of 0 and 1, one a label (default: all that hold 0 and 1 alone, "
        "of tables without a column labels or label)", metavar="COLUMN", group="examples",
    )  # fmt: skip
    separator: str | None = option(
        None, "labels: what stands between the names in one column (default: the first of | ; , "
        "that it has)", metavar="TEXT", group="examples",
    )  # fmt: skip


@dataclasses.dataclass(kw_only=True)
class EvaluateSettings(LabelSetSettings):
    """Arguments of `tfnlp evaluate` and of the `evaluate` methods."""

    text: Any = option(None, TEXT_HELP, flag="--input", metavar="FILE")
    layout: str = option("auto", LAYOUT_HELP, choices=LAYOUTS)
    tokenize: bool = option(
        False, "split punctuation off the words first, if the text has not been tokenized yet"
    )
    batch_size: int | None = option(
        None, "rows at a time (default: BERT 32, GPT 16, NNLM 512, ELMo as in training)",
        at_least=1,
    )  # fmt: skip
    seq_length: int | None = option(
        None, "tokens a sequence (default: BERT at most 128, GPT as in training)", at_least=1
    )
    batches: int | None = option(None, "BERT: at most so many batches (default: 100)", at_least=1)
    seed: int | None = option(None, "BERT: of pairs and masks (default: 1)")
    stride: int | None = option(
        None, "GPT: tokens from a window to the next (default: half a window)", at_least=1
    )
    source: Any = option(None, "of models that translate: sentences to translate", metavar="FILE")
    target: Any = option(None, "of models that translate: their translations", metavar="FILE")
    beams: int | None = option(
        None, "translation: hypotheses kept at a time (default: 4)", at_least=1
    )
    length_penalty: float | None = option(
        None, "translation: above 0 it favours long ones (default: 0.6)"
    )
    analogies: str | None = option(
        None, "word vectors: questions such as questions-words.txt", metavar="FILE"
    )
    similarity: Any = option(None, "word vectors: pairs that people rated", metavar="FILE")
    pairs: Any = option(
        None,
        "vectors of texts: pairs that people rated, pairs with a class as in SNLI, or texts each "
        "with one that belongs to it",
        metavar="FILE",
    )  # fmt: skip
    most_frequent: int = option(30_000, "of the analogies: words looked at", at_least=1)
    report: str | None = option(
        None,
        "fine-tuned: write a page of measures and errors there; translation: the translations "
        "and a plot of BLEU by length",
        metavar="DIR",
    )  # fmt: skip


@dataclasses.dataclass(kw_only=True)
class ExportSettings(Settings):
    """Arguments of `tfnlp export`, of `tfnlp.export` and of the `export` methods."""

    output: str = option(
        help="BERT, GPT: folder for the pair; others: the module, or the file of --format",
        metavar="DIR",
    )  # fmt: skip
    seq_length: int | None = option(None, "BERT, GPT: length to pack to (default: 128)")
    trainable: str | None = option(
        None,
        "ELMo: what users of the module train, the mixing scalars or all weights (default: mix)",
        choices=("mix", "all"),
    )  # fmt: skip
    cache: str | None = option(
        None, "ELMo: words, one a line, to compute the vectors of now", metavar="FILE"
    )
    l2: float | None = option(None, "ELMo: penalty of the squared mixing scalars (default: 0)")
    format: str | None = option(
        None,
        "SavedModels, or the files that other libraries read: bilm-tf and AllenNLP of an ELMo, "
        "Hugging Face of a BERT or GPT, PEFT of what was fine-tuned with --lora, "
        "sentence-transformers of a BERT, or one --output file of word vectors (default: "
        "savedmodel)",
        choices=(
            "savedmodel", "bilm", "huggingface", "peft", "sentence-transformers", *VECTOR_FILES
        ),
    )  # fmt: skip
    combined: bool = option(
        False, "BERT: write one module instead, of strings to the encoder's outputs"
    )
    fill: bool = option(
        False, "BERT: write one module instead, of strings with [MASK] to the words there"
    )
    base: str | None = option(
        None, "with --format peft: name or path of the model that the adapters belong to "
        "(default: that which was fine-tuned)", metavar="NAME",
    )  # fmt: skip
    keep_adapters: bool = option(
        False, "fine-tuned with --lora: keep the updates apart, which alone can then be trained"
    )
    sentences: bool = option(
        False, "BERT, GPT: write one module instead, of strings to one vector each"
    )
    pooling: str | None = option(
        None, "with --sentences: of the vectors of tokens (default: the model's, else mean)",
        choices=("mean", "cls", "max", "last"),
    )  # fmt: skip
    top: int | None = option(
        None, "BERT with --fill: guesses a mask; an index: texts (default: 5)", at_least=1
    )
    weights: str | None = option(
        None,
        "BERT, GPT, fine-tuned: store matrices so, for inference alone: the module can't be "
        "trained then; says what is won and lost (default: float32)",
        choices=("bfloat16", "int8"),
    )  # fmt: skip
    litert: str | None = option(
        None,
        "BERT, GPT, fine-tuned: write a graph of ids for LiteRT too (BERT, GPT: of --seq-length): "
        "a .tflite file, or a folder with it, the vocabulary, the labels and an example",
        metavar="PATH",
    )  # fmt: skip
    onnx: str | None = option(
        None, "the same for ONNX Runtime, of any length: a .onnx file, or a folder",
        metavar="PATH",
    )  # fmt: skip
    beams: int | None = option(
        None, "translation: hypotheses kept at a time (default: 4)", at_least=1
    )
    length_penalty: float | None = option(
        None, "translation: above 0 it favours long ones (default: 0.6)"
    )
    combiner: str | None = option(
        None, "word vectors: how those of a text's words are combined (default: sqrtn)",
        choices=("sqrtn", "mean", "sum"),
    )  # fmt: skip
    oov_buckets: int | None = option(None, "word vectors: rows for unseen words (default: 1)")
    lowercase: bool = option(False, "word vectors: the module lower-cases its texts")
    strip_punctuation: bool = option(False, "word vectors: the module leaves punctuation out")
    overwrite: bool = option(False, "replace an earlier export")


@dataclasses.dataclass(kw_only=True)
class EmbedSettings(ModelSettings):
    """Arguments of `tfnlp embed` and of `tfnlp.embed`."""

    input: Any = option(
        help="texts: text files, one a line, .tsv, .csv, .jsonl (also .gz) or .parquet; globs, "
        "tfds:NAME[:SPLIT], or book:NAME",
        metavar="FILE",
    )  # fmt: skip
    output: str = option(
        help=".npy [N, D]; .parquet with the texts; .tsv for TensorBoard's projector, with the "
        "texts in .metadata.tsv; or a name without an ending: an index for `tfnlp predict search`",
        metavar="FILE",
    )  # fmt: skip
    text: str | None = option(
        None, "column of the texts, a name or the number of a file without header (default: "
        "text, sentence or document)", metavar="COLUMN",
    )  # fmt: skip
    pooling: str | None = option(
        None, "of the vectors of tokens (default: the model's, else mean)",
        choices=("mean", "cls", "max", "last"),
    )  # fmt: skip
    raw: bool = option(
        False, "do not divide vectors by their norm (default: as the model's folder says, else "
        "they are divided)", flag="--no-normalize",
    )  # fmt: skip
    layer: int = option(-1, "0: the embeddings, -1: the last layer")
    max_length: int | None = option(
        None, "tokens that are read of a text (default: the model's, at most 512)", at_least=3
    )
    approximate: bool = option(False, "index: search a graph (HNSW, by faiss) and not all vectors")
    runner: str | None = option(
        None, "compute in a pipeline of Apache Beam, with this runner; DirectRunner: on this "
        "machine", group="pipeline",
    )  # fmt: skip
    workers: int = option(1, "processes of the DirectRunner", at_least=1, group="pipeline")
    pipeline_options: str = option(
        "", "options for Beam and its runner", metavar='="--OPTION=VALUE ..."', group="pipeline"
    )
    overwrite: bool = option(False, "replace the output of an earlier call")


@dataclasses.dataclass(kw_only=True)
class SearchSettings(Settings):
    """Arguments of `tfnlp predict search`."""

    index: str = option(
        help="what `tfnlp embed` wrote to an output without an ending", metavar="DIR"
    )
    model: Any = option(None, "in place of the index's model, if that is elsewhere", metavar="DIR")
    text: list[str] = option(
        [], "a text to look for (default: a line of standard input each)", positional=True
    )
    top: int = option(5, "texts for each", at_least=1)
    exact: bool = option(False, "compare all vectors, also of an index with a graph")
    json: bool = option(False, "print JSON lines")


@dataclasses.dataclass(kw_only=True)
class EvaluateTask(LabelSetSettings):
    """Arguments of `TaskRun.evaluate`."""

    data: Any = option(help="labelled examples", flag="--input", metavar="FILE")
    batch_size: int = option(
        32, "examples at a time; of short ones more, of as many tokens", at_least=1
    )
    report: str | None = option(None, "write a page of measures and errors there", metavar="DIR")


@dataclasses.dataclass(kw_only=True)
class PredictTask(ModelSettings, LabelSetSettings):
    """Arguments of `tfnlp predict task`."""

    text: list[str] = option(
        [],
        "a text; of pairs two texts, a question and a document, or a text and its choices. None: "
        "an example a line from stdin, its texts between tabs",
        positional=True,
    )  # fmt: skip
    input: Any = option(None, "files as for training; labels may be missing", metavar="FILE")
    output: str | None = option(None, "write them here, as JSON lines", metavar="FILE")
    json: bool = option(False, "print JSON lines")
    batch_size: int = option(
        32, "examples at a time; of short ones more, of as many tokens", at_least=1
    )
