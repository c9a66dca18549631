"""Text to shards of examples: the stages, which of their files are finished, the manifest."""

import functools
import json
import os
from typing import Any

import numpy as np

from tfnlp.data.corpus.documents import document_readers
from tfnlp.data.shards.folder import HELD_OUT, MANIFEST, Folder, read_manifest, shard_name
from tfnlp.data.shards.pieces import TABLE, Table, make_table, piece_name, read_name, text_name
from tfnlp.data.shards.pipelines import HELD, shards_pipeline, tokenize_pipeline
from tfnlp.data.shards.recipes import Recipe
from tfnlp.data.shards.runner import Progress, Runner
from tfnlp.locks import PREFIX as LOCK

_SHARD_TOKENS = 1 << 24  # tokens of the corpus per shard of an epoch
_AT_ONCE = 1 << 27  # tokens per pipeline on this machine, which keeps them in memory


def start_examples(directory: str | os.PathLike, settings: dict[str, Any]) -> None:
    """Make the folder, or check that the existing one has the same settings.

    These are all that change the examples: a flat dict of JSON values with a key "tfnlp".
    """
    folder, manifest = Folder(directory), read_manifest(directory)
    settings = json.loads(json.dumps(settings))
    if manifest is None and not all(name.startswith(LOCK) for name in folder.names()):
        raise ValueError(
            f"{directory} holds other files but no {MANIFEST}; give a new or empty --output"
        )
    old = settings if manifest is None else manifest["settings"]
    changed = [
        f"{name} was {json.dumps(old.get(name))[:60]}, now {json.dumps(settings.get(name))[:60]}"
        for name in sorted(set(old) | set(settings))
        if old.get(name) != settings.get(name)
    ]
    if changed:
        raise ValueError(
            f"{directory} holds examples with other settings ({'; '.join(changed)}); give the "
            "same settings to go on, or another `output` to start anew"
        )
    folder.make()
    if manifest is None:
        unfinished = {"tfnlp": settings["tfnlp"], "finished": False, "settings": settings}
        _write_manifest(folder, unfinished)


def make_examples(
    directory: str | os.PathLike, settings: dict[str, Any], recipe: Recipe, runner: Runner
) -> dict[str, Any]:
    """Make the missing files of the examples that `start_examples` began; return the manifest.

    The keys of settings are "tfnlp", "model", "input" (sources, each with its size), "valid" (the
    same, or None), "layout", "held_out", "seed", "epochs", "shards" (None: one for 2^24 tokens),
    "chunk" (characters per piece) and those of the recipe.
    """
    folder, manifest = Folder(directory), read_manifest(directory)
    known = {}  # the files of a finished manifest
    if manifest["finished"]:
        known = {file["file"]: file for file in [*manifest["shards"], manifest["held_out"]]}
        if all(folder.intact(name, facts) for name, facts in known.items()):
            folder.remove_work()
            return manifest
    table, facts = _table(folder, settings, recipe, runner)
    counts = facts["counts"]
    shards = settings["shards"] or -(-counts["train"]["tokens"] // _SHARD_TOKENS)

    recipe = recipe.for_text(settings, shards, counts["train"], table.corpora(folder))
    names = {HELD: HELD_OUT}
    for number in range(settings["epochs"] * shards):
        names[number] = shard_name(*divmod(number, shards))
    _write_shards(folder, recipe, table, counts["train"]["tokens"], names, known, runner)
    files = {
        number: {"file": name, **(folder.note(name) or known[name])}
        for number, name in names.items()
    }
    held_out = files.pop(HELD)
    listed = [{**file, "epoch": number // shards} for number, file in sorted(files.items())]
    for count in listed[0]:  # in their order, so that the manifest has the same bytes every time
        if count not in ("file", "bytes", "crc32", "epoch"):
            counts["train"][count] = sum(shard[count] for shard in listed)
    manifest = {
        "tfnlp": settings["tfnlp"],
        "finished": True,
        "settings": settings,
        "counts": counts,
        "commonest_token": facts["commonest_token"],
        "shards_per_epoch": shards,
        "held_out": held_out,
        "shards": listed,
    }
    _write_manifest(folder, manifest)
    folder.remove_work()
    return manifest


def _table(
    folder: Folder, settings: dict[str, Any], recipe: Recipe, runner: Runner
) -> tuple[Table, dict]:
    """Return the table of all documents and its note; make it, if need be, from tokenized text."""
    facts = folder.note(TABLE)
    if facts is not None:
        return Table.read(folder), facts
    train = _readers(settings, settings["input"], recipe.paragraphs)
    readers = train + _readers(settings, settings["valid"] or [], recipe.paragraphs)
    todo, left = [], []
    for reader in range(len(readers)):
        read = folder.note(read_name(reader)) or {"chunks": 0}
        places = [(reader, chunk) for chunk in range(read["chunks"])]
        missing = [place for place in places if folder.note(piece_name(*place)) is None]
        if "bytes" in read and all(folder.note(text_name(*place)) for place in missing):
            left += missing
        else:
            todo.append(reader)
    if todo or left:
        build = functools.partial(
            tokenize_pipeline,
            folder=folder,
            readers=readers,
            todo=todo,
            left=left,
            recipe=recipe,
            characters=settings["chunk"],
        )
        runner.run(build, folder, Progress(folder, "tokenizing", "piece-"))
    pieces, own_valid = [], None
    for reader in range(len(readers)):
        if reader == len(train):
            own_valid = len(pieces)
        chunks = folder.note(read_name(reader))["chunks"]
        pieces += [piece_name(reader, chunk) for chunk in range(chunks)]
    table, counts = make_table(folder, pieces, own_valid, settings["held_out"], settings["seed"])
    commonest = np.zeros(0, np.int64)
    for corpus in table.corpora(folder):
        if corpus is not None:
            more = np.bincount(corpus.tokens, minlength=len(commonest))
            more[: len(commonest)] += commonest
            commonest = more
    table.write(folder, counts=counts, commonest_token=int(commonest.argmax()))
    return table, folder.note(TABLE)


def _readers(settings: dict, files: list, paragraphs: bool) -> list[functools.partial]:
    if not files:
        return []
    return document_readers([source for source, _ in files], settings["layout"], paragraphs)


def _write_shards(
    folder: Folder,
    recipe: Recipe,
    table: Table,
    tokens: int,
    names: dict[int, str],
    known: dict[str, dict],
    runner: Runner,
) -> None:
    """Write those of the files `names`, {number: name}, that are missing or damaged."""
    todo = []
    for number, name in sorted(names.items()):
        facts = folder.note(name) or known.get(name)
        if facts is None or not folder.intact(name, facts):
            folder.remove(name)
            todo.append(number)
    at_once = len(names)
    if runner.is_direct:
        at_once = max(runner.workers, _AT_ONCE * recipe.shards // tokens)
    for start in range(0, len(todo), at_once):
        build = functools.partial(
            shards_pipeline,
            folder=folder,
            recipe=recipe,
            wanted=todo[start : start + at_once],
            pieces=len(table.pieces),
        )
        bar = Progress(folder, "writing shards", ("train-", "held_out"), len(names))
        runner.run(build, folder, bar)


def _write_manifest(folder: Folder, manifest: dict[str, Any]) -> None:
    folder.write(MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())
