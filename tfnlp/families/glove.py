"""GloVe (Pennington, Socher & Manning 2014) as a family."""

import os
from typing import Any

from tfnlp.families.counted_words import COUNTS, read_corpora, read_counts, read_words
from tfnlp.families.family import Family
from tfnlp.families.preparation import Preparation, Vocabulary, write_lines
from tfnlp.families.vectors import OF_VECTORS, VECTOR_MEASURES, evaluate_vectors
from tfnlp.settings.glove import GloVeSettings

_COMMON = 5.0  # X_ij from which a pair of the held-out text counts


def prepare(config: GloVeSettings, before: Any, strategy: Any) -> Preparation:
    """Return what GloVe's training needs: the co-occurrence matrix, and the loss of its cells."""
    from tfnlp.data import CooccurrenceBatches
    from tfnlp.data.corpus.arrays import int32_checksum
    from tfnlp.data.corpus.cooccurrence import counted_once
    from tfnlp.objectives import GloVe

    words, train, valid = read_corpora(config)
    cells, held_cells = (
        counted_once(corpus, config.window, not config.left_only) for corpus in (train, valid)
    )
    batches = CooccurrenceBatches(cells, batch_size=config.batch_size, seed=config.seed)
    held_out = CooccurrenceBatches(
        # Rare pairs of a short text say little about how rare they are, and are most of the pairs.
        held_cells.at_least(min(_COMMON, held_cells.values.max())),
        batch_size=config.batch_size,
        # As if the held-out text were as long as the other: the vectors are learnt for that one.
        scale=train.num_words / valid.num_words,
    )

    def describe(encoder: Any, pretrainer: Any, steps: int) -> str:
        return (
            f"GloVe of {len(words):,} words x {config.dimension}; {train.num_words:,} words of "
            f"{train.num_sentences:,} sentences, {train.unknown:,} rare ones left out; "
            f"{batches.num_cells:,} pairs of words near each other, "
            f"{batches.steps_per_epoch:,.1f} updates an epoch; held out: {valid.num_words:,} words"
        )

    return Preparation(
        batches=batches,
        held_out=held_out.evaluation_batches(config.evaluate_batches),
        vocabulary=Vocabulary(words, read_words, write_lines),
        arguments={
            "vocab_size": len(words),
            "hidden_size": config.dimension,
            "x_max": config.x_max,
            "alpha": config.alpha,
        },
        text={},
        corpus={"words": train.num_words, "crc32": int32_checksum(train.ids)},
        objective=GloVe,
        files={COUNTS: train.counts},
        describe=describe,
        measure=lambda trainer: trainer.evaluate(held_out.evaluation_batches()),
        line=lambda when, results: f"held out, {when}: {results['loss']:.4f} a pair of words",
        # Rows of a table get the sum over their cells.
        loss_scale=float(config.batch_size),
        perplexity=False,
    )


def restore(path: str, run: dict[str, Any], dtype: str | None = None) -> Any:
    """Return the GloVe of a run; `finish` makes its vectors."""
    from tfnlp.checkpoints.pretrained import Pretrained

    model, _ = GLOVE.build(run["arguments"], {}, dtype)
    words = read_words(os.path.join(path, "vocab.txt"))
    return Pretrained(model, None, run["arguments"], words=words)


def finish(loaded: Any, path: str) -> None:
    """Make the word vectors `w + w~` from the restored weights."""
    from tfnlp.text import WordVectors

    model = loaded.encoder
    tables = model.get_layer("word_embedding").embeddings, model.get_layer("loss").kernel
    vectors = sum(table.numpy() for table in tables)
    loaded.word_vectors = WordVectors(loaded.words, vectors, read_counts(path))


GLOVE = Family(
    name="glove",
    title="a GloVe",
    config=GloVeSettings,
    sizes={},
    sections={"arguments": ("glove", frozenset({"name", "dtype"}))},
    row=("dimension",),
    prepare=prepare,
    restore=restore,
    finish=finish,
    evaluate=evaluate_vectors,
    evaluation=VECTOR_MEASURES,
    needs=("analogies|similarity",),
    **OF_VECTORS,
)
