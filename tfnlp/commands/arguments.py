"""Arguments that several sub-commands share."""

import argparse


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter):
    """Help with the defaults, where there are some."""

    def _get_help_string(self, action):
        if action.default is None or action.default is False:
            return action.help
        return super()._get_help_string(action)


def add_corpus(parser, required=True):
    """`--input` and `--layout`."""
    parser.add_argument(
        "--input",
        nargs="+",
        required=required,
        metavar="FILE",
        help="text files, globs, .gz files, tfds:NAME[:SPLIT], or book:NAME for one that ships "
        "with tfnlp (book:the_secret_garden)",
    )
    add_layout(parser)


def add_layout(parser):
    """`--layout`."""
    parser.add_argument(
        "--layout",
        choices=["auto", "lines", "prose", "words"],
        default="auto",
        help="lines: a sentence a line, blank line between documents; prose: split into sentences; "
        "words: a word a line, blank line between sentences",
    )


def add_model(parser):
    """`--model`."""
    parser.add_argument(
        "--model",
        required=True,
        metavar="DIR",
        help="a run's folder, a checkpoint of Google, Hugging Face, OpenAI, bilm-tf or AllenNLP; "
        "of finetune also what `tfnlp export` wrote",
    )


def add_tokenize(parser):
    """`--tokenize`, for models that read words."""
    parser.add_argument(
        "--tokenize",
        action="store_true",
        help="split punctuation off the words first, if the text has not been tokenized yet",
    )


def tokenized(documents, args):
    """`documents` with a space between words and punctuation if --tokenize was given."""
    from tfnlp.text import split_words

    if not args.tokenize:
        return documents
    return [[split_words(sentence) for sentence in document] for document in documents]
