"""Pretrain a BERT: masked LM and next sentence."""

import os
import sys
import zlib

from tfnlp.commands import devices
from tfnlp.commands.example_batches import BertText, add_examples, open_bert, readable, settle
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

SIZES = ("tiny", "mini", "small", "medium", "base", "large")
_MOSTLY_RANDOM = 0.75  # share of random pairs; where there are next sentences it is a half


def add_arguments(bert):
    """Arguments of `tfnlp pretrain bert`."""
    add_run(bert, input_required=False)
    bert.add_argument("--vocab-size", type=int, default=8000, help="size if it is built")
    bert.add_argument("--cased", action="store_true", help="keep case and accents")
    bert.add_argument(
        "--from",
        dest="start",
        metavar="DIR",
        help="go on from this run or checkpoint, with its sizes and its vocabulary",
    )
    bert.add_argument("--size", choices=SIZES, default="tiny", help="published size")
    add_transformer(bert)
    bert.add_argument(
        "--initializer-range",
        type=float,
        default=0.02,
        help="standard deviation of the initial weights; small models learn faster from 0.06",
    )
    bert.add_argument("--seq-length", type=int, default=128, help="tokens a training sequence")
    add_masking(bert)
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
    add_examples(bert)


def add_masking(parser):
    """What is masked of a sequence."""
    parser.add_argument("--max-predictions", type=int, help="masks a sequence (default 15 %%)")
    parser.add_argument("--whole-word", action="store_true", help="mask whole words")


def run(args):
    """Text to a run's folder; the same command again resumes a run that was stopped."""
    settle(args, "bert")
    with devices.strategy(args) as strategy, readable(args, "bert"):
        train(args, start(args), strategy)


def train(args, before, strategy):
    """What `run` does.

    Args:
        args: see `add_arguments`; `steps` may be None, then there are `epochs`.
        before: the `LoadedBert` to go on from, or None.
        strategy: from `devices.strategy`.
    """
    import keras

    from tfnlp import models, training
    from tfnlp.data import masked_positions
    from tfnlp.tasks import BertPretraining
    from tfnlp.text import read_vocabulary, write_vocabulary

    check_training(args, strategy)
    sizes = _sizes(args, before)
    predictions = args.max_predictions or masked_positions(args.seq_length)
    read = open_bert if args.examples else _read
    text = read(args, before, predictions)
    if args.steps is None:
        args.steps = max(1, round(args.epochs * text.batches.steps_per_epoch))
    heads = _heads(args, before, text.batches)
    config = _config(args, sizes, heads, text.tokenizer, predictions, text.corpus)
    chief = training.Workers(strategy).chief
    start_run(args, config, text.tokens, read_vocabulary, write_vocabulary, chief=chief)

    keras.utils.set_random_seed(args.seed)
    with strategy.scope():
        dtype = "mixed_bfloat16" if args.bf16 else None
        encoder = models.bert(**config["arguments"], dtype=dtype)
        pretrainer = models.bert_pretrainer(encoder, **config["heads"])
        if before is not None:
            _copy_weights(before, encoder, pretrainer)
    print(
        f"BERT with {pretrainer.count_params() / 1e6:.2f} M parameters on "
        f"{text.size:,} tokens of {text.documents:,} documents; "
        f"held out: {text.held_out_size:,} tokens"
    )
    trainer = make_trainer(args, BertPretraining(pretrainer), strategy)
    commonest = _unigram_accuracy(text.commonest, text.held_out)
    if before is not None and not trainer.restore():
        _show("before", trainer.evaluate(text.held_out), commonest)
    curve = fit(args, trainer, text.batches, text.held_out)
    history = trainer.history
    shown = history.validation[-1]
    if before is not None:  # what other commands will read
        best = history.best_step("loss")
        shown = next(row for row in history.validation if row["step"] == best)
    _show(f"after {shown['step']} steps", shown, commonest)
    print(f"training curve: {curve}")
    print(f"run: {args.output}")


def _read(args, before, predictions):
    """The `BertText` of --input."""
    import numpy as np

    from tfnlp.data import BertPairs, TokenizedCorpus
    from tfnlp.text import WordPieceTokenizer

    train_documents, valid_documents = documents(args)
    if before is None:
        tokens = _vocabulary(args, train_documents)
        tokenizer = WordPieceTokenizer(tokens, lowercase=not args.cased)
    else:
        tokenizer = before.tokenizer
        tokens = tokenizer.vocabulary
    train = TokenizedCorpus.build(train_documents, tokenizer)
    valid = TokenizedCorpus.build(valid_documents, tokenizer)

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

    held_out = pairs(valid, args.seed + 1).evaluation_batches(args.evaluate_batches)
    return BertText(
        tokens=tokens,
        tokenizer=tokenizer,
        batches=pairs(train, args.seed),
        held_out=list(held_out),
        corpus={"tokens": train.num_tokens, "crc32": zlib.crc32(train.tokens.tobytes())},
        size=train.num_tokens,
        documents=train.num_documents,
        held_out_size=valid.num_tokens,
        commonest=np.bincount(train.tokens).argmax(),
    )


def _show(when, results, commonest):
    """One line of held-out accuracies."""
    line = (
        f"held out {when}: masked-LM accuracy {results['masked_lm_accuracy']:.3f} (always guessing "
        f"the commonest token: {commonest:.3f})"
    )
    if "next_sentence_accuracy" in results:
        line += f", next-sentence accuracy {results['next_sentence_accuracy']:.3f} (chance: 0.500)"
    print(line, flush=True)


def start(args):
    """The `LoadedBert` that --from names, or None.

    Raises:
        ValueError: if it can't be gone on from, or --from is given beside what it decides.
    """
    from tfnlp.commands.loading import kind_of, load_bert

    if args.start is None:
        return None
    if os.path.realpath(args.start) == os.path.realpath(args.output):
        raise ValueError(
            f"--output {args.output} is the model that training starts from; give a new folder"
        )
    for name in ("num_layers", "hidden_size", "num_heads", "intermediate_size", "max_positions"):
        if getattr(args, name) is not None:
            raise ValueError(f"--{name.replace('_', '-')} can't be changed with --from")
    for name in ("vocab", "cased"):
        if getattr(args, name):
            raise ValueError(f"--{name} can't be given with --from, which has a vocabulary")
    kind = kind_of(args.start)
    if kind != "bert":
        others = {"elmo": "an ELMo", "gpt": "a GPT", "task": "a fine-tuned model"}
        what = others.get(kind, f"of the kind {kind}")
        raise ValueError(f"{args.start} is {what}; only a BERT fills masked words")
    before = load_bert(args.start)
    if before.pretrainer is None or "mlm_logits" not in before.pretrainer.output:
        raise ValueError(f"{args.start} has no masked-LM head to go on with; give one that has")
    return before


def _copy_weights(before, encoder, pretrainer):
    encoder.set_weights(before.encoder.get_weights())
    for name in ("masked_lm_head", "masked_lm_bias", "next_sentence_head"):
        if name in {layer.name for layer in pretrainer.layers}:
            weights = before.pretrainer.get_layer(name).get_weights()
            pretrainer.get_layer(name).set_weights(weights)


def _heads(args, before, pairs):
    """Arguments of `bert_pretrainer`.

    A next-sentence head is gone on with only where there are next sentences: a text of one line a
    document makes random pairs alone, from which it would learn to say so of all.
    """
    if before is None:
        return {
            "masked_lm": True,
            "next_sentence": True,
            "initializer_range": args.initializer_range,
        }
    head = before.pretrainer.get_layer("masked_lm_head")
    next_sentence = "next_sentence_logits" in before.pretrainer.output
    if next_sentence and pairs.random_share > _MOSTLY_RANDOM:
        next_sentence = False
        print("next sentences are left out: documents of one sentence have none", file=sys.stderr)
    return {
        "activation": head.activation,
        "norm_epsilon": head.norm_epsilon,
        "masked_lm": True,
        "next_sentence": next_sentence,
        "initializer_range": before.encoder.get_layer("token_embedding").initializer.stddev,
    }


def _sizes(args, before):
    """Arguments of `bert`: the published size with what the command line changed, or those of the
    model gone on from; checked before any work is done."""
    from tfnlp import models
    from tfnlp.convert.bert.config import config_of

    rates = {"dropout": args.dropout, "attention_dropout": args.dropout}
    if before is not None:
        sizes = {**config_of(before.encoder), **rates}
        if args.seq_length > sizes["max_positions"]:
            raise ValueError(
                f"--seq-length {args.seq_length} is longer than the model's "
                f"{sizes['max_positions']} positions; shorten the sequences"
            )
        return sizes
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
    return {**sizes, **rates, "initializer_range": args.initializer_range}


def _vocabulary(args, documents):
    """The tokens, from --vocab, from an earlier start of this run, or from the documents."""
    from tfnlp.text import read_vocabulary, train_wordpiece

    def make():
        print(f"building a vocabulary of {args.vocab_size} tokens", file=sys.stderr)
        sentences = (s for d in documents for s in d)
        return train_wordpiece(sentences, args.vocab_size, lowercase=not args.cased)

    return vocabulary(args, make, read_vocabulary)


def _config(args, sizes, heads, tokenizer, predictions, corpus):
    """What a run is: everything that decides which numbers come out."""
    from tfnlp import __version__

    return {
        "tfnlp": __version__,
        "model": "bert",
        # The table of a checkpoint may have more rows than there are tokens.
        "arguments": {"vocab_size": tokenizer.vocab_size, **sizes},
        "heads": heads,
        "text": {"lowercase": tokenizer.lowercase},
        "training": {
            "from": args.start,
            "seq_length": args.seq_length,
            "max_predictions": predictions,
            "whole_word": args.whole_word,
            **training_settings(args),
        },
        "corpus": corpus,
    }


def _unigram_accuracy(commonest, batches):
    """Accuracy of always guessing the training text's commonest token at the masked places."""
    right = sum(
        float(((b["masked_lm_ids"].numpy() == commonest) * b["masked_lm_weights"].numpy()).sum())
        for b in batches
    )
    return right / max(1.0, sum(float(b["masked_lm_weights"].numpy().sum()) for b in batches))
