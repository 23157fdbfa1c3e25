"""The report as one HTML page: nothing is fetched, nothing runs but a box that filters long tables.

Takes an `Evaluation`; gives HTML. Names and values are hostile text: the template escapes all of it. The page's own
policy forbids every request. Invariant: the same evaluation gives the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import TYPE_CHECKING, Any

from engine.errors import StoreError
from engine.evaluation.findings import TITLES, Finding, Rate
from engine.evaluation.report.attackers import share_text, told
from engine.evaluation.report.document import is_publishable, notes_of, published
from engine.evaluation.report.front import Front, front_of
from engine.evaluation.report.grids import Grid, cell, every_table, grid, shown, worst_first
from engine.evaluation.report.improvement import improvements
from engine.evaluation.report.naming import Names
from engine.evaluation.report.pictures.all import Drawn, groups_of
from engine.evaluation.report.pictures.drawing import drawn_alike
from engine.evaluation.report.pictures.picture import Group, Picture
from engine.evaluation.report.pictures.risk import PARTS
from engine.evaluation.report.pictures.versus import improvement_picture
from engine.evaluation.report.summary import sentence
from engine.evaluation.report.verdicts import Catalogue, Line, Verdict, lines
from engine.evaluation.result import Evaluation, Result

if TYPE_CHECKING:
    from jinja2 import Environment

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
    told: str = ""  # The rate beside that of the control, in a sentence
    # Figure that is the attack's rate -> what the same attack gets elsewhere.
    beside: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One subject as the page shows it."""

    place: str  # Anchor
    front: Front  # The page that is signed
    result: Result
    headlines: tuple[Line, ...]
    undeclared: tuple[str, ...]  # Titles of headline figures that the study does not declare
    sentences: tuple[str, ...]  # What utility and risk come to
    attacks: tuple[Measured, ...]  # Attacks, with their headline figures only
    tally: tuple[tuple[Verdict, int], ...]
    groups: tuple[Group, ...]
    tables: Grid
    measures: tuple[Measured, ...]


def page(
    evaluation: Evaluation,
    *,
    publishable: bool = False,
    catalogue: Catalogue | None = None,
    drawn: Drawn | None = None,
) -> str:
    """Return the report.

    publishable: A short one of rounded scores, without anything of the original.
    drawn: Pictures of the only subject that are there already.
    """
    all_lines = lines(evaluation, catalogue)
    by_subject = {
        r.subject.name: [line for line in all_lines if line.subject == r.subject.name]
        for r in evaluation.results
    }
    if publishable:
        return _rendered(
            "publishable.html.j2", evaluation, parts=_public_parts(evaluation, by_subject)
        )
    gains = improvements(all_lines)
    with drawn_alike():
        versus = improvement_picture(gains) if len(evaluation.results) > 1 else None
        parts = [
            _part(i, result, by_subject[result.subject.name], evaluation, drawn)
            for i, result in enumerate(evaluation.results)
        ]
    side_by_side = _side_by_side(by_subject) if len(parts) > 1 else []
    return _rendered(
        "report.html.j2", evaluation, parts=parts, versus=versus, side_by_side=side_by_side
    )


def _side_by_side(by_subject: Mapping[str, Sequence[Line]]) -> list[tuple[Line, ...]]:
    """Lines of all subjects for every headline figure that any of them has."""
    headlines = [
        [one for one in own_lines if one.figure.is_headline] for own_lines in by_subject.values()
    ]
    rows = zip(*headlines, strict=True)  # headline figures have a line in every subject
    return [row for row in rows if any(line.value is not None for line in row)]


def _part(
    number: int,
    result: Result,
    own_lines: Sequence[Line],
    evaluation: Evaluation,
    drawn: Drawn | None,
) -> Part:
    """One subject."""
    headlines = [line for line in own_lines if line.figure.is_headline]
    most = MOST_OF_A_KIND if len(evaluation.results) > 1 else None
    declared = tuple(line for line in headlines if line.is_declared)
    tally = Counter(line.verdict for line in declared)
    measures = _measures(result, own_lines)
    names = Names(labels=evaluation.labels, value_labels=evaluation.value_labels)
    return Part(
        place=f"s{number + 1}",
        front=front_of(evaluation, result, own_lines),
        result=result,
        headlines=declared,
        undeclared=tuple(line.title for line in headlines if not line.is_declared),
        sentences=tuple(
            sentence(own_lines, is_risk=is_risk)
            for is_risk in (False, True)
            if is_risk or result.scores
        ),
        attacks=tuple(_with_headlines(one) for one in measures if one.is_risk),
        tally=tuple((v, tally[v]) for v in VERDICTS if tally[v]),
        groups=tuple(groups_of(result, names, most=most, drawn=drawn)),
        tables=grid(every_table(result), most=MOST_LISTED),
        measures=tuple(measures),
    )


def _with_headlines(one: Measured) -> Measured:
    """An attack as the summary shows it: headline figures, and what its control is."""
    return replace(
        one,
        # A rate about those in the data never stands without what it is on non_members, or that this is not known.
        rates=tuple(
            rate for i, rate in enumerate(one.rates) if rate[1] != NO_RATE or i == len(PARTS) - 1
        ),
        lines=tuple(line for line in one.lines if line.figure.is_headline),
        notes=(one.control_note,) if one.control_note else (),
    )


def _measures(result: Result, own_lines: Sequence[Line]) -> list[Measured]:
    """Every measure and attack that ran."""
    measures: Mapping[str, Finding | Finding] = {**result.scores, **result.risks}
    return [
        Measured(
            title=TITLES.get(name, name),
            words=one.entry.words,
            verdict=getattr(one, "verdict", ""),
            lines=tuple(line for line in own_lines if line.measure == name),
            rates=_rates(one),
            notes=notes_of(one),
            control_note=one.control_note,
            breakdown=grid(worst_first(one.breakdown)) if len(one.breakdown) else None,
            is_risk=name in result.risks,
            told=told(one),
            beside=_beside(name, one),
        )
        for name, one in measures.items()
    ]


def _beside(name: str, one: Finding | Finding) -> dict[str, str]:
    """What stands beside figures that are the rate of an attack: how often the same attack is right elsewhere."""
    if one.rate is None:
        return {}
    _, by_guessing, non_members = one.entry.rates
    elsewhere = one.control or one.baseline
    which = by_guessing if one.control is None and one.baseline is not None else non_members
    text = f"{which}: {NO_RATE if elsewhere is None else share_text(elsewhere.value)}"
    return {f"{name}.{value}": text for value, v in one.values.items() if v == one.rate.value}


def _rates(one: Finding | Finding) -> tuple[tuple[str, str], ...]:
    """Rates of an attack in words."""
    if not (one.rate or one.baseline or one.control):
        return ()
    rates = (one.rate, one.baseline, one.control)
    return tuple(
        (words, rate_text(rate)) for words, rate in zip(one.entry.rates, rates, strict=True)
    )


def rate_text(rate: Rate | None) -> str:
    """Return a rate with its interval: "12.0 % (11.2 to 12.9 %, of 5,000)"."""
    if rate is None:
        return NO_RATE
    share, low, high = (_percent(v) for v in (rate.value, rate.low, rate.high))
    return f"{share} % ({low} to {high} %, of {rate.n:,})"


def _percent(share: float) -> str:
    """A share in percent; small ones keep two digits."""
    percent = 100 * share
    return f"{percent:.1f}" if percent >= 1 or percent < 1e-9 else f"{percent:.2g}"


def _public_parts(
    evaluation: Evaluation, by_subject: Mapping[str, Sequence[Line]]
) -> list[dict[str, Any]]:
    """What may be published of each subject."""
    rows = evaluation.n_rows
    return [
        {
            "name": result.subject.name,
            "kind": result.subject.kind,
            "hash": result.subject.content_hash,
            "sentences": [
                sentence(by_subject[result.subject.name], is_risk=is_risk, rows_published=rows)
                for is_risk in (False, True)
            ],
            "rows": [
                (line, *(cell(published(line.figure, v, rows)) for v in (line.value, line.scale)))
                for line in by_subject[result.subject.name]
                if is_publishable(line)
            ],
        }
        for result in evaluation.results
    ]


def template_environment() -> Environment:
    """Return what fills the templates of this package: escaping all, and failing on what is undefined."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError:
        raise StoreError("reports need Jinja: pip install 'tablepack[evaluate]'") from None
    return Environment(
        loader=PackageLoader("engine.evaluation.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def page_of(template: str, pictures: Iterable[Picture], **context: object) -> str:
    """Fill the template of a page that has pictures, in the style of the report."""
    environment = template_environment()
    from markupsafe import Markup  # comes with Jinja

    return environment.get_template(template).render(
        pictures=[(one, Markup(one.svg)) for one in pictures],  # noqa: S704  # `svg_of` escapes all text
        style=Markup(_packaged("report.css")),  # noqa: S704
        **context,
    )


def _rendered(template: str, evaluation: Evaluation, **context: object) -> str:
    """Fill a template of this package."""
    environment = template_environment()
    from markupsafe import Markup  # comes with Jinja

    environment.globals |= {"shown": shown, "cell": cell, "grid": grid}
    script = _packaged("filter.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()

    def drawn(picture: Picture) -> Markup:
        # Written by `svg_of`, which escapes every text in it.
        return Markup(picture.svg)  # noqa: S704

    environment.filters["drawn"] = drawn
    scored = any(result.scores for result in evaluation.results)
    return environment.get_template(template).render(
        evaluation=evaluation,
        notes=evaluation.notes,
        style=Markup(_packaged("report.css")),  # noqa: S704
        script=Markup(script),  # noqa: S704
        digest=digest,
        sample=f"{100 * evaluation.share:g} %",
        study=evaluation.study.title,
        command="evaluation" if scored else "attack",
        heading="How good, and how safe" if scored else "What strong attackers get",
        **context,
    )


def _packaged(name: str) -> str:
    """A text file of this package."""
    return resources.files("engine.evaluation.report").joinpath(name).read_text("utf-8")
