"""The audits that are measured: a short run, and what a row of its table says."""

from __future__ import annotations

import subprocess
import sys

import audit
import numpy as np
import pytest
from fixtures.pipeline import ROOT

from engine.evaluation.audit import Cells


class Fixed:
    """Gives the same cells always."""

    words = "fixed"

    def __init__(self, codes, n):
        self._cells = Cells(codes=np.array(codes), n=np.array(n))

    def draw(self, data, rng):
        return self._cells


def test_a_mixture_has_the_share_it_says_whatever_the_number_of_rows():
    one, other = Fixed([[0], [1]], [30, 10]), Fixed([[1]], [7])
    made = audit.Mixed(one, other, 0.2).draw(None, np.random.default_rng(0))
    assert made.codes.tolist() == [[0], [1], [1]]
    np.testing.assert_allclose(made.n, [0.6, 0.2, 0.2])


def test_a_row_counts_what_was_refuted():
    found = [
        audit.Found(p=p, copied=c, one_percent=0.5)
        for p, c in ((0.5, 0.0), (0.009, 0.02), (0.01, 0.01))
    ]
    assert audit.row_of("ipf", 0.1, found) == (
        "IPF: 10% from the 3-way margin", "3", "1", "9.0e-03", "0.01", "1.0 %", "0.50",
    )  # fmt: skip


@pytest.mark.parametrize(("kind", "share", "refuted"), [("ipf", 0.0, False), ("cart", 1.0, True)])
def test_one_audit(kind, share, refuted):
    """Both are fixed by the seed."""
    frame = audit.census(2_000)
    assert set(frame.columns) == set(audit.COLUMNS)
    found = audit.audited(frame, audit.Job(kind=kind, share=share, seed=1))
    assert (found.p < 1e-10) is refuted
    assert found.copied == pytest.approx(share, abs=0.1)


def test_nothing_to_test_is_no_figure(monkeypatch):
    monkeypatch.setattr(audit, "PAIRS", audit.WHOLE)
    with pytest.raises(RuntimeError, match="all there is to say"):
        audit.audited(audit.census(2_000), audit.Job(kind="ipf", share=0.0, seed=1))


def test_it_runs():
    done = subprocess.run(
        [sys.executable, "scripts/audit.py", "--quick"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    assert len(rows) == 2 + 13
    for kind in ("IPF", "dp, epsilon 1", "sticky"):
        assert any(row.startswith(f"| {kind}: uses the 3-way margin | 1 | 1 |") for row in rows)
    assert any(row.startswith("| sequential CART | 1 | 1 |") for row in rows)
    assert "wrote section" not in done.stdout
