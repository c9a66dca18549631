"""Settings of what is done with a model: measure it, export it, predict, embed, search."""

from typing import Any, ClassVar

from tfnlp.settings.options import Settings, names_of, option, subclasses

MODEL_HELP = (
    "a run's folder, a checkpoint of Google, Hugging Face, OpenAI, bilm-tf or AllenNLP, what "
    "`tfnlp export` wrote, or a published name: hf://org/name[@revision], "
    "kaggle://owner/model/framework/variation[/version]"
)
POOLINGS = ("mean", "cls", "max", "last", "mean_sqrt_len", "weightedmean")


class ModelSettings(Settings):
    """The model that a command works with."""

    model: Any = option(help=MODEL_HELP, metavar="DIR")


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


class ColumnSettings(RowSettings):
    """Where the texts and labels of labelled examples stand."""

    text_columns: list[str] | None = option(
        None, "names of the columns of the texts, or numbers from 0 of files without header",
        flag="--text", metavar="COLUMN", group="examples",
    )  # fmt: skip
    label: str | None = option(
        None, "name or number of the label's column", metavar="COLUMN", group="examples"
    )


class SeveralColumnsSettings(ColumnSettings):
    """Where the texts and any number of labels or scores of each stand."""

    label_columns: list[str] | None = option(
        None, "labels: the columns of 0 and 1, one a label (default: all that hold 0 and 1 alone, "
        "of tables without a column labels or label); scores: the columns of numbers",
        metavar="COLUMN", group="examples",
    )  # fmt: skip


class LabelSetSettings(SeveralColumnsSettings):
    """Where the texts and any number of labels of each stand."""

    separator: str | None = option(
        None, "labels: what stands between the names in one column (default: the first of | ; , "
        "that it has)", metavar="TEXT", group="examples",
    )  # fmt: skip


class KindSettings(Settings):
    """What is done with a model, a class for each kind of model."""

    of: ClassVar[str] = ""  # the models that take it, in a sentence

    @classmethod
    def refusal(cls, name: str) -> str:
        """Return what is said of an argument that models of another kind take."""
        use = next(one for one in KindSettings.__subclasses__() if issubclass(cls, one))
        others = [one.of for one in subclasses(use) if one.of and name in names_of(one)]
        if not others:
            return super().refusal(name)
        return f"`{name}` is for {' or '.join(others)}, not for {cls.of}"


class EvaluationSettings(KindSettings):
    """What a model is measured on."""


class PairsEvaluation(ColumnSettings, EvaluationSettings):
    """How near the vectors of texts are that belong together."""

    of: ClassVar[str] = "vectors of texts"
    pairs: Any = option(
        help="pairs that people rated, pairs with a class as in SNLI, or texts each with one that "
        "belongs to it",
        metavar="FILE",
    )  # fmt: skip


class PredictionSettings(KindSettings, ModelSettings):
    """What `predict` does with a model."""

    reads_stdin: ClassVar[bool] = True  # it needs texts, from standard input if none is given
    blank_lines: ClassVar[bool] = True  # a blank line of standard input is a text
    bf16_policy: ClassVar[str] = "mixed_bfloat16"
    text: list[str] = option(
        [], "texts, or texts with masks, prompts, words, `king - man + woman`; of pairs two texts "
        "after each other, of answer a question and a document. None: a line of standard input "
        "each, with tabs between the texts of an example", positional=True,
    )  # fmt: skip

    def check_texts(self) -> None:
        """Check, before anything is loaded, that there are texts."""
        if self.reads_stdin and not any(self.text):
            raise ValueError("no text: give texts as arguments or on standard input")


class EmbedSettings(ModelSettings):
    """Arguments of `tfnlp embed` and of `tfnlp.embed`."""

    input: Any = option(
        help="texts: text files, one a line, .tsv, .csv, .jsonl (also .gz) or .parquet; globs, "
        "tfds:NAME[:SPLIT], or book:NAME",
        metavar="FILE",
    )  # fmt: skip
    output: str = option(
        help=".npy [N, D]; .parquet with the texts; .tsv for TensorBoard's projector, with the "
        "texts in .metadata.tsv; or a name without an ending: an index for `tfnlp predict`",
        metavar="FILE",
    )  # fmt: skip
    text: str | None = option(
        None, "column of the texts, a name or the number of a file without header (default: "
        "text, sentence or document)", metavar="COLUMN",
    )  # fmt: skip
    pooling: str | None = option(
        None, "of the vectors of tokens (default: the model's, else mean)", choices=POOLINGS
    )
    prompt: str | None = option(
        None, "what precedes each text: the name of a prompt of the model's, such as query, or a "
        "text, with a space or a colon in it (default: the model's)",
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


class SearchSettings(PredictionSettings):
    """Arguments of `tfnlp predict` of an index: texts to look for."""

    of: ClassVar[str] = "an index"
    encoder: Any = option(
        None, "in place of the model that made the vectors, if that is elsewhere", metavar="DIR"
    )
    prompt: str | None = option(
        None, "of the texts to look for, see `tfnlp embed` (default: that of the index)"
    )
    top: int = option(5, "texts that are found", at_least=1)
    exact: bool = option(False, "compare all vectors, also of an index with a graph")
    json: bool = option(False, "print JSON lines")


class CheckSettings(LabelSetSettings):
    """Arguments of `tfnlp check` and of `tfnlp.check`."""

    skip_bad_rows: ClassVar[bool] = True  # they are counted
    limit: ClassVar[int | None] = None
    dev_limit: ClassVar[int | None] = None

    data: Any = option(help="labelled examples, as for `tfnlp finetune`", positional=True)
    task: str | None = option(
        None, "what they are for, such as classify (default: all tasks that can read them)",
        positional=True,
    )  # fmt: skip
    dev: Any = option(
        None, "examples to measure on, to find texts that are in both", metavar="FILE"
    )
    model: Any = option(
        None, "a pretrained model, to show texts as it reads them and how many it cuts",
        metavar="DIR",
    )  # fmt: skip
    max_length: int = option(128, "longest sequence, in pieces", at_least=1)


class InspectSettings(Settings):
    """Arguments of `tfnlp inspect`."""

    directory: str = option(
        help="a SavedModel, or a folder with an encoder or model and its preprocessor; also a "
        ".tar.gz file, an address, hf://org/name or kaggle://owner/model/framework/variation",
        positional=True, metavar="DIR",
    )  # fmt: skip
    json: bool = option(False, "print a list of modules as JSON")
    audit: bool = option(
        False, "say instead what a module could do to this machine: read and write files, run "
        "Python, reach addresses",
    )  # fmt: skip


class VerifySettings(Settings):
    """Arguments of `tfnlp verify` and of `tfnlp.verify`."""

    folder: Any = option(
        help="a folder of Hugging Face or sentence-transformers, published or written by tfnlp",
        positional=True, metavar="DIR",
    )  # fmt: skip
    texts: Any = option(
        None, "texts, a line each, of which 50 are read (default: some of many kinds and "
        "languages)", metavar="FILE",
    )  # fmt: skip
    python: str | None = option(
        None, "an interpreter that has torch, transformers and sentence-transformers (default: "
        "this one)", metavar="FILE",
    )  # fmt: skip
    card: bool = option(False, "write the table into the model card, README.md of the folder")


class EvaluateTask(LabelSetSettings, EvaluationSettings):
    """Arguments of `TaskRun.evaluate`."""

    of: ClassVar[str] = "a fine-tuned model"
    data: Any = option(help="labelled examples", flag="--input", metavar="FILE")
    batch_size: int = option(
        32, "examples at a time; of short ones more, of as many tokens", at_least=1
    )
    report: str | None = option(
        None, "write page.html, measures and mistakes, there", metavar="DIR"
    )


class PredictTask(PredictionSettings, LabelSetSettings):
    """Arguments of `tfnlp predict` of a fine-tuned model."""

    of: ClassVar[str] = "a fine-tuned model"
    blank_lines: ClassVar[bool] = False

    @property
    def reads_stdin(self) -> bool:
        """Whether the examples are texts."""
        return self.input is None

    input: Any = option(None, "files as for training; labels may be missing", metavar="FILE")
    output: str | None = option(None, "write them here, as JSON lines", metavar="FILE")
    json: bool = option(False, "print JSON lines")
    batch_size: int = option(
        32, "examples at a time; of short ones more, of as many tokens", at_least=1
    )
