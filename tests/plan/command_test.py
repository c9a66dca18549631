"""`tfnlp plan`: its output, and errors in one line; with a fake compiler."""

import json
import types

import pytest

from tfnlp.cli import main, parse
from tfnlp.plan import compiler, steps
from tfnlp.plan.chips import GIB
from tfnlp.plan.compiler import Compiled

TINY = ("--model", "bert-tiny", "--vocab-size", "100", "--length", "16")


def tfnlp(*arguments):
    """The exit code of `tfnlp plan ARGUMENTS`."""
    return main(parse(["tfnlp", "plan", *map(str, arguments)]))


@pytest.fixture
def fake_compiler(monkeypatch):
    """A fake compiler for which a row needs 1 GiB; returns the rows of each program."""
    given = []

    def compile_for(chip, stablehlo, *, cache, time_limit, keep, topology=None):
        rows = int(stablehlo.split("s32[")[1].split(",")[0])
        given.append(rows)
        if rows > 15:
            return Compiled(chip.usable, needed=rows * GIB)
        memory = dict(argument=GIB, output=GIB, alias=GIB, temp=rows * GIB, generated_code=GIB // 2)
        return Compiled(
            chip.usable,
            memory=memory,
            matrix_flops=10**12,
            hbm_bytes=10**9 * rows,
            cycles=5,
            analysis={"flops": 2e12, "bytes": 3e9},
        )

    monkeypatch.setattr(compiler, "compile_for", compile_for)
    monkeypatch.setattr("tfnlp.plan.lowering.lower", lambda step: f"s32[{step.specs[1].shape[0]},")
    return given


@pytest.fixture
def fake_step(monkeypatch):
    """No model is built."""

    def planned_step(preset):
        batch = types.SimpleNamespace(shape=(preset.rows,))
        return types.SimpleNamespace(specs=(None, batch), model=None, parameters=1000)

    monkeypatch.setattr(steps, "planned_step", planned_step)


def test_table_of_a_batch(fake_compiler, capsys, tmp_path):
    file = tmp_path / "plan.json"
    assert tfnlp(*TINY, "--batch", 64, "--topology", "v5e:2x4", "--json", file) == 0
    out, err = capsys.readouterr()
    assert fake_compiler == [8] and "compiling bert-tiny, 8 x 16" in err
    assert "64 x 16 on v5e:2x4: 8 on each of 8 replicas" in out
    assert "fits: 9.50 GiB of 15.75 GiB" in out
    assert "temporaries 8.00 GiB" in out and "results" not in out
    assert "2.00 TFLOP, 8.00 GB through HBM" in out
    assert "compute: 250 FLOP/byte, the chip's ridge is at 241" in out
    assert "10.15 ms a step" in out  # 2e12 / 197e12
    result = json.loads(file.read_text())
    assert result["hbm_needed"] == int(9.5 * GIB) and result["global_batch"] == 64
    # Ring all-reduce: each replica sends 2 (n - 1) / n of the gradients.
    assert result["all_reduce_bytes"] == 2 * 4 * result["parameters"] * 7 // 8


def test_search(fake_compiler, fake_step, capsys):
    assert tfnlp(*TINY) == 0
    assert "largest batch that fits: 8 a replica, 64 in all" in capsys.readouterr().out
    assert {8, 16} <= set(fake_compiler) and len(fake_compiler) <= 4


def test_arguments_and_temporaries_count(fake_compiler, fake_step, capsys):
    assert tfnlp(*TINY, "--batch", 10, "--topology", "v5e:1x1") == 0
    out = capsys.readouterr().out
    assert "memory: 200 FLOP/byte" in out
    assert "12.21 ms a step" in out  # 10e9 / 819e9
    assert tfnlp(*TINY, "--batch", 15, "--topology", "v5e:1x1") == 0
    out = capsys.readouterr().out
    assert "OUT OF MEMORY: 16.50 GiB, available are 15.75 GiB" in out
    assert tfnlp(*TINY, "--batch", 17, "--topology", "v5e:1x1") == 0
    out = capsys.readouterr().out.partition("\n\n")[0]
    assert "OUT OF MEMORY: at least 17.00 GiB" in out and "ms a step" not in out


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
    assert tfnlp(*TINY, *arguments) == 1
    error = capsys.readouterr().err
    assert error.startswith("tfnlp: error: ") and error.count("\n") == 1
    assert message in error


def test_refusal(fake_compiler, capsys, monkeypatch):
    message = 'INTERNAL: cannot: metadata={op_name="bert_pretrainer/layer_0/attention/MatMul"}'
    monkeypatch.setattr(compiler, "compile_for", lambda *a, **k: Compiled(0, refusal=message))
    assert tfnlp(*TINY, "--batch", 8) == 1
    error = capsys.readouterr().err.strip().split("\n")[-1]
    assert error.startswith("tfnlp: error: layer_0/attention (")
