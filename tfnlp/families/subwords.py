"""What GPT, BERT and the encoders after it share: models of pieces of words, and their text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from tfnlp.checkpoints import Pretrained
from tfnlp.checkpoints.sentence_transformers import SentenceSettings
from tfnlp.families.checked import text_flag
from tfnlp.families.family import Loader, Planned
from tfnlp.families.fitting import Tunable
from tfnlp.families.preparation import Documents, Preparation, tokens_of
from tfnlp.families.sentences import Embedding, of_tokens
from tfnlp.families.sizes import sizes_of_settings, with_initializer_range
from tfnlp.families.vocabularies import MARKS, Subwords, kept_pieces
from tfnlp.files import local_copy
from tfnlp.settings.training import CHANGED_SIZES


class SubwordModel(Tunable, Planned):
    """A Transformer of pieces of words."""

    row = ("seq_length", "num_layers", "hidden_size")
    subwords: ClassVar[Subwords]

    def start(self, settings: Any, load: Loader) -> Pretrained | None:
        fixed = ("size", *CHANGED_SIZES, "max_positions", "initializer_range")
        words = ("vocab", "vocab_size", "cased", "bpe")
        return self.loaded_start(settings, load, fixed, words)

    def settle(self, settings: Any, before: Pretrained | None) -> Any:
        """Return the settings with an initial range of the weights that suits the size."""
        width = settings.hidden_size or self.sizes[settings.size]["hidden_size"]
        return with_initializer_range(settings, width)

    def encoder_sizes(self, settings: Any, before: Pretrained | None) -> dict[str, Any]:
        """Return the encoder's arguments, checked; `vocab_size` only if it is not the tokens'."""
        old = None if before is None else self.sizes_of(before)
        return sizes_of_settings(settings, self.sizes[settings.size], old)

    def sizes_of(self, loaded: Pretrained) -> dict[str, Any]:
        """Return the arguments that make the encoder of a model again."""
        return {name: value for name, value in loaded.config.items() if name != "vocab_size"}

    def restore(self, path: str, run: dict[str, Any], dtype: str | None = None) -> Pretrained:
        lowercase = text_flag(path, run, "lowercase") if self.subwords.cased else None
        heads = run["heads"] if "heads" in self.sections() else {}
        encoder, pretrainer = self.build(run["arguments"], heads, dtype)
        return Pretrained(
            encoder,
            pretrainer,
            run["arguments"],
            make_tokenizer=lambda: self.restore_tokenizer(path, lowercase),
            vocabulary=kept_pieces(path),
            lowercase=lowercase,
        )

    def sentences(self, loaded: Pretrained, settings: SentenceSettings) -> Embedding:
        return of_tokens(loaded.encoder, self.sentence_reader(loaded), loaded, settings)


class SubwordText(Preparation):
    """Rows of tokens of a text or of prepared examples.

    Attributes:
        tokenizer: Made of a text, or read from prepared examples.
        facts: Its settings, by name.
    """

    def __init__(self, family: SubwordModel, settings: Any, before: Pretrained | None) -> None:
        if settings.examples is not None and settings.pack:
            raise ValueError(
                "`pack` needs `text`: the rows of `examples` are prepared, and other ones"
            )
        if settings.examples is not None and settings.marks:
            raise ValueError(
                "`marks` needs `text`: `examples` are prepared, with all marks as text"
            )
        self.family, self.settings, self.before = family, settings, before
        self.sizes = family.encoder_sizes(settings, before)
        self.vocabulary = family.subwords
        self.first = before is not None
        self.unrecorded_arguments = {"packed": True} if settings.pack else {}

    def make_tokenizer(
        self, documents: Documents, texts: Callable[[], Iterable[str]] | None = None
    ) -> None:
        """Make the tokenizer of a text, for which see `tokens_of`."""
        subwords, settings = self.family.subwords, self.settings
        if self.before is not None:
            self._use(subwords.begun(self.before.tokenizer, settings))
        else:
            tokens = tokens_of(settings, subwords, documents, texts)
            marked = subwords.marked(tokens, settings.marks)
            self._use(subwords.maker(marked, subwords.settings(settings))())

    def read_tokenizer(self) -> None:
        """Read the tokenizer of prepared examples, which the model to go on from must share."""
        subwords, settings = self.family.subwords, self.settings
        names = subwords.settings(settings)
        with local_copy(f"{settings.examples}/{subwords.name}") as path:
            tokenizer = subwords.maker(subwords.read(path), names)()
        if self.before is not None:
            begun = subwords.begun(self.before.tokenizer, settings)
            if subwords.facts(tokenizer, names) != subwords.facts(begun, names):
                raise ValueError(
                    f"`examples` {settings.examples} was made with another vocabulary than `start` "
                    f"{settings.start} has; make examples with `vocab` of that model"
                )
            tokenizer = begun
        self._use(tokenizer)

    def _use(self, tokenizer: Any) -> None:
        subwords = self.family.subwords
        self.tokenizer = tokenizer
        self.tokens, self.facts = subwords.facts(tokenizer, subwords.settings(self.settings))
        self.files = {MARKS: tokenizer.marks} if tokenizer.marks else {}
        # The table of a checkpoint may have more rows than there are tokens.
        self.arguments = {"vocab_size": tokenizer.vocab_size, **self.sizes}
