"""All layers of an ELMo for many sentences."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

import keras
import numpy as np
import tensorflow as tf

from tfnlp.models import elmo_lstm
from tfnlp.text import BEGIN_OF_SENTENCE, END_OF_SENTENCE, character_ids


def sentence_layers(
    module: Callable[[dict], dict[str, tf.Tensor]],
    sentences: Iterable[Sequence[str]],
    tokens: int = 4096,
) -> Iterator[np.ndarray]:
    """Yield for each sentence all layers of the biLM, float32 `[L + 1, n, 2P]`, in order.

    Layer 0 is the word vector, once for each direction (as bilm-tf writes it). Sentences of
    similar length share a batch. This does not change their vectors: each sentence starts from a
    state of zeros.

    Args:
        module: a `tfnlp.hub.ElmoModule`, or the result of `tfnlp.hub.saved_elmo`.
        sentences: iterable of lists of words; an empty list gives `[L + 1, 0, 2P]`.
        tokens: approximate number of tokens per batch.
    """
    sentences = iter(sentences)
    while chunk := list(itertools.islice(sentences, max(1, tokens // 8))):
        layers = [None] * len(chunk)
        order = sorted(range(len(chunk)), key=lambda i: -len(chunk[i]))
        while order:
            longest = max(1, len(chunk[order[0]]))
            count = max(1, tokens // longest)
            rows, order = order[:count], order[count:]
            lengths = [len(chunk[i]) for i in rows]
            words = [[*chunk[i], *[""] * (longest - len(chunk[i]))] for i in rows]
            outputs = module({"tokens": tf.constant(words), "sequence_len": tf.constant(lengths)})
            stacked = _stacked(outputs)  # [L + 1, B, T, 2P]
            for row, (i, length) in enumerate(zip(rows, lengths, strict=True)):
                layers[i] = stacked[:, row, :length].copy()
        yield from layers


def running_layers(
    encoder: keras.Model, sentences: Iterable[Sequence[str]]
) -> Iterator[np.ndarray]:
    """Yield the layers of `sentence_layers`, but keep the LSTM state between sentences.

    bilm-tf's `dump_bilm_embeddings` does so: a sentence's vectors depend on all sentences before
    it. `encoder` is from `tfnlp.models.elmo`.
    """
    lstm, char_cnn = elmo_lstm(encoder), encoder.get_layer("char_cnn")
    shape = (1, *encoder.get_layer("bilm").state_shape)

    @tf.function(
        input_signature=[tf.TensorSpec([None], "string"), tf.TensorSpec([1, None, None])],
        autograph=False,
    )
    def run(words: tf.Tensor, state: tf.Tensor) -> dict[str, tf.Tensor]:
        vectors = char_cnn(character_ids(words))[None]
        inputs = {
            "word_embeddings": vectors,
            "word_mask": tf.ones((1, tf.size(words)), "bool"),
            "state": tf.ensure_shape(state, shape),
        }
        return lstm(inputs)

    state = tf.zeros(shape)
    for words in sentences:
        outputs = dict(run(tf.constant([BEGIN_OF_SENTENCE, *words, END_OF_SENTENCE]), state))
        state = outputs["state"]
        yield _stacked(outputs)[:, 0]


def _stacked(outputs: dict[str, tf.Tensor]) -> np.ndarray:
    """Return all layers of a batch, `[L + 1, B, T, 2P]`."""
    words = outputs["word_emb"].numpy()
    count = sum(name.startswith("lstm_outputs") for name in outputs)
    lstm = [outputs[f"lstm_outputs{j + 1}"].numpy() for j in range(count)]
    return np.stack([np.concatenate([words, words], -1), *lstm]).astype("float32")
