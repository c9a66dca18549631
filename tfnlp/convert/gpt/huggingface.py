"""Names of Hugging Face's GPT and GPT-2 checkpoints (transformers, models/openai and models/gpt2).
"""

import re

from tfnlp.convert.formats.mapping import Row
from tfnlp.convert.gpt.config import read_config

LAYER = re.compile(r"h\.(\d+)\.")
CONFIGURATION = "config.json"
# by norm_first: GPT's, GPT-2's
TOKENS = {False: "tokens_embed.weight", True: "wte.weight"}
POSITIONS = {False: "positions_embed.weight", True: "wpe.weight"}
# Stored twice by some versions and once by others, under either name.
HEAD = "lm_head.weight"
_BUFFERS = re.compile(r"position_ids|h\.\d+\.attn\.(bias|masked_bias)")


def recognises(names):
    """Whether these are names of a GPT or a GPT-2."""
    return _is_norm_first(names) is not None


def _is_norm_first(names):
    for norm_first in (False, True):
        if TOKENS[norm_first] in names or POSITIONS[norm_first] in names:
            return norm_first
    return None


def canonical(name):
    """The name as the table below has it (no `transformer.`); None for buffers, the causal mask
    and the numbers of the positions."""
    name = name.removeprefix("transformer.")
    return None if _BUFFERS.fullmatch(name) else name


def configuration(path, names):
    """The arguments of `gpt` that the configuration at `path` states."""
    return read_config(path, _is_norm_first(names))


def stored_shape(name, shape):
    """Kernels are `[in, out]` as in Keras: these two models are not built of PyTorch's `Linear`."""
    return shape


def rows(config):
    """Table of weight path to `Row`."""
    norm_first = config["norm_first"]
    table = {
        "token_embedding/embeddings": Row((TOKENS[norm_first],)),
        "position_embedding/embeddings": Row((POSITIONS[norm_first],)),
    }

    def norm(path, name):
        table[f"{path}/gamma"] = Row((f"{name}.weight",))
        table[f"{path}/beta"] = Row((f"{name}.bias",))

    def dense(path, name):
        table[f"{path}/kernel"] = Row((f"{name}.weight",))
        table[f"{path}/bias"] = Row((f"{name}.bias",))

    for i in range(config["num_layers"]):
        path, name = f"layer_{i}", f"h.{i}"
        dense(f"{path}/attention/qkv", f"{name}.attn.c_attn")
        dense(f"{path}/attention/output", f"{name}.attn.c_proj")
        norm(f"{path}/attention_norm", f"{name}.ln_1")
        dense(f"{path}/intermediate", f"{name}.mlp.c_fc")
        dense(f"{path}/output", f"{name}.mlp.c_proj")
        norm(f"{path}/output_norm", f"{name}.ln_2")
    if norm_first:
        norm("final_norm", "ln_f")
    return table
