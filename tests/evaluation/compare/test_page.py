"""The page of a comparison: what it says of spread and figures, and that it is read on a wide and a narrow screen."""

from __future__ import annotations

import re
import stat
from dataclasses import replace

import pytest
from fixtures.compare import VALUES, made

from engine.errors import PrivacyError
from engine.evaluation.report.files import refuse_confidential
from engine.evaluation.report.modes import table_of, write_comparison

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
