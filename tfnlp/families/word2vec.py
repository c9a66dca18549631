"""word2vec (Mikolov et al. 2013) and fastText (Bojanowski et al. 2017) as a family."""

import os
from typing import Any

from tfnlp.families.checked import whole_number
from tfnlp.families.counted_words import COUNTS, read_corpora, read_counts, read_words
from tfnlp.families.family import Family
from tfnlp.families.preparation import Preparation, Vocabulary, write_lines
from tfnlp.families.vectors import OF_VECTORS, VECTOR_MEASURES, evaluate_vectors
from tfnlp.families.word_losses import loss_arguments
from tfnlp.settings.word2vec import Word2VecSettings


def prepare(config: Word2VecSettings, before: Any, strategy: Any) -> Preparation:
    """Return what word2vec's training needs: blocks of text, and the loss of their words."""
    from tfnlp.data import WordBlocks
    from tfnlp.data.corpus.arrays import int32_checksum
    from tfnlp.objectives import Word2Vec

    words, train, valid = read_corpora(config)
    sizes = dict(
        batch_size=config.batch_size,
        block=config.block,
        window=config.window,
        samples=config.samples,
        sample=config.sample,
        counts=train.counts,
        seed=config.seed,
    )
    blocks, held_out = WordBlocks(train, **sizes), WordBlocks(valid, **sizes)
    subwords = _subwords(config, words)

    def fill(model: Any) -> None:
        if subwords is not None:
            model.get_layer("word_embedding").set_subwords(*subwords)
        if config.loss != "negative":
            model.get_layer("loss").set_counts(train.counts)

    def describe(encoder: Any, pretrainer: Any, steps: int) -> str:
        kind = config.architecture
        if config.loss != "negative":
            kind += f", {config.loss}"
        return (
            f"word2vec ({kind}) of {len(words):,} words x {config.dimension}; "
            f"{train.num_words:,} words of {train.num_sentences:,} sentences, {train.unknown:,} "
            f"rare ones left out; {blocks.steps_per_epoch:,} updates an epoch; held out: "
            f"{valid.num_words:,} words"
        )

    pairs = config.window + 1 if config.architecture == "skipgram" else 1  # of a word
    return Preparation(
        batches=blocks,
        held_out=held_out.evaluation_batches(config.evaluate_batches),
        vocabulary=Vocabulary(words, read_words, write_lines),
        arguments=_arguments(config, train, subwords),
        text={"min_n": config.min_n, "max_n": config.max_n} if subwords is not None else {},
        corpus={"words": train.num_words, "crc32": int32_checksum(train.ids)},
        objective=lambda model: Word2Vec(model, blocks.words_per_block),
        prepare_model=fill,
        files={COUNTS: train.counts},
        describe=describe,
        measure=lambda trainer: trainer.evaluate(held_out.evaluation_batches()),
        line=lambda when, results: f"held out, {when}: {results['loss']:.4f} a pair",
        # About the pairs in a batch: rows of a table then get the sum over their pairs.
        loss_scale=float(config.batch_size * config.block * pairs),
        perplexity=False,
    )


def _subwords(config: Word2VecSettings, words: list[str]) -> Any:
    """Return rows of the n-grams of all words and where each word's begin, or None."""
    from tfnlp.text import subword_rows

    if not config.subwords:
        return None
    if config.min_n > config.max_n:
        raise ValueError(f"`min_n` {config.min_n} must be at most `max_n` {config.max_n}")
    rows, splits = subword_rows(words, config.min_n, config.max_n, config.buckets)
    if not len(rows):
        raise ValueError(f"no word has n-grams of `min_n` {config.min_n} characters or more")
    return rows, splits


def _arguments(config: Word2VecSettings, corpus: Any, subwords: Any) -> dict[str, Any]:
    import numpy as np

    arguments = {
        "vocab_size": len(corpus.words),
        "hidden_size": config.dimension,
        "architecture": config.architecture,
        "window": config.window,
        "negatives": config.negatives,
        "samples": config.samples,
        "block": config.block,
    }
    if subwords is not None:
        most = int(np.diff(subwords[1]).max())
        arguments.update(buckets=config.buckets, most_subwords=most)
    return {**arguments, **loss_arguments(config.loss, "negative", corpus.counts)}


def restore(path: str, run: dict[str, Any], dtype: str | None = None) -> Any:
    """Return the word2vec of a run; `finish` makes its vectors."""
    from tfnlp.checkpoints.pretrained import Pretrained

    arguments = run["arguments"]
    if arguments.get("buckets") is not None:
        for where in ("text.min_n", "text.max_n", "arguments.most_subwords"):
            whole_number(path, run, where)
    model, _ = WORD2VEC.build(arguments, {}, dtype)
    words = read_words(os.path.join(path, "vocab.txt"))
    return Pretrained(model, None, arguments, words=words)


def finish(loaded: Any, path: str) -> None:
    """Make the word vectors from the restored weights."""
    from tfnlp.text import Subwords, WordVectors

    words, counts = loaded.words, read_counts(path)
    table = loaded.encoder.get_layer("word_embedding").embeddings.numpy()
    if loaded.config.get("buckets") is None:
        loaded.word_vectors = WordVectors(words, table, counts)
        return
    own, rest = table[: len(words)], table[len(words) :]
    sizes = loaded.run["text"]
    subwords = Subwords(rest, sizes["min_n"], sizes["max_n"])
    loaded.word_vectors = WordVectors(words, subwords.vectors(words, own), counts, subwords)


def recognise_file(path: str) -> bool:
    """Return whether a path is a file of word vectors."""
    from tfnlp.checkpoints.word_vectors import word_vectors_kind

    return os.path.isfile(path) and word_vectors_kind(path) is not None


def read(path: str, dtype: str | None = None) -> Any:
    """Return the vectors of a file of word2vec, fastText or GloVe."""
    from tfnlp import checkpoints
    from tfnlp.checkpoints.pretrained import Pretrained

    vectors = checkpoints.read_word_vectors(path)
    return Pretrained(None, None, {}, words=vectors.words, word_vectors=vectors)


WORD2VEC = Family(
    name="word2vec",
    title="word vectors",
    config=Word2VecSettings,
    sizes={},
    sections={"arguments": ("word2vec", frozenset({"name", "dtype"}))},
    row=("block", "dimension"),
    prepare=prepare,
    restore=restore,
    finish=finish,
    recognise_file=recognise_file,
    read=read,
    checkpoints="a file of word2vec, fastText or GloVe",
    evaluate=evaluate_vectors,
    evaluation=VECTOR_MEASURES,
    needs=("analogies|similarity",),
    **OF_VECTORS,
)
