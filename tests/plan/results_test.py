"""The stored results of plans are consistent, and docs/plan.md shows them."""

import json

import pytest

from benchmarks import plan
from tfnlp.plan.chips import CHIPS


def test_stored_results_are_consistent():
    results = json.loads(plan.RESULTS.read_text())
    assert set(results) <= set(plan.PLANS)
    chip = CHIPS["v5e"]
    for result in results.values():
        m = result["memory"]
        total = m["argument"] + m["output"] - m["alias"] + m["temp"] + m["generated_code"]
        assert result["hbm_needed"] == total <= chip.usable
        seconds = {
            "compute": result["flops"] / chip.flops,
            "memory": result["hbm_bytes"] / chip.bandwidth,
        }
        assert result["bound_by"] == max(seconds, key=seconds.get)
        assert result["floor_seconds"] == pytest.approx(max(seconds.values()))
        # The batch fits, and its double was compiled and does not.
        verdicts = {r["batch_per_replica"]: r["verdict"] for r in result["compiled"]}
        assert verdicts[result["batch_per_replica"]] == "fits"
        assert verdicts[2 * result["batch_per_replica"]] == "out of memory"


def test_the_page_shows_them():
    page = (plan.ROOT / "docs" / "plan.md").read_text()
    assert plan.table(json.loads(plan.RESULTS.read_text())) in page
