"""GPT (Radford et al. 2018) and GPT-2 (Radford et al. 2019) as a family."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from keras import Model

from tfnlp import models
from tfnlp.checkpoints import Pretrained
from tfnlp.checkpoints.gpt_tasks import GPT_FILES
from tfnlp.checkpoints.sentence_transformers import SentenceSettings
from tfnlp.data import PackedDocuments, TokenWindows, WindowShards, token_stream
from tfnlp.data.corpus.arrays import ArrayFolder, int32_checksum, read_arrays
from tfnlp.data.corpus.tokenized_corpus import tokenize_documents, tokenize_sentences
from tfnlp.data.numbered import check_seed
from tfnlp.data.pretraining.token_stream import stream_part
from tfnlp.data.shards.windows import WindowRecipe
from tfnlp.data.texts import documents_of
from tfnlp.families.adaptation import Adaptation
from tfnlp.families.checked import whole_number
from tfnlp.families.family import Loader, Planned
from tfnlp.families.fitting import WHOLE, Features, Tunable, layers_of
from tfnlp.families.language_model import LanguageModel, TextToMeasure
from tfnlp.families.preparation import (
    ExampleRecipe,
    Preparation,
    check_prepared,
    check_same_vocabulary,
    documents,
    tokenized_once,
    tokens_of,
    training_documents,
)
from tfnlp.families.sentences import (
    of_tokens,
    string_vectors,
)
from tfnlp.families.sizes import check_length, transformer_sizes, with_initializer_range
from tfnlp.families.vocabularies import BYTE_PAIRS, MARKS
from tfnlp.files import local_copy
from tfnlp.hub import GPTPreprocessorModule, TextGenerator
from tfnlp.hub.modules.text_generation import sampling
from tfnlp.objectives import GPTPretraining
from tfnlp.settings.gpt import (
    GPTEvaluation,
    GPTExamplesSettings,
    GPTPrediction,
    GPTSettings,
)
from tfnlp.settings.training import CHANGED_SIZES
from tfnlp.text import GPTReader


class GPT(LanguageModel, Tunable, Planned):
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
    row = ("seq_length", "num_layers", "hidden_size")
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
        """Return the GPT to go on from."""
        fixed = ("size", *CHANGED_SIZES, "max_positions", "initializer_range")
        before = self.loaded_start(settings, load, fixed, ("vocab", "vocab_size", "bpe"))
        head = None if before is None else before.pretrainer
        if head is not None and "lm_table" in {layer.name for layer in head.layers}:
            raise ValueError(
                f"{settings.start} has one table for inputs and one for outputs, which a run "
                "has not; give another model"
            )
        return before

    def settle(self, settings: GPTSettings, before: Pretrained | None) -> GPTSettings:
        """Return the settings with an initial range of the weights that suits the size."""
        width = settings.hidden_size or self.sizes[settings.size]["hidden_size"]
        return with_initializer_range(settings, width)

    def prepare(
        self, settings: GPTSettings, before: Pretrained | None, strategy: Any
    ) -> Preparation:
        """Return windows of tokens."""
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
        """Return the perplexities a token and a word."""
        return (
            f"perplexity {results['perplexity']:.2f} a token, "
            f"{results['word_perplexity']:.2f} a word"
        )

    # Loading.

    def restore(self, path: str, run: dict[str, Any], dtype: str | None = None) -> Pretrained:
        """Return the GPT of a run."""
        whole_number(path, run, "training.seq_length")
        encoder, pretrainer = self.build(run["arguments"], {}, dtype)
        return Pretrained(
            encoder,
            pretrainer,
            run["arguments"],
            make_tokenizer=lambda: self.restore_tokenizer(path, None),
            vocabulary=os.path.join(path, BYTE_PAIRS.name),
        )

    # Use.

    def text_to_measure(self, loaded: Pretrained, settings: GPTEvaluation) -> TextToMeasure:
        """Return windows of a text, each token with half a window or more before it."""
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
        """Return the function of strings to the model's outputs that the pair would be."""
        return string_vectors(loaded, GPTPreprocessorModule, special=0)

    def sentences(
        self, loaded: Pretrained, settings: SentenceSettings
    ) -> Callable[..., np.ndarray]:
        """Return the function of strings to one vector each."""
        return of_tokens(loaded.encoder, self.sentence_reader(loaded), loaded, settings)

    def check_prediction(self, settings: GPTPrediction) -> None:
        """Check prompts and how tokens are drawn."""
        super().check_prediction(settings)
        sampling(settings.temperature, settings.top_k, settings.top_p)
        if settings.beams and settings.samples > settings.beams:
            raise ValueError(f"`samples` {settings.samples} are more than `beams`")
        if settings.beams and settings.stop:
            raise ValueError("`stop` is for texts that are drawn; leave `beams` out")

    def predict(self, loaded: Pretrained, settings: GPTPrediction) -> list[list[str]]:
        """Return the continuations of each prompt."""
        generator = TextGenerator(loaded.pretrainer or loaded.encoder, loaded.tokenizer)
        return [
            ["".join(pieces) for pieces in _continuations(generator, settings, text)]
            for text in settings.text
        ]

    def lines(self, loaded: Pretrained, settings: GPTPrediction) -> Iterator[str]:
        """Yield each prompt and its continuation, token by token."""
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
        """Return the reader of texts without special tokens."""
        return GPTReader(loaded.tokenizer, None)

    def features(self, loaded: Pretrained, choice: str) -> Features:
        """Return layers of the frozen model."""
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

    def keep_vocabulary(self, tokenizer: Any, folder: str) -> None:
        """Write tokens and merges into a run's folder."""
        BYTE_PAIRS.keep(tokenizer, folder)

    def restore_tokenizer(self, folder: str, lowercase: bool | None) -> Any:
        """Return the tokenizer of a run's folder."""
        return BYTE_PAIRS.restore(folder, lowercase)

    # Planning.

    def planned(self, sizes: dict[str, Any], preset: Any) -> GPTPretraining:
        """Return the loss of the next token."""
        rates = {"dropout": preset.dropout, "attention_dropout": preset.dropout}
        return GPTPretraining(self.pretrainer(self.encoder(**sizes, **rates, dtype=preset.dtype)))

    def planned_batch(self, preset: Any) -> dict[str, tuple]:
        """Return the shapes and dtypes of windows."""
        tokens = (preset.rows, preset.length)
        ids = ("input_word_ids", "input_mask", "targets")
        return {**{name: (tokens, "int32") for name in ids}, "weights": (tokens, "float32")}


class _Windows(Preparation):
    """Windows of a stream of tokens, of documents or prepared examples."""

    vocabulary = BYTE_PAIRS

    def __init__(self, family: GPT, settings: GPTSettings, before: Pretrained | None) -> None:
        check_prepared(settings)
        self.family, self.settings, self.before = family, settings, before
        sizes = self._sizes()
        if settings.examples:
            self._read_examples()
        else:
            self._read_documents()
        self._windows = self._rows(self.valid, window=min(settings.seq_length, self.valid.tokens))
        self._stride = -(-self._windows.window // 2)
        self.held_out = self._windows.evaluation_batches(settings.evaluate_batches)
        self.arguments = {"vocab_size": self.tokenizer.vocab_size, **sizes}
        self.unrecorded_arguments = {"packed": True} if settings.pack else {}
        self.first = before is not None

    def _sizes(self) -> dict[str, Any]:
        """Return the arguments of `gpt`, checked before any work is done."""
        settings = self.settings
        rates = {"dropout": settings.dropout, "attention_dropout": settings.dropout}
        if self.before is not None:
            known = self.before.config.items()
            sizes = {n: v for n, v in known if n not in ("vocab_size", "dtype")}
        else:
            sizes = transformer_sizes(settings, self.family.sizes[settings.size])
            sizes.pop("vocab_size", None)
            longest = max(sizes.get("max_positions", 512), settings.seq_length)
            sizes["max_positions"] = settings.max_positions or longest
            sizes["initializer_range"] = settings.initializer_range
        check_length(settings, sizes["max_positions"])
        return {**sizes, **rates}

    def _rows(self, text: TokenText, **arguments: Any) -> TokenWindows | PackedDocuments:
        """Return the rows of a text."""
        arguments["batch_size"] = self.settings.batch_size
        if self.settings.pack:
            return PackedDocuments(text.stream, self.tokenizer.end_id, **arguments)
        return TokenWindows(text.stream, **arguments)

    def _read_documents(self) -> None:
        """Read `settings.text`."""
        settings = self.settings
        train_documents, valid_documents = documents(settings, paragraphs=True)
        if self.before is not None:
            self.tokenizer = BYTE_PAIRS.begun(self.before.tokenizer, settings)
        else:
            learnt = tokens_of(
                settings, BYTE_PAIRS, train_documents, lambda: _texts(train_documents)
            )
            tokens = BYTE_PAIRS.marked(learnt, settings.marks)
            self.tokenizer = BYTE_PAIRS.tokenizer(tokens, **BYTE_PAIRS.settings(settings))
        self.tokens, marks = BYTE_PAIRS.facts(self.tokenizer, ())
        self.files = {MARKS: self.tokenizer.marks} if marks else {}

        def tokenized(documents: Any) -> TokenText:
            return tokenized_once(
                documents,
                ["byte pairs", self.tokens, *marks.values()],
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
        with local_copy(f"{settings.examples}/{BYTE_PAIRS.name}") as path:
            self.tokens = BYTE_PAIRS.read(path)
        if self.before is not None:
            theirs = BYTE_PAIRS.tokens(self.before.tokenizer)
            check_same_vocabulary(settings, self.tokens, theirs)
        self.tokenizer = BYTE_PAIRS.tokenizer(self.tokens)
        self.batches = WindowShards(settings.examples, batch_size=settings.batch_size)
        held_out = self.batches.held_out()
        stream = token_stream(held_out, newline_id(self.tokenizer), self.tokenizer.end_id)
        train, valid = self.batches.counts["train"], self.batches.counts["held_out"]
        self.valid = TokenText(stream, held_out.num_documents, valid["lines"], valid["words"])
        size = train["tokens"] + train["sentences"]  # a line's end is a token
        self.corpus = {"tokens": size, "examples": self.batches.checksum}
        self._counts = size, train["documents"], size / (train["words"] + train["lines"])

    def objective(self, model: Model) -> GPTPretraining:
        """Return the loss of the next token."""
        return GPTPretraining(model, self.valid.tokens_per_word)

    def fill(self, encoder: Model, trained: Model) -> None:
        """Copy the weights of the model to go on from."""
        if self.before is not None:
            encoder.set_weights(self.before.encoder.get_weights())

    def describe(self, encoder: Model, trained: Model, steps: int) -> str:
        """Return sizes of model and text."""
        size, documents, tokens_per_word = self._counts
        return (
            f"GPT with {trained.count_params() / 1e6:.2f} M parameters on {size:,} tokens of "
            f"{documents:,} documents ({tokens_per_word:.2f} a word); held out: "
            f"{self.valid.tokens:,} tokens; {steps:,} updates"
        )

    def measure(self, trainer: Any) -> dict[str, float]:
        """Return the perplexities of the whole held-out text."""
        return trainer.evaluate(self._windows.evaluation_batches(stride=self._stride))

    def line(self, when: str, results: dict[str, float]) -> str:
        """Return the perplexities."""
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
