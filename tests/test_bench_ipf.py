"""The benchmark of IPF on a small table: it checks what it times. No time is tested."""

from __future__ import annotations

import json
import subprocess
import sys

import bench_ipf
import numpy as np
import pytest
from fixtures.pipeline import ROOT, environment

from engine.fit.joint import dense


def test_it_runs_and_says_what_it_found(tmp_path):
    out = tmp_path / "ipf.json"
    done = subprocess.run(
        [sys.executable, "scripts/bench_ipf.py", "--quick", "--repeat", "1", "--out", str(out)],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(out.read_text())
    assert told["cells"] == 14400
    assert min(told[name] for name in ("ours, float32", "ours, float64", "plain numpy")) > 0
    assert told["off, float64"] <= 1e-12 < told["off, float32"] <= 1e-5
    assert told["error"] <= 1e-4
    assert "28 margins" in done.stdout


def test_it_catches_a_cycle_that_is_not_the_textbooks(monkeypatch):
    right = dense.rake_table

    def wrong(table, block, wanted):
        error = right(table, block, wanted)
        table[(0,) * table.ndim] *= 1.001
        return error

    monkeypatch.setattr(dense, "rake_table", wrong)
    with pytest.raises(SystemExit, match="off the textbook's"):
        bench_ipf.ours(bench_ipf.QUICK, bench_ipf.margins_of(bench_ipf.QUICK), 1)


def test_margins_agree_and_a_plain_cycle_meets_the_last():
    margins = bench_ipf.margins_of(bench_ipf.QUICK)
    assert all(n.sum() == pytest.approx(1e6) for n in margins.values())
    table = np.ones(tuple(bench_ipf.QUICK.values()))
    axes = [tuple("abcdefgh".index(name) for name in pair) for pair in margins]
    bench_ipf.textbook_cycle(table, axes, list(margins.values()))
    assert table.sum(axis=(0, 1, 2, 3, 4, 5)) == pytest.approx(margins["g", "h"])


def test_a_peer_that_cannot_run_is_told():
    with pytest.raises(SystemExit, match="ipfn did not run"):
        bench_ipf.of_peer("false", {"a": 2}, {("a",): np.ones(2)})
