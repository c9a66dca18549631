"""Pretrain a GPT: the next token."""

import sys
import zlib

from tfnlp.commands import devices
from tfnlp.commands.evaluate_gpt import summary
from tfnlp.commands.example_batches import GPTText, add_examples, open_gpt, readable, settle
from tfnlp.commands.gpt_text import VOCABULARY, read, write_vocabulary
from tfnlp.commands.pretraining import (
    add_run,
    add_training,
    add_transformer,
    check_training,
    documents,
    fit,
    make_trainer,
    start_run,
    training_settings,
    vocabulary,
)

SIZES = ("mini", "gpt", "gpt2-small", "gpt2-medium", "gpt2-large", "gpt2-xl")


def add_arguments(gpt):
    """Arguments of `tfnlp pretrain gpt`."""
    add_run(gpt, input_required=False)
    gpt.add_argument("--vocab-size", type=int, default=8000, help="size if it is built")
    gpt.add_argument(
        "--bpe",
        choices=["gpt2", "gpt"],
        default="gpt2",
        help="if it is built: of bytes, losing nothing (gpt2), or of lower-cased words (gpt)",
    )
    gpt.add_argument(
        "--from",
        dest="start",
        metavar="DIR",
        help="go on from this run or checkpoint, with its sizes and its vocabulary",
    )
    gpt.add_argument(
        "--size",
        choices=SIZES,
        default="mini",
        help="published size, or mini: 4 layers x 256, for a CPU",
    )
    add_transformer(gpt)
    gpt.add_argument(
        "--initializer-range",
        type=float,
        default=0.02,
        help="standard deviation of the initial weights",
    )
    gpt.add_argument("--seq-length", type=int, default=128, help="tokens a training sequence")
    gpt.add_argument("--epochs", type=float, default=10, help="times through the text")
    gpt.add_argument("--steps", type=int, help="updates, instead of --epochs")
    add_training(
        gpt,
        batch_size=32,
        learning_rate=1e-3,
        warmup=0.05,
        schedule="cosine",
        optimizer="adamw",
        weight_decay=0.01,
        clip_norm=1.0,
    )
    add_examples(gpt)


def run(args):
    """Text to a run's folder; the same command again resumes a run that was stopped."""
    settle(args, "gpt")
    with devices.strategy(args) as strategy, readable(args, "gpt"):
        train(args, strategy)


def train(args, strategy):
    """What `run` does, on the devices of `strategy`."""
    import keras

    from tfnlp import models, training
    from tfnlp.data import TokenWindows
    from tfnlp.tasks import GPTPretraining
    from tfnlp.text import read_bpe

    check_training(args, strategy)
    if not args.epochs > 0:
        raise ValueError(f"--epochs {args.epochs} must be above 0")
    before = _start(args)
    sizes = _sizes(args, before)
    text = open_gpt(args, before) if args.examples else _read(args, before)
    windows, valid = text.batches, text.valid
    held_out = TokenWindows(
        valid.stream,
        batch_size=args.batch_size,
        window=min(args.seq_length, valid.tokens),
    )
    args.steps = args.steps or max(1, round(args.epochs * windows.steps_per_epoch))
    config = _config(args, sizes, text.tokenizer, text.corpus)
    chief = training.Workers(strategy).chief
    start_run(args, config, text.pair, read_bpe, write_vocabulary, VOCABULARY, chief)

    keras.utils.set_random_seed(args.seed)
    with strategy.scope():
        dtype = "mixed_bfloat16" if args.bf16 else None
        encoder = models.gpt(**config["arguments"], dtype=dtype)
        pretrainer = models.gpt_pretrainer(encoder)
        if before is not None:
            encoder.set_weights(before.encoder.get_weights())
    task = GPTPretraining(pretrainer, valid.tokens_per_word)
    print(
        f"GPT with {pretrainer.count_params() / 1e6:.2f} M parameters on {text.size:,} tokens "
        f"of {text.documents:,} documents ({text.tokens_per_word:.2f} a word); held out: "
        f"{valid.tokens:,} tokens; {args.steps:,} updates"
    )
    trainer = make_trainer(args, task, strategy)
    stride = -(-held_out.window // 2)
    if before is not None and not trainer.restore():
        _show("before", trainer.evaluate(held_out.evaluation_batches(stride=stride)))
    held_out_part = held_out.evaluation_batches(args.evaluate_batches)
    curve = fit(args, trainer, windows, held_out_part, perplexity=True)
    trainer.restore(best=True)
    results = trainer.evaluate(held_out.evaluation_batches(stride=stride))
    _show(f"after {trainer.step} updates", results)
    print(f"training curve: {curve}")
    print(f"run: {args.output}")


def _read(args, before):
    """The `GPTText` of --input."""
    from tfnlp.data import TokenWindows
    from tfnlp.text import gpt_tokenizer

    train_documents, valid_documents = documents(args, paragraphs=True)
    pair = _vocabulary(args, train_documents, before)
    tokenizer = gpt_tokenizer(pair)
    train, valid = read(train_documents, tokenizer), read(valid_documents, tokenizer)
    windows = TokenWindows(
        train.stream, batch_size=args.batch_size, window=args.seq_length, seed=args.seed
    )
    return GPTText(
        pair=pair,
        tokenizer=tokenizer,
        batches=windows,
        valid=valid,
        corpus={"tokens": train.tokens, "crc32": zlib.crc32(train.stream.tobytes())},
        size=train.tokens,
        documents=train.documents,
        tokens_per_word=train.tokens_per_word,
    )


def _show(when, results):
    print(f"held out, {when}: {summary(results)}", flush=True)


def _start(args):
    """What --from names, or None."""
    from tfnlp.commands.loading import load_gpt

    if args.start is None:
        return None
    for name in ("num_layers", "hidden_size", "num_heads", "intermediate_size", "max_positions"):
        if getattr(args, name) is not None:
            raise ValueError(f"--{name.replace('_', '-')} can't be changed with --from")
    if args.vocab is not None:
        raise ValueError("--vocab can't be given with --from, which has a vocabulary")
    return load_gpt(args.start)


def _sizes(args, before):
    """The sizes of the model, checked before any work is done."""
    from tfnlp import models

    if before is not None:
        sizes = {n: v for n, v in before.config.items() if n not in ("vocab_size", "dtype")}
    else:
        constant = "GPT_MINI" if args.size == "mini" else args.size.upper().replace("-", "_")
        sizes = dict(getattr(models, constant))
        sizes.pop("vocab_size", None)
        for name in ("num_layers", "hidden_size", "num_heads", "intermediate_size"):
            if getattr(args, name) is not None:
                sizes[name] = getattr(args, name)
        if args.hidden_size and not args.intermediate_size:
            sizes["intermediate_size"] = 4 * args.hidden_size
        longest = max(sizes.get("max_positions", 512), args.seq_length)
        sizes["max_positions"] = args.max_positions or longest
        sizes["initializer_range"] = args.initializer_range
    sizes.update(dropout=args.dropout, attention_dropout=args.dropout)
    if args.seq_length > sizes["max_positions"]:
        raise ValueError(
            f"--seq-length {args.seq_length} is longer than the model's {sizes['max_positions']} "
            "positions; shorten the sequences or raise --max-positions"
        )
    if sizes["num_heads"] < 1 or sizes["hidden_size"] % sizes["num_heads"]:
        raise ValueError(
            f"--hidden-size {sizes['hidden_size']} is not a multiple of --num-heads "
            f"{sizes['num_heads']}"
        )
    return sizes


def _vocabulary(args, train_documents, before):
    """Tokens and merges."""
    from tfnlp.text import read_bpe, train_bpe

    if before is not None:
        return before.tokenizer.vocabulary, before.tokenizer.merges

    def make():
        print(f"building a vocabulary of {args.vocab_size} tokens", file=sys.stderr)
        texts = ("\n".join(document) + "\n" for document in train_documents)
        return train_bpe(texts, args.vocab_size, args.bpe)

    return vocabulary(args, make, read_bpe, VOCABULARY)


def _config(args, sizes, tokenizer, corpus):
    """What a run is: everything that decides which numbers come out."""
    from tfnlp import __version__

    return {
        "tfnlp": __version__,
        "model": "gpt",
        "arguments": {"vocab_size": tokenizer.vocab_size, **sizes},
        "training": {
            "from": args.start,
            "seq_length": args.seq_length,
            **training_settings(args),
        },
        "corpus": corpus,
    }
