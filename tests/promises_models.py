"""Calls that break the rules of models, as in `promises_table.py`."""

import functools

import numpy as np

from tfnlp import models
from tfnlp.layers import LowRank
from tfnlp.models import shapes

SIZE = dict(vocab_size=9, num_layers=1, hidden_size=4, num_heads=2, intermediate_size=4)
IDS = np.zeros((1, 2), "int32")
ELMO = dict(num_layers=1, units=3, projection_size=4, num_characters=262, embedding_size=2)
ELMO.update(filters=((1, 4),), num_highway=0)


def calls(function, defaults, **wrong):
    """Return a case for each of some arguments with a wrong value, which the message names."""
    return [
        (f"{name}={value!r}", functools.partial(function, **{**defaults, name: value}))
        for name, value in wrong.items()
    ]


@functools.cache
def gpt():
    return models.gpt(**SIZE)


@functools.cache
def bert(pooler=True):
    return models.bert(**SIZE, pooler=pooler)


@functools.cache
def packed_bert():
    return models.bert(**SIZE, pooler=False, packed=True)


@functools.cache
def seq2seq(**arguments):
    return models.seq2seq(**{"vocab_size": 9, "hidden_size": 4, **arguments})


@functools.cache
def transformer(**arguments):
    return models.transformer(**{**SIZE, **arguments})


def copy_teacher(teacher, **student):
    made = models.distilbert(**{**SIZE, **student}), models.bert(**{**SIZE, **teacher})
    models.copy_teacher(*(models.bert_pretrainer(one, next_sentence=False) for one in made))


def with_layers(layers, build=models.bert):
    return models.with_layers(build, build(**SIZE), SIZE, layers)


def electra_pretrainer(size):
    return models.electra_pretrainer(models.electra(**SIZE), size)


def low_rank_twice():
    model = models.gpt(**SIZE)
    for _ in range(2):
        models.add_low_rank(model, LowRank(2))


def generated(function=models.generate, count=2, **arguments):
    return function(models.GPTDecoder(gpt()), IDS, IDS == 0, count, **arguments)


def decoder_cases(decoder, model):
    """Return the cases of a decoder of targets."""
    return {
        "a start_id or a vocab_size outside the model's": [
            ("start_id=9", lambda: decoder(model(), 9)),
            ("start_id=-1", lambda: decoder(model(), -1)),
            ("vocab_size=0", lambda: decoder(model(), 1, 0)),
            ("vocab_size=10", lambda: decoder(model(), 1, 10)),
        ],
    }


def task_cases(task):
    return {
        "an unknown `output`": calls(task, dict(num_classes=2), output="sentence"),
        "num_classes, sequences or a CRF that do not fit it": [
            *calls(task, dict(output="class"), num_classes=None),
            *calls(task, dict(output="tag"), num_classes=1),
            *calls(task, dict(output="span"), num_classes=2),
            *calls(task, dict(output="choice"), sequences=1),
            *calls(task, dict(output="class", num_classes=2), sequences=0),
            *calls(task, dict(output="tag", num_classes=2), sequences=2),
            *calls(task, dict(output="class", num_classes=2), crf=1.0),
            *calls(task, dict(output="tag", num_classes=2), crf=-1.0),
        ],
    }


def bert_task(**arguments):
    return models.bert_task(bert(), **arguments)


FEATURES = task_cases(functools.partial(models.feature_task, num_layers=2, size=3))
FEATURE_SIZES = dict(num_layers=2, size=3, output="score")
BLOCKS = {
    "a hidden_size that is not a multiple of num_heads": [
        ("hidden_size=4 is not a multiple of num_heads=3", dict(num_heads=3)),
        ("num_heads=0", dict(num_heads=0)),
    ],
    "an unknown activation": [("activation='elu'", dict(activation="elu"))],
    "a rate outside [0, 1)": [
        ("rate=1", dict(dropout=1)),
        ("rate=-0.1", dict(attention_dropout=-0.1)),
    ],
}
BELOW_1 = dict(num_layers=0, vocab_size=0, intermediate_size=0)
TOO_LONG = {"a seq_length above max_positions": [("seq_length=513", dict(seq_length=513))]}


def of(function, below_1, **clauses):
    """Return the cases of a Transformer from changed arguments."""
    sizes = {"sizes below 1": [(f"{name}=0", {name: 0}) for name in below_1]}
    return {
        clause: [(said, functools.partial(function, **{**SIZE, **wrong})) for said, wrong in cases]
        for clause, cases in {**sizes, **BLOCKS, **clauses}.items()
    }


MODELS = {
    "albert": of(
        models.albert,
        [*BELOW_1, "embedding_size", "max_positions", "seq_length"],
        **TOO_LONG,
    ),
    "albert_pretrainer": {
        "`sentence_order` with an encoder that has no pooler": [
            ("pooler=True", lambda: models.albert_pretrainer(models.albert(**SIZE, pooler=False)))
        ],
    },
    "bert": of(models.bert, [*BELOW_1, "max_positions", "seq_length"], **TOO_LONG),
    "distilbert": of(models.distilbert, [*BELOW_1, "max_positions", "seq_length"], **TOO_LONG),
    "copy_teacher": {
        "a teacher with other layers or weights of another shape": [
            ("layer_0/intermediate/kernel", lambda: copy_teacher(dict(intermediate_size=5))),
            ("token_embedding/embeddings", lambda: copy_teacher(dict(vocab_size=10))),
            (
                "the student has 2 layers, its teacher only 1",
                lambda: copy_teacher({}, num_layers=2),
            ),
        ],
    },
    "electra": of(
        models.electra, [*BELOW_1, "embedding_size", "max_positions", "seq_length"], **TOO_LONG
    ),
    "electra_pretrainer": {
        "a generator_size that is not above 0 and at most 1": [
            (f"generator_size={size}", lambda size=size: electra_pretrainer(size))
            for size in (0, -1, 1.1)
        ],
    },
    "roberta": of(models.roberta, [*BELOW_1, "max_positions", "seq_length"], **TOO_LONG),
    "gpt": of(models.gpt, [*BELOW_1, "max_positions", "seq_length"], **TOO_LONG),
    "transformer": of(models.transformer, BELOW_1),
    "bert_pretrainer": {
        "`next_sentence` with an encoder that has no pooler": [
            ("next_sentence=True", lambda: models.bert_pretrainer(bert(pooler=False))),
        ],
    },
    "bert_for_tasks": {
        "weights that do not fit `config` and `changes`": [
            ("position_embedding", lambda: models.bert_for_tasks(bert(), SIZE, max_positions=5)),
            ("layer_1/", lambda: models.bert_for_tasks(bert(), {**SIZE, "num_layers": 2})),
            (
                "pooler/",
                lambda: models.bert_for_tasks(bert(pooler=False), SIZE),
            ),
            (
                "has no weight layer_1/",
                lambda: models.bert_for_tasks(models.bert(**{**SIZE, "num_layers": 2}), SIZE),
            ),
        ],
    },
    "encoder_for_tasks": {
        "weights that do not fit `config` and `changes`": [
            ("layer_1/", lambda: models.encoder_for_tasks(models.bert, bert(), SIZE, num_layers=2)),
        ],
    },
    "with_layers": {
        "layers that the encoder does not have, in another order, or none": [
            *calls(with_layers, {}, layers=[1, 0]),
            *calls(with_layers, {}, layers=[-1]),
            *calls(with_layers, {}, layers=[99]),
            *calls(with_layers, {}, layers=[]),
        ],
        "an encoder without layers of their own": [
            ("no layers of their own", lambda: with_layers([0], models.albert)),
        ],
    },
    "bert_task": {
        **task_cases(bert_task),
        "an unknown `hidden`": [
            ("hidden='elu'", lambda: bert_task(output="score", hidden="elu")),
        ],
        'an encoder of packed rows with another output than "class", "label", "score" and "tag"': [
            ("output='span'", lambda: models.bert_task(packed_bert(), "span")),
        ],
    },
    "gpt_task": task_cases(lambda **arguments: models.gpt_task(gpt(), **arguments)),
    "feature_task": {
        "an unknown `output`": FEATURES["an unknown `output`"],
        "`mix`": calls(models.feature_task, FEATURE_SIZES, mix="mean"),
        "sizes below 1": calls(
            models.feature_task,
            FEATURE_SIZES,
            **dict(num_layers=0, size=0, units=0, lstm_layers=0, vocab_size=0),
        ),
        "num_classes, sequences or a CRF that do not fit the output": FEATURES[
            "num_classes, sequences or a CRF that do not fit it"
        ],
    },
    "select_layers": {
        "an unknown choice": [("features='first'", lambda: models.select_layers("first", 12))],
        "one that needs more layers than there are": [
            ("'sum-last-four' needs 4", lambda: models.select_layers("sum-last-four", 3)),
            ("'second-to-last' needs 2", lambda: models.select_layers("second-to-last", 1)),
            ("'sum-all' needs 1", lambda: models.select_layers("sum-all", 0)),
        ],
    },
    "sentence_encoder": {
        "another `pooling`": [
            ("pooling='first'", lambda: models.sentence_encoder(bert(), "first")),
        ],
        "a layer that the encoder does not have": [
            ("layer=2", lambda: models.sentence_encoder(bert(), layer=2)),
            ("layer=-3", lambda: models.sentence_encoder(bert(), layer=-3)),
        ],
    },
    "add_low_rank": {
        "a model without such blocks": [
            ("no TransformerBlock", lambda: models.add_low_rank(seq2seq(), LowRank(2)))
        ],
        "one that has updates already": [("already", lambda: low_rank_twice())],
    },
    "train_weights": {
        "a pattern that is no regular expression or is found in no path": [
            ("trained='['", lambda: models.train_weights(gpt(), ["["])),
            ("frozen='layer_9'", lambda: models.train_weights(gpt(), frozen=["layer_9"])),
        ],
        "if nothing of the model would be trained": [
            ("nothing", lambda: models.train_weights(gpt(), frozen=["."])),
            ("nothing", lambda: models.train_weights(gpt(), ["bias"], ["bias"])),
        ],
    },
    "siamese": {
        "fewer than two texts": [("texts=1", lambda: models.siamese(bert(), 1))],
        "one class": [("num_classes=1", lambda: models.siamese(bert(), 2, 1))],
        "another `pooling`": [
            ("pooling='first'", lambda: models.siamese(bert(), pooling="first")),
        ],
    },
    "gpt_with_extra_tokens": {
        "`extra` below 1": [
            ("extra=0", lambda: models.gpt_with_extra_tokens(gpt(), SIZE, extra=0)),
        ],
        "weights that do not fit `config` and `changes`": [
            ("other shapes", functools.partial(models.gpt_with_extra_tokens, gpt(), SIZE, **wrong))
            for wrong in (dict(num_layers=2), dict(max_positions=10), dict(norm_first=True))
        ],
        "a vocab_size that is not in `config` or is among the changes": [
            ("vocab_size", lambda: models.gpt_with_extra_tokens(gpt(), {}, extra=3)),
            ("vocab_size", lambda: models.gpt_with_extra_tokens(gpt(), SIZE, vocab_size=30)),
        ],
    },
    "GPTDecoder": {
        "a vocab_size outside the model's": [
            ("vocab_size=-1", lambda: models.GPTDecoder(gpt(), -1)),
            ("vocab_size=10", lambda: models.GPTDecoder(gpt(), 10)),
        ],
    },
    "generate": {
        "max_new_tokens below 1": [("max_new_tokens=0", lambda: generated(count=0))],
        "no `seeds` although temperature is not 0": [
            ("`seeds`", lambda: generated(temperature=1.0)),
        ],
    },
    "beam_search": {
        "max_new_tokens or beams below 1": [
            ("max_new_tokens=0", lambda: generated(models.beam_search, 0, beams=2)),
            ("beams=0", lambda: generated(models.beam_search, beams=0)),
        ],
    },
    "elmo": {
        "arguments that `BiLM`, `CharCNN` or `ScalarMix` refuse": [
            *calls(models.elmo, ELMO, units=0, num_layers=0, filters=(), activation="swish"),
            *calls(models.elmo, ELMO, l2=-1.0, cell_clip=-3.0),
        ],
        "filters wider than a word": [
            ("widest filter, 51", lambda: models.elmo(**{**ELMO, "filters": ((51, 4),)})),
        ],
    },
    "elmo_pretrainer": {
        "vocab_size or num_samples below 1": [
            ("vocab_size=0", lambda: models.elmo_pretrainer(models.elmo(**ELMO), 0)),
            ("num_samples=0", lambda: models.elmo_pretrainer(models.elmo(**ELMO), 9, 0)),
        ],
    },
    "nnlm": {
        "sizes below 1": calls(
            models.nnlm,
            dict(vocab_size=9),
            vocab_size=0,
            context=0,
            embedding_size=0,
            num_samples=0,
        ),
        "neither hidden units nor direct connections": [
            ("hidden_size=0", lambda: models.nnlm(9, hidden_size=0)),
            ("hidden_size=-1", lambda: models.nnlm(9, hidden_size=-1, direct=True)),
        ],
        "an unknown loss": calls(models.nnlm, dict(vocab_size=9), loss="negative"),
        '"nce" without `num_samples`': [("num_samples=None", lambda: models.nnlm(9, loss="nce"))],
        "a depth below that of a balanced tree": calls(
            models.nnlm, dict(vocab_size=9, loss="hierarchical"), depth=3
        ),
    },
    "glove": {
        "sizes below 1": calls(models.glove, dict(vocab_size=9), vocab_size=0, hidden_size=0),
        "an x_max or alpha that `GloVeLoss` refuses": calls(
            models.glove, dict(vocab_size=9), x_max=0.0, alpha=-1.0
        ),
    },
    "word2vec": {
        "an unknown architecture or loss": calls(
            models.word2vec, dict(vocab_size=9), architecture="glove", loss="softmax"
        ),
        "a depth below that of a balanced tree": calls(
            models.word2vec, dict(vocab_size=9, loss="hierarchical"), depth=3
        ),
        "sizes below 1": [
            *calls(models.word2vec, dict(vocab_size=9), vocab_size=0, hidden_size=0, window=0),
            *calls(models.word2vec, dict(vocab_size=9), samples=0, block=0, buckets=0),
            ("most_subwords=0", lambda: models.word2vec(9, buckets=3)),
        ],
        "negatives not above 0": calls(models.word2vec, dict(vocab_size=9), negatives=0),
    },
    "seq2seq": {
        "sizes below 1": calls(
            seq2seq, {}, num_layers=0, hidden_size=0, embedding_size=0, vocab_size=0
        ),
        "an unknown score": calls(seq2seq, {}, attention="cos"),
        "`input_feeding` without attention": calls(
            seq2seq, dict(attention=None), input_feeding=True
        ),
        "`tied` tables of other widths than H": calls(seq2seq, dict(embedding_size=5), tied=True),
        "with `bidirectional` an odd H or `reverse_source`": [
            *calls(seq2seq, {}, hidden_size=7),
            *calls(seq2seq, {}, reverse_source=True),
        ],
    },
    "Seq2SeqDecoder": decoder_cases(models.Seq2SeqDecoder, seq2seq),
    "Seq2SeqDecoder.attention": {
        "a model without attention": [
            (
                "attention=None",
                lambda: models.Seq2SeqDecoder(seq2seq(attention=None), 1).attention(
                    IDS, IDS == 0, IDS
                ),
            ),
        ],
    },
    "TransformerDecoder": decoder_cases(models.TransformerDecoder, transformer),
    "shapes.weight_shapes": {
        "what `build` raises for arguments that do not fit together": [
            ("num_heads=5", lambda: shapes.weight_shapes(models.bert, {**SIZE, "num_heads": 5})),
        ],
    },
}
