"""Measure a pretrained model on held-out text."""

import argparse
import json

from tfnlp.commands import evaluate_elmo
from tfnlp.commands.arguments import add_corpus, add_model, add_tokenize

_BERT = {"seq_length": 128, "batches": 100, "seed": 1}  # what only a BERT is asked, and defaults


def add_arguments(parser):
    """Arguments of `tfnlp evaluate`; the run says which model it is."""
    add_model(parser)
    add_corpus(parser)
    add_tokenize(parser)
    for name, text in (
        ("batch-size", "rows at a time (default: 32 for a BERT, as in training for an ELMo)"),
        ("seq-length", "BERT: tokens a sequence (default: 128)"),
        ("batches", "BERT: at most so many batches (default: 100)"),
        ("seed", "BERT: of pairs and masks (default: 1)"),
    ):
        parser.add_argument(f"--{name}", type=int, default=argparse.SUPPRESS, help=text)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args):
    """Prints masked-LM and next-sentence loss and accuracy, or an ELMo's perplexities."""
    from tfnlp.commands.loading import kind_of
    from tfnlp.training.run import is_run, read_config

    given = vars(args)
    batch_size = given.get("batch_size")
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"--batch-size {batch_size} must be at least 1")
    if kind_of(args.model) == "elmo":
        if not is_run(args.model):
            raise ValueError(
                f"{args.model} does not say which words it predicts, as a run does; make a run of "
                "it first with `tfnlp pretrain elmo --from`"
            )
        for name in _BERT.keys() & given.keys():
            raise ValueError(
                f"--{name.replace('_', '-')} is for a BERT; {args.model} is an ELMo, which is "
                "measured on every token of --input"
            )
        evaluate_elmo.run(args, read_config(args.model), batch_size)
        return
    if args.tokenize:
        raise ValueError(f"--tokenize is for an ELMo; {args.model} is a BERT, which does it itself")
    _evaluate_bert(args, batch_size or 32, **{name: given.get(name, _BERT[name]) for name in _BERT})


def _evaluate_bert(args, batch_size, seq_length, batches, seed):
    from tfnlp import training
    from tfnlp.commands.loading import load_bert
    from tfnlp.data import BertPairs, TokenizedCorpus, read_documents
    from tfnlp.tasks import BertPretraining

    loaded = load_bert(args.model)
    if loaded.pretrainer is None:
        raise ValueError(
            f"{args.model} has neither a masked-LM nor a next-sentence head to evaluate"
        )
    positions = loaded.encoder.get_layer("position_embedding").max_positions
    if seq_length > positions:
        raise ValueError(
            f"--seq-length {seq_length} is longer than the model's {positions} positions"
        )
    corpus = TokenizedCorpus.build(list(read_documents(args.input, args.layout)), loaded.tokenizer)
    pairs = BertPairs(
        corpus,
        loaded.tokenizer,
        batch_size=batch_size,
        seq_length=seq_length,
        max_predictions=max(1, -(-seq_length * 15 // 100)),
        seed=seed,
    )
    trainer = training.Trainer(BertPretraining(loaded.pretrainer), training.AdamW(), 1e-4)
    results = trainer.evaluate(pairs.evaluation_batches(batches))
    if args.json:
        print(json.dumps(results))
    else:
        for name, value in results.items():
            print(f"{name:28s}{value:.4f}")
