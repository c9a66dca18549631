"""Text of masked language models: vocabulary, masked batches, held-out measures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tfnlp.checkpoints import Pretrained
from tfnlp.data import (
    MaskedDocuments,
    MaskedWindows,
    MaskedWindowShards,
    PackedPairs,
    PairShards,
    SentencePairs,
    TokenizedCorpus,
    masked_positions,
)
from tfnlp.data.corpus.arrays import count_ids, int32_checksum
from tfnlp.data.pretraining.masked_rows import check_rows
from tfnlp.data.shards.pairs import PairRecipe
from tfnlp.data.shards.windows import MaskedWindowRecipe
from tfnlp.families.preparation import (
    ExampleRecipe,
    Preparation,
    check_prepared,
    check_same_vocabulary,
    documents,
    sentences,
    tokenized_once,
    tokens_of,
    training_documents,
)
from tfnlp.families.sizes import check_length, transformer_sizes
from tfnlp.families.vocabularies import MARKS
from tfnlp.files import local_copy
from tfnlp.settings.encoders import EncoderSettings

if TYPE_CHECKING:
    from tfnlp.families.encoder import Encoder


def masked_batches(
    second: str | None, corpus: Any, tokenizer: Any, pack: bool = False, **arguments: Any
) -> Any:
    """Return the masked batches of a `TokenizedCorpus`.

    For `second` see `Encoder`. With `pack`, documents or pairs of segments are kept apart in rows
    of several.
    """
    if second is None:
        rows = MaskedDocuments if pack else MaskedWindows
        return rows(corpus, tokenizer, **arguments)
    rows = PackedPairs if pack else SentencePairs
    return rows(corpus, tokenizer, second=second, **arguments)


def masked_examples(family: Encoder, settings: Any) -> ExampleRecipe:
    """Return how prepared examples of windows or pairs are made."""
    check_rows(settings.seq_length, settings.seed)
    subwords = family.subwords
    tokens = tokens_of(
        settings, subwords, (), lambda: sentences(training_documents(settings, False))
    )
    decides = subwords.settings(settings)
    maker = subwords.maker(tokens, decides)
    tokenizer = maker()  # checks the vocabulary before any work is done
    if family.second is None:
        recipe = MaskedWindowRecipe(maker, int(tokenizer.sep_id))
    else:
        recipe = PairRecipe(maker, family.second)
        decides = {**decides, "short_seq_prob": settings.short_seq_prob}
    return ExampleRecipe(subwords, tokens, decides, recipe)


class MaskedText(Preparation):
    """Masked batches of a text or of prepared examples, and the losses of the heads."""

    def __init__(
        self, family: Encoder, settings: EncoderSettings, before: Pretrained | None
    ) -> None:
        check_prepared(settings)
        self.family, self.settings, self.before = family, settings, before
        self.predictions = settings.max_predictions or masked_positions(settings.seq_length)
        sizes = family.encoder_sizes(settings, before)
        if settings.pack and family.second is None and "pooler" in sizes:
            sizes["pooler"] = False  # of a model to go on from; pretraining does not train it
        self.vocabulary, names = family.subwords, family.subwords.settings(settings)
        self.sentence_starts = None  # of prepared examples
        if settings.examples:
            tokenizer, valid = self._read_examples()
        else:
            tokenizer, valid = self._read_documents()
        self.held_out = list(valid.evaluation_batches(settings.evaluate_batches))
        # The table of a checkpoint may have more rows than there are tokens.
        self.arguments = {"vocab_size": tokenizer.vocab_size, **sizes}
        self.unrecorded_arguments = {"packed": True} if settings.pack else {}
        self.heads = family.heads(settings, before, self.batches)
        self.tokens, self.text = family.subwords.facts(tokenizer, names)
        self.files = {MARKS: tokenizer.marks} if tokenizer.marks else {}
        self.training = {"max_predictions": self.predictions}
        self.first = before is not None

    def _read_documents(self) -> tuple[Any, Any]:
        """Return the tokenizer and the held-out batches; set what is known of the text."""
        settings, subwords = self.settings, self.family.subwords
        train_documents, valid_documents = documents(settings)
        tokenizer_settings = subwords.settings(settings)
        if self.before is not None:
            tokenizer = subwords.begun(self.before.tokenizer, settings)
        else:
            tokens = subwords.marked(tokens_of(settings, subwords, train_documents), settings.marks)
            tokenizer = subwords.maker(tokens, tokenizer_settings)()
        tokens, facts = subwords.facts(tokenizer, tokenizer_settings)

        def tokenized(documents: Any) -> TokenizedCorpus:
            return tokenized_once(
                documents,
                [f"{subwords.kind} tokens", subwords.key(tokens), *facts.values()],
                lambda folder: TokenizedCorpus.build(documents, tokenizer, folder=folder),
                TokenizedCorpus.read,
            )

        train, valid = tokenized(train_documents), tokenized(valid_documents)
        self.corpus = {"tokens": train.num_tokens, "crc32": int32_checksum(train.tokens)}
        self.size, self.held_out_size = train.num_tokens, valid.num_tokens
        self.num_documents, self.sentence_starts = train.num_documents, train.sentence_starts
        self.commonest = count_ids(train.tokens).argmax()
        self.batches, held_out = (
            masked_batches(
                self.family.second,
                corpus,
                tokenizer,
                batch_size=settings.batch_size,
                seq_length=settings.seq_length,
                max_predictions=self.predictions,
                seed=seed,
                whole_word=settings.whole_word,
                pack=settings.pack,
            )
            for corpus, seed in ((train, settings.seed), (valid, settings.seed + 1))
        )
        return tokenizer, held_out

    def _read_examples(self) -> tuple[Any, Any]:
        """Return the same of what `tfnlp examples` wrote."""
        settings, subwords = self.settings, self.family.subwords
        tokenizer_settings = subwords.settings(settings)
        with local_copy(f"{settings.examples}/{subwords.name}") as path:
            tokenizer = subwords.maker(subwords.read(path), tokenizer_settings)()
        if self.before is not None:
            begun = subwords.begun(self.before.tokenizer, settings)
            facts = (subwords.facts(one, tokenizer_settings) for one in (tokenizer, begun))
            check_same_vocabulary(settings, *facts)
            tokenizer = begun
        rows = {
            "batch_size": settings.batch_size,
            "max_predictions": self.predictions,
            "whole_word": settings.whole_word,
        }
        kind = MaskedWindowShards if self.family.second is None else PairShards
        shards = kind(settings.examples, tokenizer, **rows)
        valid, train = shards.held_out(), shards.counts["train"]
        self.batches, self.commonest = shards, shards.commonest_token
        self.corpus = {"tokens": train["tokens"], "examples": shards.checksum}
        self.size, self.held_out_size = train["tokens"], valid.num_tokens
        self.num_documents = train["documents"]
        more = {"seq_length": shards.seq_length, "seed": shards.seed + 1}
        return tokenizer, masked_batches(self.family.second, valid, tokenizer, **more, **rows)

    def objective(self, model: Any) -> Any:
        """Return the losses of the heads."""
        return self.family.objective(model, self.settings)

    def fill(self, encoder: Any, trained: Any) -> None:
        """Copy the weights of the model to go on from."""
        if self.before is not None:
            self.family.copy_weights(self.before, encoder, trained)

    def describe(self, encoder: Any, trained: Any, steps: int) -> str:
        """Return sizes of model and text, and how many sentences are read in part."""
        cut = ""
        if self.family.second and self.sentence_starts is not None:
            longest = self.settings.seq_length - 3
            lengths = np.diff(self.sentence_starts)
            count = int((lengths > longest).sum())
            if count:
                cut = f", {count:,} of {len(lengths):,} sentences longer than {longest} tokens "
                cut += "and cut"
        return (
            f"{self.family.short_title} with {trained.count_params() / 1e6:.2f} M parameters on "
            f"{self.size:,} tokens of {self.num_documents:,} documents{cut}"
            f"; held out: {self.held_out_size:,} tokens"
        )

    def measure(self, trainer: Any) -> dict[str, float]:
        """Return the best held-out measures, of a model that is not trained yet its own."""
        history = trainer.history
        if not history.validation:
            return trainer.evaluate(self.held_out)
        best = history.best_step("loss")  # what the run is loaded with
        return next((r for r in history.validation if r["step"] == best), history.validation[-1])

    def line(self, when: str, results: dict[str, float]) -> str:
        """Return the held-out accuracies of the heads that a model has."""
        if "step" in results:
            when = f"after {int(results['step'])} steps"
        said = []
        if "masked_lm_accuracy" in results:
            said.append(
                f"masked-LM accuracy {results['masked_lm_accuracy']:.3f} (always guessing the "
                f"commonest token: {self._unigram_accuracy():.3f})"
            )
        for name in ("next_sentence", "sentence_order"):
            accuracy = results.get(f"{name}_accuracy")
            if accuracy is not None:
                said.append(f"{name.replace('_', '-')} accuracy {accuracy:.3f} (chance: 0.500)")
        if "discriminator_accuracy" in results:
            said.append(
                f"discriminator's accuracy {results['discriminator_accuracy']:.3f} (always saying "
                f"original: {1 - results['replaced']:.3f})"
            )
        return f"held out {when}: {', '.join(said)}"

    def _unigram_accuracy(self) -> float:
        """Return the accuracy of always guessing the training text's commonest token."""
        right = count = 0.0
        for batch in self.held_out:
            weights = batch["masked_lm_weights"].numpy()
            right += float(((batch["masked_lm_ids"].numpy() == self.commonest) * weights).sum())
            count += float(weights.sum())
        return right / count


def sizes_of_settings(
    settings: Any, published: dict[str, Any], before: dict[str, Any] | None
) -> dict[str, Any]:
    """Return the arguments of an encoder with positions, checked before any work is done."""
    rates = {"dropout": settings.dropout, "attention_dropout": settings.dropout}
    if before is not None:
        sizes = {name: value for name, value in before.items() if name != "dtype"}
        check_length(settings, sizes["max_positions"])
        return {**sizes, **rates}
    sizes = transformer_sizes(settings, published)
    sizes.pop("vocab_size", None)
    sizes["max_positions"] = settings.max_positions or max(512, settings.seq_length)
    check_length(settings, sizes["max_positions"])
    return {**sizes, **rates, "initializer_range": settings.initializer_range}
