"""BERT's pretraining text: masked sentence pairs of documents or of prepared examples."""

import sys
from typing import Any

from tfnlp.families.preparation import (
    VOCABULARY,
    Preparation,
    Vocabulary,
    documents,
    learnt_once,
    sentences,
    tokenized_once,
    vocabulary_tokens,
)

_MOSTLY_RANDOM = 0.75  # share of random pairs; half are random where documents have sentences


def prepare(config: Any, before: Any, strategy: Any) -> Preparation:
    """Return what BERT's pretraining needs: `[CLS] A [SEP] B [SEP]` with masks, both losses.

    Args:
        config: A `BertConfig`.
        before: The `Pretrained` to go on from, or None.
        strategy: The devices.
    """
    from tfnlp.tasks import BertPretraining
    from tfnlp.text import read_vocabulary, write_vocabulary

    predictions = _predictions(config)
    sizes = _sizes(config, before)
    tokenizer, text = _read(config, before, predictions)
    held_out = list(text["held_out"].evaluation_batches(config.evaluate_batches))
    commonest = _unigram_accuracy(text["commonest"], held_out)

    def describe(encoder: Any, pretrainer: Any, steps: int) -> str:
        return (
            f"BERT with {pretrainer.count_params() / 1e6:.2f} M parameters on {text['size']:,} "
            f"tokens of {text['documents']:,} documents"
            + _too_long(text, config.seq_length)
            + f"; held out: {text['held_out_size']:,} tokens"
        )

    return Preparation(
        batches=text["batches"],
        held_out=held_out,
        vocabulary=Vocabulary(tokenizer.vocabulary, read_vocabulary, write_vocabulary),
        # The table of a checkpoint may have more rows than there are tokens.
        arguments={"vocab_size": tokenizer.vocab_size, **sizes},
        heads=_heads(config, before, text["batches"]),
        text={"lowercase": tokenizer.lowercase},
        training={"max_predictions": predictions},
        corpus=text["corpus"],
        objective=BertPretraining,
        describe=describe,
        measure=lambda trainer: _measured(trainer, held_out, before is not None),
        line=lambda when, results: _line(when, results, commonest),
        first=before is not None,
        copy_weights=None if before is None else lambda e, p: _copy_weights(before, e, p),
        perplexity=False,
    )


def _read(config: Any, before: Any, predictions: int) -> tuple[Any, dict[str, Any]]:
    """Return the tokenizer, and batches and counts of the text or of the prepared examples."""
    from tfnlp.text import WordPieceTokenizer

    if config.examples:
        tokens, lowercase = _examples_vocabulary(config, before)
    else:
        train, valid = documents(config)
    if before is not None:
        tokenizer = before.tokenizer
    elif config.examples:
        tokenizer = WordPieceTokenizer(tokens, lowercase=lowercase)
    else:
        tokens = _learn_vocabulary(config, train)
        tokenizer = WordPieceTokenizer(tokens, lowercase=not config.cased)
    if config.examples:
        return tokenizer, _read_examples(config, tokenizer, predictions)
    return tokenizer, _read_documents(config, tokenizer, predictions, train, valid)


def _too_long(text: dict[str, Any], seq_length: int) -> str:
    """Return how many sentences are read in part, because they fill a sequence alone."""
    import numpy as np

    if "sentence_starts" not in text:  # prepared examples
        return ""
    cut = int((np.diff(text["sentence_starts"]) > seq_length - 3).sum())
    of = len(text["sentence_starts"]) - 1
    return (
        f", {cut:,} of {of:,} sentences longer than {seq_length - 3} tokens and cut" if cut else ""
    )


def _measured(trainer: Any, held_out: list, went_on: bool) -> dict[str, float]:
    """Return the last held-out measures, or the best ones of a run that went on from a model."""
    history = trainer.history
    if not history.validation:
        return trainer.evaluate(held_out)
    if not went_on:
        return history.validation[-1]
    best = history.best_step("loss")  # what the run is loaded with
    return next(row for row in history.validation if row["step"] == best)


def _line(when: str, results: dict[str, float], commonest: float) -> str:
    if "step" in results:
        when = f"after {int(results['step'])} steps"
    said = (
        f"held out {when}: masked-LM accuracy {results['masked_lm_accuracy']:.3f} (always "
        f"guessing the commonest token: {commonest:.3f})"
    )
    if "next_sentence_accuracy" in results:
        accuracy = results["next_sentence_accuracy"]
        said += f", next-sentence accuracy {accuracy:.3f} (chance: 0.500)"
    return said


def _predictions(config: Any) -> int:
    from tfnlp.data import masked_positions

    return config.max_predictions or masked_positions(config.seq_length)


def _sizes(config: Any, before: Any) -> dict[str, Any]:
    """Return the arguments of `bert`, checked before any work is done."""
    from tfnlp import models
    from tfnlp.convert.bert import BERT_FILES
    from tfnlp.convert.encoders.config import config_of
    from tfnlp.families.bert import SIZES
    from tfnlp.families.config import check_length, transformer_sizes

    rates = {"dropout": config.dropout, "attention_dropout": config.dropout}
    if before is not None:
        sizes = config_of(BERT_FILES, before.encoder)
        check_length(config, sizes["max_positions"])
        return {**sizes, **rates}
    sizes = transformer_sizes(config, getattr(models, SIZES[config.size]))
    sizes["max_positions"] = config.max_positions or max(512, config.seq_length)
    check_length(config, sizes["max_positions"])
    return {**sizes, **rates, "initializer_range": config.initializer_range}


def _learn_vocabulary(config: Any, documents: Any) -> list[str]:
    from tfnlp.text import read_vocabulary, train_wordpiece, write_vocabulary

    def learn() -> list[str]:
        print(f"building a vocabulary of {config.vocab_size} tokens", file=sys.stderr)
        return train_wordpiece(sentences(documents), config.vocab_size, lowercase=not config.cased)

    def make() -> list[str]:
        decides = ["wordpiece", config.vocab_size, config.cased]
        return learnt_once(documents, decides, learn, read_vocabulary, write_vocabulary)

    return vocabulary_tokens(config, read_vocabulary, make)


def _examples_vocabulary(config: Any, before: Any) -> tuple[list[str], bool]:
    from tfnlp.families.examples import check_same_vocabulary
    from tfnlp.files import local_copy
    from tfnlp.text import WordPieceTokenizer, read_vocabulary

    with local_copy(f"{config.examples}/{VOCABULARY}") as path:
        tokens = read_vocabulary(path)
    lowercase = not config.cased
    WordPieceTokenizer(tokens, lowercase=lowercase)  # checks it
    if before is not None:
        theirs = before.tokenizer
        check_same_vocabulary(config, (tokens, lowercase), (theirs.vocabulary, theirs.lowercase))
    return tokens, lowercase


def _read_documents(
    config: Any, tokenizer: Any, predictions: int, train_documents: Any, valid_documents: Any
) -> dict[str, Any]:
    """Return batches and counts of documents."""
    from tfnlp.data import BertPairs, TokenizedCorpus
    from tfnlp.data.corpus.arrays import count_ids, int32_checksum

    def tokenized(documents: Any) -> TokenizedCorpus:
        return tokenized_once(
            documents,
            ["wordpiece tokens", tokenizer.vocabulary, tokenizer.lowercase],
            lambda folder: TokenizedCorpus.build(documents, tokenizer, folder=folder),
            TokenizedCorpus.read,
        )

    train, valid = tokenized(train_documents), tokenized(valid_documents)

    def pairs(corpus: Any, seed: int) -> Any:
        return BertPairs(
            corpus,
            tokenizer,
            batch_size=config.batch_size,
            seq_length=config.seq_length,
            max_predictions=predictions,
            seed=seed,
            whole_word=config.whole_word,
        )

    return {
        "batches": pairs(train, config.seed),
        "held_out": pairs(valid, config.seed + 1),
        "corpus": {"tokens": train.num_tokens, "crc32": int32_checksum(train.tokens)},
        "size": train.num_tokens,
        "documents": train.num_documents,
        "sentence_starts": train.sentence_starts,
        "held_out_size": valid.num_tokens,
        "commonest": count_ids(train.tokens).argmax(),
    }


def _read_examples(config: Any, tokenizer: Any, predictions: int) -> dict[str, Any]:
    """Return batches and counts of examples that `tfnlp examples` wrote."""
    from tfnlp.data import BertPairs, BertShards

    settings = {
        "batch_size": config.batch_size,
        "max_predictions": predictions,
        "whole_word": config.whole_word,
    }
    shards = BertShards(config.examples, tokenizer, **settings)
    valid, train = shards.held_out(), shards.counts["train"]
    more = {"seq_length": shards.seq_length, "seed": shards.seed + 1}
    return {
        "batches": shards,
        "held_out": BertPairs(valid, tokenizer, **more, **settings),
        "corpus": {"tokens": train["tokens"], "examples": shards.checksum},
        "size": train["tokens"],
        "documents": train["documents"],
        "held_out_size": valid.num_tokens,
        "commonest": shards.commonest_token,
    }


def _heads(config: Any, before: Any, batches: Any) -> dict[str, Any]:
    """Return the arguments of `bert_pretrainer`.

    The next-sentence head is trained on only where there are next sentences: a text of one line a
    document makes random pairs alone, and the head would learn to call all pairs random.
    """
    if before is None:
        return {
            "masked_lm": True,
            "next_sentence": True,
            "initializer_range": config.initializer_range,
        }
    head = before.pretrainer.get_layer("masked_lm_head")
    next_sentence = "next_sentence_logits" in before.pretrainer.output
    if next_sentence and batches.random_share > _MOSTLY_RANDOM:
        next_sentence = False
        print("next sentences are left out: documents of one sentence have none", file=sys.stderr)
    return {
        "activation": head.activation,
        "norm_epsilon": head.norm_epsilon,
        "masked_lm": True,
        "next_sentence": next_sentence,
        "initializer_range": before.encoder.get_layer("token_embedding").initializer.stddev,
    }


def _copy_weights(before: Any, encoder: Any, pretrainer: Any) -> None:
    encoder.set_weights(before.encoder.get_weights())
    for name in ("masked_lm_head", "masked_lm_bias", "next_sentence_head"):
        if name in {layer.name for layer in pretrainer.layers}:
            weights = before.pretrainer.get_layer(name).get_weights()
            pretrainer.get_layer(name).set_weights(weights)


def _unigram_accuracy(commonest: int, batches: list) -> float:
    """Return the accuracy of always guessing the training text's commonest token."""
    right = sum(
        float(((b["masked_lm_ids"].numpy() == commonest) * b["masked_lm_weights"].numpy()).sum())
        for b in batches
    )
    return right / max(1.0, sum(float(b["masked_lm_weights"].numpy().sum()) for b in batches))
