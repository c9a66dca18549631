import keras
import numpy as np
import pytest

from tests.models.gpt_reference import (
    SMALL,
    V,
    padded,
    real,
    sequences,
    small,
)
from tfnlp.models import gpt

ROWS = sequences((9, 1, 5, 7))


@pytest.fixture(scope="module", params=[False, True], ids=["post-norm", "pre-norm"])
def model(request):
    return small(norm_first=request.param)


@pytest.mark.parametrize("left", [False, True])
def test_padding_on_either_side_changes_nothing(model, left):
    """What there is without padding is compared with OpenAI's models in tests/checkpoints."""
    inputs = padded(ROWS, 12, left, noise=V - 1)
    outputs = model(inputs)
    np.testing.assert_array_equal(outputs["encoder_outputs"][-1], outputs["sequence_output"])
    for i, row in enumerate(ROWS):
        alone = model(padded([row]))
        for got, want in zip(*map(keras.tree.flatten, (outputs, alone)), strict=True):
            np.testing.assert_allclose(real(got, inputs)[i], want[0], rtol=1e-5, atol=1e-5)


def test_all_weights_but_the_norms_are_bfloat16_under_that_policy():
    for weight in gpt(**SMALL, norm_first=True, dtype="bfloat16").trainable_variables:
        normal = weight.path.endswith(("gamma", "beta"))
        assert weight.dtype == ("float32" if normal else "bfloat16"), weight.path


@pytest.mark.parametrize("norm_first", [False, True])
def test_initial_weights(norm_first):
    model = gpt(300, 3, 64, 2, 128, max_positions=64, norm_first=norm_first, initializer_range=0.05)
    residual = 0.05 / 6**0.5 if norm_first else 0.05
    drawn = 0
    for variable in model.trainable_variables:
        value, name = variable.numpy(), variable.path
        if not name.endswith(("kernel", "embeddings")):
            assert (value == (1 if name.endswith("gamma") else 0)).all(), name
            continue
        drawn += 1
        std = residual if name.endswith("output/kernel") else 0.05
        np.testing.assert_allclose(value.std(), std, rtol=0.05, err_msg=name)
        assert abs(value.mean()) < 5 * std / value.size**0.5, name
        assert np.abs(value).max() > 3 * std, name  # a whole normal, not one that is cut off
    assert drawn == 2 + 3 * 4
