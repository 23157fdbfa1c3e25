"""The first page of a report: what is released, who could learn what, and what was accepted."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape

import duckdb
import pytest
from fixtures.report import HOSTILE, evaluation, result

from engine.errors import DamagedRelease
from engine.evaluation.data.reading import Facts, facts_of
from engine.evaluation.report.page import RELEASED_IDENTIFIER, front_of, page
from engine.evaluation.report.verdicts import lines
from engine.units import unit_of

pytest.importorskip("jinja2")
EXPOSURE = {
    "guessed": 0.55,
    "guessed_with_earlier_builds": 0.655,
    "refused_above": 0.7,
    "warn_at": 0.2,
    "refuse_at": 0.4,
    "membership_auc": 0.93,
    "membership_caught": 0.61,
    "accept_risk": f"agreed with {HOSTILE}",
}
FACTS = Facts(
    title="Stays of 2021",
    vintage="2021",
    mode="sticky",
    key_id="0123456789abcdef",
    version="0.3.0",
    unit=unit_of("stay", "stays"),
    entity=unit_of("patient", "patients"),
    privacy={"detected": ["max_rows"]},
    detected={"age": ("domain",)},
    is_reviewed=False,
    notes=(f"mrn{RELEASED_IDENTIFIER}it is drawn anew", "a note"),
    groups=(
        {"columns": ["age"], "ranges": ["90"], "people": 16, "told": "day", "guessed": 0.68},
        {"columns": ["day"], "ranges": ["1"], "people": 99, "told": "age", "guessed": 0.55},
    ),
)


def released(facts=FACTS, **card):
    base = result("ours", 0.3)
    told_by_all = {
        "profile": "standard",
        "low_threshold": 3,
        "threshold_mean": 5,
        "exposure": EXPOSURE,
        "dp": {},
    }
    cards = {c: {**one, **told_by_all, **card} for c, one in base.subject.cards.items()}
    return replace(base, subject=replace(base.subject, cards=cards, facts=facts))


def front(one):
    whole = evaluation(one)
    return front_of(whole, one, lines(whole))


def text_of(one):
    """The first page, without its tags."""
    html = page(evaluation(one))
    first = html[html.index('<section class="front">') : html.index("</section>")]
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", first)))


def accepted(one):
    text = text_of(one)
    return text[text.index("What was accepted") : text.index("What is not known")]


@pytest.mark.ci
def test_the_page_begins_with_what_is_signed():
    html = page(evaluation(released()))
    assert html.index('class="front"') < html.index("How to read the figures")
    text = text_of(released())
    for part in (
        "300 stays as released; protected: patients",
        "4 (by number of columns: 3 of 1, 1 of 2)",
        "profile standard: nothing about fewer than 3 patients, noisy threshold of mean 5",
        "sd 1.40 stays",
        "day of the 16 most exposed patients is guessed up to 68% right; a coin is right in 50%",
        "in 93% of cases",
        "Signature",
        "no strong attack was run",
    ):
        assert part in text
    assert "<code>tablepack attack</code>" in html  # not in backticks
    assert "people" not in text.replace("people of the data", "").replace("people.csv", "")
    assert "break-after: page" in html
    assert "@page" in html


def test_what_was_accepted_stands_there_whoever_accepted_it():
    told = accepted(released())
    assert re.sub(r"\s+", " ", HOSTILE) in told
    assert "mrn is published although it may identify, because: “it is drawn anew”" in told
    assert "reviewed by NOBODY: domain of age; max_rows (privacy)" in told
    assert "0123456789abcdef" in told
    reviewed = accepted(released(replace(FACTS, is_reviewed=True)))
    assert "NOBODY" not in reviewed
    assert "a person says were reviewed" in reviewed
    plain = replace(FACTS, privacy={}, detected={}, notes=())
    nothing = accepted(released(plain, exposure={**EXPOSURE, "accept_risk": ""}))
    assert "Nothing beyond the rules of the profile." in nothing
    assert "By who holds" not in nothing


@pytest.mark.parametrize(
    ("guessed", "standing"), [(0.6, "holds"), (0.7, "holds in part"), (0.75, "does not hold")]
)
def test_the_most_exposed_are_judged_by_the_bounds_of_the_release(guessed, standing):
    told = {**EXPOSURE, "guessed_with_earlier_builds": guessed}
    (_, second, third) = front(released(exposure=told))["attackers"]
    assert second.standing == standing
    assert (second.without, second.with_release) == (0.5, 0.68)
    assert (third.standing, third.with_release) == ("does not hold", 0.93)


@pytest.mark.parametrize(
    ("dp", "part", "standing"),
    [
        ({"epsilon": 0.1, "noise": "laplace"}, "right with at most 52%", "holds"),
        (
            {"epsilon": 3.0, "delta": 1e-6, "noise": "gaussian"},
            "right with at most 95%",
            "does not hold",
        ),
        ({"epsilon": None}, "NO PRIVACY GUARANTEE", "does not hold"),
    ],
)
def test_mode_dp_says_what_it_guarantees(dp, part, standing):
    one = released(replace(FACTS, mode="dp", groups=()), dp=dp, exposure={})
    assert front(one)["attackers"][2].standing == standing
    text = text_of(one)
    assert part in text[text.index("Knows everybody else") : text.index("The three risks")]
    how = text[text.index("made how") : text.index("this release")]
    assert ("no privacy guarantee" in how) == (dp["epsilon"] is None)
    assert ("NO PRIVACY GUARANTEE" in accepted(one)) == (dp["epsilon"] is None)


def test_a_release_that_says_something_else_of_itself_is_refused():
    with duckdb.connect() as con:
        con.execute("CREATE SCHEMA catalog")
        con.execute(
            "CREATE TABLE catalog.release AS SELECT '' AS title, '1' AS vintage, 'sticky' AS mode, 'k' AS key_id, "
            "'0.3' AS engine_version, '{}' AS unit, '{}' AS entity, '{}' AS privacy, false AS reviewed"
        )
        con.execute("CREATE TABLE catalog.columns (position INT, name VARCHAR, detected VARCHAR[])")
        con.execute("CREATE TABLE catalog.notes (position INT, topic VARCHAR, note VARCHAR)")
        with pytest.raises(DamagedRelease, match="says of itself"):
            facts_of(con)


def test_the_three_risks_have_a_result_a_meaning_and_advice():
    """Risks without an attack are not computed, and never called good."""
    base = released()
    risks = front(base)["risks"]
    assert [one["name"] for one in risks] == ["Singling out", "Linkability", "Inference"]
    for one in risks:
        assert one["means"]
        if one["results"] == ["No attack was run."]:
            assert one["standing"] == "not computed"
            assert "tablepack attack" in one["advice"]
    without = replace(base, risks={})
    assert {one["standing"] for one in front(without)["risks"]} == {"not computed"}
