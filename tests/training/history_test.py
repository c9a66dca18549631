import pytest

from tests.training.toy import ToyBatches, toy_trainer
from tfnlp.training import History


@pytest.mark.parametrize(
    "monitor, best",
    [("loss", 20), ("mse", 20), ("class_accuracy", 30), ("f1_macro", 30), ("score_pearson", 30)],
)
def test_whether_larger_is_better_follows_from_the_name(monitor, best):
    history = History()
    for step, value in ((10, 0.5), (20, 0.1), (30, 0.9), (40, 0.9), (50, 0.1)):
        history.add_validation(step, {monitor: value})
    assert history.best_step(monitor) == best  # of equals, the first
    assert history.stopped_early(monitor, 2) and not history.stopped_early(monitor, 4)


@pytest.mark.parametrize("monitor", ["loss", "pearson"])
def test_nan_is_never_the_best(monitor):
    history = History()
    for step, value in ((10, float("nan")), (20, 0.3), (30, float("nan"))):
        history.add_validation(step, {monitor: value})
    assert history.best_step(monitor) == 20


@pytest.mark.slow
def test_validation_may_be_a_function(tmp_path):
    values = iter([0.2, 0.7, 0.4])
    trainer = toy_trainer(directory=tmp_path)
    seen = []

    def validate():
        seen.append(trainer.step)
        return {"f1": next(values), "examples": 3}

    history = trainer.fit(
        ToyBatches(), 3, validation=validate, evaluate_every=1, monitor="f1", progress=False
    )
    assert seen == [1, 2, 3]
    assert [row["f1"] for row in history.validation] == [0.2, 0.7, 0.4]
    assert history.validation[0] == {"step": 1, "f1": 0.2, "examples": 3.0}
    assert toy_trainer(directory=tmp_path).restore(best=True) == 2


@pytest.mark.slow
def test_a_function_that_does_not_measure_the_monitor(tmp_path):
    trainer = toy_trainer(directory=tmp_path)
    with pytest.raises(ValueError, match="monitor='loss'"):
        trainer.fit(ToyBatches(), 1, validation=lambda: {"f1": 0.5}, progress=False)
