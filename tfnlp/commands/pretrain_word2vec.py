"""Pretrain word2vec: one vector a word, from the words around it."""

import sys
import zlib

from tfnlp.commands import devices
from tfnlp.commands.arguments import add_tokenize, tokenized
from tfnlp.commands.pretraining import (
    add_run,
    add_training,
    check_training,
    documents,
    fit,
    make_trainer,
    start_run,
    training_settings,
    vocabulary,
)

COUNTS = "counts.txt"  # beside the vocabulary: how often each word is in the training text


def add_arguments(word2vec):
    """Arguments of `tfnlp pretrain word2vec`; the defaults are those of word2vec.c."""
    add_run(word2vec)
    add_tokenize(word2vec)
    word2vec.add_argument("--lowercase", action="store_true", help="lower-case the text")
    word2vec.add_argument("--max-vocab", type=int, help="words, if the vocabulary is built")
    word2vec.add_argument("--min-count", type=int, default=5, help="leave rarer words out of it")
    word2vec.add_argument(
        "--architecture",
        choices=["skipgram", "cbow"],
        default="skipgram",
        help="predict a word from each of its neighbours (skipgram) or from their mean (cbow)",
    )
    word2vec.add_argument("--dimension", type=int, default=100, help="numbers in a vector")
    word2vec.add_argument(
        "--window", type=int, default=5, help="words on either side, at most; drawn for each word"
    )
    word2vec.add_argument(
        "--negatives",
        type=float,
        default=5.0,
        help="negatives a pair: those of the block weigh as much as so many",
    )
    word2vec.add_argument(
        "--samples", type=int, default=16, help="negatives drawn for a block, shared by its pairs"
    )
    word2vec.add_argument("--block", type=int, default=32, help="words in a block")
    word2vec.add_argument(
        "--sample",
        type=float,
        default=1e-3,
        help="words that are a larger share of the text are left out at random; 0: none",
    )
    word2vec.add_argument(
        "--subwords",
        action="store_true",
        help="as fastText: a word's vector is made of its character n-grams', so that unseen words "
        "have one",
    )
    word2vec.add_argument("--min-n", type=int, default=3, help="characters of the shortest n-grams")
    word2vec.add_argument("--max-n", type=int, default=6, help="characters of the longest")
    word2vec.add_argument(
        "--buckets", type=int, default=200_000, help="vectors that the n-grams share"
    )
    word2vec.add_argument("--epochs", type=float, default=5, help="times through the text")
    word2vec.add_argument("--steps", type=int, help="updates, instead of --epochs")
    add_training(
        word2vec,
        batch_size=96,
        learning_rate=0.3,
        warmup=0.0,
        schedule="linear",
        optimizer="rowwise_adagrad",
        weight_decay=0.0,
        clip_norm=0.0,
    )
    word2vec.set_defaults(steps_per_call=100, dropout=0.0)


def run(args):
    """Text to a run's folder; the same command again resumes a run that was stopped."""
    with devices.strategy(args) as strategy:
        train(args, strategy)


def train(args, strategy):
    """What `run` does, on the devices of `strategy`."""
    import keras

    from tfnlp import models, training
    from tfnlp.data import WordBlocks, WordCorpus
    from tfnlp.tasks import Word2Vec

    check_training(args, strategy)
    _check_settings(args)
    train_sentences, valid_sentences = (_sentences(d, args) for d in documents(args))
    words = _vocabulary(args, train_sentences)
    train = WordCorpus.build(train_sentences, words)
    valid = WordCorpus.build(valid_sentences, words)
    del train_sentences, valid_sentences
    sizes = dict(
        batch_size=args.batch_size,
        block=args.block,
        window=args.window,
        samples=args.samples,
        sample=args.sample,
        counts=train.counts,
        seed=args.seed,
    )
    blocks, held_out = WordBlocks(train, **sizes), WordBlocks(valid, **sizes)
    steps_per_epoch = blocks.steps_per_epoch
    args.steps = args.steps or max(1, round(args.epochs * steps_per_epoch))
    subwords = _subwords(args, words)
    config = _config(args, train, subwords)
    chief = training.Workers(strategy).chief
    start_run(args, config, words, read_words, write_lines, chief=chief)
    if chief:
        _write_counts(args.output, train.counts)

    keras.utils.set_random_seed(args.seed)
    with strategy.scope():
        model = models.word2vec(
            **config["arguments"], dtype="mixed_bfloat16" if args.bf16 else None
        )
        if subwords is not None:
            model.get_layer("word_embedding").set_subwords(*subwords)
        task = Word2Vec(model, blocks.words_per_block)
    print(
        f"word2vec ({args.architecture}) of {len(words):,} words x {args.dimension}; "
        f"{train.num_words:,} words of {train.num_sentences:,} sentences, {train.unknown:,} rare "
        f"ones left out; {steps_per_epoch:,} updates an epoch; held out: "
        f"{valid.num_words:,} words"
    )
    trainer = make_trainer(args, task, strategy, loss_scale=_loss_scale(args))
    curve = fit(args, trainer, blocks, held_out.evaluation_batches(args.evaluate_batches))
    trainer.restore(best=True)
    results = trainer.evaluate(held_out.evaluation_batches())
    print(f"held out, after {trainer.step} updates: {results['loss']:.4f} a pair", flush=True)
    print(f"training curve: {curve}")
    print(f"run: {args.output}")


def read_words(path):
    """The words of a run, or of any file with one word a line."""
    from tfnlp.text.lines import read_lines, shown

    words = read_lines(path, "vocabulary file")
    for number, word in enumerate(words, 1):
        if word.split() != [word]:
            raise ValueError(
                f"vocabulary file {path} has {shown(word)} in line {number}; expected one word"
            )
    if not words:
        raise ValueError(f"vocabulary file {path} is empty; expected one word a line")
    return words


def write_lines(path, lines):
    """Writes a file of one entry a line, whole or not at all."""
    import os

    partial = f"{path}.partial"
    with open(partial, "w", encoding="utf-8", newline="") as file:
        file.write("".join(f"{line}\n" for line in lines))
    os.replace(partial, path)


def _sentences(documents, args):
    """All sentences of the documents, a list of strings."""
    lines = [sentence for document in tokenized(documents, args) for sentence in document]
    return [line.lower() for line in lines] if args.lowercase else lines


def _check_settings(args):
    """Raises ValueError for what makes no sense, before any work is done."""
    for name in ("dimension", "window", "samples", "block", "min_count"):
        if getattr(args, name) < 1:
            raise ValueError(
                f"--{name.replace('_', '-')} {getattr(args, name)} must be at least 1"
            )
    for name in ("negatives", "epochs"):
        if not getattr(args, name) > 0:
            raise ValueError(f"--{name} {getattr(args, name)} must be above 0")
    if not args.sample >= 0:
        raise ValueError(f"--sample {args.sample} must be 0 or more")


def _vocabulary(args, sentences):
    """The words that get a vector: those of --vocab, or of the text."""
    from tfnlp.data import frequent_words

    def make():
        print("counting words", file=sys.stderr)
        return frequent_words(sentences, args.min_count, args.max_vocab)

    return vocabulary(args, make, read_words)


def _subwords(args, words):
    """Rows of the n-grams of all words and where each word's begin, or None without --subwords."""
    from tfnlp.text import subword_rows

    if not args.subwords:
        return None
    if not 1 <= args.min_n <= args.max_n:
        raise ValueError(
            f"--min-n {args.min_n} must be at least 1 and at most --max-n {args.max_n}"
        )
    if args.buckets < 1:
        raise ValueError(f"--buckets {args.buckets} must be at least 1")
    rows, splits = subword_rows(words, args.min_n, args.max_n, args.buckets)
    if not len(rows):
        raise ValueError(f"no word has n-grams of --min-n {args.min_n} characters or more")
    return rows, splits


def _write_counts(output, counts):
    import tensorflow as tf

    from tfnlp.files import written_whole

    kept = tf.io.gfile.join(output, COUNTS)
    if not tf.io.gfile.exists(kept):
        with written_whole(kept) as path:
            write_lines(path, counts)


def _loss_scale(args):
    """About the pairs in a batch: rows of a table then get the sum over their pairs."""
    pairs = args.window + 1 if args.architecture == "skipgram" else 1  # of a word
    return float(args.batch_size * args.block * pairs)


def _config(args, corpus, subwords):
    """What a run is: everything that decides which numbers come out."""
    import numpy as np

    from tfnlp import __version__

    arguments, text = {}, {"tokenize": args.tokenize, "lowercase": args.lowercase}
    if subwords is not None:
        arguments.update(buckets=args.buckets, most_subwords=int(np.diff(subwords[1]).max()))
        text.update(min_n=args.min_n, max_n=args.max_n)
    return {
        "tfnlp": __version__,
        "model": "word2vec",
        "arguments": {
            "vocab_size": len(corpus.words),
            "hidden_size": args.dimension,
            "architecture": args.architecture,
            "window": args.window,
            "negatives": args.negatives,
            "samples": args.samples,
            "block": args.block,
            **arguments,
        },
        "text": text,
        "training": {"sample": args.sample, **training_settings(args)},
        "corpus": {"words": corpus.num_words, "crc32": zlib.crc32(corpus.ids.tobytes())},
    }
