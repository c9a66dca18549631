"""The specification of a task: all of a fine-tuned model's settings besides its weights."""

from dataclasses import asdict, dataclass
from typing import Any

TASKS = ("classify", "labels", "similarity", "choose", "answer", "tag", "roles")
OUTPUTS = {
    "classify": "class",
    "labels": "label",
    "similarity": "score",
    "choose": "choice",
    "answer": "span",
    "tag": "tag",
    "roles": "tag",
}  # of the task's model


@dataclass(frozen=True)
class TaskSpec:
    """A task as it is stored in a run's folder.

    Args:
        task: one of `TASKS`.
        labels: names of the classes, labels or tags, in the order of the model's outputs.
        texts: number of texts of an example, 1 or 2 ("classify", "labels", "similarity").
        choices: number of choices of an example ("choose").
        max_length: longest sequence, special tokens included. Texts are cut to fit, in turn from
            the longest; documents and sentences of words are read in windows and not cut.
        stride: from one window to the next, in pieces.
        max_question: longest question in pieces; the rest is cut.
        max_answer: longest answer in pieces.
        unanswerable: questions may have no answer (SQuAD 2.0).
        threshold: a question has no answer if `null score - score of the best answer` is larger.
        thresholds: of "labels", for each the probability from which on it is predicted; (): 0.5.
        both_orders: read a pair in both orders and add the vectors (Radford et al. 2018,
            section 3.3).
        mean, deviation: of the training data's scores; the model's score is
            `(score - mean) / deviation`.
        crf: of tags the rate of a CRF over them, see `tfnlp.layers.CRF`; 0: each tag on its own.

    Raises:
        ValueError: a value is out of range, or values do not fit together.
    """

    task: str
    labels: tuple[str, ...] = ()
    texts: int = 1
    choices: int = 0
    max_length: int = 128
    stride: int = 64
    max_question: int = 64
    max_answer: int = 30
    unanswerable: bool = False
    threshold: float = 0.0
    both_orders: bool = False
    thresholds: tuple[float, ...] = ()
    mean: float = 0.0
    deviation: float = 1.0
    crf: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", tuple(self.labels))
        object.__setattr__(self, "thresholds", tuple(self.thresholds))
        if self.task not in TASKS:
            raise ValueError(f"task={self.task!r} must be one of {', '.join(TASKS)}")
        if self.task in ("classify", "tag", "roles") and len(self.labels) < 2:
            raise ValueError(
                f"labels={self.labels!r} must be two or more; give examples of different labels"
            )
        if self.task == "labels" and not self.labels:
            raise ValueError("labels=() must be one or more; give examples that have labels")
        if self.thresholds and (self.task != "labels" or len(self.thresholds) != len(self.labels)):
            raise ValueError(
                f"thresholds={self.thresholds!r:.60} must be {len(self.labels)} numbers, one for "
                "each label of the task labels"
            )
        if self.texts not in (1, 2) or (self.both_orders and self.texts != 2):
            raise ValueError(f"texts={self.texts} must be 1 or 2, and 2 with both_orders")
        if self.task == "choose" and self.choices < 2:
            raise ValueError(f"choices={self.choices} must be at least 2")
        if not self.crf >= 0 or self.crf and self.output != "tag":
            raise ValueError(f"crf={self.crf} must be 0 or, of tags, a rate above it")
        least = self.max_question + 4 if self.task == "answer" else 4
        if self.max_length < least:
            raise ValueError(
                f"max_length={self.max_length} must be at least {least}"
                + (", max_question + 4" if self.task == "answer" else "")
            )
        for name in ("stride", "max_question", "max_answer"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")

    @property
    def output(self) -> str:
        """The output of the task's model: "class", "label", "score", "choice", "span", "tag"."""
        return OUTPUTS[self.task]

    @property
    def reads_texts(self) -> bool:
        """Whether an example is a text or two, without choices."""
        return self.task in ("classify", "labels", "similarity")

    @property
    def sequences(self) -> int:
        """Number of sequences that an example is read as."""
        return self.choices if self.task == "choose" else 2 if self.both_orders else 1

    def config(self) -> dict[str, Any]:
        """Return the arguments as a dict for JSON."""
        return {**asdict(self), "labels": list(self.labels), "thresholds": list(self.thresholds)}
