"""The page of a comparison: what it says of spread and figures, and that it is read on a wide and a narrow screen."""

from __future__ import annotations

import stat

import pytest
from fixtures.compare import VALUES, made

from engine.errors import PrivacyError
from engine.evaluation.report.page import comparison_table, write_comparison
from engine.evaluation.report.verdicts import refuse_confidential

pytest.importorskip("jinja2")


def test_a_page_is_written_privately_and_refused_by_publish(tmp_path):
    found = made(tables__s_pmse_2=VALUES, marginals__score={("sticky", None): [950.0]})
    out = tmp_path / "c.html"
    out.write_text("older")
    out.chmod(0o644)
    write_comparison(found, out, force=True)
    assert {stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()} == {0o600}
    page = out.read_text("utf-8")
    assert "CONFIDENTIAL" in page
    assert "<made>" not in page
    assert "&lt;made&gt; &amp; up" in page
    assert "http://" not in page.replace("http://www.w3.org/", "")
    assert page.count("<svg") == 2
    heads, rows = comparison_table(found)
    assert heads[1:] == tuple(f.title[:1].upper() + f.title[1:] for f in found.figures())
    assert rows == [
        ("sticky", "1.30 (1.10 to 1.50)", "950"),
        ("dp, epsilon 0.5", "40.00 (30.00 to 50.00)", "–"),
        ("dp, epsilon 2", "6.00 (4.00 to 8.00)", "–"),
        ("exact", "1.00", "–"),
    ]
    for path in (out, out.with_suffix(".json")):
        with pytest.raises(PrivacyError):
            refuse_confidential([path])
