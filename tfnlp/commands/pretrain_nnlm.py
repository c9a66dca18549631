"""Pretrain an NNLM: the next word from the vectors of the few before it."""

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


def add_arguments(nnlm):
    """Arguments of `tfnlp pretrain nnlm`."""
    add_run(nnlm)
    add_tokenize(nnlm)
    nnlm.add_argument("--max-vocab", type=int, help="words to know, if the vocabulary is built")
    nnlm.add_argument("--min-count", type=int, default=1, help="leave rarer words out of it")
    nnlm.add_argument("--context", type=int, default=4, help="words to predict the next one from")
    nnlm.add_argument("--embedding-size", type=int, default=128, help="width of the word vectors")
    nnlm.add_argument(
        "--hidden-size", type=int, default=256, help="tanh units; 0: none, with --direct"
    )
    nnlm.add_argument(
        "--direct", action="store_true", help="connect the word vectors to the softmax directly"
    )
    nnlm.add_argument("--dropout", type=float, default=0.2, help="dropout rate")
    nnlm.add_argument(
        "--samples", type=int, default=0, help="words in the sampled softmax; 0: all, always"
    )
    nnlm.add_argument("--epochs", type=float, default=5, help="times through the text")
    nnlm.add_argument("--steps", type=int, help="updates, instead of --epochs")
    add_training(
        nnlm,
        batch_size=512,
        learning_rate=1e-3,
        warmup=0.01,
        schedule="linear",
        optimizer="adamw",
        weight_decay=0.0,
        clip_norm=1.0,
    )


def run(args):
    """Text to a run's folder; the same command again resumes a run that was stopped."""
    with devices.strategy(args) as strategy:
        train(args, strategy)


def train(args, strategy):
    """What `run` does, on the devices of `strategy`."""
    import keras

    from tfnlp import training
    from tfnlp.data import LanguageModelCorpus, Ngrams
    from tfnlp.models import nnlm, nnlm_pretrainer
    from tfnlp.tasks import NNLMPretraining
    from tfnlp.text import read_words, write_words

    check_training(args, strategy)
    _check_settings(args)
    train_documents, valid_documents = (tokenized(d, args) for d in documents(args))
    words = _vocabulary(args, train_documents)
    train = LanguageModelCorpus.build(train_documents, words)
    valid = LanguageModelCorpus.build(valid_documents, words)
    del train_documents, valid_documents
    sizes = dict(context=args.context, batch_size=args.batch_size)
    ngrams, held_out = Ngrams(train, **sizes, seed=args.seed), Ngrams(valid, **sizes)
    args.steps = args.steps or max(1, round(args.epochs * ngrams.steps_per_epoch))
    config = _config(args, train)
    chief = training.Workers(strategy).chief
    start_run(args, config, words, read_words, write_words, chief=chief)

    keras.utils.set_random_seed(args.seed)
    with strategy.scope():
        model = nnlm(**config["arguments"], dtype="mixed_bfloat16" if args.bf16 else None)
        task = NNLMPretraining(nnlm_pretrainer(model))
    print(
        f"NNLM with {model.count_params() / 1e6:.2f} M parameters; {train.num_tokens:,} tokens of "
        f"{train.num_sentences:,} sentences, {ngrams.steps_per_epoch:,.1f} updates an epoch; held "
        f"out: {valid.num_tokens:,} tokens"
    )
    trainer = make_trainer(args, task, strategy)
    held_out_part = held_out.evaluation_batches(args.evaluate_batches)
    curve = fit(args, trainer, ngrams, held_out_part, perplexity=True)
    trainer.restore(best=True)
    results = trainer.evaluate(held_out.evaluation_batches())
    print(
        f"held out, full softmax, after {trainer.step} updates: perplexity "
        f"{results['perplexity']:.2f}",
        flush=True,
    )
    print(f"training curve: {curve}")
    print(f"run: {args.output}")


def _check_settings(args):
    """Raises ValueError for what makes no sense, before any work is done."""
    bounds = dict(context=1, embedding_size=1, hidden_size=0 if args.direct else 1, samples=0)
    for name, least in bounds.items():
        if getattr(args, name) < least:
            raise ValueError(
                f"--{name.replace('_', '-')} {getattr(args, name)} must be at least {least}"
            )
    if not args.epochs > 0:
        raise ValueError(f"--epochs {args.epochs} must be above 0")


def _vocabulary(args, documents):
    """The words to know: those of --vocab, or of the text."""
    from tfnlp.text import read_words, train_words

    def make():
        print("counting words", file=sys.stderr)
        return train_words((s for d in documents for s in d), args.max_vocab, args.min_count)

    return vocabulary(args, make, read_words)


def _config(args, corpus):
    """What a run is: everything that decides which numbers come out."""
    from tfnlp import __version__

    return {
        "tfnlp": __version__,
        "model": "nnlm",
        "arguments": {
            "vocab_size": corpus.vocab_size,
            "context": args.context,
            "embedding_size": args.embedding_size,
            "hidden_size": args.hidden_size,
            "direct": args.direct,
            "dropout": args.dropout,
            "num_samples": args.samples or None,
        },
        "text": {"tokenize": args.tokenize},
        "training": training_settings(args),
        "corpus": {"tokens": corpus.num_tokens, "crc32": zlib.crc32(corpus.ids.tobytes())},
    }
