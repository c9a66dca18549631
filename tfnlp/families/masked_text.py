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
from tfnlp.data.shards.recipes import MaskedWindowRecipe, PairRecipe
from tfnlp.families.preparation import (
    ExampleRecipe,
    documents,
    sentences,
    tokenized_once,
    tokens_of,
    training_documents,
)
from tfnlp.families.subwords import SubwordText
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


class MaskedText(SubwordText):
    """Masked batches of a text or of prepared examples, and the losses of the heads."""

    def __init__(
        self, family: Encoder, settings: EncoderSettings, before: Pretrained | None
    ) -> None:
        super().__init__(family, settings, before)
        if settings.pack and family.second is None and "pooler" in self.sizes:
            self.sizes["pooler"] = False  # of a model to go on from; pretraining does not train it
        self.rows = {
            "batch_size": settings.batch_size,
            "max_predictions": settings.max_predictions or masked_positions(settings.seq_length),
            "whole_word": settings.whole_word,
        }
        self.sentence_starts = None  # of prepared examples
        valid = self._read_examples() if settings.examples else self._read_documents()
        self.held_out = list(valid.evaluation_batches(settings.evaluate_batches))
        self.heads = family.heads(settings, before, self.batches)
        self.text = self.facts
        self.training = {"max_predictions": self.rows["max_predictions"]}

    def _read_documents(self) -> Any:
        """Return the held-out batches; set what is known of the text."""
        settings, subwords = self.settings, self.family.subwords
        train_documents, valid_documents = documents(settings)
        self.make_tokenizer(train_documents)

        def tokenized(documents: Any) -> TokenizedCorpus:
            return tokenized_once(
                documents,
                [f"{subwords.kind} tokens", subwords.key(self.tokens), *self.facts.values()],
                lambda folder: TokenizedCorpus.build(documents, self.tokenizer, folder=folder),
                TokenizedCorpus.read,
            )

        train, valid = tokenized(train_documents), tokenized(valid_documents)
        self.corpus = {"tokens": train.num_tokens, "crc32": int32_checksum(train.tokens)}
        self.size, self.held_out_size = train.num_tokens, valid.num_tokens
        self.num_documents, self.sentence_starts = train.num_documents, train.sentence_starts
        self.commonest = count_ids(train.tokens).argmax()
        rows = {**self.rows, "seq_length": settings.seq_length, "pack": settings.pack}
        self.batches, held_out = (
            masked_batches(self.family.second, corpus, self.tokenizer, seed=seed, **rows)
            for corpus, seed in ((train, settings.seed), (valid, settings.seed + 1))
        )
        return held_out

    def _read_examples(self) -> Any:
        """Return the same of what `tfnlp examples` wrote."""
        self.read_tokenizer()
        kind = MaskedWindowShards if self.family.second is None else PairShards
        self.batches = shards = kind(self.settings.examples, self.tokenizer, **self.rows)
        valid, train = shards.held_out(), shards.counts["train"]
        self.commonest = shards.commonest_token
        self.corpus = {"tokens": train["tokens"], "examples": shards.checksum}
        self.size, self.held_out_size = train["tokens"], valid.num_tokens
        self.num_documents = train["documents"]
        more = {"seq_length": shards.seq_length, "seed": shards.seed + 1}
        return masked_batches(self.family.second, valid, self.tokenizer, **more, **self.rows)

    def objective(self, model: Any) -> Any:
        return self.family.objective(model, self.settings)

    def fill(self, encoder: Any, trained: Any) -> None:
        if self.before is not None:
            self.family.copy_weights(self.before, encoder, trained)

    def describe(self, encoder: Any, trained: Any, steps: int) -> str:
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
