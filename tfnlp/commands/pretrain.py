"""Pretrain a model on raw text, or train one to translate."""

from tfnlp.commands import (
    pretrain_bert,
    pretrain_elmo,
    pretrain_gpt,
    pretrain_nnlm,
    pretrain_seq2seq,
    pretrain_transformer,
    pretrain_word2vec,
)
from tfnlp.commands.arguments import HelpFormatter

MODELS = {
    "word2vec": pretrain_word2vec,
    "nnlm": pretrain_nnlm,
    "seq2seq": pretrain_seq2seq,
    "transformer": pretrain_transformer,
    "elmo": pretrain_elmo,
    "gpt": pretrain_gpt,
    "bert": pretrain_bert,
}


def add_arguments(parser):
    """`tfnlp pretrain MODEL`, each with arguments of its own."""
    models = parser.add_subparsers(dest="kind", required=True, metavar="MODEL")
    for name, module in MODELS.items():
        summary = module.__doc__.strip().split("\n")[0]
        model = models.add_parser(
            name, help=summary, description=summary, formatter_class=HelpFormatter
        )
        module.add_arguments(model)


def run(args):
    """Text to a run's folder; the same command again resumes a run that was stopped."""
    MODELS[args.kind].run(args)
