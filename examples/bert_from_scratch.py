"""BERT in one file: a book becomes a pretrained encoder, and the encoder a classifier.

    python examples/bert_from_scratch.py            # two to three minutes on two cores

To be read from top to bottom. It has only the layers of tfnlp, a tokenizer and the trainer:
`tfnlp.pretrain("bert", ...)` does the same for any text, and can be stopped and resumed. Letters
stand for sizes: B rows of a batch, T tokens of a row, P of them masked, H the width, V pieces.
"""

import argparse
import re

import keras
import numpy as np

from tfnlp import books, layers, text, training

V, T, P, B = 2000, 32, 5, 32  # P is 15 % of T
LAYERS, HEADS = 2, 4
SPECIAL = 5  # the ids 0..4: [PAD] [UNK] [CLS] [SEP] [MASK]
FILL_IN = ["Mary went into the [MASK] .", '" I want to see the garden , " said [MASK] .']


# --- 1. Text: a string becomes word pieces, and the stream of pieces rows of T ---


def read_book():
    """Return two lists of paragraphs: nine tenths to learn from, and the end of the book."""
    paragraphs = [p.replace("\n", " ") for p in books.path().read_text("utf-8").split("\n\n")]
    paragraphs = [p.strip() for p in paragraphs if p.strip()]
    cut = len(paragraphs) * 9 // 10
    return paragraphs[:cut], paragraphs[cut:]


def rows_of(tokenizer, paragraphs):
    """Return the running text, cut into rows `[CLS] T-2 pieces [SEP]`: int32 [rows, T]."""
    stream = tokenizer.tokenize(paragraphs).flat_values.numpy()  # [pieces of all paragraphs]
    count = len(stream) // (T - 2)
    body = stream[: count * (T - 2)].reshape(count, T - 2)
    return np.pad(body, ((0, 0), (1, 1)), constant_values=((0, 0), (2, 3))).astype("int32")


def mask(rows, random):
    """Hide P pieces of each row, as in section 3.1 of the paper (Devlin et al. 2019).

    Of the chosen ones 80 % become [MASK], 10 % any piece, and 10 % stay as they are: the model
    can't know which pieces it will be asked for, and has to understand all of them.
    """
    order = np.where(rows < SPECIAL, 2.0, random.random(rows.shape))  # [B, T], special ones last
    positions = np.sort(np.argsort(order, axis=1)[:, :P], axis=1)  # [B, P]
    targets = np.take_along_axis(rows, positions, axis=1)  # [B, P], what was there
    draw = random.random(targets.shape)
    anything = random.integers(SPECIAL, V, targets.shape)
    shown = np.where(draw < 0.8, 4, np.where(draw < 0.9, anything, targets))
    hidden = rows.copy()
    np.put_along_axis(hidden, positions, shown.astype("int32"), axis=1)
    return {"ids": hidden, "positions": positions.astype("int32"), "targets": targets}


# --- 2. The model ---


def bert(width):
    """Return the encoder and the table of pieces E, which the pretrainer uses once more.

    x_0 = LN(E[ids] + S),  x_l = block_l(x_{l-1}),  block(x): y = LN(x + attention(x)),
    LN(y + W2 gelu(W1 y)),  attention: softmax(q k^T / sqrt(H / heads)) v.  S are positions.
    """
    ids = keras.Input((T,), dtype="int32", name="ids")
    normal = keras.initializers.TruncatedNormal(stddev=width**-0.5)
    table = layers.TokenEmbedding(V, width, normal, name="table")
    x = table(ids)  # [B, T, H]
    x = x + layers.PositionEmbedding(T, normal)(x)  # [B, T, H] + [1, T, H]
    x = layers.Dropout(0.1)(layers.LayerNorm()(x))
    for i in range(LAYERS):
        block = layers.TransformerBlock(HEADS, 4 * width, kernel_initializer=normal, name=f"b{i}")
        x = block(x, mask=ids != 0)  # [B, T, H]; nothing attends to [PAD]
    return keras.Model(ids, x, name="bert"), table


def pretrainer(encoder, table):
    """Return the model of masked pieces: logits = LN(gelu(W h_p + b)) E^T + c, h_p at the masks."""
    positions = keras.Input((P,), dtype="int32", name="positions")
    hidden = layers.MaskedLMHead()(encoder.output, positions)  # [B, T, H] -> [B, P, H]
    logits = layers.LogitBias()(table(hidden, reverse=True))  # [B, P, V]
    return keras.Model({"ids": encoder.input, "positions": positions}, logits)


def classifier(encoder):
    """Return the fine-tuned model: logits = W tanh(W' h_0 + b') + b, h_0 the vector of [CLS]."""
    pooled = layers.Pooler()(encoder.output)  # [B, T, H] -> [B, H]
    logits = keras.layers.Dense(2)(layers.Dropout(0.1)(pooled))  # [B, 2]
    return keras.Model({"ids": encoder.input}, logits)


def train(model, batch_of, steps, peak):
    """Train a model on `batch_of(step)` by cross-entropy, -log softmax(logits)[target]."""
    trainer = training.Trainer(
        model,
        training.optimizers.bert_adamw(),
        training.schedules.linear(peak, steps, warmup_steps=steps // 10),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        steps_per_call=5,
    )
    history = trainer.fit(batch_of, steps, log_every=max(1, steps // 5), progress=False)
    for row in history.train:
        print(f"  step {row['step']:5}  loss {row['loss']:.3f}", flush=True)


def accuracy(model, batch):
    """Return the share of a batch's targets that have the largest logit."""
    inputs = {name: batch[name] for name in model.input}
    return np.mean(model.predict(inputs, verbose=0).argmax(-1) == batch["targets"])


# --- 3. A labelled set from the same book: is it said by somebody, or told by the author? ---


def spoken_or_told(tokenizer, paragraphs):
    """Return ids int32 [rows, T] and labels [rows]: 1 for what stands between quotation marks.

    The marks are taken away, so that the words alone can tell.
    """
    rows, labels = [], []
    for paragraph in paragraphs:
        parts = paragraph.split('"')  # told, said, told, ..., told
        if len(parts) % 2:
            for i, part in enumerate(parts):
                words = re.sub(r"^\W+|\W+$", "", part)
                if len(words.split()) >= 5:
                    rows.append(words)
                    labels.append(i % 2)
    packed = text.pack_segments([tokenizer.tokenize(rows)], T, cls_id=2, sep_id=3, pad_id=0)
    return packed["input_word_ids"].numpy(), np.array(labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=1500, help="of pretraining")
    parser.add_argument("--width", type=int, default=128, help="H")
    parser.add_argument("--labels", type=int, default=100, help="labelled rows to learn from")
    arguments = parser.parse_args()
    keras.utils.set_random_seed(0)

    learnt, held_out = read_book()
    vocabulary = text.train_wordpiece(learnt, V)
    tokenizer = text.WordPieceTokenizer(vocabulary, marks=["[MASK]"])
    rows, held_rows = rows_of(tokenizer, learnt), rows_of(tokenizer, held_out)
    print(f"{rows.size:,} word pieces to learn from, {held_rows.size:,} held out")

    encoder, table = bert(arguments.width)
    untrained = [weight.numpy() for weight in encoder.weights]
    masked_lm = pretrainer(encoder, table)
    print(f"pretraining {masked_lm.count_params():,} weights on masked pieces")

    def batch_of(step):  # a pure function of the step
        random = np.random.default_rng(step)
        return mask(rows[random.integers(len(rows), size=B)], random)

    train(masked_lm, batch_of, arguments.steps, 1e-3)
    exam = mask(held_rows, np.random.default_rng(0))
    most_frequent = np.bincount(rows[rows >= SPECIAL]).argmax()
    print(f"held-out masks: {accuracy(masked_lm, exam):.1%} right")
    guess = np.mean(exam["targets"] == most_frequent)
    print(f"  always {vocabulary[most_frequent]!r}: {guess:.1%}")

    packed = text.pack_segments([tokenizer.tokenize(FILL_IN)], T, cls_id=2, sep_id=3, pad_id=0)
    ids = packed["input_word_ids"].numpy()  # [2, T]
    where = np.pad((ids == 4).argmax(1)[:, None], ((0, 0), (0, P - 1)))  # [2, P], the rest unused
    logits = masked_lm.predict({"ids": ids, "positions": where.astype("int32")}, verbose=0)
    for sentence, scores in zip(FILL_IN, logits[:, 0], strict=True):
        best = (vocabulary[i] for i in np.argsort(-scores)[:5])
        print(f"  {sentence}  {', '.join(best)}")

    few, labels = spoken_or_told(tokenizer, learnt)
    chosen = np.random.default_rng(1).permutation(len(few))[: arguments.labels]
    few, labels = few[chosen], labels[chosen]
    exam = dict(zip(("ids", "targets"), spoken_or_told(tokenizer, held_out), strict=True))
    print(f"said or told? {len(few)} rows to learn from, {len(exam['targets'])} held out")

    def labelled(step):
        some = np.random.default_rng(step).integers(len(few), size=B)
        return {"ids": few[some], "targets": labels[some]}

    results = {"the more frequent label": max(np.mean(exam["targets"] == i) for i in (0, 1))}
    pretrained = [weight.numpy() for weight in encoder.weights]
    for name, weights in {"from scratch": untrained, "from the pretrained": pretrained}.items():
        encoder.set_weights(weights)
        model = classifier(encoder)
        train(model, labelled, max(5, arguments.steps // 8), 5e-4)
        results[name] = accuracy(model, exam)
    for name, value in results.items():
        print(f"  {name}: {value:.1%} right")


if __name__ == "__main__":
    main()
