"""Low-rank updates of a fine-tuning run as adapters of Hugging Face's PEFT."""

import os
from typing import Any

from tfnlp.families import FAMILIES
from tfnlp.families.adaptation import adaptation_of
from tfnlp.runs.task_folder import load_task


def export_adapters(run: Any, directory: str, base: str | None, overwrite: bool) -> str:
    """Write and return the folder that PEFT, and tfnlp, read of a `TaskRun`; see its `export`."""
    from tfnlp.checkpoints.heads import task_config
    from tfnlp.checkpoints.peft import is_base, save_adapter

    low_rank = adaptation_of(run.config).low_rank
    if low_rank is None:
        raise ValueError(
            f"{run.path} has no adapters: it was not trained with `lora`; `format` huggingface "
            "writes the whole model"
        )
    family = FAMILIES[run.config["backbone"]["kind"]]
    files = family.fitting.task_files and family.fitting.task_files()
    if files is None or files.parts is None:
        raise ValueError(
            f"{run.path} is {family.title} with tokens of its own around texts, which PEFT's "
            "adapters do not hold; `format` huggingface writes the whole model"
        )
    task_model, config, _, results, _ = load_task(run.folder, merged=False)
    base = base or (results or {}).get("base")
    if base is None:
        raise ValueError(f"{run.path} does not say which model it was made from; give `base`")
    if not is_base(base):
        raise ValueError(
            f"{base} is no checkpoint of Hugging Face, and PEFT reads no other: write the model "
            f"that {run.path} was made from with `format` huggingface, and give its folder as "
            "`base`"
        )
    parts = files.parts(task_model, config["backbone"]["arguments"])
    save_adapter(
        directory,
        task_model.model,
        parts.rows,
        parts.heads,
        base,
        low_rank,
        parts.architecture,
        task_config(task_model.task),
        overwrite,
    )
    return directory


def base_name(loaded: Any) -> str | None:
    """Return the name or the whole path of a pretrained model, None if it has none."""
    if loaded.path is None:
        return None
    path = os.fspath(loaded.path)
    return os.path.abspath(path) if os.path.exists(path) else path
