"""The base class of fine-tuning tasks: all that there is to know of one."""

from __future__ import annotations

import abc
import collections
import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import keras
import tensorflow as tf

from tfnlp.data.labelled.forms import RowForm
from tfnlp.data.labelled.rows import TaskData
from tfnlp.layers import CRF
from tfnlp.objectives.objective import Objective
from tfnlp.settings.options import Settings
from tfnlp.tasks import report, sequences
from tfnlp.tasks.baselines import Baseline
from tfnlp.tasks.fine_tuning import FineTuning
from tfnlp.tasks.playground import Playground
from tfnlp.tasks.sequences import Arrays, Encoded, EncodedExamples, Targets, soft_weights
from tfnlp.text.words import MARKS

Tensors = dict[str, tf.Tensor]
Outputs = Mapping[str, Any]  # of a model
Inputs = Mapping[str, Any]  # of a signature, or those that `HeadTask.inputs_of` returns
Prediction = dict[str, Any]
Measures = dict[str, float]
TEXTS = "texts"  # the signature of texts as they are, with places in them


class Task:
    """A task of fine-tuning.

    Attributes:
        name: in the command and in `config.json`.
        Settings: what a run of it takes.
        hint: what the command says when a run has ended; "{folder}" stands for its folder.
        form: what its rows are, in files and in Python, and as examples; none of a task of text.
        playground: what a page shows of its modules.
    """

    name: ClassVar[str]
    Settings: ClassVar[type[Settings]]
    hint: ClassVar[str] = ""
    form: ClassVar[RowForm]
    playground: ClassVar[type[Playground] | None] = None

    @classmethod
    def read(cls, source: Any, **options: Any) -> TaskData:
        """Return the examples of files, data sets or Python objects, see `tfnlp.data.RowForm.read`.

        What rows are, and which files have them, `help(type(TASK.form))` says.
        """
        return cls.form.read(source, **options)

    @classmethod
    def texts_of(cls, example: Any) -> list[str]:
        """Return the texts of an example."""
        return [*example.segments, *example.choices]

    @classmethod
    def classes_of(cls, example: Any) -> Collection[str]:
        """Return the classes, labels or tags that an example has, which shall not be lost."""
        return ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class HeadTask(Task, abc.ABC):
    """A task whose model is an encoder with a head; a run's `config.json` keeps it as its `spec`.

    Args:
        max_length: longest sequence, special tokens included. Texts are cut to fit, in turn from
            the longest; documents and sentences of words are read in windows and not cut.

    Attributes:
        output: the kind of its model's output, see `tfnlp.models.bert_task`.
        does: what a model of it does, for a model card: "classify texts".
        pipeline: the name that Hugging Face has for it.
        main_measure: the measure that picks the best checkpoint.
        count_of_texts: of an example that is given as plain texts.
        takes: what these are, in words.
        only_module: what its model has that only a SavedModel holds, in words.
        predicts: the name of what stands against the gold in a prediction.
        of_windows: whether outputs are over the positions of windows: a teacher must read the same.

    Raises:
        ValueError: a value is out of range, or values do not fit together.
    """

    output: ClassVar[str]
    does: ClassVar[str]
    pipeline: ClassVar[str]
    main_measure: ClassVar[str]
    count_of_texts: ClassVar[int]
    takes: ClassVar[str]
    only_module: ClassVar[str] = ""
    predicts: ClassVar[str] = "label"
    of_windows: ClassVar[bool] = False
    labels: ClassVar[tuple[str, ...]] = ()
    crf: ClassVar[float] = 0.0
    splitter: ClassVar[str] = MARKS  # of texts into words, see `words_with_offsets`
    both_orders: ClassVar[bool] = False
    unanswerable: ClassVar[bool] = False
    mean: ClassVar[float] = 0.0  # of scores, whose model gives `(score - mean) / deviation`
    deviation: ClassVar[float] = 1.0

    max_length: int = 128

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, list):
                object.__setattr__(self, field.name, tuple(value))
        if self.max_length < self.least_length:
            raise ValueError(
                f"max_length={self.max_length} must be at least {self.least_length}{self._why}"
            )
        self.check()

    @property
    def least_length(self) -> int:
        """The least `max_length` that there can be."""
        return 4

    _why: ClassVar[str] = ""  # that it is

    def check(self) -> None:  # noqa: B027
        """Raise ValueError for values that do not fit together."""

    def config(self) -> dict[str, Any]:
        """Return what `tfnlp.tasks.task_of` makes it of again: a dict for JSON."""
        values = dataclasses.asdict(self).items()
        return {"task": self.name, **{n: list(x) if type(x) is tuple else x for n, x in values}}

    # Examples.

    @classmethod
    @abc.abstractmethod
    def learnt_from(cls, examples: Sequence[Any], settings: Any, **values: Any) -> Self:
        """Return the task that training examples and a run's settings make.

        `values` are `max_length`; `whole`, see `encode`; and `both_orders`, whether a model of
        whole texts reads pairs both ways.
        """

    @classmethod
    def of_checkpoint(cls, labels: Sequence[str], positions: int) -> Self:
        """Return the task of somebody's checkpoint, as transformers' examples set it.

        `labels` are those of the head, `positions` the longest sequence of the model.
        """
        return cls(**({"labels": tuple(labels)} if labels else {}), max_length=min(512, positions))

    @abc.abstractmethod
    def example_of(self, texts: Sequence[str], number: int) -> Any:
        """Return the unlabelled example of texts, whose number is for messages."""

    def examples_of(self, rows: Iterable[Sequence[str]]) -> list[Any]:
        """Return unlabelled examples of rows of texts; ValueError for another number of texts."""
        found = []
        for number, row in enumerate(rows, 1):
            if len(row) != self.count_of_texts:
                raise ValueError(
                    f"example {number} has {len(row)} texts; {self.name} takes {self.takes}"
                )
            found.append(self.example_of(row, number))
        return found

    def suited_to(self, texts: int) -> Self:
        """Return the task for examples of so many texts, if it does not matter to its model."""
        return self

    def misfit(self, example: Any) -> str:
        """Return in what an example differs from those that the model learns; "" if it does not."""
        return ""

    def some_label(self, example: Any) -> Any:
        """Return an example with a label that is read but not learnt."""
        raise NotImplementedError

    def words_of(self, example: Any, split: Callable[[str], str]) -> Iterator[Sequence[str]]:
        """Yield the words of each text of an example; `split` puts spaces between them."""
        for text in self.texts_of(example):
            yield split(text).split()

    @classmethod
    def golds(cls, examples: Sequence[Any]) -> list[Any]:
        """Return what is to be predicted of each example."""
        return [getattr(example, cls.form.label) for example in examples]

    @classmethod
    def label_counts(cls, examples: Sequence[Any]) -> collections.Counter:
        """Return how often each class, label or tag occurs."""
        return collections.Counter(cls.golds(examples))

    def balanced(self, examples: Sequence[Any]) -> dict[str, float]:
        """Return `n / (K n_k)` for each of K classes, n_k of n labels, as scikit-learn does."""
        counts = self.label_counts(examples)
        total, size = sum(counts.values()), len(self.labels)
        # A label of a teacher may not occur, nor one of another fold; its weight is never used.
        return {label: total / (size * max(1, counts[label])) for label in self.labels}

    def objective(self, model: keras.Model, **options: Any) -> Objective:
        """Return what is learnt of a model; options are those of `FineTuning` that a run has."""
        return FineTuning(model, **options)

    # Sequences.

    window: ClassVar[int] = 0  # tokens of each window, where a row has all those of a document
    sequences: ClassVar[int] = 1  # that an example is read as
    pairs: ClassVar[bool] = False  # whether a sequence has two segments

    @property
    def head(self) -> dict[str, Any]:
        """The arguments of `tfnlp.models.bert_task` and its like, beside `output`."""
        return {"num_classes": len(self.labels) or None, "sequences": self.sequences}

    def rescaled(self) -> Self:
        """Return the task of a model whose scores are in the units of the data."""
        return self

    @property
    def limit(self) -> str:
        """The setting that examples are cut by, in words."""
        return f"max_length {self.max_length}"

    @abc.abstractmethod
    def inputs_of(self, examples: Sequence[Any], first: int = 0) -> dict[str, Any]:
        """Return examples as tensors of strings; the number `first` is for messages."""

    @abc.abstractmethod
    def encode(self, reader: Any, inputs: Inputs, whole: bool) -> Encoded:
        """Encode strings inside the graph, see `tfnlp.tasks.sequences`.

        Args:
            reader: from `tfnlp.text.task_readers`.
            inputs: those of one of `signatures`, or of `inputs_of`.
            whole: whether the encoder itself is trained; False: a network on its frozen layers.
        """

    @abc.abstractmethod
    def targets(self, encoded: EncodedExamples, examples: Sequence[Any]) -> Targets:
        """Return the targets of the loss: `(tokens, fixed)`, columns as `TaskBatches` takes them.

        A tag or a label that the training data lacks gets the weight 0, or no place.
        """

    # Predictions.

    @property
    @abc.abstractmethod
    def signatures(self) -> dict[str, dict[str, tf.TensorSpec]]:
        """The inputs of each signature of the exported module."""

    def decoded(self, outputs: Outputs) -> Tensors:
        """Return what follows from the model's outputs alone, also in a graph of ids."""
        return {}

    def decode(
        self, outputs: Outputs, encoded: Encoded, inputs: Inputs, crf: CRF | None
    ) -> Tensors:
        """Return the predictions for the inputs of a signature, inside the graph."""
        return self.decoded(outputs)

    at_once: ClassVar[int] = 256  # examples that are decoded in one call

    def predictions(
        self, outputs: Outputs, encoded: EncodedExamples, examples: Sequence[Any], crf: CRF | None
    ) -> list[Prediction]:
        """Return the predictions for examples, a dict each, of the outputs for their sequences."""
        found: list[Prediction] = []
        for part, some, own in sequences.in_graph(encoded, outputs, self.at_once):
            inputs = self.inputs_of(examples[part], part.start)
            rows = sequences.rows_of(self.decode(own, some, inputs, crf))
            found += map(self.cut_to, examples[part], rows)
        return found

    def cut_to(self, example: Any, row: Prediction) -> Prediction:
        """Return a decoded row of an example without what is padding."""
        return row

    def returned(self, prediction: Prediction) -> Prediction:
        """Return a prediction as users get it, with labels as they gave them."""
        return prediction

    @abc.abstractmethod
    def shown(self, example: Any, prediction: Prediction) -> str:
        """Return a prediction for people to read."""

    # Measures.

    @abc.abstractmethod
    def measures(self, examples: Sequence[Any], predictions: Sequence[Prediction]) -> Measures:
        """Return the field's measures of predictions, floats by name."""

    @abc.abstractmethod
    def perfect(self, example: Any) -> Prediction:
        """Return a prediction that is right, to learn which measures there are."""

    def baselines(self, golds: Sequence[Any]) -> dict[str, Baseline]:
        """Return for each measure the best that one answer for all examples reaches.

        Measures that are 0 for every such answer are left out.
        """
        return {}

    def distinct_answers(self, predictions: Sequence[Prediction]) -> set[str]:
        """Return the different answers that predictions give, in words."""
        return {str(prediction[self.predicts]) for prediction in predictions}

    def tuned(
        self, examples: Sequence[Any], predictions: list[Prediction]
    ) -> tuple[Self, list[Prediction]]:
        """Return the task with what is best on held-out examples, and predictions with that."""
        return self, predictions

    def settled(
        self, examples: Sequence[Any], predictions: list[Prediction], measures: Measures
    ) -> tuple[Self, dict[str, Any]]:
        """Return the task with what is best on held-out examples after the training.

        The second result is what `results.json` keeps of it, see `with_results`.
        """
        return self, {}

    def with_results(self, results: Mapping[str, Any]) -> Self:
        """Return the task with what a run's `results.json` keeps of `settled`."""
        return self

    def soft_outputs(self, encoded: EncodedExamples, outputs: Outputs) -> Arrays:
        """Return what a teacher says of E examples, as float32 arrays that a file can keep.

        `self` and `encoded`, the examples as it reads them, are the teacher's.
        """
        return {"soft_logits": outputs[f"{self.output}_logits"]}

    def soft_columns(self, encoded: EncodedExamples, soft: Arrays, labelled: int) -> Targets:
        """Return `(tokens, fixed)`, columns as `TaskBatches` takes them for `TaskDistillation`.

        `self` and `encoded` are the student's; `soft` is what `soft_outputs` returned of the same
        examples, of which the first `labelled` have labels. Those of others are not learnt.
        """
        return {}, {**soft_weights(encoded, labelled), **soft}

    # Files and pages.

    @abc.abstractmethod
    def given(self, example: Any) -> dict[str, Any]:
        """Return what an example is, without its label, as files have it."""

    def gold_of(self, example: Any) -> Any:
        """Return what is to be predicted of an example, as files have it; None: not known."""
        return getattr(example, self.form.label)

    def row(self, example: Any, prediction: Prediction, labelled: bool = True) -> dict[str, Any]:
        """Return an example, its `gold` if it is known, and its prediction, as files have them."""
        gold = self.gold_of(example)
        known = gold is not None and (labelled or gold != ())
        found = self.returned(prediction)
        return {**self.given(example), **({"gold": gold} if known else {}), **found}

    def report_row(self, example: Any, prediction: Prediction) -> dict[str, Any]:
        """Return a row of the report: that of files, and what is shown beside it."""
        return self.row(example, prediction)

    worst_first: ClassVar[str]  # in which order errors stand, in words
    error_columns: ClassVar[tuple[str, ...]]  # names of the cells of an error

    @abc.abstractmethod
    def chart(self, rows: Sequence[report.Row]) -> report.Figure:
        """Return the picture of a report, of what `report_row` returned."""

    def tables(self, rows: Sequence[report.Row]) -> list[report.Table]:
        """Return the tables of a report."""
        return []

    def is_wrong(self, row: report.Row) -> bool:
        """Return whether an example is an error."""
        return row[self.predicts] != row["gold"]

    @abc.abstractmethod
    def badness(self, row: report.Row) -> float:
        """Return how bad an error is: the largest stand first."""

    @abc.abstractmethod
    def error_cells(self, row: report.Row) -> list[report.Cell]:
        """Return an error as cells of a table."""

    @property
    def example_settings(self) -> dict[str, Any]:
        """Those of `example.py`, the program beside a graph of ids, that only this task has."""
        return {}

    def files(self, crf: CRF | None) -> dict[str, Any]:
        """Return what lies beside a graph of ids: names of JSON files to their contents."""
        return {}
