"""Uses exported GPTs in a process that has TensorFlow and nothing else.

`python gpt_reader.py FOLDER` loads FOLDER/gpt2 and FOLDER/gpt, each a model and a preprocessor, and
writes what it saw to FOLDER/seen.npz. GPT's tokenizer needs tensorflow_text, which is let in for
it alone.
"""

import json
import os
import sys

BLOCKED = ("tfnlp", "keras", "tensorflow_hub", "tf_keras", "tensorflow_text")
sys.modules.update(dict.fromkeys(BLOCKED))  # importing one, or anything in it, now fails

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

folder = sys.argv[1]
with open(f"{folder}/plan.json", encoding="utf-8") as file:
    plan = json.load(file)
texts, prompts, calls = tf.constant(plan["texts"]), tf.constant(plan["prompts"]), plan["calls"]
seen = {}


def settings(call):
    types = dict(max_new_tokens="int32", top_k="int32", seed="int32")
    return {name: tf.constant(x, types.get(name, "float32")) for name, x in call.items()}


def outputs(prefix, got):
    for name, value in got.items():
        for i, x in enumerate(value if isinstance(value, list | tuple) else [value]):
            at = f"{prefix}/{name}/{i}" if isinstance(value, list | tuple) else f"{prefix}/{name}"
            seen[at] = x.numpy()


def look(kind):
    preprocessor = tf.saved_model.load(f"{folder}/{kind}/preprocessor")
    module = tf.saved_model.load(f"{folder}/{kind}/model")
    inputs = preprocessor(texts)
    outputs(f"{kind}/inputs", inputs)
    outputs(f"{kind}/inputs_by_signature", preprocessor.signatures["serving_default"](texts))
    tokens = preprocessor.tokenize(texts)
    seen[f"{kind}/tokens"], seen[f"{kind}/splits"] = tokens.flat_values, tokens.row_splits
    seen[f"{kind}/detokenized"] = preprocessor.detokenize(tokens).numpy()
    seen[f"{kind}/detokenized_dense"] = preprocessor.detokenize(inputs["input_word_ids"]).numpy()
    outputs(f"{kind}/outputs", module(inputs))
    outputs(f"{kind}/served", module.signatures["serving_default"](**inputs))
    for i, call in enumerate(calls):
        outputs(f"{kind}/method/{i}", module.generate(prompts, **settings(call)))
    last = settings(calls[-1])
    outputs(f"{kind}/signature", module.signatures["generate"](prompt=prompts, **last))
    return preprocessor, module, inputs


preprocessor, module, inputs = look("gpt2")
seen["counts"] = np.array([len(module.variables), len(module.trainable_variables)])
first, second = (module(inputs, training=True)["lm_logits"] for _ in range(2))
seen["dropout"] = np.abs(first - second).max()
seen["repeat"] = np.abs(module(inputs)["lm_logits"] - seen["gpt2/outputs/lm_logits"]).max()

# Load, save again, and load that where the first is gone.
for name, saved in (("preprocessor", preprocessor), ("model", module)):
    tf.saved_model.save(saved, f"{folder}/again/{name}", signatures=dict(saved.signatures))
os.rename(f"{folder}/gpt2", f"{folder}/moved")
again = tf.saved_model.load(f"{folder}/again/model")
copy = tf.saved_model.load(f"{folder}/again/preprocessor")
outputs("again/inputs", copy(texts))
outputs("again/outputs", again(inputs))
outputs("again/signature", again.signatures["generate"](prompt=prompts, **settings(calls[-1])))
os.rename(f"{folder}/moved", f"{folder}/gpt2")

# A plain tape: every weight has a gradient.
with tf.GradientTape() as tape:
    loss = tf.reduce_sum(module(inputs, training=True)["lm_logits"] ** 2)
gradients = tape.gradient(loss, module.trainable_variables)  # an absent one would end the script
seen["gradients"] = np.array([np.abs(tf.convert_to_tensor(g)).max() for g in gradients])

# GPT's words.
for name in ("tensorflow_text", "keras", "tf_keras"):  # it imports a Keras itself
    del sys.modules[name]
import tensorflow_text  # noqa: E402, F401

look("gpt")
np.savez(f"{folder}/seen.npz", **seen)
