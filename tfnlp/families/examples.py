"""Prepared examples (`tfnlp examples`) in place of text: what they decide of a run."""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

from tfnlp.families.preparation import (
    BPE_VOCABULARY,
    Vocabulary,
    bpe_vocabulary,
    write_bpe_folder,
)
from tfnlp.families.token_text import newline_id

# What examples have of their own, and what training must not change.
_OWN = ("text", "layout", "valid", "held_out", "vocab", "vocab_size", "bpe")
_DECIDED = ("seq_length", "seed", "cased")


def with_examples(config: Any, model: str) -> Any:
    """Return the config with what its examples decide; without examples, as it is."""
    if config.examples is None:
        if config.text is None:
            raise ValueError("give `text`, or `examples` made by tfnlp examples")
        return config
    from tfnlp.data.shards.reading import Shards

    settings = Shards(config.examples, model).settings
    decided = {**settings, "cased": not settings.get("lowercase", True)}
    for name in _OWN + _DECIDED:
        given = getattr(config, name, None)
        if name not in config.given or given is None or given is False:
            continue
        if name in _OWN:
            raise ValueError(f"`{name}` can't be given with `examples`, which has its own")
        if given != decided[name]:
            raise ValueError(
                f"`{name}`{'' if given is True else f' {given}'} contradicts `examples` "
                f"{config.examples}, made with {decided[name]}; leave it out"
            )
    changes = {"seq_length": settings["seq_length"], "seed": settings["seed"]}
    if hasattr(config, "cased"):
        changes["cased"] = decided["cased"]
    return config.replace(**changes)


def readable(config: Any, model: str) -> Any:
    """Return a context that names the damaged shard where reading the examples fails."""
    if getattr(config, "examples", None) is None:
        return contextlib.nullcontext()
    from tfnlp.data.shards.reading import Shards

    return Shards(config.examples, model).readable()


def check_same_vocabulary(config: Any, ours: Any, theirs: Any) -> None:
    """Check that examples were made with the vocabulary of the model to go on from."""
    if ours != theirs:
        raise ValueError(
            f"`examples` {config.examples} was made with another vocabulary than `start` "
            f"{config.start} has; make examples with `vocab` of that model"
        )


def training_documents(config: Any, paragraphs: bool) -> Iterator[list[str]]:
    """Yield the documents that are not held out, one by one: the text is read twice."""
    from tfnlp.data.corpus.documents import held_out_documents, read_documents

    if config.valid:
        yield from read_documents(config.text, config.layout, paragraphs)
        return
    sizes = [len(d) for d in read_documents(config.text, config.layout, paragraphs)]
    held, cut = held_out_documents(sizes, config.held_out, config.seed)
    for number, document in enumerate(read_documents(config.text, config.layout, paragraphs)):
        if number not in held:
            yield document[:cut]


def gpt_examples(config: Any) -> tuple[Vocabulary, dict[str, Any], Any]:
    """Return the vocabulary, the settings and the recipe of windows of text."""
    from tfnlp.data.numbered import check_seed
    from tfnlp.data.shards.windows import WindowRecipe
    from tfnlp.text import gpt_tokenizer, read_bpe

    check_seed(config.seed)
    pair = bpe_vocabulary(
        config,
        lambda: ("\n".join(document) + "\n" for document in training_documents(config, True)),
        config.bpe,
    )
    tokenizer = gpt_tokenizer(pair)
    maker = functools.partial(gpt_tokenizer, pair)
    recipe = WindowRecipe(maker, newline_id(tokenizer), int(tokenizer.end_id))
    vocabulary = Vocabulary(pair, read_bpe, write_bpe_folder, BPE_VOCABULARY)
    return vocabulary, {"bpe": None if config.vocab else config.bpe}, recipe
