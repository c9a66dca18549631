"""One process of `benchmarks.reuse`: a loader, a stage, and what of it comes out right.

    python -m benchmarks.reuse_cells FOLDER LOADER STAGE WORK ...

FOLDER is from `benchmarks.reuse_modules.make_all`. WORK: "infer", "train", "mirrored" (two
replicas), or, alone, "workers" for one of several processes that `TF_CONFIG` tells of. The last
line that it prints is JSON: by work and kind "yes", or why not.
"""

import json
import os
import re
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["KERAS_BACKEND"] = "tensorflow"

CLOSE = 1e-4
_EMPTY = re.compile(r"Exception encountered|execution error:|^Detected at|^File ")


def main(folder, loader, stage, *works):
    import tensorflow as tf

    if "workers" in works:  # they find each other when they are made, before anything else runs
        strategies = dict.fromkeys(works, tf.distribute.MultiWorkerMirroredStrategy())
    else:
        tf.config.set_logical_device_configuration(
            tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
        )
        strategies = {work: tf.distribute.get_strategy() for work in works}
        if "mirrored" in works:
            strategies["mirrored"] = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    from benchmarks.reuse_loaders import LOADERS
    from benchmarks.reuse_modules import KINDS

    found = {work: {} for work in works}
    for work, strategy in strategies.items():
        for kind, (_, _, key) in KINDS.items():
            if work != "infer" and key is None:
                continue
            if found.get("train", {}).get(kind, "yes") != "yes":
                found[work][kind] = "does not train on one device"
                continue
            try:
                found[work][kind] = _cell(folder, LOADERS[loader](), stage, kind, work, strategy)
            except Exception as error:  # what it raises is what the table is about
                found[work][kind] = f"{type(error).__name__}: {_reason(error)}"
    print(json.dumps(found))


def _reason(error):
    """The line of a message that says something, without the number of a layer."""
    lines = [line.strip() for line in str(error).split("\n")]
    lines = [line for line in lines if line and not _EMPTY.search(line)]
    return re.sub(r"_\d+\b", "", lines[0] if lines else "")[:160]


def _cell(folder, loader, stage, kind, work, strategy):
    import numpy as np

    from benchmarks.reuse_modules import KINDS, expected_path, flat, inputs_of

    place, sub, key = KINDS[kind]
    path, inputs = os.path.join(folder, stage, place), inputs_of(kind)
    part = "output/" if work == "infer" else "weight/"
    expected = dict(np.load(expected_path(folder, stage, kind)))
    wanted = {name: x for name, x in expected.items() if name.startswith(part)}
    if work == "infer":
        got = {part + name: x for name, x in flat(loader.infer(path, sub, inputs)).items()}
        # A signature serves some of the outputs.
        if not wanted.keys() & got.keys():
            return f"gives {', '.join(sorted(name[len(part) :] for name in got))}"
    else:
        weights = loader.train(path, sub, key, inputs, strategy)
        got = {f"{part}{i}": x for i, x in enumerate(weights)}
        if len(got) != len(wanted):
            return f"trains {len(got)} of {len(wanted)} weights"
    worst = max(
        float(np.abs(got[name].astype("float64") - wanted[name]).max(initial=0))
        for name in wanted.keys() & got.keys()
    )
    if worst < CLOSE:
        return "yes"
    if work != "infer" and _unchanged(path, sub, got):
        return f"all {len(got)} weights stay as they were, without a word"
    return f"other numbers: off by up to {worst:.2g}"


def _unchanged(path, sub, got):
    import numpy as np
    import tensorflow as tf

    module = tf.saved_model.load(path)
    variables = (getattr(module, sub) if sub else module).trainable_variables
    return all(np.array_equal(v, x) for v, x in zip(variables, got.values(), strict=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
