"""The pretrained model of a fine-tuning run, and what of it the run's folder keeps."""

import dataclasses
import glob
import os
import shutil
from typing import Any

from tfnlp.checkpoints.pretrained import Pretrained
from tfnlp.families import FAMILIES
from tfnlp.families.fitting import Tunable
from tfnlp.families.recognition import load_pretrained
from tfnlp.files import check_space, written_whole
from tfnlp.published import at_revision, is_published
from tfnlp.runs.finetune_examples import say
from tfnlp.training.run import is_run, read_config

WEIGHTS, SAVED = "backbone.weights.h5", "backbone"


def load_backbone(model: Any, output: str | None = None, settings: Any = None) -> Any:
    """Return the pretrained model to fine-tune: a `Pretrained`, or of a path or a published name.

    It reads the marks of the settings.

    Runs in the folder `output` may have begun: a published model is then loaded at the commit or
    version that they began with.
    """
    begun = model if output is None else as_begun(model, output)
    loaded = load_pretrained(begun)
    if begun is not model:
        loaded.path = model
    if loaded.left_out is not None:
        say(str(loaded.path), f"the head of its {loaded.left_out} is left out; a new one is learnt")
    if not isinstance(loaded.family, Tunable):
        *others, last = [f.title for f in reversed(FAMILIES.values()) if isinstance(f, Tunable)]
        raise ValueError(
            f"{loaded.path} is {loaded.family.title}; only {', '.join(others)} or {last} can be "
            "fine-tuned"
        )
    return loaded if settings is None or not settings.marks else _marked(loaded, settings)


def _marked(loaded: Pretrained, settings: Any) -> Pretrained:
    """Return a model whose tokenizer reads the marks of the settings."""
    subwords = loaded.family.subwords
    if subwords is None or loaded.saved:
        raise ValueError(
            f"`marks` is for runs and checkpoints of models of pieces of words; {loaded.path} is "
            + ("an exported module" if loaded.saved else loaded.family.title)
        )
    tokenizer = subwords.begun(loaded.tokenizer, settings)
    return dataclasses.replace(loaded, make_tokenizer=lambda: tokenizer, sentence_functions={})


def as_begun(model: Any, output: str) -> Any:
    """Return a published name at the commit or version that runs in a folder have begun with."""
    if not is_published(model):
        return model
    below = glob.glob(os.path.join(glob.escape(output), "**", "config.json"), recursive=True)
    for folder in [output] if is_run(output) else map(os.path.dirname, below):
        config = read_config(folder)
        backbone, pretraining = (config.get(name) or {} for name in ("backbone", "training"))
        known = backbone.get("published") or {
            "name": pretraining.get("from"), "revision": pretraining.get("from_revision"),
        }  # fmt: skip
        if known["name"] == model and known["revision"] is not None:
            return at_revision(model, known["revision"])
    return model


def backbone_config(backbone: Any) -> dict[str, Any]:
    """Return what `kept_backbone` makes the backbone of."""
    tokenizer = None if backbone.make_tokenizer is None else backbone.tokenizer
    lowercase = getattr(tokenizer, "lowercase", None)
    found = {
        "kind": backbone.family.name,
        "arguments": backbone.config,
        "lowercase": lowercase,
        "saved": backbone.saved,
    }
    if backbone.revision is not None:
        found["published"] = {"name": backbone.path, "revision": backbone.revision}
    return found


def keep_backbone(backbone: Any, folder: str, features: Any) -> None:
    """Write what a run needs of its backbone, but for the trained weights, into its folder."""
    if backbone.saved:
        if not os.path.isdir(os.path.join(folder, SAVED)):
            with written_whole(os.path.join(folder, SAVED)) as partial:
                shutil.copytree(backbone.folder or backbone.path, partial)
        return
    family = backbone.family
    if backbone.make_tokenizer is not None:
        family.keep_vocabulary(backbone.tokenizer, folder)
    path = os.path.join(folder, WEIGHTS)
    if features is not None and not os.path.exists(path):
        encoder = features.encoder
        with written_whole(path) as partial:
            # 16 KB for the names of each; on a full disk HDF5 would end the process.
            check_space(partial, sum(w.numpy().nbytes + 16384 for w in encoder.weights) + 2**16)
            encoder.save_weights(partial)


def kept_backbone(folder: str, config: dict[str, Any], fine_tuned: bool) -> Any:
    """Return the backbone of a run; its weights are new, but for a SavedModel's.

    `config` is what `backbone_config` returned. One that was fine-tuned needs no encoder of its
    own.
    """
    family, arguments = FAMILIES[config["kind"]], config["arguments"]
    if config["saved"]:
        loaded = load_pretrained(os.path.join(folder, SAVED))
        loaded.family = family
        return loaded
    encoder = None if fine_tuned else family.encoder(**arguments)
    return Pretrained(
        encoder,
        None,
        arguments,
        make_tokenizer=lambda: family.restore_tokenizer(folder, config["lowercase"]),
        family=family,
        path=folder,
    )
