"""The page of a comparison: what it says of spread and figures, and that it is read on a wide and a narrow screen."""

from __future__ import annotations

import re
import stat
from dataclasses import replace

import pytest
from fixtures.compare import RISK, VALUES, made

from engine.errors import PrivacyError
from engine.evaluation.report.files import refuse_confidential
from engine.evaluation.report.modes import page, pictures, table_of, write_comparison

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")
EPSILONS = (0.1, 0.5, 1.0, 2.0, 10.0)
WIDE = {
    ("sticky", None): [0.031, 0.028, 0.035],
    **{("dp", e): [30 / e, 25 / e, 41 / e] for e in EPSILONS},
    ("exact", None): [0.05, 0.06, 0.055],
}
"""Five epsilons, the range that the command has by default."""


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
    heads, rows = table_of(found)
    assert heads == ("figure", "sticky", "dp, epsilon 0.5", "dp, epsilon 2", "dp without noise")
    assert rows[0][1:] == (
        "1.30 (1.10 to 1.50)",
        "40.00 (30.00 to 50.00)",
        "6.00 (4.00 to 8.00)",
        "1.00",
    )
    assert rows[1][1:] == ("950", "–", "–", "–")
    for path in (out, out.with_suffix(".json")):
        with pytest.raises(PrivacyError):
            refuse_confidential([path])


def test_cells_hold_the_median_and_its_range_apart():
    html = page(made(tables__s_pmse_2=VALUES))
    assert (
        '<td class="n" data-head="dp, epsilon 0.5"><span class="value">40.00</span>'
        "<small>30.00 to 50.00</small></td>" in html
    )
    assert '<td class="n" data-head="dp without noise"><span class="value">1.00</span></td>' in html
    assert "bars reach from the smallest to the largest" in html


def test_one_release_each_has_no_spread():
    single = {way: values[:1] for way, values in VALUES.items()}
    html = page(replace(made(tables__s_pmse_2=single), repeats=1))
    assert "One release each: no spread is known." in html
    assert "smallest" not in html
    assert "<small>" not in html
    risk = {name: {way: v[:1] for way, v in of.items()} for name, of in RISK.items()}
    html = page(replace(made(tables__s_pmse_2=single, **risk), repeats=1))
    assert "One release each: a small difference may be chance." in html


def test_figures_begin_with_a_capital_letter():
    found = made(marginals__score=VALUES, propensity__pmse=VALUES, tables__s_pmse_2=VALUES)
    titles = [row[0] for row in table_of(found)[1]]
    assert titles == [
        "S_pMSE, tables of two columns",
        "Combinations of columns",
        "Telling synthetic from original rows (pMSE)",
    ]
    html = page(found)
    assert all(f"<b>{title}, against epsilon</b>" in html for title in titles)


def test_risk_stands_beside_utility_in_picture_table_and_words():
    """Before, the page said nothing of risk."""
    found = made(tables__s_pmse_2=VALUES, **RISK)
    html = page(found)
    assert html.count("<svg") == 2
    drawn = pictures(found)[-1]
    assert drawn.title == "Attribute gain, against rows misplaced"
    assert drawn.is_wide
    for name in ("sticky, the spec", "dp, epsilon 0.5", "dp, epsilon 2", "dp without noise"):
        assert f">{name}<" in drawn.svg
    assert pictures(found)[-1].svg == drawn.svg
    cells = {row[0]: row[1:] for row in table_of(found)[1]}
    assert cells["Attribute gain"][:2] == ("0.050 (0.040 to 0.060)", "0.000 (−0.010 to 0.010)")
    assert cells["Membership AUC"][2:] == ("–", "–")
    assert cells["Rows misplaced"][3] == "0.100"
    assert "<h2>Risk against utility</h2>" in html
    assert "down and left is better in both" in html
    assert "Lines cross at the spec's own point, sticky." in html
    assert "scored and attacked alike" in html
    assert "<dt>dp, epsilon 2</dt><dd>rows misplaced +0.100; lower: attribute gain -0.030" in html


def test_a_spec_that_is_none_of_the_ways_is_not_named():
    found = replace(made(tables__s_pmse_2=VALUES, **RISK), own=None)
    html = page(found)
    assert "the spec<" not in pictures(found)[-1].svg
    assert "Lines cross" not in html
    assert "Beside sticky mode" in html


def test_without_risks_no_map_is_drawn_and_none_is_promised():
    html = page(made(tables__s_pmse_2=VALUES))
    assert "Risk against utility" not in html
    assert "attacked" not in html
    loss = made(tables__s_pmse_2=VALUES, misplaced=RISK["misplaced"])
    assert len(pictures(loss)) == 1
    assert "down and left" not in page(loss)


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (390, "dark")])
def test_the_page_opens_and_the_table_needs_no_scrolling(browser, tmp_path, width, scheme):
    names = ("tables__s_pmse_2", "tables__s_pmse_1", "tables__s_pmse_3", "marginals__score")
    risks = dict.fromkeys(("misplaced", "attribute"), WIDE)
    found = replace(made(**dict.fromkeys(names, WIDE), **risks), epsilons=EPSILONS)
    path, _ = write_comparison(found, tmp_path / "c.html")
    said, asked = [], []
    sheet = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    sheet.on("console", lambda message: said.append(message.text))
    sheet.on("pageerror", lambda error: said.append(str(error)))
    sheet.on("request", lambda request: asked.append(request.url))
    sheet.goto(path.as_uri())
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [path.as_uri()]
    assert sheet.evaluate("document.documentElement.scrollWidth") <= width
    box = "document.querySelector('.scroll')"
    assert sheet.evaluate(f"{box}.scrollWidth <= {box}.clientWidth")
    backs = sheet.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", backs)[:3])) < 200) == (scheme == "dark")
    assert sheet.locator("figure svg").count() == len(names) + 1
    sheet.close()
