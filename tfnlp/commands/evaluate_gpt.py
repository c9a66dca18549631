"""Perplexity of a GPT on a text, per token and per word."""

import json

from tfnlp.commands import gpt_text


def summary(results):
    """The perplexities of an evaluation in a line."""
    return (
        f"perplexity {results['perplexity']:.2f} a token, {results['word_perplexity']:.2f} a word"
    )


def run(args, batch_size=16, seq_length=None, stride=None):
    """Prints the perplexities of a model over all of --input.

    Args:
        args: of `tfnlp evaluate`.
        batch_size: windows at a time.
        seq_length: tokens a window; None: as in training, or what the model can read.
        stride: tokens from one window to the next; None: half a window.
    """
    from tfnlp import training
    from tfnlp.commands.loading import load_gpt
    from tfnlp.data import TokenWindows, read_documents
    from tfnlp.tasks import GPTPretraining

    loaded = load_gpt(args.model)
    positions = loaded.config["max_positions"]
    window = seq_length or loaded.seq_length or positions
    if not 1 <= window <= positions:
        raise ValueError(f"--seq-length {window} must be from 1 to the model's {positions}")
    text = gpt_text.read(read_documents(args.input, args.layout, True), loaded.tokenizer)
    window = min(window, text.tokens)
    windows = TokenWindows(text.stream, batch_size=batch_size, window=window)
    task = GPTPretraining(loaded.pretrainer, text.tokens_per_word)
    batches = windows.evaluation_batches(stride=stride or -(-window // 2))
    results = training.Trainer(task, training.AdamW(), 0.0).evaluate(batches)
    counts = {"lines": text.lines, "words": text.words, "tokens": text.tokens}
    if args.json:
        print(json.dumps({**results, **counts}))
    else:
        print(
            f"{counts['tokens']:,} tokens: {counts['words']:,} words and the ends of "
            f"{counts['lines']:,} lines\n{summary(results)}"
        )
