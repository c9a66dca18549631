"""Random batches and counted operations of BERT's and GPT's pretraining, for several benchmarks.

A case is a dict that JSON can carry: `family` ("bert", "gpt"), `layers`, `hidden`, `heads`,
`vocab`, `rows`, `length`, and of a BERT `predictions`, the masked positions of a sequence.
"""

import numpy as np

VOCAB = {"bert": 30522, "gpt": 50304}
SIZES = {
    "4x256": {"layers": 4, "hidden": 256, "heads": 4},
    "12x768": {"layers": 12, "hidden": 768, "heads": 12},
}


def policy_of(dtype):
    """Return Keras's policy for a case in float32 or bfloat16: the weights are float32."""
    return dtype if dtype == "float32" else f"mixed_{dtype}"


def batch_of(case):
    """Return a full batch (no padding), by the names of tfnlp's objectives: numpy arrays."""
    random, vocab = np.random.default_rng(0), case["vocab"]
    rows, length = shape = case["rows"], case["length"]
    batch = {"input_mask": np.ones(shape, "int32")}
    if case["family"] == "gpt":
        ids = random.integers(0, vocab, (rows, length + 1), "int32")
        batch |= {"input_ids": ids[:, :-1], "input_word_ids": ids[:, :-1], "targets": ids[:, 1:]}
        return batch | {"weights": np.ones(shape, "float32")}
    masked = rows, case["predictions"]
    halves = (np.arange(length) >= length // 2).astype("int32")
    return batch | {
        "input_word_ids": random.integers(1000, vocab, shape, "int32"),
        "input_type_ids": np.tile(halves, (rows, 1)),
        "masked_lm_positions": random.integers(1, length, masked, "int32"),
        "masked_lm_ids": random.integers(1000, vocab, masked, "int32"),
        "masked_lm_weights": np.ones(masked, "float32"),
        "next_sentence_labels": random.integers(0, 2, rows, "int32"),
    }


def encoder_flops(case):
    """Floating-point operations of a forward pass of the encoder, a multiply-add as two.

    A sequence: L T (2 (4 H^2 + 2 H F) + 4 S H) with F = 4 H, and S = T/2 where a token sees those
    before it alone, else T.
    """
    hidden, length = case["hidden"], case["length"]
    seen = length / 2 if case["family"] == "gpt" else length
    return case["rows"] * case["layers"] * length * (24 * hidden**2 + 4 * seen * hidden)


def step_flops(case):
    """Operations of a training step: three times those of a forward pass with its head.

    The head: 2 H V a token of GPT, 2 (H^2 + H V) a masked position of BERT.
    """
    hidden, vocab, rows = case["hidden"], case["vocab"], case["rows"]
    if case["family"] == "gpt":
        head = rows * case["length"] * 2 * hidden * vocab
    else:
        head = rows * case["predictions"] * 2 * (hidden**2 + hidden * vocab)
    return 3 * (encoder_flops(case) + head)
