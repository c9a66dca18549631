"""GPT (Radford et al. 2018) and GPT-2 (Radford et al. 2019) as a family."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from keras import Model

from tfnlp import models
from tfnlp.checkpoints import Pretrained
from tfnlp.checkpoints.gpt_tasks import GPT_FILES
from tfnlp.data import PackedDocuments, TokenWindows, WindowShards, token_stream
from tfnlp.data.corpus.arrays import ArrayFolder, int32_checksum, read_arrays
from tfnlp.data.corpus.corpora import tokenize_documents, tokenize_sentences
from tfnlp.data.numbered import check_seed
from tfnlp.data.pretraining.token_stream import stream_part
from tfnlp.data.shards.recipes import WindowRecipe
from tfnlp.data.texts import documents_of
from tfnlp.families.checked import whole_number
from tfnlp.families.family import Loader
from tfnlp.families.fitting import WHOLE, Adaptation, Features, layers_of
from tfnlp.families.language_model import LanguageModel, TextToMeasure
from tfnlp.families.preparation import (
    ExampleRecipe,
    Preparation,
    documents,
    tokenized_once,
    tokens_of,
    training_documents,
)
from tfnlp.families.sentences import string_vectors
from tfnlp.families.subwords import SubwordModel, SubwordText
from tfnlp.families.vocabularies import BYTE_PAIRS
from tfnlp.hub import GPTPreprocessorModule, TextGenerator
from tfnlp.hub.modules.text_generation import sampling
from tfnlp.objectives import GPTPretraining
from tfnlp.settings.gpt import GPTEvaluation, GPTExamplesSettings, GPTPrediction, GPTSettings
from tfnlp.text import GPTReader


class GPT(LanguageModel, SubwordModel):
    """The next token."""

    name, title = "gpt", "a GPT"
    sizes = {
        "mini": models.GPT_MINI,
        "gpt": models.GPT,
        "gpt2-small": models.GPT2_SMALL,
        "gpt2-medium": models.GPT2_MEDIUM,
        "gpt2-large": models.GPT2_LARGE,
        "gpt2-xl": models.GPT2_XL,
    }
    files, subwords = GPT_FILES, BYTE_PAIRS
    encoder, pretrainer = staticmethod(models.gpt), staticmethod(models.gpt_pretrainer)
    unrecorded_heads = frozenset({"tied"})  # runs have no table of the output alone
    evaluation = GPTEvaluation
    prediction = GPTPrediction
    learning_rates = (5e-4, 6.25e-5)
    warmup = 0.002
    language_model = True
    both_orders = True

    plan_lengths = {size: 1024 if size.startswith("gpt2") else 512 for size in sizes}
    plan_vocab_size = 40478

    # Pretraining.

    def start(self, settings: GPTSettings, load: Loader) -> Pretrained | None:
        before = super().start(settings, load)
        head = None if before is None else before.pretrainer
        if head is not None and "lm_table" in {layer.name for layer in head.layers}:
            raise ValueError(
                f"{settings.start} has one table for inputs and one for outputs, which a run "
                "has not; give another model"
            )
        return before

    def prepare(self, settings: Any, before: Pretrained | None, strategy: Any) -> Preparation:
        return _Windows(self, settings, before)

    def examples(self, settings: GPTExamplesSettings) -> ExampleRecipe:
        """Return how prepared examples are made: windows of text."""
        check_seed(settings.seed)
        pair = tokens_of(
            settings, BYTE_PAIRS, (), lambda: _texts(training_documents(settings, True))
        )
        maker = BYTE_PAIRS.maker(pair, {})
        tokenizer = maker()
        recipe = WindowRecipe(maker, newline_id(tokenizer), int(tokenizer.end_id))
        decides = {"bpe": None if settings.vocab else settings.bpe}
        return ExampleRecipe(BYTE_PAIRS, pair, decides, recipe)

    def perplexities(self, results: dict[str, float]) -> str:
        return (
            f"perplexity {results['perplexity']:.2f} a token, "
            f"{results['word_perplexity']:.2f} a word"
        )

    # Loading.

    def restore(self, path: str, run: dict[str, Any], dtype: str | None = None) -> Pretrained:
        whole_number(path, run, "training.seq_length")
        return super().restore(path, run, dtype)

    # Use.

    def text_to_measure(self, loaded: Pretrained, settings: GPTEvaluation) -> TextToMeasure:
        if loaded.pretrainer is None:
            raise ValueError(f"{loaded.path} is trained for vectors of sentences; give `pairs`")
        positions = loaded.config["max_positions"]
        trained = loaded.run["training"]["seq_length"] if loaded.run else positions
        window = settings.seq_length or trained
        if not 1 <= window <= positions:
            raise ValueError(f"`seq_length` {window} must be from 1 to the model's {positions}")
        documents = documents_of(settings.text, settings.layout, True)
        text = read_token_text(documents, loaded.tokenizer)
        sizes = {"batch_size": settings.batch_size, "window": min(window, text.tokens)}
        if self.was_packed(loaded):
            model = self.packed_pretrainer(loaded)
            windows = PackedDocuments(text.stream, loaded.tokenizer.end_id, **sizes)
        else:
            model, windows = loaded.pretrainer, TokenWindows(text.stream, **sizes)
        batches = windows.evaluation_batches(stride=settings.stride or -(-windows.window // 2))
        return TextToMeasure(
            GPTPretraining(model, text.tokens_per_word),
            batches,
            {"lines": text.lines, "words": text.words, "tokens": text.tokens},
            f"{text.tokens:,} tokens: {text.words:,} words and the ends of {text.lines:,} lines\n",
        )

    def vectors(self, loaded: Pretrained) -> Callable[[list[str]], Any]:
        return string_vectors(loaded, GPTPreprocessorModule, special=0)

    def check_prediction(self, settings: GPTPrediction) -> None:
        super().check_prediction(settings)
        sampling(settings.temperature, settings.top_k, settings.top_p)
        if settings.beams and settings.samples > settings.beams:
            raise ValueError(f"`samples` {settings.samples} are more than `beams`")
        if settings.beams and settings.stop:
            raise ValueError("`stop` is for texts that are drawn; leave `beams` out")

    def predict(self, loaded: Pretrained, settings: GPTPrediction) -> list[list[str]]:
        generator = TextGenerator(loaded.pretrainer or loaded.encoder, loaded.tokenizer)
        return [
            ["".join(pieces) for pieces in _continuations(generator, settings, text)]
            for text in settings.text
        ]

    def lines(self, loaded: Pretrained, settings: GPTPrediction) -> Iterator[str]:
        generator = TextGenerator(loaded.pretrainer or loaded.encoder, loaded.tokenizer)
        between = "" if loaded.tokenizer.keeps_spaces else " "
        for text in settings.text:
            for pieces in _continuations(generator, settings, text):
                yield text + between
                yield from pieces
                yield "\n"

    # Fine-tuning.

    def reader(self, loaded: Pretrained) -> GPTReader:
        """Return the reader with GPT's start, delimiter and extract tokens."""
        if not loaded.saved:
            first = loaded.config["vocab_size"]
            return GPTReader(loaded.tokenizer, (first, first + 1, first + 2))
        end = loaded.tokenizer.end_id  # the table of a module can't get new rows
        if end is None:
            raise ValueError(f"{loaded.path} has no token that ends texts, which tasks need")
        return GPTReader(loaded.tokenizer, (end, end, end))

    def sentence_reader(self, loaded: Pretrained) -> GPTReader:
        return GPTReader(loaded.tokenizer, None)

    def features(self, loaded: Pretrained, choice: str) -> Features:
        encoder = loaded.encoder
        if not loaded.saved:
            encoder = models.gpt_with_extra_tokens(encoder, loaded.config)
        return layers_of(loaded, encoder, choice)

    def fine_tuned(
        self,
        loaded: Pretrained,
        spec: Any,
        head: dict[str, Any],
        outputs: dict[str, Any],
        dtype: str | None,
        adaptation: Adaptation = WHOLE,
        packed: bool = False,
    ) -> Model:
        """Return one linear layer on a whole GPT (Radford et al. 2018, sections 3.2 and 3.3)."""
        encoder, rate = loaded.encoder, head["dropout"]
        if not loaded.saved:
            rates = {"dropout": rate, "attention_dropout": rate}
            encoder = models.gpt_with_extra_tokens(encoder, loaded.config, dtype=dtype, **rates)
            adaptation.apply(encoder)
        return models.gpt_task(encoder, spec.output, dropout=rate, **outputs)

    # Planning.

    def planned(self, sizes: dict[str, Any], preset: Any) -> GPTPretraining:
        rates = {"dropout": preset.dropout, "attention_dropout": preset.dropout}
        return GPTPretraining(self.pretrainer(self.encoder(**sizes, **rates, dtype=preset.dtype)))

    def planned_batch(self, preset: Any) -> dict[str, tuple]:
        tokens = (preset.rows, preset.length)
        ids = ("input_word_ids", "input_mask", "targets")
        return {**{name: (tokens, "int32") for name in ids}, "weights": (tokens, "float32")}


class _Windows(SubwordText):
    """Windows of a stream of tokens, of documents or prepared examples."""

    def __init__(self, family: GPT, settings: GPTSettings, before: Pretrained | None) -> None:
        super().__init__(family, settings, before)
        if settings.examples:
            self._read_examples()
        else:
            self._read_documents()
        self._windows = self._rows(self.valid, window=min(settings.seq_length, self.valid.tokens))
        self._stride = -(-self._windows.window // 2)
        self.held_out = self._windows.evaluation_batches(settings.evaluate_batches)

    def _rows(self, text: TokenText, **arguments: Any) -> TokenWindows | PackedDocuments:
        """Return the rows of a text."""
        arguments["batch_size"] = self.settings.batch_size
        if self.settings.pack:
            return PackedDocuments(text.stream, self.tokenizer.end_id, **arguments)
        return TokenWindows(text.stream, **arguments)

    def _read_documents(self) -> None:
        settings = self.settings
        train_documents, valid_documents = documents(settings, paragraphs=True)
        self.make_tokenizer(train_documents, lambda: _texts(train_documents))

        def tokenized(documents: Any) -> TokenText:
            return tokenized_once(
                documents,
                ["byte pairs", self.tokens, *self.facts.values()],
                lambda folder: read_token_text(documents, self.tokenizer, folder),
                lambda folder: TokenText(**read_arrays(folder)),
            )

        train, self.valid = tokenized(train_documents), tokenized(valid_documents)
        self.batches = self._rows(train, window=settings.seq_length, seed=settings.seed)
        self.corpus = {"tokens": train.tokens, "crc32": int32_checksum(train.stream)}
        self._counts = train.tokens, train.documents, train.tokens_per_word

    def _read_examples(self) -> None:
        """Read what `tfnlp examples` wrote."""
        settings = self.settings
        self.read_tokenizer()
        self.batches = WindowShards(settings.examples, batch_size=settings.batch_size)
        held_out = self.batches.held_out()
        stream = token_stream(held_out, newline_id(self.tokenizer), self.tokenizer.end_id)
        train, valid = self.batches.counts["train"], self.batches.counts["held_out"]
        self.valid = TokenText(stream, held_out.num_documents, valid["lines"], valid["words"])
        size = train["tokens"] + train["sentences"]  # a line's end is a token
        self.corpus = {"tokens": size, "examples": self.batches.checksum}
        self._counts = size, train["documents"], size / (train["words"] + train["lines"])

    def objective(self, model: Model) -> GPTPretraining:
        return GPTPretraining(model, self.valid.tokens_per_word)

    def fill(self, encoder: Model, trained: Model) -> None:
        if self.before is not None:
            encoder.set_weights(self.before.encoder.get_weights())

    def describe(self, encoder: Model, trained: Model, steps: int) -> str:
        size, documents, tokens_per_word = self._counts
        return (
            f"GPT with {trained.count_params() / 1e6:.2f} M parameters on {size:,} tokens of "
            f"{documents:,} documents ({tokens_per_word:.2f} a word); held out: "
            f"{self.valid.tokens:,} tokens; {steps:,} updates"
        )

    def measure(self, trainer: Any) -> dict[str, float]:
        return trainer.evaluate(self._windows.evaluation_batches(stride=self._stride))

    def line(self, when: str, results: dict[str, float]) -> str:
        return f"held out, {when}: {self.family.perplexities(results)}"


@dataclasses.dataclass(frozen=True, eq=False)
class TokenText:
    """A stream of tokens, see `tfnlp.data.token_stream`, and counts of its text."""

    stream: np.ndarray  # int32 or uint16 [N]
    documents: int
    lines: int
    words: int  # what stands between spaces

    @property
    def tokens(self) -> int:
        """Tokens to predict: all but the first."""
        return len(self.stream) - 1

    @property
    def tokens_per_word(self) -> float:
        """Tokens for each word and line end: the perplexity of n-gram models counts both."""
        return self.tokens / (self.words + self.lines)


def read_token_text(
    documents: Iterable[list[str]], tokenizer: Any, folder: str | None = None
) -> TokenText:
    """Return the `TokenText` of documents, lists of lines, which are read once.

    The stream is written to a file in `folder`, which is then mapped; None: it is in memory.
    """
    counts = {"documents": 0, "lines": 0, "words": 0}

    def counted() -> Iterator[list[str]]:
        for document in documents:
            counts["lines"] += len(document)
            counts["words"] += sum(len(line.split()) for line in document)
            yield document

    newline, end = newline_id(tokenizer), tokenizer.end_id  # some GPTs have no end
    arrays, ids = ArrayFolder(folder), (newline, newline if end is None else int(end))
    dtype = np.int32 if folder is None or tokenizer.vocab_size > 1 << 16 else np.uint16
    for tokens, lengths, first in tokenize_documents(counted(), tokenizer):
        arrays.append("stream", stream_part(tokens, lengths, first, *ids), dtype)
        counts["documents"] += int(first.sum())
    arrays.append("stream", [ids[1]], dtype)
    return TokenText(**arrays.finish(**counts))


def newline_id(tokenizer: Any) -> int:
    """Return the token of a line's end."""
    return int(tokenize_sentences(["a\na"], tokenizer)[0][1])


def _texts(documents: Iterable[list[str]]) -> Iterator[str]:
    return ("\n".join(document) + "\n" for document in documents)


def _continuations(
    generator: TextGenerator, settings: GPTPrediction, text: str
) -> Iterator[Iterable[str]]:
    """Yield the pieces of each continuation of a prompt."""
    how = {
        "repetition_penalty": settings.repetition_penalty,
        "no_repeat_ngram": settings.no_repeat_ngram,
        "min_new_tokens": settings.min_new_tokens,
    }
    if settings.beams:
        beams = {"beams": settings.beams, "length_penalty": settings.length_penalty}
        yield from generator(
            [text], settings.max_new_tokens, samples=settings.samples, **beams, **how
        )[0]
        return
    drawn = {"temperature": settings.temperature, "top_k": settings.top_k, "top_p": settings.top_p}
    for number in range(settings.samples):
        yield generator.stream(
            text, settings.max_new_tokens, seed=settings.seed + number, stop_strings=settings.stop,
            **drawn, **how,
        )  # fmt: skip
