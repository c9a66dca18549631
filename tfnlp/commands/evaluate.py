"""Measure a model: on held-out text, translations, labelled examples, or what words mean."""

import argparse
import json

from tfnlp.commands import (
    evaluate_elmo,
    evaluate_gpt,
    evaluate_nnlm,
    evaluate_task,
    evaluate_translation,
    word_vectors,
)
from tfnlp.commands.arguments import add_corpus, add_model, add_tokenize
from tfnlp.commands.finetune import add_columns

# What only some kinds of model are asked, and the defaults.
_OPTIONS = {
    "bert": {"batch_size": 32, "seq_length": 128, "batches": 100, "seed": 1},
    "elmo": {"batch_size": None},
    "gpt": {"batch_size": 16, "seq_length": None, "stride": None},
    "nnlm": {"batch_size": 512},
    "task": {"batch_size": 32},
    "translation": {"batch_size": 32, "beams": 4, "length_penalty": 0.6},
}
_NUMBERS = ("batch_size", "seq_length", "batches", "seed", "stride", "beams", "length_penalty")


def add_arguments(parser):
    """Arguments of `tfnlp evaluate`; the run says which model it is."""
    add_model(parser)
    add_corpus(parser, required=False)
    add_tokenize(parser)
    for name, text in (
        ("batch-size", "rows at a time (default: BERT 32, GPT 16, NNLM 512, ELMo as in training)"),
        ("seq-length", "tokens a sequence (default: BERT 128, GPT as in training)"),
        ("batches", "BERT: at most so many batches (default: 100)"),
        ("seed", "BERT: of pairs and masks (default: 1)"),
        ("stride", "GPT: tokens from a window to the next (default: half a window)"),
    ):
        parser.add_argument(f"--{name}", type=int, default=argparse.SUPPRESS, help=text)
    for name, text in (("source", "sentences to translate"), ("target", "their translations")):
        parser.add_argument(
            f"--{name}", nargs="+", metavar="FILE", help=f"of models that translate: {text}"
        )
    parser.add_argument(
        "--beams",
        type=int,
        default=argparse.SUPPRESS,
        help="translation: hypotheses kept at a time (default: 4)",
    )
    parser.add_argument(
        "--length-penalty",
        type=float,
        default=argparse.SUPPRESS,
        help="translation: above 0 it favours long ones (default: 0.6)",
    )
    parser.add_argument(
        "--analogies", metavar="FILE", help="word vectors: questions such as questions-words.txt"
    )
    parser.add_argument(
        "--similarity", nargs="+", metavar="FILE", help="word vectors: pairs that people rated"
    )
    parser.add_argument(
        "--most-frequent", type=int, default=30_000, help="of --analogies: words looked at"
    )
    add_columns(parser)
    parser.add_argument(
        "--report",
        metavar="DIR",
        help="fine-tuned: write a page of measures and errors there; translation: the "
        "translations and a plot of BLEU by length",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args):
    """Prints masked-LM and next-sentence loss and accuracy, the perplexities of the others, or the
    measures of a task."""
    from tfnlp.commands.loading import kind_of
    from tfnlp.commands.run_config import TRANSLATION
    from tfnlp.training.run import is_run, read_config

    if args.analogies or args.similarity:
        if args.input:
            raise ValueError("--input is for a text; give it apart from --analogies, --similarity")
        word_vectors.evaluate(args)
        return
    kind = kind_of(args.model)
    if kind in ("vectors", "word2vec"):
        raise ValueError(f"{args.model} holds word vectors; give --analogies or --similarity")
    kind = "translation" if kind in TRANSLATION else kind
    options = _options(args, kind)
    _check_texts(args, kind)
    if kind == "translation":
        evaluate_translation.run(args, **options)
        return
    if kind == "task":
        for name in ("report", "text_columns", "label", "skip_bad_rows"):
            options[name] = getattr(args, name)
        evaluate_task.run(args, **options)
        return
    if args.report or args.text_columns or args.label or args.skip_bad_rows:
        raise ValueError(
            "--report, --text, --label and --skip-bad-rows are for fine-tuned models; "
            f"{args.model} is a pretrained one"
        )
    if kind == "elmo":
        if not is_run(args.model):
            raise ValueError(
                f"{args.model} does not say which words it predicts, as a run does; make a run of "
                "it first with `tfnlp pretrain elmo --from`"
            )
        evaluate_elmo.run(args, read_config(args.model), **options)
        return
    if kind == "nnlm":
        evaluate_nnlm.run(args, **options)
        return
    if args.tokenize:
        raise ValueError(
            f"--tokenize is for an ELMo; {args.model} is a {kind.upper()}, which does it itself"
        )
    if kind == "gpt":
        evaluate_gpt.run(args, **options)
    else:
        _evaluate_bert(args, **options)


def _check_texts(args, kind):
    """The text of a translation is two files, that of other models one."""
    if kind == "translation":
        if args.input or not (args.source and args.target):
            raise ValueError(f"{args.model} translates; give --source and --target, and no --input")
    elif args.source or args.target or not args.input:
        raise ValueError(
            "give --input, or --analogies or --similarity for word vectors; --source and --target "
            "are for models that translate"
        )


def _options(args, kind):
    """The arguments that a model of this kind is asked."""
    given, options = vars(args), dict(_OPTIONS[kind])
    for name in _NUMBERS:
        if name not in given:
            continue
        written = f"--{name.replace('_', '-')}"
        if name not in options:
            kinds = [other.upper() for other in _OPTIONS if name in _OPTIONS[other]]
            named = {
                "elmo": "an ELMo",
                "nnlm": "an NNLM",
                "task": "fine-tuned",
                "translation": "one that translates",
            }
            what = named.get(kind, f"a {kind.upper()}")
            raise ValueError(f"{written} is for {' and '.join(kinds)}; {args.model} is {what}")
        if name not in ("seed", "length_penalty") and given[name] < 1:
            raise ValueError(f"{written} {given[name]} must be at least 1")
        options[name] = given[name]
    return options


def _evaluate_bert(args, batch_size, seq_length, batches, seed):
    from tfnlp import training
    from tfnlp.commands.loading import load_bert
    from tfnlp.data import BertPairs, TokenizedCorpus, masked_positions, read_documents
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
        max_predictions=masked_positions(seq_length),
        seed=seed,
    )
    trainer = training.Trainer(BertPretraining(loaded.pretrainer), training.AdamW(), 1e-4)
    results = trainer.evaluate(pairs.evaluation_batches(batches))
    if args.json:
        print(json.dumps(results))
    else:
        for name, value in results.items():
            print(f"{name:28s}{value:.4f}")
