import pytest

from tests.training.toy import ToyBatches, toy_trainer
from tfnlp.training import History
from tfnlp.training.history import means, without_targets


@pytest.mark.parametrize(
    "monitor, best",
    [("loss", 20), ("mse", 20), ("class_accuracy", 30), ("f1_macro", 30), ("score_pearson", 30)],
)
def test_whether_larger_is_better_follows_from_the_name(monitor, best):
    history, nan = History(), float("nan")
    for step, value in ((5, nan), (10, 0.5), (20, 0.1), (30, 0.9), (40, 0.9), (50, 0.1), (60, nan)):
        history.add_validation(step, {monitor: value})
    assert history.best_step(monitor) == best  # of equals, the first; NaN is worst
    assert history.stopped_early(monitor, 3) and not history.stopped_early(monitor, 5)


def test_a_measure_without_targets_is_absent_and_never_best():
    totals = {"count/a": 4.0, "loss/a": 2.0, "metric/right/a": 3.0,
              "count/b": 0.0, "loss/b": 0.0, "metric/found/b": 0.0,
              "count/c": 0.5, "loss/c": 0.25}  # fmt: skip
    # The mean over weights 0.2 + 0.3 is that over weights of 1.
    assert means(totals) == {"loss": 1.0, "a_loss": 0.5, "right": 0.75, "c_loss": 0.5}
    assert without_targets(totals) == ["b"]
    assert means({"count/b": 0.0, "loss/b": 0.0, "sum/norm": 6.0, "steps": 3.0}) == {"norm": 2.0}

    history = History()
    for step, row in ((10, {}), (20, {"loss": 3.0}), (30, {"loss": 2.0}), (40, {})):
        history.add_validation(step, row)
    assert history.best_step("loss") == 30 and not history.stopped_early("loss", 1)
    nothing = History(validation=[{"step": 10}, {"step": 20}])
    assert nothing.best_step("loss") is None and not nothing.stopped_early("loss", 1)


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
