"""The modules of the table of `benchmarks.reuse`, and what must come out of them.

Every kind of module is written three times: as its exporter writes it, fine-tuned for two steps in
a `tfnlp.hub.Layer` and exported, and loaded from there and exported once more. Beside each lies
what the model in memory made of a batch, and what two steps of Adam, written out in numpy, make of
its weights.
"""

import os
import pathlib

import keras
import numpy as np
import tensorflow as tf

from tfnlp import hub, models
from tfnlp.text import SPECIAL_TOKENS, WordPieceTokenizer, gpt_tokenizer, train_bpe

WORDS = ["the", "a", "cat", "dog", "sat", "ran", "to", "##s", "."]
TEXTS = ["the cat sat", "a dog ran to the cat .", "cats sat .", "the dogs"]
STEPS, RATE, EPSILON = 2, 0.01, 1e-4  # large for Adam: noise in gradients of zero stays small
ROWS, LENGTH = 4, 6
STAGES = ("pretrained", "fine-tuned", "exported again")

# Folder under a stage, sub-object, key of the output that is trained (None: nothing to train).
KINDS = {
    "BERT preprocessor": ("bert/preprocessor", None, None),
    "BERT encoder": ("bert/encoder", None, "sequence_output"),
    "BERT .mlm": ("bert/encoder", "mlm", "mlm_logits"),
    "ELMo": ("elmo", None, "elmo"),
    "GPT preprocessor": ("gpt/preprocessor", None, None),
    "GPT": ("gpt/model", None, "lm_logits"),
}


def inputs_of(kind):
    """A batch for a kind: a tensor of strings, or a dict of tensors."""
    if "preprocessor" in kind:
        return tf.constant(TEXTS)
    if kind == "ELMo":
        rows = [text.split() for text in TEXTS]
        width = max(map(len, rows))
        return {
            "tokens": tf.constant([row + [""] * (width - len(row)) for row in rows]),
            "sequence_len": tf.constant([len(row) for row in rows], "int32"),
        }
    rng = np.random.default_rng(7)
    mask = np.arange(LENGTH) < rng.integers(2, LENGTH + 1, (ROWS, 1))
    columns = {"input_word_ids": rng.integers(5, 14, (ROWS, LENGTH)) * mask, "input_mask": mask}
    if kind != "GPT":
        columns["input_type_ids"] = rng.integers(0, 2, (ROWS, LENGTH)) * mask
    if kind == "BERT .mlm":
        columns["masked_lm_positions"] = np.tile([1, 0], (ROWS, 1))
    return {name: tf.constant(x, "int32") for name, x in columns.items()}


def make_all(folder):
    """Writes every stage of every kind, and `expected/STAGE/KIND.npz` beside them."""
    folder = pathlib.Path(folder)
    live = _pretrained(folder / STAGES[0])
    for stage in STAGES:
        if stage != STAGES[0]:
            live = _again(folder, stage, trained=stage == STAGES[1])
        for kind, (call, variables, penalties) in live.items():
            _write_expected(folder, stage, kind, call, variables, penalties)


def expected_path(folder, stage, kind):
    return os.path.join(folder, "expected", stage, f"{kind.replace(' ', '_')}.npz")


def _pretrained(folder):
    """Exports small models with random weights and without dropout; returns what they are in
    memory, by kind: a function, variables, penalties."""
    rng = np.random.default_rng(0)
    tokenizer = WordPieceTokenizer([*SPECIAL_TOKENS, *WORDS])
    sizes = dict(num_layers=1, hidden_size=16, num_heads=2, intermediate_size=32, max_positions=12)
    still = dict(dropout=0.0, attention_dropout=0.0)
    encoder = models.bert(tokenizer.vocab_size, **sizes, **still)
    pretrainer = models.bert_pretrainer(encoder, next_sentence=False)
    bpe = gpt_tokenizer(train_bpe(TEXTS * 3, 290, "gpt2"))
    gpt = models.gpt_pretrainer(models.gpt(bpe.vocab_size, **sizes, **still))
    elmo = models.elmo(
        units=12, projection_size=8, embedding_size=4, filters=((1, 4), (2, 8)), num_highway=1,
        dropout=0.0,
    )  # fmt: skip
    for model in (pretrainer, gpt, elmo):
        for variable in model.trainable_variables:  # biases too: nothing hides in a zero
            variable.assign(rng.normal(0, 0.3, variable.shape))
    # The pooler has no part in what is trained: it moves by its penalty alone.
    encoder.get_layer("pooler").dense.kernel.regularizer = keras.regularizers.L2(0.1)
    hub.export_bert(folder / "bert", encoder, tokenizer, pretrainer, seq_length=8)
    hub.export_gpt(folder / "gpt", gpt, bpe, seq_length=8)
    hub.export_elmo(folder / "elmo", elmo, trainable="all")
    module = hub.ElmoModule(elmo, trainable="all")
    prepared = {
        "BERT preprocessor": hub.BertPreprocessorModule(tokenizer, 8),
        "GPT preprocessor": hub.GPTPreprocessorModule(bpe, 8),
    }
    live = {kind: (call, [], []) for kind, call in prepared.items()}
    for kind, model in (("BERT encoder", encoder), ("BERT .mlm", pretrainer), ("GPT", gpt)):
        live[kind] = _of_keras(model)
    live["ELMo"] = (module, module.trainable_variables, [])
    return live


def _of_keras(model):
    variables = [v.value for v in model.trainable_variables]
    penalties = [
        lambda v=v: v.regularizer(v) for v in model.trainable_variables if v.regularizer is not None
    ]
    return model, variables, penalties


def _again(folder, stage, trained):
    """Loads every kind of the stage before, fine-tunes it if `trained`, and exports it."""
    before, after = folder / STAGES[STAGES.index(stage) - 1], folder / stage
    live = {}
    for place in dict.fromkeys(path for path, _, _ in KINDS.values()):
        loaded = tf.saved_model.load(str(before / place))
        members = {name: (sub, key) for name, (path, sub, key) in KINDS.items() if path == place}
        found, layers = {}, []
        for kind, (sub, key) in members.items():
            layer = hub.Layer(getattr(loaded, sub) if sub else loaded, trainable=key is not None)
            taken = symbols(keras, inputs_of(kind))
            found[sub] = keras.Model(taken, layer(taken))
            layers.append(layer)
            if trained and key is not None:
                fit(compiled(keras, found[sub], key), inputs_of(kind))
            live[kind] = found[sub], layer, key
        objects = {sub: model for sub, model in found.items() if sub}
        hub.export(found[None], after / place, objects=objects)
    return {
        kind: (
            model,
            [v.value for v in layer.trainable_variables],
            list(getattr(layer.resolved_object, "regularization_losses", ())) if key else [],
        )
        for kind, (model, layer, key) in live.items()
    }


def symbols(library, inputs):
    """Keras inputs like a batch, of any length."""
    if not isinstance(inputs, dict):
        return library.Input((), dtype="string", name="sentences")
    return {
        name: library.Input((None,) * (len(x.shape) - 1), dtype=x.dtype.name, name=name)
        for name, x in inputs.items()
    }


def compiled(library, model, key):
    """What is fine-tuned: the mean square of an output. To be called in a strategy's scope."""
    part = library.Model(model.input, model.output[key])
    part.compile(library.optimizers.Adam(RATE, epsilon=EPSILON), "mse")
    return part


def fit(part, inputs):
    """Two steps with a Keras's own `fit`."""
    part.fit(batches(inputs, part(inputs).shape), epochs=1, verbose=0)


def batches(inputs, shape):
    """The batch for each step, with zeros to come to."""
    whole = tf.data.Dataset.from_tensors((inputs, tf.zeros(shape)))
    return whole.unbatch().batch(ROWS, drop_remainder=True).repeat(STEPS)


def _write_expected(folder, stage, kind, call, variables, penalties):
    inputs, key = inputs_of(kind), KINDS[kind][2]
    found = {f"output/{name}": x for name, x in flat(call(inputs)).items()}
    if key is not None:
        kept = [v.numpy() for v in variables]
        for i, x in enumerate(_adam(lambda: call(inputs)[key], variables, penalties)):
            found[f"weight/{i}"] = x
        moved = [np.abs(v.numpy() - x).max() for v, x in zip(variables, kept, strict=True)]
        if np.median(moved) < RATE / 10:
            raise RuntimeError(f"{kind}: too little moves to tell right from wrong: {moved}")
        for variable, value in zip(variables, kept, strict=True):
            variable.assign(value)
    path = expected_path(folder, stage, kind)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    np.savez(path, **found)


def _adam(output, variables, penalties):
    """The weights after two steps (Kingma & Ba 2015, algorithm 1, in Keras's form)."""
    first = [np.zeros(v.shape, "float64") for v in variables]
    second = [np.zeros(v.shape, "float64") for v in variables]
    for t in range(1, STEPS + 1):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(output())) + sum(f() for f in penalties)
        rate = RATE * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        for i, (v, g) in enumerate(zip(variables, tape.gradient(loss, variables), strict=True)):
            g = np.zeros(v.shape) if g is None else tf.convert_to_tensor(g).numpy()
            first[i] = 0.9 * first[i] + 0.1 * g
            second[i] = 0.999 * second[i] + 0.001 * g**2
            v.assign(v.numpy() - rate * first[i] / (np.sqrt(second[i]) + EPSILON))
    return [v.numpy() for v in variables]


def flat(outputs):
    """Outputs as a dict of arrays, the members of lists numbered."""
    found = {}
    for name, x in outputs.items():
        for i, value in enumerate(x if isinstance(x, list | tuple) else [x]):
            if hasattr(value, "to_tensor"):
                value = value.to_tensor()
            found[f"{name}.{i}" if isinstance(x, list | tuple) else name] = np.asarray(value)
    return found
