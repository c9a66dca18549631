"""The demo of BERT, shortened."""

from tests.demos.demo import run_demo


def test_demo_runs_to_its_end(tmp_path):
    # With a few updates in place of thousands.
    shown = run_demo("demo.sh", tmp_path, STEPS="20")
    assert "nearest to: The robin sang in the tree." in shown
    assert "Mary went into the [MASK]" in shown
    for name in ("run/curve.png", "attention.png"):
        assert (tmp_path / name).read_bytes()[:4] == b"\x89PNG"
        assert str(tmp_path / name) in shown
