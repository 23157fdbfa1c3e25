"""The report, and the page of a comparison, as HTML: nothing is fetched, and only a filter of long tables runs.

Takes an `Evaluation` or a `Comparison`; gives HTML. Names and values are hostile text: the template escapes all of it,
and the page's own policy forbids every request. Invariants: the same evaluation gives the same bytes; on the first page
what is not known is said, with why, nothing that was accepted is left out, and no rate about those of the data stands
alone: what the same attack, or a guess, gets elsewhere is beside it, or why it is not.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from engine.charts import WIDE, Chart, Scale, scale, short
from engine.errors import StoreError
from engine.evaluation.attacks.protocol import excess
from engine.evaluation.compare import LOSS, Comparison, Spread
from engine.evaluation.compare import TEXTS as OF_COMPARISONS
from engine.evaluation.data.aligned import listed
from engine.evaluation.findings import FIGURES, STRONG, TITLES, Figure, Finding, Rate
from engine.evaluation.report.pictures import (
    TEXTS,
    Names,
    Picture,
    distortions,
    front_pictures,
    groups_of,
    improvement_picture,
    uses,
)
from engine.evaluation.report.verdicts import (
    MISSING,
    Line,
    Verdict,
    as_json,
    check_target,
    every_table,
    grid,
    improvements,
    json_of,
    lines,
    publishable_lines,
    sentence,
    shown,
    verdict,
    worst_first,
    write_both,
)
from engine.evaluation.runner import Evaluation, Result
from engine.guarantee import Guarantee

VERDICTS: tuple[Verdict, ...] = ("good", "fair", "poor", "only stated", "not computed")
MOST_LISTED = 2_000
"""Tables of a release that are listed."""
MOST_OF_A_KIND = 3
"""Pictures of one kind where several subjects are shown."""
NO_RATE = "not computed"


def page(evaluation: Evaluation, *, publishable: bool = False) -> str:
    """Return the report."""
    all_lines = lines(evaluation)
    if publishable:
        all_lines = publishable_lines(all_lines, evaluation.n_rows)
    by_subject = [
        [line for line in all_lines if line.subject == result.subject.name]
        for result in evaluation.results
    ]
    scored = any(result.scores for result in evaluation.results)
    common = {
        "evaluation": evaluation,
        "notes": evaluation.notes,
        "sample": f"{100 * evaluation.share:g} %",
        "study": evaluation.study.title,
        "command": "evaluation" if scored else "attack",
        "heading": "How good, and how safe" if scored else "What strong attackers get",
    }
    own = list(zip(evaluation.results, by_subject, strict=True))
    if publishable:
        parts = [
            {
                "subject": result.subject,
                "lines": mine,
                "sentences": [sentence(mine, is_risk=is_risk) for is_risk in (False, True)],
            }
            for result, mine in own
        ]
        return render("publishable.html.j2", parts=parts, **common)
    # Lines of all subjects for every headline figure that any of them has; each has a line in every subject.
    headlines = [[line for line in mine if line.figure.is_headline] for mine in by_subject]
    rows = [row for row in zip(*headlines, strict=True) if any(x.value is not None for x in row)]
    is_one = len(own) == 1
    return render(
        "report.html.j2",
        parts=[_part(i, evaluation, *one) for i, one in enumerate(own)],
        versus=None if is_one else improvement_picture(improvements(all_lines)),
        side_by_side=[] if is_one else rows,
        **common,
    )


def _part(
    number: int, evaluation: Evaluation, result: Result, own_lines: Sequence[Line]
) -> dict[str, Any]:
    headlines = [line for line in own_lines if line.figure.is_headline]
    declared = [line for line in headlines if line.is_declared]
    tally = Counter(line.verdict for line in declared)
    names = Names.of(evaluation)
    return {
        "place": f"s{number + 1}",
        "front": front_of(evaluation, result, own_lines),
        "result": result,
        "headlines": declared,
        "undeclared": [line.title for line in headlines if not line.is_declared],
        "sentences": [
            sentence(own_lines, is_risk=is_risk)
            for is_risk in (False, True)
            if is_risk or result.scores
        ],
        "uses": uses(own_lines),
        "distortions": distortions(result, names),
        "tally": [(v, tally[v]) for v in VERDICTS if tally[v]],
        "groups": groups_of(
            result, names, most=MOST_OF_A_KIND if len(evaluation.results) > 1 else None
        ),
        "tables": grid(every_table(result), most=MOST_LISTED),
        "measures": [_measured(name, one, own_lines) for name, one in result.findings.items()],
    }


def _measured(name: str, one: Finding, own_lines: Sequence[Line]) -> dict[str, Any]:
    beside = {}  # Figure that is the attack's rate -> what the same attack gets elsewhere
    if one.rate is not None:
        which = one.entry.rates[1 if one.control is None and one.baseline is not None else 2]
        elsewhere = one.control or one.baseline
        text = f"{which}: {NO_RATE if elsewhere is None else share_text(elsewhere.value)}"
        beside = {f"{name}.{v}": text for v, value in one.values.items() if value == one.rate.value}
    return {
        "title": TITLES.get(name, name),
        "words": one.entry.words,
        "verdict": one.verdict,
        "lines": [line for line in own_lines if line.measure == name],
        "rates": [(words, rate_text(rate)) for words, rate in one.rates],
        "notes": one.all_notes,
        "control_note": one.control_note,
        "breakdown": grid(worst_first(one.breakdown)) if len(one.breakdown) else None,
        "is_risk": one.entry.kind != "measure",
        "told": gain_sentence(one) if one.rate is not None else "",
        "beside": beside,
    }


def rate_text(rate: Rate | None) -> str:
    """Return a rate with its interval: "12.0 % (11.2 to 12.9 %, of 5,000)"."""
    if rate is None:
        return NO_RATE
    low, high = (share_text(v) for v in (rate.low, rate.high))
    return f"{share_text(rate.value)} ({low.removesuffix(' %')} to {high}, of {rate.n:,})"


def write_report(
    evaluation: Evaluation, path: Path, *, publishable: bool = False, force: bool = False
) -> tuple[Path, Path]:
    """Write the report, and JSON beside it."""
    check_target(path, force=force)
    return write_both(
        path,
        page=page(evaluation, publishable=publishable),
        json=as_json(evaluation, publishable=publishable),
        force=force,
        private=not publishable,
    )


def render(template: str, **context: object) -> str:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError:
        raise StoreError("reports need Jinja: pip install 'tablepack[evaluate]'") from None
    from markupsafe import Markup  # comes with Jinja

    environment = Environment(
        loader=PackageLoader("engine.evaluation.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals |= {
        "shown": shown,
        "grid": grid,
        "gain_sentence": gain_sentence,
        "titles": TITLES,
        "no_rate": NO_RATE,
        "listed": listed,
    }
    # Written by `Chart`, which escapes every text in it.
    environment.filters["drawn"] = lambda picture: Markup(picture.svg)  # noqa: S704
    files = resources.files("engine.evaluation.report")
    style, script = (files.joinpath(f).read_text("utf-8") for f in ("report.css", "filter.js"))
    return environment.get_template(template).render(
        style=Markup(style),  # noqa: S704
        script=Markup(script),  # noqa: S704
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        **context,
    )


# The first page: what a data protection officer signs


CONTROL = "--control"
"""The option that names non-members; reasons that want them say so."""
RELEASED_IDENTIFIER = " may look like an identifier. The owner released it: "
"""In the note of a release about a column that its owner released all the same."""


Standing = Literal["holds", "holds in part", "does not hold", "not computed"]
STANDINGS: Mapping[Verdict, Standing] = {
    "good": "holds",
    "fair": "holds in part",
    "poor": "does not hold",
    "only stated": "not computed",
    "not computed": "not computed",
}
COIN = 0.5
GAINS = {
    "uniques": ("excess_over_control", 0.01),
    "identification": ("excess_over_control", 1.0),
    "linkage": ("excess_over_control", 1.0),
}
"""What such attacks gain depends on the numbers of people and records: the figure that held as many against as many,
and what makes a share of it."""


@dataclass(frozen=True, slots=True)
class Attacker:
    """What the release gives one kind of attacker; `front.html.j2` says it in words."""

    short: str  # For a picture
    verdict: Verdict
    # How often they are right without the release, and with it; None: not known.
    without: float | None = None
    with_release: float | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def standing(self) -> Standing:
        return STANDINGS[self.verdict]


def gain_sentence(risk: Finding) -> str:
    """Return what an attack is worth in one sentence: its rate, that of the control, and what lies between."""
    if risk.rate is None:
        why = "; ".join(dict.fromkeys(risk.why_not.values())) or "it gave no figure"
        return f"not computed: {why}"
    mine, by_guessing, non_members = risk.entry.rates
    parts = [f"{mine}: {share_text(risk.rate.value)}"]
    other = risk.control or risk.baseline
    if risk.control is None:
        why = f" ({risk.control_note})" if risk.control_note else ""
        parts.append(f"{non_members}: not known{why}")
    if other is not None:
        parts.append(f"{non_members if risk.control else by_guessing}: {share_text(other.value)}")
        # How much oftener it is right than elsewhere; like is held against like.
        own = GAINS.get(risk.measure)
        gain = excess(risk.rate, other)
        if own is not None:
            gain = risk.values.get(own[0], math.nan) * own[1]
        beyond = "nothing that chance may not explain"
        if math.isnan(gain):
            beyond = "not known"
        elif gain > 0:
            beyond = f"{100 * gain:.2g} points"
        elif risk.rate.value <= other.value:
            beyond = "nothing"
        parts.append(f"beyond that: {beyond}")
    whole = "; ".join(parts)
    return f"{whole[:1].upper()}{whole[1:]}."


def share_text(share: float) -> str:
    percent = 100 * share
    return f"{percent:.1f} %" if percent >= 1 or percent < 1e-9 else f"{percent:.2g} %"


# --- the three attackers


def _neighbour(result: Result, own_lines: Sequence[Line]) -> Attacker:
    """Who knows some things about some people."""
    ran = {name: risk for name, risk in result.risks.items() if name not in STRONG}
    mine = [x for x in own_lines if x.is_risk and x.measure in ran and x.figure.is_headline]
    worst = _worst([line.verdict for line in mine])
    # Inference, or the attack whose rate is furthest above that of its control.
    gains = [
        (name == "inference", risk.rate.value - other.value, name, other.value, risk.rate.value)
        for name, risk in ran.items()
        if risk.rate is not None and (other := risk.control or risk.baseline) is not None
    ]
    *_, rated, without, reached = max(gains, default=(None, None, None))
    computed = {line.measure for line in mine if line.verdict != "not computed"}
    bad = [x for x in mine if x.value is not None and x.verdict == worst and worst != "good"]
    facts = {"rated": rated, "computed": len(computed), "ran": len(ran), "bad": bad[:2]}
    return Attacker("some things known", worst, without, reached, facts)


def _three_risks(result: Result, own_lines: Sequence[Line]) -> list[dict[str, Any]]:
    out = []
    for risk in TEXTS["risks"]:
        ran = {one: result.risks[one] for one in risk["attacks"] if one in result.risks}
        mine = [x for x in own_lines if x.measure in ran and x.figure.is_headline and x.is_risk]
        worst = _worst([x.verdict for x in mine])
        told = [f"{TITLES.get(name, name)}: {gain_sentence(one)}" for name, one in ran.items()]
        found = {"results": told or ["No attack was run."], "standing": STANDINGS[worst]}
        out.append({**risk, **found, "advice": TEXTS["advice"][worst]})
    return out


def _worst(verdicts: Sequence[Verdict]) -> Verdict:
    """The worst of several verdicts; what was not computed counts where nothing else is there."""
    order: tuple[Verdict, ...] = ("poor", "fair", "good")
    return next((one for one in order if one in verdicts), "not computed")


def _population(result: Result, exposure: Mapping[str, Any], bound: list[Verdict]) -> Attacker:
    """Who knows, of a small group, all columns but one."""
    verdicts = list(bound)
    worst: Mapping[str, Any] | None = None
    if exposure:
        # The most exposed people beside the bounds of the release.
        most = round(2 * exposure["guessed_with_earlier_builds"] - 1, 6)
        is_fair = most <= exposure["refuse_at"]
        verdicts.append("good" if most <= exposure["warn_at"] else "fair" if is_fair else "poor")
        groups = () if result.subject.facts is None else result.subject.facts.groups
        worst = max(groups, key=lambda group: float(group["guessed"]), default=None)
    ran = [name for name in ("reconstruction", "attribute") if name in result.risks]
    for name in ran:
        gain = result.risks[name].values.get("gain")
        verdicts.append(verdict(FIGURES[f"{name}.gain"], gain))
    reached = None if worst is None else float(worst["guessed"])
    without = None if worst is None else COIN
    facts = {"worst": worst, "ran": ran, "is_known": bool(verdicts)}
    return Attacker("a small group known", _worst(verdicts), without, reached, facts)


def _everybody(
    result: Result, exposure: Mapping[str, Any], guarantee: Guarantee | None, bound: list[Verdict]
) -> Attacker:
    """Who knows everybody else."""
    verdicts = list(bound)
    reached: float | None = None
    if exposure:
        reached = float(exposure["membership_auc"])
        verdicts.append(verdict(FIGURES["membership.auc"], reached))
    if guarantee is not None and guarantee.epsilon is not None:
        reached = guarantee.most_sure()
    risk = result.risks.get("membership")
    is_measured = risk is not None and ("auc" in risk.values or not exposure)
    if risk is not None and is_measured:
        measured = risk.values.get("auc", risk.values.get("predicted_auc"))
        if measured is not None:
            reached = measured
            verdicts.append(verdict(FIGURES["membership.auc"], measured))
    without = None if reached is None else COIN
    facts = {"is_measured": is_measured}
    return Attacker("everybody else known", _worst(verdicts), without, reached, facts)


# --- the page


def front_of(evaluation: Evaluation, result: Result, own_lines: Sequence[Line]) -> dict[str, Any]:
    """What the first page about a subject is made of."""
    subject, cards = result.subject, result.subject.cards
    facts, risks = subject.facts, evaluation.study.risks
    card: Mapping[str, Any] = next(iter(cards.values()), {})
    dp, exposure = card.get("dp") or {}, card.get("exposure") or {}
    guarantee = Guarantee.of(dp) if dp or (facts is not None and facts.mode == "dp") else None
    # What differential privacy promises against any attacker, by the thresholds of measured attacks.
    bound: list[Verdict] = []
    if guarantee is not None and dp:
        sure = None if guarantee.epsilon is None else guarantee.most_sure()
        bound = ["poor" if sure is None else verdict(FIGURES["membership.auc"], sure)]
    attackers = (
        _neighbour(result, own_lines),
        _population(result, exposure, bound),
        _everybody(result, exposure, guarantee, bound),
    )
    gains = [
        (one.short, one.without, one.with_release)
        for one in attackers
        if one.without is not None and one.with_release is not None
    ]
    # Why attacks were not computed -> which, each once; reasons that want non-members are said together.
    first = {
        (TITLES.get(line.measure, line.measure), CONTROL in line.why): line.why
        for line in reversed(own_lines)
        if line.is_risk and line.figure.is_headline and line.value is None
    }
    by_reason: dict[str, list[str]] = {}
    for (title, _), why in reversed(first.items()):
        by_reason.setdefault(why, []).append(title)
    stated = [float(one["noise_sd"]) for one in cards.values() if not one.get("wide")] or [0.0]
    notes = () if facts is None else facts.notes
    found = {} if facts is None else facts.detected
    settings = [f"{', '.join(of_column)} of {name}" for name, of_column in found.items()]
    if facts is not None:
        settings += [f"{setting} (privacy)" for setting in facts.privacy.get("detected") or ()]
    return {
        "subject": subject,
        "facts": facts,
        "card": card,
        "exposure": exposure,
        "guarantee": guarantee,
        "many": facts.entity.many if facts is not None else "people",
        "known": () if risks is None else risks.quasi_identifiers,
        "made_from": f"{evaluation.data}, {evaluation.n_rows:,} rows",
        "rows": max((int(one["rows"]) for one in cards.values()), default=0),
        "columns": sorted({name for table in subject.tables for name in table}),
        "widths": sorted(Counter(len(table) for table in subject.tables).items()),
        "noise": list(dict.fromkeys(f"{end(stated):.2f}" for end in (min, max))),
        "attackers": attackers,
        "risks": _three_risks(result, own_lines),
        "attacks": result.risks,
        "pictures": front_pictures(result, gains),
        "absent": [(", ".join(n), why) for why, n in by_reason.items() if CONTROL not in why],
        "unmeasured": [", ".join(n) for why, n in by_reason.items() if CONTROL in why],
        "is_attacked": bool(set(result.risks) - STRONG),
        "is_strongly_attacked": bool(set(result.risks) & STRONG),
        "has_control": result.aligned.control is not None,
        "is_by_rule": risks is not None and any("chosen by rule" in n for n in evaluation.notes),
        "identifiers": [
            (column, why)
            for column, is_one, why in (note.partition(RELEASED_IDENTIFIER) for note in notes)
            if is_one
        ],
        "settings": settings,
    }


# The page of a comparison


KINDS: Mapping[str, tuple[str, str, str]] = OF_COMPARISONS["kinds"]
_LOG_FROM = 8
"""A scale is logarithmic where the largest value is so many times the smallest; that of the loss sooner."""
Cell = tuple[str, str]


def write_comparison(
    comparison: Comparison, path: Path, *, force: bool = False
) -> tuple[Path, Path]:
    check_target(path, force=force)
    return write_both(
        path, force=force, page=comparison_page(comparison), json=comparison_json(comparison)
    )


def comparison_json(comparison: Comparison) -> str:
    return json_of(comparison.frame(), **comparison.about())


def comparison_table(comparison: Comparison) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return heads and rows for a screen: a row a generator; few figures of utility, the loss and the risks."""
    there = {figure.name: figure for figure in comparison.figures()}
    figures = [
        *comparison.weighed(),
        *(there[name] for name in OF_COMPARISONS["on_screen"] if name in there),
    ]
    heads = ("generator", *(_headed(figure) for figure in figures))
    rows = [
        (
            g.name,
            *(_as_one(*_spread_cell(comparison.spread(f.name, g.name), f.digits)) for f in figures),
        )
        for g in comparison.generators()
    ]
    if comparison.view == "generators":
        heads = (heads[0], "seconds", *heads[1:])
        rows = [
            (row[0], _spread_cell(comparison.spread("seconds", row[0]), 1)[0], *row[1:])
            for row in rows
        ]
    return heads, rows


def _headed(figure: Figure) -> str:
    return figure.title[:1].upper() + figure.title[1:]


def _spread_cell(spread: Spread | None, digits: int) -> Cell:
    """A median, and its range: "1.20", "1.10 to 1.31"; no range where there is one value."""
    if spread is None:
        return MISSING, ""
    middle = shown(spread.median, digits)
    if spread.n == 1:
        return middle, ""
    return middle, f"{shown(spread.low, digits)} to {shown(spread.high, digits)}"


def _as_one(middle: str, span: str) -> str:
    return f"{middle} ({span})" if span else middle


def risk_pictures(comparison: Comparison) -> list[Picture]:
    """Draw each risk against the loss, a point a generator (Duncan, Keller-McNulty and Stokes 2001), the first wide."""
    risks = [figure for figure in comparison.weighed() if figure != LOSS]
    return [_against_loss(comparison, risk, is_wide=not i) for i, risk in enumerate(risks)]


def _against_loss(comparison: Comparison, risk: Figure, *, is_wide: bool) -> Picture:
    """Points with names where the picture is wide, and lines that cross at the spec's own."""
    spots = [
        (g, loss.median, gain.median)
        for g in comparison.generators()
        for loss, gain in [(comparison.spread(f.name, g.name) for f in (LOSS, risk))]
        if loss is not None and gain is not None
    ]
    spots.sort(key=lambda spot: spot[0].name != comparison.own)
    x, y = [spot[1] for spot in spots], [spot[2] for spot in spots]
    title = f"{_headed(risk)}, against {LOSS.title}"
    chart = Chart(
        title,
        scale(x, name=LOSS.title, room=0.16, log_from=_LOG_FROM / 2),
        scale(y, room=0.12),
        width=720 if is_wide else 360,
        height=400 if is_wide else 250,
        left=54,
        legend=[KINDS[k] for k in dict.fromkeys(g.kind for g in comparison.generators())],
    )
    for g, loss, gain in spots:
        is_own = g.name == comparison.own
        if is_own:
            chart.down(loss, "rule")
            chart.across(gain, "rule")
        chart.marks([loss], [gain], *KINDS[g.kind][1:], size=5.5 if is_own else 4)
    if is_wide:
        names = [
            short(g.name + ", the spec" * (g.name == comparison.own and g.kind != "spec"), 34)
            for g, *_ in spots
        ]
        chart.name(names, x, y, [g.name == comparison.own for g, *_ in spots])
    return Picture.of(chart, risk.words, is_wide=is_wide)


def epsilon_pictures(comparison: Comparison) -> list[Picture]:
    """Draw every figure of utility of a comparison of modes against epsilon, the first one wide."""
    if comparison.view != "modes":
        return []
    return [
        _against_epsilon(comparison, figure, is_wide=not i)
        for i, figure in enumerate(comparison.figures())
    ]


def _against_epsilon(comparison: Comparison, figure: Figure, *, is_wide: bool) -> Picture:
    """One figure: dp with its ranges, sticky as a line in a band, dp without noise dashed."""
    found = {
        g: spread
        for g in comparison.generators()
        if (spread := comparison.spread(figure.name, g.name)) is not None
    }
    budgets = sorted(g.epsilon for g in comparison.generators() if g.epsilon is not None)
    x = Scale(
        low=budgets[0] / 1.4,
        high=budgets[-1] * 1.4,
        is_log=True,
        ticks=[(e, f"{e:g}") for e in budgets],
        name="epsilon (log scale)",
    )
    y = scale([v for s in found.values() for v in (s.low, s.high)], room=0.05, log_from=_LOG_FROM)
    kinds = {g.kind: spread for g, spread in found.items()}
    entries = [("dp", "synthetic", "o")] if "dp" in kinds else []
    entries += [("sticky", "more", "-")] if "sticky" in kinds else []
    entries += [("dp without noise (dashed)", "quiet", "-")] if "exact" in kinds else []
    title = f"{_headed(figure)}, against epsilon"
    chart = Chart(
        title,
        x,
        y,
        width=WIDE if is_wide else 360,
        height=280 if is_wide else 200,
        left=54,
        legend=entries,
    )
    if (sticky := kinds.get("sticky")) is not None:
        chart.boxes([x.low], [sticky.high], [x.high], [sticky.low], "more", alpha=0.18)
        chart.across(sticky.median, "more", stroke=1.8)
    if (exact := kinds.get("exact")) is not None:
        chart.across(exact.median, "quiet", stroke=1.4, dash="5 4")
    points = sorted((g.epsilon, s) for g, s in found.items() if g.epsilon is not None)
    if points:
        at, spreads = [e for e, _ in points], [s for _, s in points]
        lows, highs = [s.low for s in spreads], [s.high for s in spreads]
        chart.segments((at, lows), (at, highs), "synthetic")
        chart.line(at, [s.median for s in spreads], "synthetic")
        chart.marks(at, [s.median for s in spreads], "synthetic")
    better = {"lower": " Lower is better.", "higher": " Higher is better."}.get(figure.better, "")
    return Picture.of(chart, figure.words + better, is_wide=is_wide)


def comparison_page(comparison: Comparison) -> str:
    blocks: dict[str, list[tuple[str, str, list[Cell]]]] = {}
    for figure in (*comparison.weighed(), *comparison.figures()):
        measure = figure.name.partition("/")[2] or figure.name
        block = TITLES.get(measure.partition(".")[0], "Loss and risk")
        cells = [
            _spread_cell(comparison.spread(figure.name, g.name), figure.digits)
            for g in comparison.generators()
        ]
        blocks.setdefault(block, []).append((_headed(figure), figure.words, cells))
    own, beside = comparison.beside()
    clocks = ("seconds", "cpu_seconds")
    kicker, heading = OF_COMPARISONS["views"][comparison.view]
    return render(
        "comparison.html.j2",
        comparison=comparison,
        kicker=kicker,
        heading=heading,
        utility=epsilon_pictures(comparison),
        risk=risk_pictures(comparison),
        generators=[
            (
                g,
                KINDS[g.kind][0],
                *(_spread_cell(comparison.spread(s, g.name), 1)[0] for s in clocks),
            )
            for g in comparison.generators()
        ],
        blocks=list(blocks.items()),
        own=own,
        beside=beside,
    )
