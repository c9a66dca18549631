"""Pretrain a BERT: masked LM and next sentence."""

import os
import sys
import zlib

from tfnlp.commands.pretraining import (
    add_run,
    add_training,
    add_transformer,
    check_training,
    documents,
    make_trainer,
    start_run,
    training_settings,
    vocabulary,
)

SIZES = ("tiny", "mini", "small", "medium", "base", "large")


def add_arguments(bert):
    """Arguments of `tfnlp pretrain bert`."""
    add_run(bert)
    bert.add_argument("--vocab-size", type=int, default=8000, help="size if it is built")
    bert.add_argument("--cased", action="store_true", help="keep case and accents")
    bert.add_argument("--size", choices=SIZES, default="tiny", help="published size")
    add_transformer(bert)
    bert.add_argument(
        "--initializer-range",
        type=float,
        default=0.02,
        help="standard deviation of the initial weights; small models learn faster from 0.06",
    )
    bert.add_argument("--seq-length", type=int, default=128, help="tokens a training sequence")
    bert.add_argument("--max-predictions", type=int, help="masks a sequence (default 15 %%)")
    bert.add_argument("--whole-word", action="store_true", help="mask whole words")
    bert.add_argument("--steps", type=int, default=10000, help="updates")
    add_training(
        bert,
        batch_size=32,
        learning_rate=5e-4,
        warmup=0.1,
        schedule="linear",
        optimizer="adamw",
        weight_decay=0.01,
        clip_norm=1.0,
    )


def run(args):
    """Text to a run's folder; the same command again resumes a run that was stopped."""
    import keras

    from tfnlp import models, training
    from tfnlp.commands.pictures import plot_history
    from tfnlp.data import BertPairs, TokenizedCorpus
    from tfnlp.tasks import BertPretraining
    from tfnlp.text import WordPieceTokenizer, read_vocabulary, write_vocabulary

    strategy = training.make_strategy(args.strategy)
    check_training(args, strategy)
    sizes = _sizes(args)
    predictions = args.max_predictions or max(1, -(-args.seq_length * 15 // 100))
    train_documents, valid_documents = documents(args)
    tokens = _vocabulary(args, train_documents)
    tokenizer = WordPieceTokenizer(tokens, lowercase=not args.cased)
    train = TokenizedCorpus.build(train_documents, tokenizer)
    valid = TokenizedCorpus.build(valid_documents, tokenizer)
    config = _config(args, sizes, tokenizer, predictions, train)

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

    training_pairs = pairs(train, args.seed)
    held_out = list(pairs(valid, args.seed + 1).evaluation_batches(args.evaluate_batches))
    start_run(args, config, tokens, read_vocabulary, write_vocabulary)

    keras.utils.set_random_seed(args.seed)
    with strategy.scope():
        dtype = "mixed_bfloat16" if args.bf16 else None
        encoder = models.bert(**config["arguments"], dtype=dtype)
        pretrainer = models.bert_pretrainer(encoder, **config["heads"])
    print(
        f"BERT with {pretrainer.count_params() / 1e6:.2f} M parameters on "
        f"{len(train.tokens):,} tokens of {len(train.document_starts) - 1:,} documents; "
        f"held out: {len(valid.tokens):,} tokens"
    )
    trainer = make_trainer(args, BertPretraining(pretrainer), strategy)
    history = trainer.fit(
        training_pairs,
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
    return sizes


def _vocabulary(args, documents):
    """The tokens, from --vocab, from an earlier start of this run, or from the documents."""
    from tfnlp.text import read_vocabulary, train_wordpiece

    def make():
        print(f"building a vocabulary of {args.vocab_size} tokens", file=sys.stderr)
        sentences = (s for d in documents for s in d)
        return train_wordpiece(sentences, args.vocab_size, lowercase=not args.cased)

    return vocabulary(args, make, read_vocabulary)


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
            **training_settings(args),
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
