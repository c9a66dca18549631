"""Make training examples of big corpora: raw text to shards, by an Apache Beam pipeline."""

import functools
import logging
import os
import shlex
import sys
import zlib

from tfnlp.commands.arguments import HelpFormatter, add_corpus
from tfnlp.commands.gpt_text import VOCABULARY as GPT_VOCABULARY
from tfnlp.commands.gpt_text import newline_id
from tfnlp.commands.gpt_text import write_vocabulary as write_bpe
from tfnlp.commands.pretraining import VOCABULARY

CHUNK = 1 << 22  # characters of text that are tokenized at once


def add_arguments(parser):
    """Arguments of `tfnlp examples`."""
    models = parser.add_subparsers(dest="model", required=True, metavar="MODEL")
    for name, summary, length in (
        ("bert", "sentence pairs; masks are drawn when they are read", "tokens a pair"),
        ("gpt", "windows of text", "tokens a window"),
    ):
        model = models.add_parser(
            name, help=summary, description=summary, formatter_class=HelpFormatter
        )
        add_corpus(model)
        model.add_argument("--output", required=True, metavar="DIR", help="folder of the examples")
        model.add_argument("--valid", nargs="+", metavar="FILE", help="held-out text")
        model.add_argument(
            "--held-out",
            type=float,
            default=0.05,
            help="without --valid: share of --input held out; training keeps it in memory",
        )
        model.add_argument(
            "--vocab",
            metavar="FILE",
            help="vocabulary (GPT: its folder); built from --input if absent, by one process",
        )
        model.add_argument("--vocab-size", type=int, default=8000, help="size if it is built")
        if name == "bert":
            model.add_argument("--cased", action="store_true", help="keep case and accents")
            model.add_argument(
                "--short-seq-prob", type=float, default=0.1, help="share of shorter pairs"
            )
        else:
            model.add_argument(
                "--bpe",
                choices=["gpt2", "gpt"],
                default="gpt2",
                help="if it is built: of bytes, losing nothing (gpt2), or of lower-cased words",
            )
        model.add_argument("--seq-length", type=int, default=128, help=length)
        model.add_argument("--seed", type=int, default=0, help="of the examples; training uses it")
        model.add_argument(
            "--epochs", type=int, default=4, help="times through the text, each drawn afresh"
        )
        model.add_argument(
            "--shards", type=int, help="files an epoch (default: one for 16 M tokens of text)"
        )
        model.add_argument(
            "--workers", type=int, default=1, help="processes of the DirectRunner"
        )
        model.add_argument("--runner", default="DirectRunner", help="Beam's runner")
        model.add_argument(
            "--pipeline-options",
            default="",
            metavar='="--OPTION=VALUE ..."',
            help="options for Beam and its runner",
        )


def run(args):
    """Text to a folder of examples; the same command again goes on where it was stopped."""
    logging.disable(logging.WARNING)  # Beam tells what it lacks for clouds that nobody asked for
    try:
        from tfnlp.data.shards.runner import Runner
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("apache_beam"):
            raise
        raise ImportError(
            "tfnlp examples needs Apache Beam: pip install -e '.[beam]' in a clone of tfnlp"
        ) from error
    from tfnlp.data.shards.examples import make_examples, start_examples

    _check(args)
    runner = Runner(args.runner, args.workers, shlex.split(args.pipeline_options))
    # Workers tokenize on the CPU; none of them is to take a GPU's memory.
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    settings, recipe, write = (_bert if args.model == "bert" else _gpt)(args)
    start_examples(args.output, settings)
    write(args.output)
    manifest = make_examples(args.output, settings, recipe, runner)
    _report(args.output, manifest)


def _check(args):
    for name in ("epochs", "shards", "workers"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise ValueError(f"--{name} {value} must be at least 1")
    if args.workers > 1 and args.runner != "DirectRunner":
        raise ValueError(
            f"--workers are the DirectRunner's; give {args.runner} its own with --pipeline-options"
        )


def _settings(args, vocabulary, **more):
    """Everything that decides which examples come out."""
    from tfnlp import __version__

    return {
        "tfnlp": __version__,
        "model": args.model,
        "input": _files(args.input, args.layout),
        "valid": _files(args.valid, args.layout) if args.valid else None,
        "layout": args.layout,
        "held_out": None if args.valid else args.held_out,
        "vocabulary": zlib.crc32(repr(vocabulary).encode()),
        "vocab_size": None if args.vocab else args.vocab_size,
        "seq_length": args.seq_length,
        "seed": args.seed,
        "epochs": args.epochs,
        "shards": args.shards,
        "chunk": CHUNK,
        **more,
    }


def _files(sources, layout):
    """The files and data sets that sources name, with their sizes."""
    from tfnlp.data.corpus.documents import document_readers

    names = [reader.args[0] for reader in document_readers(sources, layout)]
    return [
        [name, None] if name.startswith("tfds:") else [os.path.abspath(name), os.path.getsize(name)]
        for name in names
    ]


def _bert(args):
    """Settings, the recipe, and a function that writes the vocabulary to a folder."""
    from tfnlp.data.pretraining.bert_packing import check_pairs
    from tfnlp.data.shards.examples import BertRecipe
    from tfnlp.text import WordPieceTokenizer, read_vocabulary, train_wordpiece, write_vocabulary

    check_pairs(args.seq_length, args.seed)

    def make():
        sentences = (s for d in _training_documents(args, False) for s in d)
        return train_wordpiece(sentences, args.vocab_size, lowercase=not args.cased)

    tokens = _vocabulary(args, VOCABULARY, read_vocabulary, make)
    WordPieceTokenizer(tokens)  # tells what is wrong with it before any work is done
    settings = _settings(
        args, tokens, lowercase=not args.cased, short_seq_prob=args.short_seq_prob
    )
    recipe = BertRecipe(tokens, not args.cased)
    write = functools.partial(write_vocabulary, tokens=tokens)
    return settings, recipe, functools.partial(_write, name=VOCABULARY, write=write)


def _gpt(args):
    """As `_bert`."""
    from tfnlp.data.pretraining.token_stream import check_windows
    from tfnlp.data.shards.examples import GPTRecipe
    from tfnlp.text import gpt_tokenizer, read_bpe, train_bpe

    check_windows(args.seq_length, args.seed)

    def make():
        texts = ("\n".join(document) + "\n" for document in _training_documents(args, True))
        return train_bpe(texts, args.vocab_size, args.bpe)

    pair = _vocabulary(args, GPT_VOCABULARY, read_bpe, make)
    tokenizer = gpt_tokenizer(pair)
    recipe = GPTRecipe(*pair, newline_id(tokenizer), int(tokenizer.end_id))
    bpe = None if args.vocab else args.bpe
    write = functools.partial(write_bpe, pair=pair)
    write = functools.partial(_write, name=GPT_VOCABULARY, write=write)
    return _settings(args, pair, bpe=bpe), recipe, write


def _vocabulary(args, name, read, make):
    """The tokens of --vocab, of an earlier start, or those that `make()` returns."""
    import tensorflow as tf

    from tfnlp.files import local_copy

    kept = tf.io.gfile.join(args.output, name)
    if args.vocab:
        return read(args.vocab)
    if tf.io.gfile.exists(kept):
        with local_copy(kept) as path:
            return read(path)
    print(f"building a vocabulary of {args.vocab_size} tokens", file=sys.stderr)
    return make()


def _training_documents(args, paragraphs):
    """The documents that are not held out, one by one: the text is read twice."""
    from tfnlp.data import read_documents
    from tfnlp.data.corpus.documents import held_out_documents

    if args.valid:
        yield from read_documents(args.input, args.layout, paragraphs)
        return
    sizes = [len(document) for document in read_documents(args.input, args.layout, paragraphs)]
    held, cut = held_out_documents(sizes, args.held_out, args.seed)
    for number, document in enumerate(read_documents(args.input, args.layout, paragraphs)):
        if number not in held:
            yield document[:cut]


def _write(folder, name, write):
    """Writes the vocabulary with `write(path)`, unless an earlier start did."""
    import tensorflow as tf

    from tfnlp.files import written_whole

    kept = tf.io.gfile.join(folder, name)
    if not tf.io.gfile.exists(kept):
        with written_whole(kept) as path:
            write(path)


def _report(output, manifest):
    """Counts, in a table of shards and a line for each part."""
    print(f"{'shard':32s}{'epoch':>6s}{'examples':>12s}{'MB':>9s}")
    for shard in manifest["shards"]:
        print(
            f"{shard['file']:32s}{shard['epoch']:6d}{shard['examples']:12,}"
            f"{shard['bytes'] / 1e6:9.1f}"
        )
    for part, name in (("train", "to train on"), ("held_out", "held out")):
        counts = manifest["counts"][part]
        line = ", ".join(
            f"{counts[what]:,} {what}" for what in ("documents", "sentences", "words", "tokens")
        )
        print(f"{name}: {line}")
    counts = manifest["counts"]["train"]
    line = f"{counts['examples']:,} examples in {len(manifest['shards'])} shards"
    if "random" in counts:
        line += f": {counts['real']:,} real pairs, {counts['random']:,} random ones"
    print(line)
    print(f"examples: {output}")
