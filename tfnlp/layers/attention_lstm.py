"""LSTMs with attention to a source in each step: the decoders of Bahdanau and of Luong."""

from typing import Any

import keras
from keras import ops

from tfnlp.layers.attention_scores import ATTENTIONS, masked_bias
from tfnlp.layers.base import MaskEnds, Shape, Tensor, carried, check_positive
from tfnlp.layers.dropout import Dropout
from tfnlp.layers.kernels.attention_loop import Fixed, attention_loop, trainable_attention_loop


@keras.saving.register_keras_serializable(package="tfnlp")
class AttentionLSTM(MaskEnds):
    """A stack of LSTMs with attention inside the recurrence.

    Without `input_feeding` the state before a step is the query, and the context is fed to the
    first cell (Bahdanau et al. 2015, section 3.1 and appendix A.2.2, there a GRU):

        c_t = attend(h_{t-1}), h_t = LSTM([x_t; c_t], h_{t-1}), y_t = tanh([c_t; h_t] W_o)

    With it the state after a step is the query, and the output is fed to the next step (Luong,
    Pham & Manning 2015, sections 3 and 3.3):

        h_t = LSTM([x_t; y_{t-1}], h_{t-1}), c_t = attend(h_t), y_t = tanh([c_t; h_t] W_o)

    Layers above the first read the h_t of the layer below; h_t in these formulas is that of the
    last layer. The LSTM is `ProjectedLSTM` without projection and clips, with a forget bias of 1.

    Args:
        units: U, width of the states and outputs.
        num_layers: L.
        score: "additive", "dot", "general" or "cosine", see `attention_scores.py`.
        input_feeding: as above.
        dropout: rate between the layers while training.

    Call:
        inputs: `[B, T, I]`.
        memory: `[B, S, D]`, the source, both keys and values.
        mask: bool `[B, S]`, True for real tokens of the source, or None: the mask that the memory
            carries.
        initial_state: float32 `[B, L, 2U]`, c and h side by side, or None for zeros.
        previous_output: float32 `[B, U]`, y of the step before the first, or None for zeros; only
            with `input_feeding`.
        projected_keys: `attention.project_keys(memory)`, if it is known already, or None.
        training: also, whether a gradient is needed: the hand-written one is faster than automatic
            differentiation of the loop, and XLA can compile it.

    Returns:
        outputs y `[B, T, U]` in the compute dtype, weights float32 `[B, T, S]`, state float32
        `[B, L, 2U]`. States and softmax are float32 under any policy.

    Raises:
        ValueError: for sizes below 1, an unknown score, or a dropout outside [0, 1).
    """

    def __init__(
        self,
        units: int,
        num_layers: int = 1,
        score: str = "additive",
        input_feeding: bool = False,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_positive(units=units, num_layers=num_layers)
        if score not in ATTENTIONS:
            raise ValueError(f"score={score!r} must be one of {', '.join(map(repr, ATTENTIONS))}")
        self.units = units
        self.num_layers = num_layers
        self.score = score
        self.input_feeding = input_feeding
        self.dropout = dropout
        self.attention = ATTENTIONS[score](dtype=self.dtype_policy, name="attention")
        self.dropouts = [
            Dropout(dropout, dtype="float32", name=f"dropout_{i}") for i in range(1, num_layers)
        ]

    def build(self, inputs_shape: Shape, memory_shape: Shape) -> None:
        units, size, memory = self.units, inputs_shape[-1], memory_shape[-1]
        self.attention.build((None, None, units), memory_shape)
        self.memory_size = memory
        fed = units if self.input_feeding else memory

        def add(name: str, rows: int, all_rows: int) -> keras.Variable:
            # The inputs of a cell have one distribution, as if they were one matrix.
            limit = (6.0 / (all_rows + 4 * units)) ** 0.5
            uniform = keras.initializers.RandomUniform(-limit, limit)
            return self.add_weight(name=name, shape=(rows, 4 * units), initializer=uniform)

        self.kernel = add("kernel", size, size + fed + units)
        self.recurrent_kernels = [add("recurrent_kernel_0", fed + units, size + fed + units)]
        for i in range(1, self.num_layers):
            self.recurrent_kernels.append(add(f"recurrent_kernel_{i}", 2 * units, 2 * units))
        self.biases = [
            self.add_weight(name=f"bias_{i}", shape=(4 * units,), initializer="zeros")
            for i in range(self.num_layers)
        ]
        self.output_kernel = self.add_weight(name="output_kernel", shape=(memory + units, units))

    def call(
        self,
        inputs: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        initial_state: Tensor | None = None,
        previous_output: Tensor | None = None,
        projected_keys: Tensor | None = None,
        training: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor]:
        batch, time, units = ops.shape(inputs)[0], ops.shape(inputs)[1], self.units
        dtype, mask = self.compute_dtype, carried(mask, memory)
        memory = ops.cast(memory, dtype)
        keys = self.attention.project_keys(memory) if projected_keys is None else projected_keys
        if initial_state is None:
            initial_state = ops.zeros((batch, self.num_layers, 2 * units))
        state = ops.cast(initial_state, "float32")

        x = ops.cast(ops.transpose(inputs, (1, 0, 2)), dtype)  # [T, B, I]
        flat = ops.matmul(ops.reshape(x, (-1, x.shape[-1])), ops.cast(self.kernel, dtype))
        flat = flat + ops.cast(self.biases[0], dtype)
        tensors = {
            "gates": ops.reshape(flat, (time, batch, 4 * units)),
            "c": [state[:, i, :units] for i in range(self.num_layers)],
            "h": [state[:, i, units:] for i in range(self.num_layers)],
            "keys": ops.cast(keys, dtype),
            "values": memory,
            "weights": self._weights(),
        }
        if self.input_feeding:
            if previous_output is None:
                previous_output = ops.zeros((batch, units))
            tensors["fed"] = ops.cast(previous_output, "float32")
        drops = {}
        if training and self.dropout:
            ones = ops.ones((time, batch, units))
            drops = {f"drop_{i}": d(ones, training=True) for i, d in enumerate(self.dropouts, 1)}
        fixed = Fixed(self.input_feeding, self.attention.unit_queries, masked_bias(mask), drops)
        loop = trainable_attention_loop if training else attention_loop
        outputs, weights, c, h = loop(tensors, fixed)
        outputs = ops.cast(ops.swapaxes(outputs, 0, 1), dtype)
        if not self.input_feeding:  # no step needs the outputs: computed for all times at once
            flat = ops.reshape(outputs, (-1, outputs.shape[-1]))
            flat = ops.tanh(ops.matmul(flat, ops.cast(self.output_kernel, dtype)))
            outputs = ops.reshape(flat, (batch, time, units))
        state = ops.stack([ops.concatenate(pair, -1) for pair in zip(c, h, strict=True)], axis=1)
        return outputs, ops.swapaxes(weights, 0, 1), state

    def _weights(self) -> dict[str, Tensor]:
        weights = {f"recurrent_{i}": kernel for i, kernel in enumerate(self.recurrent_kernels)}
        weights.update({f"bias_{i}": bias for i, bias in enumerate(self.biases) if i})
        if self.input_feeding:
            weights["output"] = self.output_kernel
        if self.attention.vector is not None:
            weights.update(query=self.attention.query_kernel, vector=self.attention.vector)
        return {name: ops.cast(weight, self.compute_dtype) for name, weight in weights.items()}

    def compute_output_spec(
        self, inputs: Tensor, memory: Tensor, *_: Any, **others: Any
    ) -> tuple[keras.KerasTensor, ...]:
        batch, time, _ = inputs.shape
        return (
            keras.KerasTensor((batch, time, self.units), dtype=self.compute_dtype),
            keras.KerasTensor((batch, time, memory.shape[1]), dtype="float32"),
            keras.KerasTensor((batch, self.num_layers, 2 * self.units), dtype="float32"),
        )
