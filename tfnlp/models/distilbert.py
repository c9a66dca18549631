"""DistilBERT (Sanh et al. 2019): a BERT of half the layers that learns from a larger encoder."""

import keras

from tfnlp.layers.base import DType
from tfnlp.models.bert import bert, bert_pretrainer

# The paper's size is base; the others have half the layers of Turc et al.'s BERTs of that name.
DISTILBERT_TINY = dict(num_layers=1, hidden_size=128, num_heads=2, intermediate_size=512)
DISTILBERT_MINI = dict(num_layers=2, hidden_size=256, num_heads=4, intermediate_size=1024)
DISTILBERT_SMALL = dict(num_layers=2, hidden_size=512, num_heads=8, intermediate_size=2048)
DISTILBERT_MEDIUM = dict(num_layers=4, hidden_size=512, num_heads=8, intermediate_size=2048)
DISTILBERT_BASE = dict(num_layers=6, hidden_size=768, num_heads=12, intermediate_size=3072)


def distilbert(
    vocab_size: int = 30522,
    num_layers: int = 6,
    hidden_size: int = 768,
    num_heads: int = 12,
    intermediate_size: int = 3072,
    max_positions: int = 512,
    dropout: float = 0.1,
    attention_dropout: float = 0.1,
    activation: str = "gelu",
    norm_epsilon: float = 1e-12,
    initializer_range: float = 0.02,
    seq_length: int | None = None,
    packed: bool = False,
    dtype: DType = None,
    name: str = "distilbert",
) -> keras.Model:
    """Return the encoder; the defaults are those of DistilBERT-base, uncased (66.36 M weights).

    It is `bert` without segments and without the pooler (section 3, "Student architecture"):
    `x_0 = drop(LN(E[ids] + P[0..T-1]))`, `x_l = block_l(x_{l-1})`.

    Args, inputs, outputs, errors: those of `bert` without a pooler. `input_type_ids` are not read,
    and `activation` may also be "relu".
    """
    return bert(**locals(), num_segments=0, pooler=False)


def distilbert_pretrainer(
    encoder: keras.Model,
    activation: str = "gelu",
    norm_epsilon: float = 1e-12,
    initializer_range: float = 0.02,
    max_predictions: int | None = None,
    tied: bool = True,
    name: str = "distilbert_pretrainer",
) -> keras.Model:
    """Return `encoder` (from `distilbert`) with BERT's masked-LM head; it shares every weight.

    Args, inputs, outputs: those of `bert_pretrainer` without next sentences.
    """
    return bert_pretrainer(**locals(), next_sentence=False)


def teacher_layers(layers: int, of: int) -> list[int]:
    """Return which of the `of` layers of a teacher a student of `layers` layers starts from.

    They are evenly spaced from the first to the last; for 6 of 12 those of the released code: 0,
    2, 4, 7, 9 and 11.
    """
    if layers == 1:
        return [0]
    return [round(index * (of - 1) / (layers - 1)) for index in range(layers)]


def copy_teacher(student: keras.Model, teacher: keras.Model) -> None:
    """Give a student the embeddings, some layers and the masked-LM head of its teacher.

    "We initialize the student from the teacher by taking one layer out of two" (section 3); see
    `teacher_layers`. The vector of the teacher's first segment is added to the positions, so that
    the embeddings of texts of one segment are the teacher's. Nothing is copied unless all fits.

    Args:
        student: a model made by `distilbert_pretrainer`.
        teacher: an encoder of the same widths with a masked-LM head, at least as many layers and as
            many positions, such as one made by `bert_pretrainer`.

    Raises:
        ValueError: for a teacher with other layers or weights of another shape.
    """
    found = {variable.path: variable for variable in teacher.weights}
    count = sum(layer.name.startswith("layer_") for layer in student.layers)
    of = sum(layer.name.startswith("layer_") for layer in teacher.layers)
    if of < count:
        raise ValueError(f"the student has {count} layers, its teacher only {of}")
    values = {}
    for variable in student.trainable_variables:
        layer, _, rest = variable.path.partition("/")
        if layer.startswith("layer_"):
            layer = f"layer_{teacher_layers(count, of)[int(layer.removeprefix('layer_'))]}"
        path = f"{layer}/{rest}"
        value = found[path].numpy() if path in found else None
        if path == "position_embedding/embeddings" and value is not None:
            value = value[: variable.shape[0]]
            if "segment_embedding/embeddings" in found:
                value = value + found["segment_embedding/embeddings"].numpy()[0]
        if value is None or value.shape != variable.shape:
            raise ValueError(f"the teacher has no {path} of shape {tuple(variable.shape)}")
        values[variable.path] = value
    mine, theirs = (model.get_layer("layer_0").num_heads for model in (student, teacher))
    if mine != theirs:
        raise ValueError(f"the student has {mine} attention heads, its teacher {theirs}")
    for variable in student.trainable_variables:
        variable.assign(values[variable.path])
