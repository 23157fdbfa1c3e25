"""The report as one HTML page: nothing is fetched, nothing runs but a box that filters long tables.

Takes an `Evaluation`; gives HTML. Names and values are hostile text: the template escapes all of it. The page's own
policy forbids every request. Invariant: the same evaluation gives the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from engine.errors import StoreError
from engine.evaluation.findings import TITLES, Finding, Rate
from engine.evaluation.report.distortions import distortions, uses
from engine.evaluation.report.files import (
    as_json,
    check_target,
    is_publishable,
    published,
    write_both,
)
from engine.evaluation.report.front import front_of, share_text, told
from engine.evaluation.report.grids import Grid, cell, every_table, grid, shown, worst_first
from engine.evaluation.report.pictures import Names, Picture, groups_of, improvement_picture
from engine.evaluation.report.summary import sentence
from engine.evaluation.report.verdicts import Catalogue, Line, Verdict, improvements, lines
from engine.evaluation.result import Evaluation, Result

VERDICTS: tuple[Verdict, ...] = ("good", "fair", "poor", "only stated", "not computed")
MOST_LISTED = 2_000
"""Tables of a release that are listed."""
MOST_OF_A_KIND = 3
"""Pictures of one kind where several subjects are shown."""
NO_RATE = "not computed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """One measure, or attack, as the page shows it."""

    title: str
    words: str
    verdict: str
    lines: tuple[Line, ...]
    rates: tuple[tuple[str, str], ...]  # Which rate, and it with its interval
    notes: tuple[str, ...]
    control_note: str
    breakdown: Grid | None
    is_risk: bool
    told: str  # The rate beside that of the control, in a sentence
    # Figure that is the attack's rate -> what the same attack gets elsewhere.
    beside: Mapping[str, str]


def page(
    evaluation: Evaluation, *, publishable: bool = False, catalogue: Catalogue | None = None
) -> str:
    """Return the report.

    publishable: A short one of rounded scores, without anything of the original.
    """
    all_lines = lines(evaluation, catalogue)
    own = [
        (result, [line for line in all_lines if line.subject == result.subject.name])
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
    if publishable:
        parts = [_public(result, mine, evaluation.n_rows) for result, mine in own]
        return render("publishable.html.j2", parts=parts, **common)
    is_one = len(own) == 1
    return render(
        "report.html.j2",
        parts=[_part(i, evaluation, *one) for i, one in enumerate(own)],
        versus=None if is_one else improvement_picture(improvements(all_lines)),
        side_by_side=[] if is_one else _side_by_side([mine for _, mine in own]),
        **common,
    )


def _side_by_side(by_subject: Sequence[Sequence[Line]]) -> list[tuple[Line, ...]]:
    """Lines of all subjects for every headline figure that any of them has."""
    headlines = [[one for one in mine if one.figure.is_headline] for mine in by_subject]
    rows = zip(*headlines, strict=True)  # headline figures have a line in every subject
    return [row for row in rows if any(line.value is not None for line in row)]


def _part(
    number: int, evaluation: Evaluation, result: Result, own_lines: Sequence[Line]
) -> dict[str, Any]:
    """One subject as the page shows it."""
    headlines = [line for line in own_lines if line.figure.is_headline]
    declared = [line for line in headlines if line.is_declared]
    tally = Counter(line.verdict for line in declared)
    measures = [
        _measured(name, one, name in result.risks, own_lines)
        for name, one in {**result.scores, **result.risks}.items()
    ]
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
        "attacks": [_with_headlines(one) for one in measures if one.is_risk],
        "tally": [(v, tally[v]) for v in VERDICTS if tally[v]],
        "groups": groups_of(
            result, names, most=MOST_OF_A_KIND if len(evaluation.results) > 1 else None
        ),
        "tables": grid(every_table(result), most=MOST_LISTED),
        "measures": measures,
    }


def _with_headlines(one: Measured) -> Measured:
    """An attack as the summary shows it: headline figures, and what its control is."""
    return replace(
        one,
        # A rate about those in the data never stands without that on non-members, or that this is not known.
        rates=tuple(
            rate
            for i, rate in enumerate(one.rates)
            if rate[1] != NO_RATE or i == len(one.rates) - 1
        ),
        lines=tuple(line for line in one.lines if line.figure.is_headline),
        notes=(one.control_note,) if one.control_note else (),
    )


def _measured(name: str, one: Finding, is_risk: bool, own_lines: Sequence[Line]) -> Measured:
    return Measured(
        title=TITLES.get(name, name),
        words=one.entry.words,
        verdict=one.verdict,
        lines=tuple(line for line in own_lines if line.measure == name),
        rates=tuple((words, rate_text(rate)) for words, rate in one.rates),
        notes=one.all_notes,
        control_note=one.control_note,
        breakdown=grid(worst_first(one.breakdown)) if len(one.breakdown) else None,
        is_risk=is_risk,
        told=told(one),
        beside=_beside(name, one),
    )


def _beside(name: str, one: Finding) -> dict[str, str]:
    """What stands beside figures that are the rate of an attack: how often the same attack is right elsewhere."""
    if one.rate is None:
        return {}
    _, by_guessing, on_non_members = one.entry.rates
    elsewhere = one.control or one.baseline
    which = by_guessing if one.control is None and one.baseline is not None else on_non_members
    text = f"{which}: {NO_RATE if elsewhere is None else share_text(elsewhere.value)}"
    return {f"{name}.{value}": text for value, v in one.values.items() if v == one.rate.value}


def rate_text(rate: Rate | None) -> str:
    """Return a rate with its interval: "12.0 % (11.2 to 12.9 %, of 5,000)"."""
    if rate is None:
        return NO_RATE
    low, high = (share_text(v) for v in (rate.low, rate.high))
    return f"{share_text(rate.value)} ({low.removesuffix(' %')} to {high}, of {rate.n:,})"


def _public(result: Result, own_lines: Sequence[Line], n_rows: int) -> dict[str, Any]:
    """What may be published of a subject."""
    return {
        "name": result.subject.name,
        "kind": result.subject.kind,
        "hash": result.subject.content_hash,
        "sentences": [
            sentence(own_lines, is_risk=is_risk, rows_published=n_rows) for is_risk in (False, True)
        ],
        "rows": [
            (line, *(cell(published(line.figure, v, n_rows)) for v in (line.value, line.scale)))
            for line in own_lines
            if is_publishable(line)
        ],
    }


def write_report(
    evaluation: Evaluation,
    path: Path,
    *,
    publishable: bool = False,
    force: bool = False,
    catalogue: Catalogue | None = None,
) -> tuple[Path, Path]:
    """Write the report, and JSON beside it.

    path: Ends in .html; the JSON file has the same stem.
    publishable: Rounded scores only; files may be read by all that the umask lets. Otherwise they have mode
        0600.
    """
    check_target(path, force=force)
    return write_both(
        path,
        page=page(evaluation, publishable=publishable, catalogue=catalogue),
        json=as_json(evaluation, publishable=publishable, catalogue=catalogue),
        force=force,
        private=not publishable,
    )


def render(template: str, **context: object) -> str:
    """Fill a template of this package: all is escaped, what is undefined fails."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError:
        raise StoreError("reports need Jinja: pip install 'tablepack[evaluate]'") from None
    from markupsafe import Markup  # comes with Jinja

    def drawn(picture: Picture) -> Markup:
        # Written by `Chart`, which escapes every text in it.
        return Markup(picture.svg)  # noqa: S704

    environment = Environment(
        loader=PackageLoader("engine.evaluation.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals |= {"shown": shown, "cell": cell, "grid": grid}
    environment.filters["drawn"] = drawn
    files = resources.files("engine.evaluation.report")
    style, script = (files.joinpath(f).read_text("utf-8") for f in ("report.css", "filter.js"))
    return environment.get_template(template).render(
        style=Markup(style),  # noqa: S704
        script=Markup(script),  # noqa: S704
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        **context,
    )
