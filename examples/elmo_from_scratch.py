"""ELMo in one file: a book becomes a language model in both directions, and that a tagger.

    python examples/elmo_from_scratch.py            # three to four minutes on two cores

To be read from top to bottom. It has only the layers of tfnlp, a tokenizer and the trainer:
`tfnlp.pretrain("elmo", ...)` does the same for any text, and can be stopped and resumed. Letters
stand for sizes: B rows of a batch, T words of a row, C characters of a word, P the width.
"""

import argparse
import collections

import keras
import numpy as np

from tfnlp import books, layers, text, training

B, T, C = 32, 24, 16
LAYERS = 2
FILTERS = ((1, 16), (2, 32), (3, 64), (4, 64))  # (how many characters one sees, how many)
SHOWN = "mary met dickon in the garden , and he said : i know where mrs . sowerby lives ."


# --- 1. Text: a string becomes words, and a word the bytes of its characters ---


def read_book():
    """Return the running text as two arrays of words: nine tenths to learn from, and the end."""
    words = np.array(text.split_words(books.path().read_text("utf-8")).split())
    return words[: len(words) * 9 // 10], words[len(words) * 9 // 10 :]


def rows_of(words):
    """Return the running text cut into rows of T words, [rows, T]."""
    return words[: len(words) // T * T].reshape(-1, T)


class Vocabulary:
    """The known words by falling frequency, and the characters of any word.

    Capitals are taken from the words: whether a word has one is what the tagger will have to say.
    """

    def __init__(self, words):
        self.words = text.train_words([" ".join(words).lower()], min_count=2)
        self._ids = {word: i for i, word in enumerate(self.words)}

    def ids(self, words):
        """Return int32 ids of words, of any shape; a word that is not known is <UNK>, 2."""
        flat = [self._ids.get(word.lower(), 2) for word in words.ravel()]
        return np.array(flat, "int32").reshape(words.shape)

    def characters(self, words):
        """Return int32 [..., C]: 259, the word's bytes plus one, 260, then 261s."""
        return text.character_ids(np.char.lower(words), C).numpy()


# --- 2. The model ---


def elmo(width):
    """Return the encoder: the characters [B, T, C] of words become 1 + L layers of [B, T, 2P].

    x = highway(max over places of relu(filters over the characters)) W, of a word alone
    f_l = LSTM(f_{l-1}) reads to the right, b_l = LSTM(b_{l-1}) to the left, f_0 = b_0 = x
    h_0 = [x | x],  h_l = [f_l | b_l]
    """
    characters = keras.Input((T, C), dtype="int32", name="characters")
    cnn = layers.CharCNN(filters=FILTERS, num_highway=1, projection_size=width, name="words")
    x = cnn(characters)  # [B, T, C] -> [B, T, P]
    hidden, _ = layers.BiLM(LAYERS, units=4 * width, projection_size=width, name="bilm")(x)
    return keras.Model(characters, [keras.ops.concatenate([x, x], axis=-1), *hidden], name="elmo")


def language_model(encoder, size):
    """Return the model of the word's neighbours, whose output is its loss [B, 2(T-1)].

    f_t has read the words up to t and is asked for word t + 1; b_t has read those from t on and is
    asked for word t - 1. Both use one softmax: -log softmax(h W^T + b)[asked word].
    """
    ids = keras.Input((T,), dtype="int32", name="ids")
    forward, backward = keras.ops.split(encoder.output[-1], 2, axis=-1)  # 2 x [B, T, P]
    hidden = keras.ops.concatenate([forward[:, :-1], backward[:, 1:]], axis=1)  # [B, 2(T-1), P]
    asked = keras.ops.concatenate([ids[:, 1:], ids[:, :-1]], axis=1)  # [B, 2(T-1)]
    losses = layers.SampledSoftmax(size, num_samples=512)(hidden, asked)
    return keras.Model({"characters": encoder.input, "ids": ids}, losses)


def tagger(encoder):
    """Return the fine-tuned model: logits [B, T, 2] = W elmo_t + b with the mix of section 3.2,

    elmo = gamma sum_j softmax(s)_j h_j,  which learns what layer has what the task needs.
    """
    mix = layers.ScalarMix(LAYERS + 1, name="mix")(encoder.output)  # 3 x [B, T, 2P] -> [B, T, 2P]
    logits = keras.layers.Dense(2)(layers.Dropout(0.2)(mix))
    return keras.Model({"characters": encoder.input}, logits)


def train(model, batch_of, loss, steps, peak):
    """Train a model on `batch_of(step)`."""
    trainer = training.Trainer(
        model,
        training.optimizers.adam(),
        training.schedules.linear(peak, steps, warmup_steps=steps // 10),
        loss=loss,
        steps_per_call=5,
    )
    history = trainer.fit(batch_of, steps, log_every=max(1, steps // 5), progress=False)
    for row in history.train:
        print(f"  step {row['step']:5}  loss {row['loss']:.3f}", flush=True)
    return trainer


# --- 3. A labelled set from the same book: which words have a capital? ---


def capitals(words):
    """Return 1 where a word begins with a capital: the starts of sentences, names, "I"."""
    return np.char.isupper(words.astype("U1")).astype("int32")


def guess_by_word(learnt, words):
    """Return what each word had most often in the text that was learnt from, else no capital."""
    counts = collections.defaultdict(collections.Counter)
    for word, tag in zip(np.char.lower(learnt.ravel()), capitals(learnt).ravel(), strict=True):
        counts[word][tag] += 1
    most = {word: count.most_common(1)[0][0] for word, count in counts.items()}
    flat = [most.get(word, 0) for word in np.char.lower(words.ravel())]
    return np.array(flat).reshape(words.shape)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=800, help="of pretraining")
    parser.add_argument("--width", type=int, default=64, help="P")
    arguments = parser.parse_args()
    keras.utils.set_random_seed(0)

    learnt, held_out = read_book()
    vocabulary = Vocabulary(learnt)
    rows, held_rows = rows_of(learnt), rows_of(held_out)
    size = len(vocabulary.words)
    print(f"{rows.size:,} words to learn from, {held_rows.size:,} held out, {size:,} known ones")

    def batch_of(step):  # a pure function of the step
        some = rows[np.random.default_rng(step).integers(len(rows), size=B)]  # [B, T]
        ids = vocabulary.ids(some)
        return {"characters": vocabulary.characters(some), "ids": ids, "targets": ids}

    encoder = elmo(arguments.width)
    untrained = [weight.numpy() for weight in encoder.weights]
    model = language_model(encoder, size)
    print(f"pretraining {model.count_params():,} weights on the words before and after")
    train(model, batch_of, lambda _, losses: losses, arguments.steps, 2e-3)
    ids = vocabulary.ids(held_rows)
    losses = model.predict(
        {"characters": vocabulary.characters(held_rows), "ids": ids}, batch_size=B, verbose=0
    )
    share = np.bincount(vocabulary.ids(rows).ravel(), minlength=size) + 1  # of each word, plus one
    frequencies = -np.log(share / share.sum())[ids]
    print(f"held-out perplexity of a word: {np.exp(losses.mean()):.0f}")
    print(f"  by the frequencies of words alone: {np.exp(frequencies.mean()):.0f}")

    def labelled(step):
        some = rows[np.random.default_rng(step).integers(len(rows), size=B)]
        return {"characters": vocabulary.characters(some), "targets": capitals(some)}

    exam, tags = {"characters": vocabulary.characters(held_rows)}, capitals(held_rows)
    results = {
        "no word has one": np.mean(tags == 0),
        "what the word had most often": np.mean(guess_by_word(rows, held_rows) == tags),
    }
    print("which words have a capital?")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    pretrained = [weight.numpy() for weight in encoder.weights]
    for name, weights in {"from scratch": untrained, "from the pretrained": pretrained}.items():
        encoder.set_weights(weights)
        model = tagger(encoder)
        train(model, labelled, loss, max(5, arguments.steps // 8), 1e-3)
        found = model.predict(exam, batch_size=B, verbose=0).argmax(-1)  # [rows, T]
        results[name] = np.mean(found == tags)
    for name, value in results.items():
        print(f"  {name}: {value:.1%} right")
    mix = keras.ops.softmax(model.get_layer("mix").scalars)
    print(f"  the layers' shares in the mix: {', '.join(f'{float(x):.2f}' for x in mix)}")
    words = np.array([(SHOWN.split() + ["."] * T)[:T]])
    found = model.predict({"characters": vocabulary.characters(words)}, verbose=0)[0].argmax(-1)
    shown = zip(SHOWN.split(), found, strict=False)
    print("  " + " ".join(word.capitalize() if tag else word for word, tag in shown))


if __name__ == "__main__":
    main()
