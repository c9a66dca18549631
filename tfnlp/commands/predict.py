"""Use a model: labels, tags, answers; words for masks, neighbours, vectors, text, translations."""

from tfnlp.commands import (
    predict_bert,
    predict_elmo,
    predict_gpt,
    predict_task,
    predict_translation,
    predict_word2vec,
)
from tfnlp.commands.arguments import HelpFormatter

MODELS = {
    "word2vec": predict_word2vec,
    "bert": predict_bert,
    "elmo": predict_elmo,
    "gpt": predict_gpt,
    "translation": predict_translation,
    "task": predict_task,
}


def add_arguments(parser):
    """`tfnlp predict MODEL`, each with arguments of its own."""
    models = parser.add_subparsers(dest="kind", required=True, metavar="MODEL")
    for name, module in MODELS.items():
        summary = module.__doc__.strip().split("\n")[0]
        model = models.add_parser(
            name, help=summary, description=summary, formatter_class=HelpFormatter
        )
        module.add_arguments(model)


def run(args):
    """Runs `tfnlp predict MODEL`."""
    MODELS[args.kind].run(args)
