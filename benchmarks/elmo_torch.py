"""An ELMo in plain torch, as one would write it, with the weights of a tfnlp model."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional


class TorchElmo(nn.Module):
    """Character ids `[B, T, 50]` to all layers `[B, L + 1, T, 2P]`.

    Args:
        encoder: from `tfnlp.models.elmo` with two LSTM layers.
        clip: clip cell and projection, which takes a loop in Python; torch's own LSTM can't.
    """

    def __init__(self, encoder, clip):
        super().__init__()
        cnn, bilm = encoder.get_layer("char_cnn"), encoder.get_layer("bilm")
        self.clip = clip
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
        self.lstms = nn.ModuleList(_lstm(x) for x in (*bilm.forward, *bilm.backward))

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
            new_f = self._run(self.lstms[index], f)
            new_b = self._run(self.lstms[2 + index], b)
            f, b = (new_f + f, new_b + b) if index else (new_f, new_b)
            layers.append(torch.cat([f, b.flip(1)], -1))
        return torch.stack(layers, 1)

    def _run(self, lstm, x):
        if not self.clip:
            return lstm(x)[0]
        bias = lstm.bias_ih_l0 + lstm.bias_hh_l0
        gates = functional.linear(x, lstm.weight_ih_l0, bias)
        h, c = x.new_zeros(x.shape[0], lstm.proj_size), x.new_zeros(x.shape[0], lstm.hidden_size)
        outputs = []
        for t in range(x.shape[1]):
            i, f, g, o = torch.addmm(gates[:, t], h, lstm.weight_hh_l0.t()).chunk(4, -1)
            c = (torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)).clamp(-3, 3)
            h = ((torch.sigmoid(o) * torch.tanh(c)) @ lstm.weight_hr_l0.t()).clamp(-3, 3)
            outputs.append(h)
        return torch.stack(outputs, 1)


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
