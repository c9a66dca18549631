import numpy as np
import pytest

from tests.models.transformer_reference import (
    CLOSE,
    V,
    padded,
    pairs,
    small,
    transformer_reference,
)
from tfnlp.models import transformer

SOURCES, TARGETS = pairs([(6, 4), (1, 7), (4, 1), (5, 5)])
OF_SOURCE = ("encoder_output", "encoder_outputs")
both_orders = pytest.mark.parametrize("norm_first", [False, True], ids=["post", "pre"])


@pytest.fixture(scope="module", params=[False, True], ids=["post-norm", "pre-norm"])
def model(request):
    return small(norm_first=request.param)


def pre_norm(model):
    return "decoder_norm" in [layer.name for layer in model.layers]


def assert_real_places(outputs, model, **kind):
    """All outputs at real places, against the formula of each pair alone."""
    for row, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        want = transformer_reference(source, target, model, pre_norm(model), **kind)
        assert set(want) == set(outputs)
        for name, value in want.items():
            got = outputs[name]
            if name == "attention":
                seen = np.asarray(got)[row, :, : len(target)]
                np.testing.assert_allclose(seen[..., : len(source)], value, **CLOSE)
                assert not seen[..., len(source) :].any()
                continue
            length = len(source if name in OF_SOURCE else target)
            got = [np.asarray(x)[row, :length] for x in (got if isinstance(got, list) else [got])]
            value = value if isinstance(value, list) else [value]
            assert len(got) == len(value)
            for a, b in zip(got, value, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3, err_msg=name)


@pytest.mark.parametrize("more, noise", [((0, 0), 0), ((3, 2), V - 1)])
def test_formula_whatever_stands_on_the_padding(model, more, noise):
    assert_real_places(model(padded(SOURCES, TARGETS, more, noise)), model)


@pytest.mark.slow
def test_formula_of_other_settings():
    model = small(norm_first=True, activation="gelu", norm_epsilon=0.1)
    assert_real_places(model(padded(SOURCES, TARGETS)), model, activation="gelu", epsilon=0.1)


def test_initial_weights():
    model = transformer(300, 1, 64, 2, 128)
    for variable in model.trainable_variables:
        value, name = variable.numpy(), variable.path
        if name.endswith("embeddings"):
            np.testing.assert_allclose(value.std(), 64**-0.5, rtol=0.05)
        elif name.endswith("kernel"):  # uniform within sqrt(6 / (in + out))
            bound = (6 / sum(value.shape)) ** 0.5
            assert 0.98 * bound < np.abs(value).max() <= bound, name
        else:
            assert (value == (1 if name.endswith("gamma") else 0)).all(), name
