"""Use a model: labels, tags and answers; words for masks, neighbours in context, vectors, text."""

from tfnlp.commands import predict_bert, predict_elmo, predict_gpt, predict_task
from tfnlp.commands.arguments import HelpFormatter

MODELS = {"bert": predict_bert, "elmo": predict_elmo, "gpt": predict_gpt, "task": predict_task}


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
