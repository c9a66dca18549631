"""What a pretrained ELMo is worth to a task (Peters et al. 2018, sections 3.3 and 4).

    python examples/elmo_tasks.py tag train.conllu.gz dev.conllu --elmo ELMO
    python examples/elmo_tasks.py class train.txt dev.txt --elmo ELMO --elmo-at both

ELMO is the folder of a tfnlp pretraining run, or one with bilm-tf's `options.json` and weights in
HDF5. The biLM stays frozen: its layers are computed once for every sentence and kept as float16,
in memory or, with --cache, on disk. Then the same network is trained from its own word embeddings
alone and with ELMo beside them, from the same seeds, on the same batches, for the same number of
steps, and scored on the held-out file at the end. `tag` reads CoNLL-U, `class` lines of
`label word word ...`.
"""

import argparse
import os
import time
import zlib

import keras
import numpy as np

from tfnlp import data, hub, models, tasks, training
from tfnlp.commands.loading import load_elmo

# What served the networks without ELMo best; with ELMo they are the same.
SETTINGS = {
    "tag": dict(
        lowercase=True,
        min_count=2,
        embedding_size=200,
        units=150,
        dropout=0.5,
        learning_rate=4e-3,
        batch_size=32,
        epochs=4,
    ),
    "class": dict(
        lowercase=True,
        min_count=2,
        embedding_size=200,
        units=100,
        dropout=0.5,
        learning_rate=2e-3,
        batch_size=32,
        epochs=3,
    ),
}
LENGTHS = (16, 32, 64)  # what training sentences are padded to, besides the longest


def frozen_layers(encoder, sentences, cache=None):
    """The biLM's layers for every word: float16 `[N, L+1, 2P]`, sentence after sentence.

    Layer 0 is the character CNN's word embedding, once for each direction. Each sentence starts
    from a state of zeros, so that its vectors depend on nothing else.

    Args:
        encoder: a model made by `tfnlp.models.elmo`.
        sentences: lists of words.
        cache: a folder to keep them in, under a name that follows from weights and sentences.
    """
    sizes = np.array([len(words) for words in sentences])
    starts = np.concatenate([[0], np.cumsum(sizes)])
    bilm = encoder.get_layer("bilm")
    shape = (int(starts[-1]), 1 + bilm.num_layers, 2 * bilm.projection_size)
    path = None
    if cache is None:
        layers = np.empty(shape, np.float16)
    else:
        path = os.path.join(cache, f"layers-{_checksum(encoder, sentences):08x}.npy")
        if os.path.exists(path):
            return np.load(path, mmap_mode="r")
        os.makedirs(cache, exist_ok=True)
        layers = np.lib.format.open_memmap(f"{path}.partial", "w+", np.float16, shape)

    found = hub.sentence_layers(hub.ElmoModule(encoder), sentences)
    for start, end, values in zip(starts[:-1], starts[1:], found, strict=True):
        layers[start:end] = values.transpose(1, 0, 2)  # [n, L+1, 2P]
    if path is None:
        return layers
    layers.flush()
    os.replace(f"{path}.partial", path)
    return np.load(path, mmap_mode="r")


def _checksum(encoder, sentences):
    """Of all weights and all words."""
    value = zlib.crc32("\n".join(" ".join(words) for words in sentences).encode())
    for variable in encoder.weights:
        value = zlib.crc32(np.ascontiguousarray(variable.numpy()), value)
    return value


def batches(sentences, words, labels, settings, seed, layers, lengths=()):
    """`LabelledBatches` of (words, label or tags), under the two indices."""
    longest = max(len(sentence) for sentence, _ in sentences)
    return data.LabelledBatches(
        [data.word_ids(sentence, words, settings["lowercase"]) for sentence, _ in sentences],
        [
            labels[target] if isinstance(target, str) else [labels[tag] for tag in target]
            for _, target in sentences
        ],
        batch_size=settings["batch_size"],
        lengths=[n for n in lengths if n < longest] + [longest],
        layers=layers,
        seed=seed,
    )


def train(task, sentences, layers, settings, seed, elmo):
    """Trains one network; returns its held-out accuracy, its model and the seconds it took.

    Args:
        sentences, layers: pairs of training and held-out ones; no layers: (None, None).
        elmo: arguments of the model that are about ELMo.
    """
    started = time.monotonic()
    training_set, held_out = sentences
    words = data.index_words(
        (sentence for sentence, _ in training_set), settings["min_count"], settings["lowercase"]
    )
    targets = [t if task == "tag" else [t] for part in sentences for _, t in part]
    labels = data.index_labels(label for target in targets for label in target)
    keras.utils.set_random_seed(seed)
    build = models.elmo_tagger if task == "tag" else models.elmo_classifier
    arguments = {name: settings[name] for name in ("embedding_size", "units", "dropout")}
    model = build(2 + len(words), len(labels), **arguments, **elmo)
    train_batches = batches(training_set, words, labels, settings, seed, layers[0], LENGTHS)
    steps = round(settings["epochs"] * train_batches.steps_per_epoch)
    trainer = training.Trainer(
        tasks.FineTuning(model),
        training.AdamW(weight_decay=0.0, bias_correction=True),
        training.linear(settings["learning_rate"], steps, steps // 20),
        steps_per_call=20,
        seed=seed,
    )
    trainer.fit(train_batches, steps, progress=False)
    # Each length would be traced anew: more than the padding of one length costs here.
    held_out = batches(held_out, words, labels, settings, seed, layers[1])
    score = trainer.evaluate(held_out.evaluation_batches())[f"{task}_accuracy"]
    return score, model, time.monotonic() - started


def describe_mix(model):
    """The learnt mix of the biLM's layers, as text."""
    texts = []
    for layer in model.layers:
        if hasattr(layer, "scalars"):
            shares = keras.ops.softmax(layer.scalars).numpy()
            shares = " ".join(f"{share:.2f}" for share in shares)
            texts.append(f"{layer.name}: {float(layer.gamma.numpy()):.2f} x ({shares})")
    return ", ".join(texts)


def summary(scores):
    """Mean and standard deviation, as text."""
    spread = f" +- {np.std(scores, ddof=1):.4f}" if len(scores) > 1 else ""
    return f"{np.mean(scores):.4f}{spread}"


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task", choices=sorted(SETTINGS))
    parser.add_argument("train")
    parser.add_argument("dev")
    parser.add_argument("--elmo", help="folder of a pretrained ELMo; none: the baseline alone")
    parser.add_argument("--elmo-at", choices=["input", "output", "both"], default="input")
    parser.add_argument("--elmo-dropout", type=float, default=0.5)
    parser.add_argument("--elmo-l2", type=float, default=0.001)
    parser.add_argument("--cache", help="folder for the biLM's layers; none: in memory")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--sentences", type=int, help="train on so many of the first ones")
    for name in ("embedding_size", "units", "min_count", "batch_size"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int)
    for name in ("dropout", "learning_rate", "epochs"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=float)
    options = parser.parse_args(arguments)
    given = {n: getattr(options, n, None) for n in SETTINGS[options.task]}
    settings = {**SETTINGS[options.task], **{n: v for n, v in given.items() if v is not None}}

    read = data.read_conllu if options.task == "tag" else data.read_labelled_text
    sentences = read(options.train)[: options.sentences], read(options.dev)
    print(f"{len(sentences[0])} sentences to train on, {len(sentences[1])} held out")
    print(" ".join(f"{name}={value}" for name, value in settings.items()))
    variants = {"without ELMo": ((None, None), {})}
    if options.elmo is not None:
        started = time.monotonic()
        encoder = load_elmo(options.elmo).encoder
        layers = tuple(
            frozen_layers(encoder, [words for words, _ in part], options.cache)
            for part in sentences
        )
        _, num_layers, size = layers[0].shape
        print(f"layers of the biLM: {num_layers} x {size}, {time.monotonic() - started:.0f} s")
        elmo = dict(
            elmo_at=options.elmo_at,
            num_lm_layers=num_layers,
            lm_size=size,
            elmo_dropout=options.elmo_dropout,
            elmo_l2=options.elmo_l2,
        )
        variants[f"ELMo at {options.elmo_at}"] = layers, elmo

    print(f"\nheld-out accuracy\n{'seed':>6}" + "".join(f"{name:>22}" for name in variants))
    scores = {name: [] for name in variants}
    for seed in options.seeds:
        print(f"{seed:>6}", end="", flush=True)
        for name, (layers, elmo) in variants.items():
            score, model, seconds = train(options.task, sentences, layers, settings, seed, elmo)
            scores[name].append(score)
            print(f"{f'{score:.4f} ({seconds:.0f} s)':>22}", end="", flush=True)
        mix = describe_mix(model)
        print(f"  {mix}" if mix else "")
    print(f"{'mean':>6}" + "".join(f"{summary(values):>22}" for values in scores.values()))
    return scores


if __name__ == "__main__":
    main()
