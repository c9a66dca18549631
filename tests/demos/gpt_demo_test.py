"""The demo of GPT, shortened."""

from tests.demos.demo import run_demo


def test_gpt_demo_runs_to_its_end(tmp_path):
    shown = run_demo("demo_gpt.sh", tmp_path, EPOCHS="0.04")
    assert "a token" in shown and "Mary opened the door" in shown
    assert shown.count("The robin") >= 2 and "after five updates" in shown
    assert (tmp_path / "gpt/curve.png").read_bytes()[:4] == b"\x89PNG"
