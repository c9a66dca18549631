"""The demo of ELMo, shortened."""

from tests.demos.demo import run_demo


def test_elmo_demo_runs_to_its_end(tmp_path):
    shown = run_demo("demo_elmo.sh", tmp_path, EPOCHS="0.02")
    assert "full softmax, after" in shown
    assert "She [left] the room ." in shown and "He turned to the [left] ." in shown
    assert "moved 4 scalars of the mix" in shown
    assert (tmp_path / "elmo/curve.png").read_bytes()[:4] == b"\x89PNG"
