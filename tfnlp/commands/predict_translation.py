"""Translate sentences, and show what the model looked at for each word."""

import sys

from tfnlp.commands.arguments import add_model


def add_arguments(parser):
    """Arguments of `tfnlp predict translation`."""
    add_model(parser)
    parser.add_argument(
        "sentence", nargs="*", help="sentences to translate; none: one a line from stdin"
    )
    add_search(parser)
    parser.add_argument(
        "--attention", metavar="PNG", help="draw the attention of the first sentence there"
    )


def add_search(parser):
    """How translations are searched for."""
    parser.add_argument("--beams", type=int, default=4, help="hypotheses kept at a time")
    parser.add_argument(
        "--length-penalty", type=float, default=0.6, help="above 0 it favours long translations"
    )


def run(args):
    """Prints a translation a line."""
    from tfnlp.commands.loading import load_translation
    from tfnlp.hub import Translator

    sentences = args.sentence or [line.strip() for line in sys.stdin]
    if not any(sentences):
        raise ValueError("no text: give sentences as arguments or on standard input")
    loaded = load_translation(args.model)
    translator = Translator(loaded.decoder, loaded.tokenizer, args.beams, args.length_penalty)
    translations = translator(sentences)
    print("\n".join(translations))
    if args.attention:
        _draw(loaded, sentences[0], translations[0], args.attention)
        print(f"attention: {args.attention}", file=sys.stderr)


def _draw(loaded, sentence, translation, path):
    import numpy as np

    from tfnlp.commands.pictures import plot_attention

    if "attention" not in loaded.model.output:
        raise ValueError("a model without attention has none to draw; leave --attention away")
    tokenizer = loaded.tokenizer
    source, target = (
        list(tokenizer.tokenize([text])[0].numpy()) for text in (sentence, translation)
    )
    end = tokenizer.end_id
    ids = np.array([[*source, end]], np.int32)
    outputs = loaded.model(
        {
            "input_word_ids": ids,
            "input_mask": np.ones_like(ids),
            "target_word_ids": np.array([[end, *target]], np.int32),
        }
    )
    scores = np.asarray(outputs["attention"])[0]
    scores = scores if scores.ndim == 3 else scores[None]  # [N, T, S]
    pieces = [[_shown(tokenizer, i) for i in [*side, end]] for side in (source, target)]
    plot_attention(scores, pieces[1], path, columns=pieces[0])


def _shown(tokenizer, token):
    if token == tokenizer.end_id:
        return "(end)"
    return tokenizer.detokenize([[token]])[0].numpy().decode("utf-8", "replace").strip()
