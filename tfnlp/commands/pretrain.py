"""Pretrain a model on raw text."""

from tfnlp.commands import pretrain_bert, pretrain_elmo

MODELS = {"bert": pretrain_bert, "elmo": pretrain_elmo}


def add_arguments(parser):
    """`tfnlp pretrain MODEL`, each with arguments of its own."""
    models = parser.add_subparsers(dest="kind", required=True, metavar="MODEL")
    for name, module in MODELS.items():
        summary = module.__doc__.strip().split("\n")[0]
        module.add_arguments(models.add_parser(name, help=summary, description=summary))


def run(args):
    """Text to a run's folder; the same command again resumes a run that was stopped."""
    MODELS[args.kind].run(args)
