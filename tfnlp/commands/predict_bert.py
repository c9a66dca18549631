"""Fill in [MASK], or tell whether one sentence follows another, with a BERT."""

import sys

from tfnlp.commands.arguments import add_model


def add_arguments(parser):
    """Arguments of `tfnlp predict bert`."""
    add_model(parser)
    parser.add_argument(
        "text", nargs="*", help="sentences with [MASK]; none: a sentence a line from stdin"
    )
    parser.add_argument("--pair", help="second sentence: does it follow the (one) text?")
    parser.add_argument("--top", type=int, default=5, help="guesses a mask")
    parser.add_argument("--attention", metavar="PNG", help="draw the last layer's attention map")


def run(args):
    """Prints guesses with their probabilities."""
    from tfnlp.commands.filling import fill_masks, follows
    from tfnlp.commands.loading import load_bert

    texts = args.text or [line.rstrip("\n") for line in sys.stdin if line.strip()]
    if not texts:
        raise ValueError("no text: give sentences as arguments or on standard input")
    if args.pair is None and not args.attention:
        missing = [t for t in texts if "[MASK]" not in t]
        if missing:
            raise ValueError(f"{missing[0]!r} has no [MASK] to fill; write one, or use --pair")
    loaded = load_bert(args.model)
    if args.pair is not None:
        for text in texts:
            print(f"{follows(loaded, text, args.pair):.3f}  {text} | {args.pair}")
        return
    for text in texts:
        for guesses in fill_masks(loaded, text, args.top):
            shown = "  ".join(f"{token} {probability:.3f}" for token, probability in guesses)
            print(f"{text}\n  {shown}")
    if args.attention:
        _draw(args, loaded, texts[0])


def _draw(args, loaded, text):
    from tfnlp.commands.filling import encode
    from tfnlp.commands.pictures import attention_maps, plot_attention

    inputs, _ = encode(loaded, text)
    last = len(loaded.encoder.output["encoder_outputs"]) - 1
    tokens = [loaded.tokenizer.vocabulary[i] for i in inputs["input_word_ids"][0].numpy()]
    path = plot_attention(
        attention_maps(loaded.encoder, inputs, last), tokens, args.attention, f"layer {last + 1}"
    )
    print(f"attention map: {path}")
