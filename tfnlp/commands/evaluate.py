"""Measure a pretrained model on held-out text."""

import json

from tfnlp.commands.arguments import add_corpus, add_model


def add_arguments(parser):
    """Arguments of `tfnlp evaluate`."""
    add_model(parser)
    add_corpus(parser)
    parser.add_argument("--seq-length", type=int, default=128)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--batches", type=int, default=100, help="at most so many batches")
    parser.add_argument("--seed", type=int, default=1, help="of pairs and masks")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args):
    """Prints masked-LM and next-sentence loss and accuracy."""
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
    if args.seq_length > positions:
        raise ValueError(
            f"--seq-length {args.seq_length} is longer than the model's {positions} positions"
        )
    corpus = TokenizedCorpus.build(list(read_documents(args.input, args.layout)), loaded.tokenizer)
    pairs = BertPairs(
        corpus,
        loaded.tokenizer,
        batch_size=args.batch_size,
        seq_length=args.seq_length,
        max_predictions=max(1, -(-args.seq_length * 15 // 100)),
        seed=args.seed,
    )
    trainer = training.Trainer(BertPretraining(loaded.pretrainer), training.AdamW(), 1e-4)
    results = trainer.evaluate(pairs.evaluation_batches(args.batches))
    if args.json:
        print(json.dumps(results))
    else:
        for name, value in results.items():
            print(f"{name:28s}{value:.4f}")
