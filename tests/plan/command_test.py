"""`tfnlp plan` with fake compilers: tables, batches that are cut to fit, both engines, hours."""

import dataclasses
import json
import shlex

import pytest

from tfnlp.cli.command import main, parse
from tfnlp.families import FAMILIES
from tfnlp.plan import planning
from tfnlp.plan.chips import CHIPS, GIB
from tfnlp.plan.compiler import Compiled
from tfnlp.plan.lowering import LoweredStep
from tfnlp.plan.planning import make_plan
from tfnlp.plan.report import pretrain_command
from tfnlp.settings.options import Settings
from tfnlp.settings.plan import MODELS, PlanSettings

TINY = ("--model", "bert-tiny", "--vocab-size", "100", "--length", "16")


def tfnlp(*arguments):
    """The exit code of `tfnlp plan ARGUMENTS` for a tiny BERT."""
    return main(parse(["tfnlp", "plan", *TINY, *map(str, arguments)]))


@pytest.fixture
def fake_engines(monkeypatch):
    """Fake compilers: 1 GiB, and for each row of a micro-batch 1 GiB, in JAX three quarters.

    Half of that with remat blocks, a quarter with full. A micro-batch takes 0.1 s and a row 0.01 s
    more, in JAX 0.02 s; for a row 1 GB move, and any step has 2 TFLOP. Of more than 100 GiB only a
    bound is known. Returns the (engine, rows of a replica, accumulation) of each program.
    """
    given = []

    def lower_jax(preset, topology, shard_optimizer, time_limit):
        text = f"jax {preset.rows} {preset.accumulation} {topology.devices} {preset.remat}"
        return LoweredStep(text, GIB // 12)

    def lower_tensorflow(preset):
        text = f"tensorflow {preset.rows} {preset.accumulation} 1 {preset.remat}"
        return LoweredStep(text, GIB // 12)

    def compile_for(chip, text, *, cache, time_limit, keep, topology=None):
        engine, rows, parts, devices, remat = text.split()
        assert (topology.devices if topology else 1) == int(devices)
        rows, parts, in_jax = int(rows), int(parts), engine == "jax"
        given.append((engine, rows, parts))
        share = {"none": 1.0, "blocks": 0.5, "full": 0.25}[remat]
        needed = GIB + (0.75 if in_jax else 1.0) * GIB * rows / parts * share
        seconds = 0.1 * parts + (0.02 if in_jax else 0.01) * rows
        if needed > 100 * GIB:
            return Compiled(chip.usable, needed=int(needed))
        memory = dict.fromkeys(("output", "alias", "generated_code"), 0)
        return Compiled(
            chip.usable,
            memory={**memory, "argument": GIB, "temp": int(needed - GIB)},
            hbm_bytes=10**9 * rows,
            cycles=int(seconds * chip.clock),
            analysis={"flops": 2e12, "bytes": 1e9},
        )

    monkeypatch.setattr(planning, "compile_for", compile_for)
    monkeypatch.setattr(planning, "lower_tensorflow", lower_tensorflow)
    monkeypatch.setattr(planning, "lower_jax", lower_jax)
    return given


def test_table_of_a_batch(fake_engines, capsys, tmp_path):
    file = tmp_path / "plan.json"
    assert tfnlp("--batch", 64, "--topology", "v5e:2x4", "--json", file) == 0
    out, err = capsys.readouterr()
    assert fake_engines == [("tensorflow", 8, 1)] and "compiling bert-tiny, 8 x 16" in err
    assert "64 x 16 on v5e:2x4: 8 on each of 8 replicas" in out
    assert "fits: 9.00 GiB of 15.75 GiB" in out
    assert "temporaries 8.00 GiB" in out and "results" not in out
    assert "2.00 TFLOP, 8.00 GB through HBM" in out
    assert "compute: 250 FLOP/byte, the chip's ridge is at 241" in out
    assert "10.15 ms a step" in out  # 2e12 / 197e12
    result = json.loads(file.read_text())
    assert result["hbm_needed"] == 9 * GIB and result["global_batch"] == 64
    # Ring all-reduce: each replica sends 2 (n - 1) / n of the gradients.
    assert result["all_reduce_bytes"] == 2 * 4 * result["parameters"] * 7 // 8


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("--topology", "v9:2x2"), "--topology v9:2x2"),
        (("--batch", "12"), "--batch 12 does not divide by the 8 replicas of v5e:2x4"),
        (("--batch", "8", "--accumulation", "2"), "give a multiple of 16"),
        (("--length", "1024"), "--length 1024"),
        (("--samples", "10"), "--samples is for elmo"),
        (("--predictions", "17"), "--predictions 17"),
        (("--steps", "5", "--tokens", "5"), "--steps and --tokens"),
        (("--shard-optimizer", "--engine", "both"), "--shard-optimizer is for --engine jax"),
    ],
)
def test_errors_are_one_line(arguments, message, capsys):
    assert tfnlp(*arguments) == 1
    error = capsys.readouterr().err
    assert error.startswith("tfnlp: error: ") and error.count("\n") == 1
    assert message in error


def test_refusal(fake_engines, capsys, monkeypatch):
    refused = Compiled(0, refusal="INTERNAL: no rule for\n%x = f32[] y()")
    monkeypatch.setattr(planning, "compile_for", lambda *a, **k: refused)
    assert tfnlp("--batch", 8) == 1
    error = capsys.readouterr().err.strip().split("\n")[-1]
    assert error.startswith("tfnlp: error: ") and "no rule for %x = f32[] y()" in error


def plan(**arguments):
    return PlanSettings.make(
        model="bert-tiny", vocab_size=100, length=16, topology="v5e:1x1", **arguments
    )


def command(text):
    """The options of the line that `tfnlp plan` says to type."""
    (line,) = [x for x in text.splitlines() if x.startswith("to run it: ")]
    return line.removeprefix("to run it: ")


def test_a_batch_that_does_not_fit_is_cut(fake_engines, capsys):
    assert tfnlp("--engine", "jax", "--batch", 192, "--topology", "v5e:2x4") == 0
    # 24 rows a replica: 19 GiB. 12 rows are 10 GiB; between 12 and 24 no number divides 24.
    assert fake_engines == [("jax", 24, 1), ("jax", 24, 2)]
    out = capsys.readouterr().out
    assert "OUT OF MEMORY: 19.00 GiB, available are 15.75 GiB" in out
    assert "the batch asked for, in 2 micro-batches" in out and "fits: 10.00 GiB" in out
    assert command(out) == (
        "tfnlp pretrain bert --engine jax --strategy tpu --size tiny --seq-length 16 "
        "--batch-size 192 --accumulation 2 --bf16"
    )


def test_the_fewest_micro_batches(fake_engines):
    result = make_plan(plan(batch=60))  # 61 GiB; 15 rows are 16 GiB, 12 rows 13 GiB
    assert result["verdict"] == "out of memory"
    proposal = result["proposal"]
    assert (proposal["global_batch"], proposal["accumulation"]) == (60, 5)
    assert {("tensorflow", 60, 4), ("tensorflow", 60, 5)} <= set(fake_engines)
    assert len(fake_engines) <= 4


def test_activations_are_computed_again_where_nothing_else_fits(fake_engines, monkeypatch, capsys):
    arguments = ("--batch", 2, "--topology", "v5e:1x1")
    # A row needs 1 GiB more than the weights, with remat blocks half of it, with full a quarter.
    for usable, remat in ((1.6, "blocks"), (1.3, "full")):
        monkeypatch.setitem(
            CHIPS, "v5e", dataclasses.replace(CHIPS["v5e"], usable=int(usable * GIB))
        )
        assert tfnlp(*arguments) == 0
        out = capsys.readouterr().out
        assert f"the batch asked for, in 2 micro-batches, with remat {remat}" in out
        assert f"--batch-size 2 --accumulation 2 --remat {remat} --bf16" in command(out)
    assert tfnlp(*arguments, "--remat", "blocks") == 0  # as it was asked for
    assert "fit with remat blocks; give it more chips" in capsys.readouterr().out
    monkeypatch.setitem(CHIPS, "v5e", dataclasses.replace(CHIPS["v5e"], usable=int(1.6 * GIB)))
    assert tfnlp("--topology", "v5e:1x1") == 0
    out = capsys.readouterr().out
    assert "largest batch that fits: 1 a replica" in out and "--remat blocks" in command(out)


def test_a_search_proposes_what_it_found(fake_engines, capsys):
    assert tfnlp("--engine", "jax", "--topology", "v5e:1x1", "--dropout", 0.2) == 0
    out = capsys.readouterr().out  # 16 rows are 13 GiB
    assert "largest batch that fits: 16 a replica, 16 in all" in out
    assert "--batch-size 16 --dropout 0.2 --bf16" in command(out)


def test_both_engines(fake_engines, capsys, tmp_path):
    file = tmp_path / "both.json"
    arguments = ("--engine", "both", "--batch", 8, "--topology", "v5e:1x1", "--json", file)
    assert tfnlp(*arguments) == 0
    out = capsys.readouterr().out
    assert "memory: jax needs less, 7.00 GiB; tensorflow 9.00 GiB (22.2 % less)" in out
    assert "time: tensorflow needs less, 180.00 ms; jax 260.00 ms (30.8 % less)" in out
    engines = json.loads(file.read_text())["engines"]
    assert [engines[e]["hbm_needed"] / GIB for e in ("tensorflow", "jax")] == [9, 7]
    # After searches the largest batch that fits both is compared.
    fake_engines.clear()
    assert tfnlp("--engine", "both", "--topology", "v5e:1x1") == 0
    out = capsys.readouterr().out
    assert "with 8 rows a replica:" in out and "7.00 GiB; tensorflow 9.00 GiB" in out
    assert "largest batch a replica that fits: tensorflow 8 and jax 16" in out


def test_hours(fake_engines, capsys):
    arguments = ("--engine", "jax", "--batch", 64, "--topology", "v5e:2x4")
    assert tfnlp(*arguments, "--steps", 36_000) == 0
    # 0.1 s + 8 rows of 0.02 s are 0.26 s; 36,000 of them are 2.6 hours of 8 chips.
    out = capsys.readouterr().out
    assert "260.00 ms a step: 3.85 steps/s, 3,938 tokens/s" in out
    tokens = 36_000 * 64 * 16
    assert f"36,000 steps, {tokens:,} tokens: expected 2.60 hours, 20.80 chip-hours" in out
    assert "--steps 36000" in command(out)
    assert tfnlp(*arguments, "--tokens", tokens - 1) == 0
    assert "--steps 36000" in command(capsys.readouterr().out)  # the last batch is whole, too
    assert tfnlp(*arguments, "--tokens", 10**13) == 0  # more than any seed may be
    assert "9,765,625,000 steps" in capsys.readouterr().out
    # Two cores are one chip.
    arguments = ("--engine", "jax", "--batch", 8, "--topology", "v3:2x2")
    assert tfnlp(*arguments, "--steps", 36_000) == 0
    assert "expected 1.20 hours, 4.80 chip-hours" in capsys.readouterr().out


OF_FAMILIES = {family: model for model, (family, _) in MODELS.items()}


@pytest.mark.parametrize("model", OF_FAMILIES.values())
def test_the_options_are_those_of_pretrain(model):
    """Each is an option of the family's config that takes the value."""
    family = FAMILIES[MODELS[model][0]]
    values = {"predictions": 3, "samples": 64}
    given = {name: values[name] for name in values if name in family.plan_options}
    config = PlanSettings.make(model=model, optimizer="adam", dropout=0.2, tokens=10**9, **given)
    result = {"engine": "jax", "length": 20, "global_batch": 48, "accumulation": 2, "chips": 8}
    result["remat"] = "blocks"
    result.update(expected_seconds=1.0, floor_seconds=0.5)
    line = shlex.split(pretrain_command(config, result))
    parsed = vars(parse([*line, "--output", "run", "--input", "text"]))
    fields = {field.name for field in dataclasses.fields(family.settings)}
    made: Settings = family.settings.make(**{k: v for k, v in parsed.items() if k in fields})
    assert (made.batch_size, made.accumulation, made.steps) == (48, 2, 1041667)
    assert (made.bf16, made.optimizer, made.dropout) == (True, "adam", 0.2)
    assert made.remat == "blocks"
    assert made.size == MODELS[model][1]
    assert 20 in (getattr(made, "seq_length", None), getattr(made, "window", None))
    assert set(family.plan_flags) == {"length", *family.plan_options}
    for name, value in given.items():
        assert getattr(made, {"predictions": "max_predictions"}.get(name, name)) == value
