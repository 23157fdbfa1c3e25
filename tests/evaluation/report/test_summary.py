"""The summary on a screen and on the page: sentences, narrow tables, what is compared, what is published, contrast."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources
from itertools import pairwise

import pytest
from fixtures.report import CATALOGUE, TRUE_COUNT, evaluation, figure, result
from hypothesis import given
from hypothesis import strategies as st

from engine.evaluation.report.document import document, is_publishable, published
from engine.evaluation.report.improvement import improvements
from engine.evaluation.report.page import page, rate_text
from engine.evaluation.report.pictures.versus import improvement_table
from engine.evaluation.report.summary import TITLE_ROOM, blocks, reasons, sentence
from engine.evaluation.report.verdicts import Line, lines
from engine.evaluation.score import HitRate

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")


def line(name: str = "a.b", value: float | None = 1.0, **more) -> Line:
    told = {
        "subject": "x",
        "figure": figure(name, is_headline=True),
        "is_risk": False,
        "scale": None,
        "reach": "",
        "verdict": "only stated",
        "why": "",
    }
    return Line(value=value, **(told | more))


# Sentences.


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        ([], "Utility: not measured"),
        (["only stated"], "Utility: no figure is judged. Only stated: 1."),
        (["good"], "Utility: good in the one figure that is judged."),
        (["good", "good"], "Utility: good in all 2 figures that are judged."),
        (["good", "fair"], "Utility: fair in 1 of 2 figures that are judged: f1 (1.000)."),
        (["fair", "poor"], "Utility: poor in 1 of 2 figures that are judged: f1 (1.000)."),
        (["poor"] * 6, "f3 (1.000); 2 more."),
        (["good", "not computed"], "is judged. Not computed: 1."),
    ],
)
def test_a_sentence_names_the_worst(verdicts, said):
    told = [
        line(
            f"m.f{i}",
            None if v == "not computed" else 1.0,
            verdict=v,
            figure=figure(f"m.f{i}", title=f"f{i}", is_headline=True, perfect=None),
        )
        for i, v in enumerate(verdicts)
    ]
    words = sentence(told, is_risk=False)
    assert said in words
    assert "f0" not in sentence([replace(x, is_risk=True) for x in told], is_risk=False)


def test_a_sentence_counts_what_is_nearer_than_a_sample():
    told = [line(value=v, scale=0.5) for v in (0.4, 0.6, 0.5)]
    assert "sample of the original: 1 of 3 figures" in sentence(told, is_risk=False)
    better = line(value=-3.0, scale=0.1)
    assert better.is_nearer, "beyond perfect on the good side is perfect"


# Tables for a screen.


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_titles_are_not_cut_on_a_narrow_screen(width, n):
    subjects = [result(f"a subject with a long name {i}", 0.1 + i) for i in range(n)]
    told = lines(evaluation(*subjects), CATALOGUE)
    names = [s.subject.name for s in subjects]
    made = blocks(told, names, sample="40% sample", width=width)
    shown = set()
    for block in made:
        assert {len(row) for row in block.rows} == {len(block.heads)}
        rest = [
            max(map(len, column)) for column in list(zip(block.heads, *block.rows, strict=True))[1:]
        ]
        assert sum(rest) + 3 * len(rest) + TITLE_ROOM <= width
        shown |= {row[0] for row in block.rows}
    wanted = {x.title for x in told if x.figure.is_headline and x.value is not None}
    assert shown == wanted
    if n > 1:
        heads = [h for b in made if b.title == "Utility" for h in b.heads[2:]]
        assert len(heads) == len(set(heads)) == n


def test_a_screen_says_direction_threshold_verdict_and_why_not():
    told = lines(evaluation(result("x", 5.0)), CATALOGUE)
    rows = {
        r[0]: tuple(map(str.strip, r))
        for b in blocks(told, ["x"], sample="s", width=80)
        for r in b.rows
    }
    assert rows["Median error of counts"][1:] == ("5.000", "↓", "1.235", "≤ 0.5/2", "poor")
    assert rows["Forest"][1:] == ("0.900", "↑", "", "", "")
    assert rows["Linkage: correct"][1:] == ("0.300", "↓", "≤ –/0.2", "poor")
    assert reasons(told) == ["not computed: Principal components: the widest table has one column"]


# Comparison.


def factors(**over: int):
    """The factor of one figure of two subjects whose tables have so many columns."""
    told = [
        line(value=v, over=o, subject=s) for (s, o), v in zip(over.items(), (0.1, 0.4), strict=True)
    ]
    (one,) = improvements(told)
    return one


@pytest.mark.parametrize(
    ("mine", "other", "is_compared"),
    [(4, 24, False), (24, 4, False), (4, 6, True), (4, 7, False), (0, 24, True), (4, 0, True)],
)
def test_tables_of_other_widths_are_not_compared(mine, other, is_compared):
    one = factors(a=mine, b=other)
    if is_compared:
        assert (one.factor, one.text) == (pytest.approx(4), "4.00")
    else:
        assert one.text == f"not comparable: {mine} columns against {other}"
        assert improvement_table([one]).iloc[0]["b"] == one.text


def test_what_cannot_be_compared_has_no_factor_and_no_mark():
    """Only figures of whole tables: what is read from small ones can be compared whatever the widest is."""
    name = "correlations.median_difference"
    catalogue = CATALOGUE | {name: replace(CATALOGUE[name], columns="all")}
    ours, theirs = result("a", 0.3), result("b", 0.9)
    wide = replace(ours.scores["correlations"], over=4)
    narrow = replace(theirs.scores["correlations"], over=24)
    pair = [
        replace(one, scores={**one.scores, "correlations": score})
        for one, score in ((ours, wide), (theirs, narrow))
    ]
    told = document(evaluation(*pair), catalogue=catalogue)["improvements"]
    (one,) = [x for x in told if x["figure"] == name]
    assert one["factor"] is None
    assert one["words"] == "not comparable: 4 columns against 24"
    html = page(evaluation(*pair), catalogue=catalogue)
    assert "not comparable: 4 columns against 24" in html
    versus = html[html.index('<section id="versus">') :]
    picture = versus[versus.index("<svg") : versus.index("</svg>")]
    assert "tau" not in picture
    assert "Median error of counts" in picture
    (small,) = [
        x
        for x in document(evaluation(*pair), catalogue=CATALOGUE)["improvements"]
        if x["figure"] == name
    ]
    assert small["factor"] is not None


def test_beyond_perfect_on_the_good_side_is_perfect():
    gain = figure("a.b", perfect=0.0, low=-1.0)
    told = [line(value=v, subject=s, figure=gain) for s, v in (("a", -0.3), ("b", -0.1))]
    assert improvements(told)[0].factor == 1


def test_one_row_a_measure_and_number_of_columns_is_drawn():
    again = figure(
        "marginals.like_a_sample", "higher", columns="3", perfect=100.0, is_headline=True
    )
    subjects = [result("a", 0.3), result("b", 0.9)]
    subjects = [
        replace(
            s,
            scores={**s.scores, "marginals": replace(m, values={**m.values, "like_a_sample": 9.0})},
        )
        for s in subjects
        for m in [s.scores["marginals"]]
    ]
    html = page(evaluation(*subjects), catalogue=CATALOGUE | {again.name: again})
    versus = html[html.index('<section id="versus">') :]
    picture = versus[versus.index("<svg") : versus.index("</svg>")]
    assert picture.count("marginals") == 1
    assert "3.00" in html


# What may be published.


@pytest.mark.parametrize("n_rows", [7, 150, 400, 27_253])
@given(count=st.integers(0, 400), high=st.sampled_from([1.0, 100.0]))
def test_a_published_share_does_not_tell_a_count(n_rows, count, high):
    share = figure("a.b", high=high)
    near = [c for c in range(count - 2, count + 3) if 0 <= c <= n_rows]
    told = {published(share, high * c / n_rows, n_rows) for c in near}
    # Five counts in a row are never told apart by more than one step.
    assert len(told) <= 2


def test_counts_are_not_published_however_they_are_shown():
    for digits in (0, 1):
        assert not is_publishable(line("a.b", figure=figure("a.b", digits=digits)))
    assert is_publishable(line("a.b", figure=figure("a.b", digits=2)))
    from engine.evaluation.figures import FIGURES

    counts = ("univariate.scaled_largest_absolute_error", "identification.expected_match_risk")
    for name in counts:
        assert not is_publishable(line(name, figure=FIGURES[name]))
    assert str(published(figure("a.b", high=1.0, low=-1.0), -0.0001, 100)) == "0.0"


def test_a_publishable_summary_names_no_count():
    count = figure("a.n", digits=0, title="records", is_headline=True, poor=5)
    told = [line("a.n", float(TRUE_COUNT), figure=count, verdict="poor")]
    assert "12,347" in sentence(told, is_risk=False)
    assert "12" not in sentence(told, is_risk=False, rows_published=100)
    assert blocks(told, ["x"], sample="s", width=80, rows_published=100) == []


# The page.


def test_small_rates_keep_their_digits():
    assert (
        rate_text(HitRate(value=0.00007, low=0.0, high=0.5, n=9)) == "0.007 % (0.0 to 50.0 %, of 9)"
    )


class Outline(HTMLParser):
    """Headings, heads of tables, text of the summary."""

    def __init__(self) -> None:
        super().__init__()
        self.levels: list[int] = []
        self.unscoped = 0
        self.lang = ""

    def handle_starttag(self, tag, attrs):
        told = dict(attrs)
        if re.fullmatch(r"h[1-6]", tag):
            self.levels.append(int(tag[1]))
        self.unscoped += tag == "th" and "scope" not in told
        self.lang = told.get("lang", self.lang) if tag == "html" else self.lang


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("publishable", [False, True])
def test_headings_have_an_order_and_heads_a_scope(n, publishable):
    given_ = evaluation(*(result(f"r{i}", 0.3 + i) for i in range(n)))
    html = page(given_, publishable=publishable, catalogue=CATALOGUE)
    reader = Outline()
    reader.feed(html)
    assert reader.levels[0] == 1
    assert reader.levels.count(1) == 1
    assert all(b <= a + 1 for a, b in pairwise(reader.levels))
    assert (reader.unscoped, reader.lang) == (0, "en")
    assert html.index("Utility:") < html.index("<table"), "what it comes to stands first"
    assert "Risk:" in html


def test_attacks_are_told_with_interval_guessing_and_strangers():
    html = re.sub(r"<[^>]+>", " ", page(evaluation(), catalogue=CATALOGUE))
    table = html[html.index("Attack and figure") : html.index("Pictures", html.index("Attack and"))]
    for part in (
        "30.0 % (27.2 to 32.9 %, of 1,000)",
        "guessing: ",
        "10.0 %",
        "strangers: ",
        "25.0 %",
    ):
        assert part in table


def colours(css: str) -> dict[str, str]:
    return dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", css))


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    """Contrast ratio of WCAG 2.2."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_letters_and_marks_stand_out(scheme):
    css = resources.files("engine.evaluation.report").joinpath("report.css").read_text("utf-8")
    light, dark = css.split("@media (prefers-color-scheme: dark)")[:2]
    told = colours(light) | (colours(dark[: dark.index("* {")]) if scheme == "dark" else {})
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    letters = [(a, b) for a in ("ink", "quiet", "link") for b in ("paper", "card")]
    letters += [(v, f"{v}-back") for v in ("good", "fair", "poor")]
    letters += [("quiet", "none-back"), ("banner-ink", "banner"), ("good", "good-back")]
    for ink, back in letters:
        assert contrast(told[ink], told[back]) >= 4.5, (ink, back)
    for mark in ("original", "synthetic", "more", "less", "third", "fourth"):
        assert contrast(told[mark], told["card"]) >= 3, mark
