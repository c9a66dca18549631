"""ELMo (Peters et al. 2018): contextual word vectors from a bidirectional language model."""

from collections.abc import Sequence

import keras
from keras import ops

from tfnlp.layers import (
    BiLM,
    CharCNN,
    Dropout,
    SampledSoftmax,
    ScalarMix,
    SentenceBoundaries,
)
from tfnlp.layers.base import DType, Tensor
from tfnlp.layers.char_cnn import FILTERS

# The three published English models. Weights without the softmax: 93.6, 28.0 and 13.6 million.
ELMO_ORIGINAL = dict(units=4096, projection_size=512, num_highway=2)
ELMO_MEDIUM = dict(units=2048, projection_size=256, num_highway=1)
ELMO_SMALL = dict(units=1024, projection_size=128, num_highway=1)
# For an hour on two cores; not published.
ELMO_MINI = dict(
    units=512,
    projection_size=128,
    num_highway=1,
    filters=((1, 32), (2, 32), (3, 64), (4, 128), (5, 128), (6, 128)),
)

MAX_CHARACTERS = 50


def boundary_characters(mark: int) -> list[int]:
    """Return the character ids of `<S>` (mark 257) or `</S>` (258), a word of one character."""
    return [259, mark, 260] + [261] * (MAX_CHARACTERS - 3)


def elmo(
    num_layers: int = 2,
    units: int = 4096,
    projection_size: int = 512,
    num_characters: int = 262,
    embedding_size: int = 16,
    filters: Sequence[tuple[int, int]] = FILTERS,
    activation: str = "relu",
    num_highway: int = 2,
    cell_clip: float | None = 3.0,
    projection_clip: float | None = 3.0,
    residual: bool = True,
    dropout: float = 0.1,
    layer_norm: bool = False,
    l2: float = 0.0,
    keep_sentence_boundaries: bool = False,
    seq_length: int | None = None,
    dtype: DType = None,
    name: str = "elmo",
) -> keras.Model:
    """Return the encoder of words; the defaults are the paper's (93.6 M weights).

    `h_0 = [x | x]` with x from the `CharCNN`, `h_1..h_L` from the `BiLM`,
    `elmo = gamma sum_j softmax(s)_j h_j`.

    Args:
        num_layers: LSTM layers L.
        units, projection_size, cell_clip, projection_clip, residual, dropout: of the LSTMs, see
            `tfnlp.layers.BiLM`; projection_size P is also the width of the word vectors.
        num_characters, embedding_size, filters, activation, num_highway: of the character
            network, see `tfnlp.layers.CharCNN`.
        layer_norm, l2: of the mix, see `tfnlp.layers.ScalarMix`.
        keep_sentence_boundaries: keep the vectors of `<S>` and `</S>` in the outputs, which then
            have T + 2 positions (the first and the one after the last word).
        seq_length: static number of words T, or None for any.
        dtype: a Keras dtype policy, e.g. "mixed_bfloat16"; None takes the global one.

    Inputs: dict of `character_ids`, int32 `[B, T, 50]`, from `tfnlp.text.character_ids`; a word
    whose ids are 0 is padding, and stands at the end of its row. The model adds `<S>` and `</S>`.

    Outputs: dict of `word_emb` `[B, T, P]`, `lstm_outputs1`, ..., `lstm_outputsL` and `elmo`
    `[B, T, 2P]`, zero at padding, and `default` `[B, 2P]`, the mean of `elmo` over real words.

    Raises:
        ValueError: for arguments that `BiLM`, `CharCNN` or `ScalarMix` refuse, or filters wider
            than a word.
    """
    characters = keras.Input((seq_length, MAX_CHARACTERS), dtype="int32", name="character_ids")
    words = SentenceBoundaries(
        boundary_characters(257), boundary_characters(258), name="sentence_boundaries"
    )(characters)
    # bilm-tf projects only where the widths differ.
    projected = None if projection_size == sum(n for _, n in filters) else projection_size
    sizes = num_characters, embedding_size, filters
    char_cnn = CharCNN(*sizes, activation, num_highway, projected, dtype=dtype, name="char_cnn")
    clips = cell_clip, projection_clip
    bilm = BiLM(
        num_layers, units, projection_size, *clips, residual, dropout, dtype=dtype, name="bilm"
    )
    mix = ScalarMix(num_layers + 1, layer_norm, l2, dtype=dtype, name="scalar_mix")
    mask = words[:, :, 0] != 0
    layers, _ = _layers(char_cnn(words), mask, bilm)
    outputs = _outputs(layers, mask, mix, keep_sentence_boundaries)
    return keras.Model({"character_ids": characters}, outputs, name=name)


def elmo_lstm(encoder: keras.Model, name: str = "elmo_lstm") -> keras.Model:
    """Return the part of `encoder` (from `elmo`) after its character network; it shares weights.

    For words whose vectors are known already, and for running text with a carried state.

    Inputs: dict of `word_embeddings` `[B, T + 2, P]`, `<S>` and `</S>` included, `word_mask` bool
    `[B, T + 2]` and `state` float32 `[B, 2L, U + P]`, zeros at the start of a text.

    Outputs: as `elmo`, and `state`.
    """
    bilm, mix = encoder.get_layer("bilm"), encoder.get_layer("scalar_mix")
    inputs = {
        "word_embeddings": keras.Input(
            (None, bilm.projection_size), dtype=bilm.compute_dtype, name="word_embeddings"
        ),
        "word_mask": keras.Input((None,), dtype="bool", name="word_mask"),
        "state": keras.Input(bilm.state_shape, dtype="float32", name="state"),
    }
    mask = inputs["word_mask"]
    layers, state = _layers(inputs["word_embeddings"], mask, bilm, inputs["state"])
    outputs = _outputs(layers, mask, mix, keep_boundaries=False)
    return keras.Model(inputs, {**outputs, "state": state}, name=name)


def elmo_pretrainer(
    encoder: keras.Model,
    vocab_size: int,
    num_samples: int | None = 8192,
    batch_size: int | None = None,
    dropout: float = 0.1,
    resets: bool = False,
    name: str = "elmo_pretrainer",
) -> keras.Model:
    """Return the language model of `encoder` (from `elmo`) on windows of running text.

    `loss_t = -log softmax(drop(h_t) W^T + b)[next word]` with h_t the last layer of one direction,
    and W, b shared by both (Peters et al. 2018, section 3.1).

    Args:
        encoder: a model made by `elmo`.
        vocab_size: words V of the softmax, sorted by falling frequency.
        num_samples: of the sampled softmax while training; None: the full softmax always.
        batch_size: static number of rows B, or None.
        dropout: rate on h_t while training.
        resets: add an input that says where states are set to zero.

    Inputs: dict of `word_characters` int32 `[N, C]`, the characters of the words that occur;
    `forward_words` and `backward_words` int32 `[B, T]`, rows of it, in the order in which each
    direction reads; `forward_targets`, `backward_targets` int32 `[B, T]`; `state` float32
    `[B, 2L, U + P]` and, with `resets`, `resets` bool `[B, T]`.

    Outputs: dict of `forward_losses`, `backward_losses` float32 `[B, T]` and `state`.

    Raises:
        ValueError: for vocab_size or num_samples below 1.
    """
    char_cnn, bilm = encoder.get_layer("char_cnn"), encoder.get_layer("bilm")

    def window(name: str, dtype: DType = "int32") -> keras.KerasTensor:
        return keras.Input(batch_shape=(batch_size, None), dtype=dtype, name=name)

    directions = ("forward", "backward")
    inputs = [keras.Input((None,), dtype="int32", name="word_characters")]
    words = [window(f"{direction}_words") for direction in directions]
    targets = [window(f"{direction}_targets") for direction in directions]
    state = keras.Input(batch_shape=(batch_size, *bilm.state_shape), name="state")
    inputs += [*words, *targets, state]
    if resets:
        inputs.append(window("resets", "bool"))
    vectors = char_cnn(inputs[0])  # [N, P]
    forward, backward = (ops.take(vectors, w, axis=0) for w in words)  # [B, T, P]
    layers, state = bilm(
        forward,
        initial_state=state,
        backward_inputs=backward,
        resets=inputs[-1] if resets else None,
    )
    dropped = Dropout(dropout, dtype=bilm.dtype_policy, name="output_dropout")(layers[-1])
    # Both directions in one call, so that they share the sampled words.
    hidden = ops.concatenate(ops.split(dropped, 2, axis=-1))  # [2B, T, P]
    losses = SampledSoftmax(vocab_size, num_samples, name="softmax")(
        hidden, ops.concatenate(targets)
    )
    outputs = dict(zip(("forward_losses", "backward_losses"), ops.split(losses, 2), strict=True))
    outputs["state"] = state
    return keras.Model({x.name: x for x in inputs}, outputs, name=name)


def _layers(
    x: Tensor, mask: Tensor, bilm: BiLM, state: Tensor | None = None
) -> tuple[list[Tensor], Tensor]:
    """Return all layers `[B, T, 2P]`, the word vectors twice as layer 0, and the state."""
    layers, state = bilm(x, mask=mask, initial_state=state)
    x = ops.where(mask[:, :, None], x, ops.zeros((), x.dtype))
    return [ops.concatenate([x, x], -1), *layers], state


def _outputs(
    layers: list[Tensor], mask: Tensor, mix: ScalarMix, keep_boundaries: bool
) -> dict[str, Tensor]:
    """Return the outputs by their published names."""
    real = mask
    if not keep_boundaries:
        # The last real position of a row is `</S>`; shifting the mask by two leaves it out.
        real = mask[:, 2:]
        layers = [ops.where(real[:, :, None], x[:, 1:-1], ops.zeros((), x.dtype)) for x in layers]
    mixed = mix(layers, mask=real)
    mixed = ops.where(real[:, :, None], mixed, ops.zeros((), mixed.dtype))
    count = ops.maximum(ops.sum(ops.cast(real, "float32"), axis=1, keepdims=True), 1.0)
    mean = ops.sum(ops.cast(mixed, "float32"), axis=1) / count
    outputs = {"word_emb": layers[0][:, :, : layers[0].shape[-1] // 2]}
    outputs.update({f"lstm_outputs{j}": x for j, x in enumerate(layers) if j})
    return {**outputs, "elmo": mixed, "default": ops.cast(mean, mixed.dtype)}
