"""Text of masked language models: vocabulary, masked batches, held-out measures."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from tfnlp.families import masked_measures
from tfnlp.families.examples import check_same_vocabulary, training_documents
from tfnlp.families.packing import check_pack
from tfnlp.families.preparation import (
    Preparation,
    Vocabulary,
    documents,
    sentences,
    tokenized_once,
)
from tfnlp.families.starts import check_length, transformer_sizes
from tfnlp.families.subwords import Subwords
from tfnlp.files import local_copy


def head_arguments(
    config: Any, before: Any, batches: Any, second: str | None = None
) -> dict[str, Any]:
    """Return the arguments of a pretrainer: see `MaskedText.heads`.

    The masked-LM head of `before` goes on too. `second` is the name of a second head, which is
    there unless `before` lacks it.
    """
    asked = {} if second is None else {"masked_lm": True, second: True}
    if before is None:
        return {**asked, "initializer_range": config.initializer_range}
    if second is not None:
        asked[second] = f"{second}_logits" in before.pretrainer.output
    head = before.pretrainer.get_layer("masked_lm_head")
    return {
        **asked,
        "activation": head.activation,
        "norm_epsilon": head.norm_epsilon,
        "initializer_range": before.encoder.get_layer("token_embedding").initializer.stddev,
    }


@dataclasses.dataclass(frozen=True)
class MaskedText:
    """How a family makes masked batches of its text, and what it learns from them."""

    title: str  # in a sentence, without an article
    subwords: Subwords
    second: str | None  # see `SentencePairs`; None: rows are `MaskedWindows` of sentences
    # (config, model to go on from) to the encoder's arguments but for `vocab_size`, checked.
    sizes: Callable[[Any, Any], dict[str, Any]]
    # (config, model to go on from, training batches) to the pretrainer's arguments.
    heads: Callable[[Any, Any, Any], dict[str, Any]] = head_arguments
    # Layers of the pretrainer whose weights go on, beside the encoder.
    copied: tuple[str, ...] = ("masked_lm_head", "masked_lm_bias")
    # Pretrainer to the task; None: `BertPretraining`.
    objective: Callable[[Any], Any] | None = None
    # Of (model to go on from, encoder, pretrainer), in place of `copied`.
    copy_weights: Callable[[Any, Any, Any], None] | None = None

    def batches(self, corpus: Any, tokenizer: Any, pack: bool = False, **arguments: Any) -> Any:
        """Return the masked batches of a `TokenizedCorpus`.

        With `pack`, documents or pairs of segments are kept apart in rows of several.
        """
        from tfnlp.data import MaskedDocuments, MaskedWindows, PackedPairs, SentencePairs

        if self.second is None:
            rows = MaskedDocuments if pack else MaskedWindows
            return rows(corpus, tokenizer, **arguments)
        rows = PackedPairs if pack else SentencePairs
        return rows(corpus, tokenizer, second=self.second, **arguments)

    def examples(self, config: Any) -> tuple[Vocabulary, dict[str, Any], Any]:
        """Return the vocabulary, the settings and the recipe of prepared examples."""
        from tfnlp.data.pretraining.masked_rows import check_rows
        from tfnlp.data.shards.pairs import PairRecipe
        from tfnlp.data.shards.windows import MaskedWindowRecipe

        check_rows(config.seq_length, config.seed)
        tokens = self.subwords.given_or_learnt(
            config, lambda: sentences(training_documents(config, False))
        )
        settings = self.subwords.settings(config)
        maker = self.subwords.maker(tokens, settings)
        tokenizer = maker()  # checks the vocabulary before any work is done
        if self.second is None:
            recipe = MaskedWindowRecipe(maker, int(tokenizer.sep_id))
        else:
            recipe = PairRecipe(maker, self.second)
            settings = {**settings, "short_seq_prob": config.short_seq_prob}
        return self.subwords.kept(tokens), settings, recipe

    def prepare(self, config: Any, before: Any, strategy: Any) -> Preparation:
        """Return what pretraining needs: masked batches and the losses of the heads."""
        from tfnlp.data import masked_positions
        from tfnlp.objectives import BertPretraining

        pack = getattr(config, "pack", False)
        if pack:
            check_pack(config)
        predictions = config.max_predictions or masked_positions(config.seq_length)
        sizes = self.sizes(config, before)
        if pack and self.second is None and "pooler" in sizes:
            sizes["pooler"] = False  # of a model to go on from; pretraining does not train it
        tokenizer, found = _read(self, config, before, predictions)
        held_out = list(found["held_out"].evaluation_batches(config.evaluate_batches))
        commonest = masked_measures.unigram_accuracy(found["commonest"], held_out)
        subwords, names = self.subwords, self.subwords.settings(config)

        def describe(encoder: Any, pretrainer: Any, steps: int) -> str:
            cut = masked_measures.too_long(found, config.seq_length) if self.second else ""
            return (
                f"{self.title} with {pretrainer.count_params() / 1e6:.2f} M parameters on "
                f"{found['size']:,} tokens of {found['documents']:,} documents{cut}"
                f"; held out: {found['held_out_size']:,} tokens"
            )

        copy = self.copy_weights or functools.partial(_copy_weights, self.copied)
        return Preparation(
            batches=found["batches"],
            held_out=held_out,
            vocabulary=subwords.kept(subwords.tokens(tokenizer)),
            # The table of a checkpoint may have more rows than there are tokens.
            arguments={"vocab_size": tokenizer.vocab_size, **sizes},
            unrecorded_arguments={"packed": True} if pack else {},
            heads=self.heads(config, before, found["batches"]),
            text={name: getattr(tokenizer, name) for name in names},
            training={"max_predictions": predictions},
            corpus=found["corpus"],
            objective=self.objective or BertPretraining,
            describe=describe,
            measure=lambda trainer: masked_measures.measured(trainer, held_out, before is not None),
            line=lambda when, results: masked_measures.line(when, results, commonest),
            first=before is not None,
            copy_weights=None if before is None else functools.partial(copy, before),
            perplexity=False,
        )


def sizes_of_config(
    config: Any, published: dict[str, Any], before: dict[str, Any] | None
) -> dict[str, Any]:
    """Return the arguments of an encoder with positions, checked before any work is done."""
    rates = {"dropout": config.dropout, "attention_dropout": config.dropout}
    if before is not None:
        sizes = {name: value for name, value in before.items() if name != "dtype"}
        check_length(config, sizes["max_positions"])
        return {**sizes, **rates}
    sizes = transformer_sizes(config, published)
    sizes.pop("vocab_size", None)
    sizes["max_positions"] = config.max_positions or max(512, config.seq_length)
    check_length(config, sizes["max_positions"])
    return {**sizes, **rates, "initializer_range": config.initializer_range}


def _read(
    text: MaskedText, config: Any, before: Any, predictions: int
) -> tuple[Any, dict[str, Any]]:
    """Return the tokenizer, and batches and counts of the text or of the prepared examples."""
    subwords, settings = text.subwords, text.subwords.settings(config)
    if config.examples:
        with local_copy(f"{config.examples}/{subwords.name}") as path:
            tokenizer = subwords.maker(subwords.read(path), settings)()
        if before is not None:
            facts = (subwords.facts(one, settings) for one in (tokenizer, before.tokenizer))
            check_same_vocabulary(config, *facts)
            tokenizer = before.tokenizer
        return tokenizer, _read_examples(text, config, tokenizer, predictions)
    train, valid = documents(config)
    if before is not None:
        tokenizer = before.tokenizer
    else:
        tokens = subwords.given_or_learnt(config, lambda: sentences(train), train)
        tokenizer = subwords.maker(tokens, settings)()
    return tokenizer, _read_documents(text, config, tokenizer, predictions, train, valid)


def _read_documents(
    text: MaskedText,
    config: Any,
    tokenizer: Any,
    predictions: int,
    train_documents: Any,
    valid_documents: Any,
) -> dict[str, Any]:
    """Return batches and counts of documents."""
    from tfnlp.data import TokenizedCorpus
    from tfnlp.data.corpus.arrays import count_ids, int32_checksum

    tokens, settings = text.subwords.facts(tokenizer, text.subwords.settings(config))

    def tokenized(documents: Any) -> TokenizedCorpus:
        return tokenized_once(
            documents,
            [f"{text.subwords.kind} tokens", text.subwords.key(tokens), *settings.values()],
            lambda folder: TokenizedCorpus.build(documents, tokenizer, folder=folder),
            TokenizedCorpus.read,
        )

    train, valid = tokenized(train_documents), tokenized(valid_documents)

    def batches(corpus: Any, seed: int) -> Any:
        return text.batches(
            corpus,
            tokenizer,
            batch_size=config.batch_size,
            seq_length=config.seq_length,
            max_predictions=predictions,
            seed=seed,
            whole_word=config.whole_word,
            pack=getattr(config, "pack", False),
        )

    return {
        "batches": batches(train, config.seed),
        "held_out": batches(valid, config.seed + 1),
        "corpus": {"tokens": train.num_tokens, "crc32": int32_checksum(train.tokens)},
        "size": train.num_tokens,
        "documents": train.num_documents,
        "sentence_starts": train.sentence_starts,
        "held_out_size": valid.num_tokens,
        "commonest": count_ids(train.tokens).argmax(),
    }


def _read_examples(
    text: MaskedText, config: Any, tokenizer: Any, predictions: int
) -> dict[str, Any]:
    """Return batches and counts of examples that `tfnlp examples` wrote."""
    from tfnlp.data import MaskedWindowShards, PairShards

    settings = {
        "batch_size": config.batch_size,
        "max_predictions": predictions,
        "whole_word": config.whole_word,
    }
    kind = MaskedWindowShards if text.second is None else PairShards
    shards = kind(config.examples, tokenizer, **settings)
    valid, train = shards.held_out(), shards.counts["train"]
    more = {"seq_length": shards.seq_length, "seed": shards.seed + 1}
    return {
        "batches": shards,
        "held_out": text.batches(valid, tokenizer, **more, **settings),
        "corpus": {"tokens": train["tokens"], "examples": shards.checksum},
        "size": train["tokens"],
        "documents": train["documents"],
        "held_out_size": valid.num_tokens,
        "commonest": shards.commonest_token,
    }


def _copy_weights(heads: tuple[str, ...], before: Any, encoder: Any, pretrainer: Any) -> None:
    old = {weight.path: weight for weight in before.encoder.weights}
    for weight in encoder.weights:  # all but those of a pooler that is left out
        weight.assign(old[weight.path])
    for name in heads:
        if name in {layer.name for layer in pretrainer.layers}:
            weights = before.pretrainer.get_layer(name).get_weights()
            pretrainer.get_layer(name).set_weights(weights)
