"""ELMo inference here beside a plain torch implementation with the same weights.

    python -m benchmarks.elmo [--text FILE] [--size small] [--rounds 5]

torch must be installed. Both run in this process, on the same batches of sentences of 24 words, in
alternating blocks; `--bf16` lets tfnlp take its matrix products in bfloat16, torch stays float32.
torch gets character ids; tfnlp gets strings and makes the ids itself. `distinct` are random words,
none twice; `text` is running text, on which a character network that sees each distinct word once
has less to do; with `cache` the vectors of the text's words are known beforehand. Shares are of the
peak that 2048 x 2048 float32 matrix products reach in the same run, counting the multiplications
that torch does: a multiply-add as two, 50 characters a word.
"""

import argparse
import os
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["KERAS_BACKEND"] = "tensorflow"

import numpy as np
import tensorflow as tf
import torch
from torch import nn
from torch.nn import functional

from benchmarks.timing import PEAK_FLOPS, measure, peak
from tfnlp import books, hub, models
from tfnlp.text import BEGIN_OF_SENTENCE, END_OF_SENTENCE, character_ids, split_words

WORDS, BATCHES = 24, 8
SIZES = {"small": models.ELMO_SMALL, "original": models.ELMO_ORIGINAL}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--text", help="tokenized text, words between spaces (default: a book)")
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--rows", type=int, default=16, help="sentences a batch")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="least length of a block")
    arguments = parser.parse_args()
    torch.set_num_threads(os.cpu_count())
    encoder = models.elmo(**SIZES[arguments.size])
    ours = encoder
    if arguments.bf16:
        ours = models.elmo(**SIZES[arguments.size], dtype="mixed_bfloat16")
        ours.set_weights(encoder.get_weights())
    text = _text(arguments.text, arguments.rows)
    distinct = _distinct_words(arguments.rows)
    inputs = {"distinct": distinct, "text": text}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "words.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write("".join(f"{w}\n" for w in sorted({*text.ravel(), "<S>", "</S>"})))
        modules = {
            "distinct": hub.ElmoModule(ours),
            "text": hub.ElmoModule(ours),
            "text, cache": hub.ElmoModule(ours, cache=path),
        }
    candidates = {name: _ours(m, inputs[name.split(",")[0]]) for name, m in modules.items()}
    peer = TorchElmo(encoder)
    candidates["torch"] = _theirs(peer, text)
    _check(modules["distinct"], peer, text[0], 0.05 if arguments.bf16 else 1e-4)
    candidates["peak"] = peak()
    timings = measure(candidates, arguments.rounds, arguments.seconds)
    rate = PEAK_FLOPS / timings.pop("peak")
    words = text.size
    baseline = words / timings["torch"]
    flops = _flops_a_word(encoder) * (WORDS + 2) / WORDS
    share = len(np.unique(text[0])) / text[0].size
    print(f"{arguments.size}: peak {rate / 1e9:.0f} GFLOP/s; text: {share:.0%} of a batch's words")
    print(f"{'':16s}{'words/s':>10s}{'over torch':>12s}{'share of peak':>15s}")
    for name, seconds in timings.items():
        speed = words / seconds
        print(f"{name:16s}{speed:10.0f}{speed / baseline:12.2f}{speed * flops / rate:15.2f}")


def _distinct_words(rows):
    """Random words as long as English ones, `[BATCHES, rows, WORDS]`, none twice in a batch."""
    rng = np.random.default_rng(0)
    batches = []
    for _ in range(BATCHES):
        words = set()
        while len(words) < rows * WORDS:
            letters = rng.integers(97, 123, min(48, 3 + rng.poisson(2.7)), dtype=np.uint8)
            words.add(letters.tobytes().decode())
        batches.append(np.array(sorted(words)).reshape(rows, WORDS))
    return np.stack(batches)


def _text(path, rows):
    """Consecutive words of a text, `[BATCHES, rows, WORDS]`."""
    with open(path or books.path("the_secret_garden"), encoding="utf-8") as file:
        text = file.read()
    words = (text if path else split_words(text)).split()
    return np.array(words[: BATCHES * rows * WORDS]).reshape(BATCHES, rows, WORDS)


def _ours(module, batches):
    lengths = tf.fill(batches.shape[1:2], WORDS)
    batches = [{"tokens": tf.constant(b), "sequence_len": lengths} for b in batches]

    def run():
        for batch in batches:
            module(batch)["elmo"].numpy()

    return run


def _characters(words):
    """Character ids of one batch with its marks, `[rows, WORDS + 2, 50]`."""
    begin, end = (np.full((len(words), 1), mark) for mark in (BEGIN_OF_SENTENCE, END_OF_SENTENCE))
    return character_ids(np.concatenate([begin, words, end], 1)).numpy()


def _theirs(peer, batches):
    ids = [torch.from_numpy(_characters(b)).long() for b in batches]

    def run():
        with torch.inference_mode():
            for batch in ids:
                peer(batch)

    return run


def _check(module, peer, words, limit):
    """Both must compute the same before their speeds mean anything."""
    ours = module({"tokens": tf.constant(words), "sequence_len": tf.fill([len(words)], WORDS)})
    with torch.inference_mode():
        theirs = peer(torch.from_numpy(_characters(words)).long()).numpy()[:, 2, 1:-1]
    difference = np.abs(ours["lstm_outputs2"].numpy() - theirs).max()
    print(f"largest difference of the top layer to torch's: {difference:.1e}")
    if difference > limit:
        raise ValueError(f"tfnlp and torch differ by {difference}")


def _flops_a_word(encoder):
    cnn, bilm = encoder.get_layer("char_cnn"), encoder.get_layer("bilm")
    convolutions = sum((50 - w + 1) * w * cnn.embedding_size * n * 2 for w, n in cnn.filters)
    highways = cnn.num_highway * 2 * 2 * cnn.num_filters**2
    projection = 2 * cnn.num_filters * bilm.projection_size
    cell = 2 * 2 * bilm.projection_size * 4 * bilm.units + 2 * bilm.units * bilm.projection_size
    return convolutions + highways + projection + 2 * bilm.num_layers * cell


class TorchElmo(nn.Module):
    """An ELMo in plain torch, with the weights of a tfnlp model of two LSTM layers.

    Character ids `[B, T, 50]` to all layers `[B, L + 1, T, 2P]`. torch's own LSTM can't clip cell
    and projection, which random weights do not need.
    """

    def __init__(self, encoder):
        super().__init__()
        cnn, bilm = encoder.get_layer("char_cnn"), encoder.get_layer("bilm")
        table = _tensor(cnn.character_embedding)
        self.embedding = nn.Embedding.from_pretrained(
            torch.cat([torch.zeros_like(table[:1]), table])
        )
        self.convolutions = nn.ModuleList()
        for (width, number), kernel, bias in zip(cnn.filters, cnn.kernels, cnn.biases, strict=True):
            convolution = nn.Conv1d(cnn.embedding_size, number, width)
            _set(convolution.weight, _tensor(kernel).permute(2, 1, 0))
            _set(convolution.bias, _tensor(bias))
            self.convolutions.append(convolution)
        self.highways = nn.ModuleList()
        for highway in cnn.highways:
            both = nn.Linear(cnn.num_filters, 2 * cnn.num_filters)
            kernels = [_tensor(highway.transform_kernel), _tensor(highway.carry_kernel)]
            biases = [_tensor(highway.transform_bias), _tensor(highway.carry_bias_weight)]
            _set(both.weight, torch.cat(kernels, 1).T)
            _set(both.bias, torch.cat(biases))
            self.highways.append(both)
        self.projection = nn.Linear(cnn.num_filters, bilm.projection_size)
        _set(self.projection.weight, _tensor(cnn.projection_kernel).T)
        _set(self.projection.bias, _tensor(cnn.projection_bias))
        self.lstms = nn.ModuleList(_lstm(x) for x in (*bilm.forward_lstms, *bilm.backward_lstms))

    def forward(self, ids):
        x = self.embedding(ids.reshape(-1, ids.shape[-1])).transpose(1, 2)
        y = torch.cat([functional.relu(c(x).amax(-1)) for c in self.convolutions], -1)
        for highway in self.highways:
            transformed, gate = highway(y).chunk(2, -1)
            gate = torch.sigmoid(gate)
            y = gate * functional.relu(transformed) + (1 - gate) * y
        x = self.projection(y).view(*ids.shape[:2], -1)  # [B, T, P]
        layers, f, b = [torch.cat([x, x], -1)], x, x.flip(1)
        for index in range(2):
            new_f = self.lstms[index](f)[0]
            new_b = self.lstms[2 + index](b)[0]
            f, b = (new_f + f, new_b + b) if index else (new_f, new_b)
            layers.append(torch.cat([f, b.flip(1)], -1))
        return torch.stack(layers, 1)


def _lstm(layer):
    size = layer.kernel.shape[0]
    lstm = nn.LSTM(size, layer.units, proj_size=layer.projection_size, batch_first=True)
    order = [0, 2, 1, 3]  # torch's gates are i, f, g, o

    def gates(x):
        return torch.cat([x.chunk(4, -1)[k] for k in order], -1)

    bias = _tensor(layer.bias).clone()
    bias[2 * layer.units : 3 * layer.units] += layer.forget_bias
    _set(lstm.weight_ih_l0, gates(_tensor(layer.kernel)).T)
    _set(lstm.weight_hh_l0, gates(_tensor(layer.recurrent_kernel)).T)
    _set(lstm.weight_hr_l0, _tensor(layer.projection_kernel).T)
    _set(lstm.bias_ih_l0, gates(bias))
    _set(lstm.bias_hh_l0, torch.zeros_like(bias))
    return lstm


def _tensor(variable):
    return torch.from_numpy(np.array(variable.numpy()))


def _set(parameter, value):
    with torch.no_grad():
        parameter.copy_(value)


if __name__ == "__main__":
    main()
