"""Pretrain a model on raw text."""

import os
import sys
import zlib

from tfnlp.commands.arguments import add_corpus

SIZES = ("tiny", "mini", "small", "medium", "base", "large")


def add_arguments(parser):
    """Arguments of `tfnlp pretrain bert`."""
    models = parser.add_subparsers(dest="kind", required=True, metavar="MODEL")
    bert = models.add_parser("bert", help="masked LM and next sentence", description=__doc__)
    add_corpus(bert)
    bert.add_argument("--output", required=True, metavar="DIR", help="the run's folder")
    bert.add_argument("--valid", nargs="+", metavar="FILE", help="held-out text; else see below")
    bert.add_argument(
        "--held-out", type=float, default=0.05, help="share of --input held out without --valid"
    )
    bert.add_argument("--vocab", metavar="FILE", help="vocabulary; built from --input if absent")
    bert.add_argument("--vocab-size", type=int, default=8000, help="size if it is built")
    bert.add_argument("--cased", action="store_true", help="keep case and accents")
    bert.add_argument("--size", choices=SIZES, default="tiny", help="published size")
    for name, text in (
        ("num-layers", "Transformer blocks"),
        ("hidden-size", "width"),
        ("num-heads", "attention heads"),
        ("intermediate-size", "width of the feed-forward nets"),
        ("max-positions", "longest sequence that the model can ever read"),
    ):
        bert.add_argument(f"--{name}", type=int, help=f"{text}, instead of the size's")
    bert.add_argument("--dropout", type=float, default=0.1, help="dropout rate")
    bert.add_argument(
        "--initializer-range",
        type=float,
        default=0.02,
        help="standard deviation of the initial weights; small models learn faster from 0.06",
    )
    bert.add_argument("--seq-length", type=int, default=128, help="tokens a training sequence")
    bert.add_argument("--max-predictions", type=int, help="masks a sequence (default 15 %%)")
    bert.add_argument("--whole-word", action="store_true", help="mask whole words")
    bert.add_argument("--batch-size", type=int, default=32, help="sequences an update")
    bert.add_argument("--accumulation", type=int, default=1, help="micro-batches an update")
    bert.add_argument("--steps", type=int, default=10000, help="updates")
    bert.add_argument("--learning-rate", type=float, default=5e-4, help="peak learning rate")
    bert.add_argument("--warmup", type=float, default=0.1, help="share of the steps")
    bert.add_argument(
        "--schedule",
        choices=["linear", "cosine", "inverse_sqrt", "constant"],
        default="linear",
        help="what the learning rate does after the warm-up",
    )
    bert.add_argument("--optimizer", choices=["adamw", "lamb", "adagrad"], default="adamw")
    bert.add_argument("--weight-decay", type=float, default=0.01)
    bert.add_argument("--clip-norm", type=float, default=1.0, help="0 for no clipping")
    bert.add_argument("--bf16", action="store_true", help="matrix products in bfloat16")
    bert.add_argument("--jit", action="store_true", help="compile the step with XLA")
    bert.add_argument("--steps-per-call", type=int, default=10)
    bert.add_argument("--strategy", choices=["auto", "cpu", "gpu", "mirrored"], default="auto")
    bert.add_argument("--evaluate-every", type=int, help="steps (default: ten times a run)")
    bert.add_argument("--evaluate-batches", type=int, default=50, help="held-out batches")
    bert.add_argument("--checkpoint-every", type=int, help="steps (default: each evaluation)")
    bert.add_argument("--keep", type=int, default=3, help="checkpoints to keep")
    bert.add_argument("--patience", type=int, help="evaluations without progress before stopping")
    bert.add_argument("--seed", type=int, default=0)
    bert.add_argument("--restart", action="store_true", help="delete an earlier run there first")


def run(args):
    """Text to a run's folder; the same command again resumes a run that was stopped."""
    import keras

    from tfnlp import models, training
    from tfnlp.commands.pictures import plot_history
    from tfnlp.data import BertPairs, TokenizedCorpus
    from tfnlp.tasks import BertPretraining
    from tfnlp.training.run import delete_run, write_config

    sizes = _sizes(args)
    predictions = args.max_predictions or max(1, -(-args.seq_length * 15 // 100))
    if args.restart:
        delete_run(args.output)
    train_documents, valid_documents = _documents(args)
    tokenizer = _tokenizer(args, train_documents)
    train = TokenizedCorpus.build(train_documents, tokenizer)
    valid = TokenizedCorpus.build(valid_documents, tokenizer)
    config = _config(args, sizes, tokenizer, predictions, train)
    write_config(args.output, config)

    def pairs(corpus, seed):
        return BertPairs(
            corpus,
            tokenizer,
            batch_size=args.batch_size,
            seq_length=args.seq_length,
            max_predictions=predictions,
            seed=seed,
            whole_word=args.whole_word,
        )

    keras.utils.set_random_seed(args.seed)
    strategy = training.make_strategy(args.strategy)
    with strategy.scope():
        dtype = "mixed_bfloat16" if args.bf16 else None
        encoder = models.bert(**config["arguments"], dtype=dtype)
        pretrainer = models.bert_pretrainer(encoder, **config["heads"])
    print(
        f"BERT with {pretrainer.count_params() / 1e6:.2f} M parameters on "
        f"{len(train.tokens):,} tokens of {len(train.document_starts) - 1:,} documents; "
        f"held out: {len(valid.tokens):,} tokens"
    )
    trainer = training.Trainer(
        BertPretraining(pretrainer),
        training.optimizer(args.optimizer, args.weight_decay),
        training.schedule(
            args.schedule, args.learning_rate, args.steps, int(args.warmup * args.steps)
        ),
        strategy=strategy,
        clip_norm=args.clip_norm or None,
        accumulation=args.accumulation,
        steps_per_call=args.steps_per_call,
        jit_compile=args.jit,
        seed=args.seed,
        directory=args.output,
        keep=args.keep,
    )
    held_out = list(pairs(valid, args.seed + 1).evaluation_batches(args.evaluate_batches))
    history = trainer.fit(
        pairs(train, args.seed),
        args.steps,
        validation=held_out,
        evaluate_every=args.evaluate_every,
        checkpoint_every=args.checkpoint_every,
        patience=args.patience,
    )
    curve = plot_history(history, os.path.join(args.output, "curve.png"))
    last = history.validation[-1]
    print(
        f"held out after {last['step']} steps: masked-LM accuracy "
        f"{last['masked_lm_accuracy']:.3f} (always guessing the commonest token: "
        f"{_unigram_accuracy(train, held_out):.3f}), next-sentence accuracy "
        f"{last['next_sentence_accuracy']:.3f} (chance: 0.500)"
    )
    print(f"training curve: {curve}")
    print(f"run: {args.output}")


def _sizes(args):
    """The published size with what the command line changed; checked before any work is done."""
    from tfnlp import models

    sizes = dict(getattr(models, f"BERT_{args.size.upper()}"))
    for name in ("num_layers", "hidden_size", "num_heads", "intermediate_size"):
        if getattr(args, name) is not None:
            sizes[name] = getattr(args, name)
    if args.hidden_size and not args.intermediate_size:
        sizes["intermediate_size"] = 4 * args.hidden_size
    sizes["max_positions"] = args.max_positions or max(512, args.seq_length)
    if args.seq_length > sizes["max_positions"]:
        raise ValueError(
            f"--seq-length {args.seq_length} is longer than --max-positions "
            f"{sizes['max_positions']}; shorten the sequences or raise --max-positions"
        )
    if sizes["hidden_size"] % sizes["num_heads"]:
        raise ValueError(
            f"--hidden-size {sizes['hidden_size']} is not a multiple of --num-heads "
            f"{sizes['num_heads']}"
        )
    if not 0 <= args.warmup <= 1:
        raise ValueError(f"--warmup {args.warmup} must lie between 0 and 1")
    return sizes


def _documents(args):
    """Training and held-out documents, lists of lists of sentences."""
    from tfnlp.data import read_documents, split_documents

    documents = list(read_documents(args.input, args.layout))
    if args.valid:
        return documents, list(read_documents(args.valid, args.layout))
    return split_documents(documents, args.held_out, args.seed)


def _tokenizer(args, documents):
    """The tokenizer, from --vocab, from an earlier start of this run, or from the documents."""
    from tfnlp.text import WordPieceTokenizer, read_vocabulary, train_wordpiece, write_vocabulary

    kept = os.path.join(args.output, "vocab.txt")
    if args.vocab:
        tokens = read_vocabulary(args.vocab)
    elif os.path.exists(kept):
        tokens = read_vocabulary(kept)
    else:
        print(f"building a vocabulary of {args.vocab_size} tokens", file=sys.stderr)
        tokens = train_wordpiece(
            (s for d in documents for s in d), args.vocab_size, lowercase=not args.cased
        )
    os.makedirs(args.output, exist_ok=True)
    if not os.path.exists(kept):
        write_vocabulary(kept, tokens)
    elif read_vocabulary(kept) != tokens:
        raise ValueError(
            f"{args.output} holds a run with another vocabulary than {args.vocab}; give the same "
            "one to resume it, or another --output to start a new one"
        )
    return WordPieceTokenizer(kept, lowercase=not args.cased)


def _config(args, sizes, tokenizer, predictions, corpus):
    """What a run is: everything that decides which numbers come out."""
    from tfnlp import __version__

    return {
        "tfnlp": __version__,
        "model": "bert",
        "arguments": {
            "vocab_size": tokenizer.vocab_size,
            **sizes,
            "dropout": args.dropout,
            "attention_dropout": args.dropout,
            "initializer_range": args.initializer_range,
        },
        "heads": {
            "masked_lm": True,
            "next_sentence": True,
            "initializer_range": args.initializer_range,
        },
        "text": {"lowercase": not args.cased},
        "training": {
            "seq_length": args.seq_length,
            "max_predictions": predictions,
            "whole_word": args.whole_word,
            "batch_size": args.batch_size,
            "accumulation": args.accumulation,
            "steps": args.steps,
            "learning_rate": args.learning_rate,
            "warmup": args.warmup,
            "schedule": args.schedule,
            "optimizer": args.optimizer,
            "weight_decay": args.weight_decay,
            "clip_norm": args.clip_norm,
            "bf16": args.bf16,
            "seed": args.seed,
        },
        "corpus": {"tokens": len(corpus.tokens), "crc32": zlib.crc32(corpus.tokens.tobytes())},
    }


def _unigram_accuracy(corpus, batches):
    """Accuracy of always guessing the training text's commonest token at the masked places."""
    import numpy as np

    commonest = np.bincount(corpus.tokens).argmax()
    right = sum(
        float(((b["masked_lm_ids"].numpy() == commonest) * b["masked_lm_weights"].numpy()).sum())
        for b in batches
    )
    return right / max(1.0, sum(float(b["masked_lm_weights"].numpy().sum()) for b in batches))
