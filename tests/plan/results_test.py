"""The table of plans that docs/plan.md shows is that of the results that were kept."""

import json

import pytest

from benchmarks import plan
from tfnlp.plan.chips import CHIPS


def test_kept_results_follow_from_their_parts():
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
        # The batch was compiled, and so was its double, which does not fit.
        verdicts = {r["batch_per_replica"]: r["verdict"] for r in result["compiled"]}
        assert verdicts[result["batch_per_replica"]] == "fits"
        assert verdicts[2 * result["batch_per_replica"]] == "out of memory"


def test_the_page_shows_them():
    page = (plan.ROOT / "docs" / "plan.md").read_text()
    assert plan.table(json.loads(plan.RESULTS.read_text())) in page
