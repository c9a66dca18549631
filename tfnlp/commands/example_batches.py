"""What `--examples` gives to training in place of `--input`: tokens, batches, held-out text."""

import contextlib
from dataclasses import dataclass

from tfnlp.commands.gpt_text import VOCABULARY as GPT_VOCABULARY
from tfnlp.commands.pretraining import VOCABULARY

# What examples have of their own, and what training must not change.
_OWN = ("input", "layout", "valid", "held_out", "vocab", "vocab_size", "bpe")
_DECIDED = ("seq_length", "seed", "cased")


class Default:
    """A default, told from the same value on the command line by its type."""


def add_examples(parser):
    """`--examples`; to be called behind all other arguments, whose defaults it marks."""
    parser.add_argument(
        "--examples",
        metavar="DIR",
        help="what `tfnlp examples` made of the text, in place of --input; it decides --valid, "
        "--held-out, --vocab, --seq-length and --seed",
    )
    for name in _OWN + _DECIDED:
        value = parser.get_default(name)
        if value is not None and not isinstance(value, bool):
            kind = type("Default", (Default, type(value)), {})
            parser.set_defaults(**{name: kind(value)})


def settle(args, model):
    """Takes from --examples what it decides, if it is given.

    Args:
        args: with the arguments that `add_examples` was called on; changed.
        model: "bert" or "gpt".

    Raises:
        ValueError: for neither or both of --input and --examples, or an argument that
            contradicts the examples.
        FileNotFoundError, OSError: if there are none, or shards are missing.
    """
    if args.examples is None:
        if not args.input:
            raise ValueError("give --input, or --examples made by tfnlp examples")
        return
    from tfnlp.data.shards.reading import Shards

    settings = Shards(args.examples, model).settings
    decided = {**settings, "cased": not settings.get("lowercase", True)}
    for name in _OWN + _DECIDED:
        given = getattr(args, name, None)
        if given is None or given is False or isinstance(given, Default):
            continue
        flag = f"--{name.replace('_', '-')}"
        if name in _OWN:
            raise ValueError(f"{flag} can't be given with --examples, which has its own")
        if given != decided[name]:
            raise ValueError(
                f"{flag}{'' if given is True else f' {given}'} contradicts --examples "
                f"{args.examples}, made with {decided[name]}; leave it out"
            )
    args.seq_length, args.seed = settings["seq_length"], settings["seed"]
    if model == "bert":
        args.cased = decided["cased"]


@contextlib.contextmanager
def readable(args, model):
    """While training reads them: names the shard that is damaged where reading fails."""
    if args.examples is None:
        yield
        return
    from tfnlp.data.shards.reading import Shards

    with Shards(args.examples, model).readable():
        yield


@dataclass(frozen=True, eq=False)
class BertText:
    """What `tfnlp pretrain bert` trains on.

    Attributes:
        tokens: the vocabulary.
        tokenizer: of it.
        batches: `BertPairs` or `BertShards`.
        held_out: list of batches.
        corpus: what tells this text from others, for the run's configuration.
        size: tokens to train on.
        documents: to train on.
        held_out_size: tokens held out.
        commonest: the commonest token to train on.
    """

    tokens: list
    tokenizer: object
    batches: object
    held_out: list
    corpus: dict
    size: int
    documents: int
    held_out_size: int
    commonest: int


def open_bert(args, before, predictions):
    """The `BertText` of --examples.

    Args:
        args: after `settle`.
        before: the `LoadedBert` to go on from, or None.
        predictions: masks a sequence.

    Raises:
        ValueError: if `before` has another vocabulary.
    """
    from tfnlp.data import BertPairs
    from tfnlp.data.shards.reading import BertShards
    from tfnlp.files import local_copy
    from tfnlp.text import WordPieceTokenizer, read_vocabulary

    with local_copy(f"{args.examples}/{VOCABULARY}") as path:
        tokens = read_vocabulary(path)
    tokenizer = WordPieceTokenizer(tokens, lowercase=not args.cased)
    if before is not None:
        theirs = before.tokenizer
        ours = (tokens, tokenizer.lowercase)
        _check_vocabulary(args, ours, (theirs.vocabulary, theirs.lowercase))
    settings = {
        "batch_size": args.batch_size,
        "max_predictions": predictions,
        "whole_word": args.whole_word,
    }
    shards = BertShards(args.examples, tokenizer, **settings)
    valid = shards.held_out()
    held_out = BertPairs(
        valid,
        tokenizer,
        seq_length=shards.seq_length,
        seed=shards.seed + 1,
        **settings,
    )
    train = shards.counts["train"]
    return BertText(
        tokens=tokens,
        tokenizer=tokenizer,
        batches=shards,
        held_out=list(held_out.evaluation_batches(args.evaluate_batches)),
        corpus={"tokens": train["tokens"], "examples": shards.checksum},
        size=train["tokens"],
        documents=train["documents"],
        held_out_size=valid.num_tokens,
        commonest=shards.commonest_token,
    )


@dataclass(frozen=True, eq=False)
class GPTText:
    """What `tfnlp pretrain gpt` trains on.

    Attributes:
        pair: the vocabulary, tokens and merges.
        tokenizer: of it.
        batches: `TokenWindows` or `WindowShards`.
        valid: the `Text` held out.
        corpus: what tells this text from others, for the run's configuration.
        size: tokens to train on.
        documents: to train on.
        tokens_per_word: of the text to train on.
    """

    pair: tuple
    tokenizer: object
    batches: object
    valid: object
    corpus: dict
    size: int
    documents: int
    tokens_per_word: float


def open_gpt(args, before):
    """The `GPTText` of --examples.

    Args:
        args: after `settle`.
        before: the `LoadedGPT` to go on from, or None.

    Raises:
        ValueError: if `before` has another vocabulary.
    """
    from tfnlp.commands.gpt_text import Text, newline_id
    from tfnlp.data import token_stream
    from tfnlp.data.shards.reading import WindowShards
    from tfnlp.files import local_copy
    from tfnlp.text import gpt_tokenizer, read_bpe

    with local_copy(f"{args.examples}/{GPT_VOCABULARY}") as path:
        pair = read_bpe(path)
    if before is not None:
        theirs = before.tokenizer
        _check_vocabulary(args, pair, (theirs.vocabulary, theirs.merges))
    tokenizer = gpt_tokenizer(pair)
    shards = WindowShards(args.examples, batch_size=args.batch_size)
    held_out = shards.held_out()
    stream = token_stream(held_out, newline_id(tokenizer), tokenizer.end_id)
    train, valid = shards.counts["train"], shards.counts["held_out"]
    size = train["tokens"] + train["sentences"]  # a line's end is a token
    return GPTText(
        pair=pair,
        tokenizer=tokenizer,
        batches=shards,
        valid=Text(stream, held_out.num_documents, valid["lines"], valid["words"]),
        corpus={"tokens": size, "examples": shards.checksum},
        size=size,
        documents=train["documents"],
        tokens_per_word=size / (train["words"] + train["lines"]),
    )


def _check_vocabulary(args, ours, theirs):
    if ours != theirs:
        raise ValueError(
            f"--examples {args.examples} was made with another vocabulary than --from "
            f"{args.start} has; make examples with --vocab of that model"
        )
