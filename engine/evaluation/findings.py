"""What evaluations find: one kind of result for utility, attacks, audits and comparisons, and its catalogue of figures.

A `Finding` is what one measure or attack says of one release. `frame` lays findings out as the public format: a tidy
frame of one row a figure. Texts, directions and thresholds of figures, and which function computes them, are in
`figures.toml`. Invariant: a figure that could not be computed is absent from `values`, and `why_not` says why; never a
silent zero. CONFIDENTIAL: breakdowns hold counts of the original.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.resources import files
from itertools import groupby
from typing import Any, Literal

import pandas as pd
from pydantic import BaseModel, ConfigDict

from engine.errors import SpecError, StoreError

WHOLE = ""
"""Key in `figures` for a measure as a whole."""
RATE_NAMES = ("right about people of the data", "right by guessing", "right about non-members")
FRAME = ("subject", "measure", "columns", "by", "value", "low", "high", "better", "note")
"""Columns of the public frame."""
NAMES_COLUMNS = ("columns", "table", "column", "first", "second", "target", "secret")
"""Columns of a breakdown that name columns of the data; other texts are categories (`by`)."""
WIDTHS = {1: "one column", 2: "two columns", 3: "three columns", 4: "four columns"}
GROUP_OF_MEASURES = "tablepack.measures"
"""Entry points of measures in other packages: functions `(aligned, options) -> DataFrame`."""
Kind = Literal["measure", "attack", "strong attack"]


def optional(module: str, what: str) -> Any:
    """A module of a package that not everybody installs."""
    try:
        return import_module(module)
    except ImportError:
        package = {"sklearn": "scikit-learn"}.get(*[module.partition(".")[0]] * 2)
    raise StoreError(f"{what} need {package}: pip install 'tablepack[evaluate]'")


class Section(BaseModel):
    """A part of a study; frozen, and an unknown key is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    name: str  # `measure.value`
    title: str  # A few words, for tables
    words: str  # One sentence for a reader who does not know the measure
    # "lower", "higher", or "neither": it is context, not a score.
    better: Literal["lower", "higher", "neither"]
    low: float = 0.0  # low, high: Bounds of what it can be
    high: float = math.inf
    # What a copy of the original scores (utility), or a release without information about persons (risk).
    perfect: float | None = None
    # How many columns it looks at together: "1", "2", "3", "all", or "" where that has no meaning.
    columns: str = ""
    digits: int = 3  # Digits after the point that are shown
    # good, poor: At `good` or better the verdict is good, beyond `poor` it is poor; None: only stated.
    good: float | None = None
    poor: float | None = None
    source: str = ""  # Who says so: paper and section, for the definition and for the thresholds
    is_headline: bool = False  # It is in the summary


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A measure or attack of the catalogue: what it is called, and the function that computes it."""

    name: str
    title: str
    words: str = ""  # Of an attack: what the attacker knows, wants and does
    rates: tuple[str, str, str] = RATE_NAMES  # Of an attack: rate, baseline and control
    kind: Kind = "measure"
    run: str = ""  # module:function
    options: str = ""  # Section of a study that it reads; empty: none, it runs in any case
    of_several: bool = False  # It is about several tables together
    on_sample: bool = True  # A sample in the place of the release says something about it
    plugin: EntryPoint | None = None
    texts: Mapping[str, str] = field(default_factory=dict)  # Notes and verdicts, to be filled in

    def function(self) -> Any:
        if self.plugin is not None:
            return self.plugin.load()
        module, _, name = self.run.partition(":")
        return getattr(import_module(module), name)


@dataclass(frozen=True, kw_only=True, slots=True)
class Rate:
    """A share of attempts that are right, with its 95 % interval."""

    value: float
    low: float
    high: float
    n: int  # Attempts


NO_RATE = Rate(value=0.0, low=0.0, high=1.0, n=0)


def wilson(hits: float, n: int) -> Rate | None:
    """Share of attempts that hit, with its score interval (Wilson 1927, doi:10.1080/01621459.1927.10502953).

    None where there was no attempt. Hits may be fractions (the chance to be right), which scipy's interval refuses.
    """
    if n <= 0:
        return None
    share, z = hits / n, 1.959963984540054
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low, high = max(middle - half, 0.0), min(middle + half, 1.0)
    return Rate(value=share, low=min(low, share), high=max(high, share), n=n)


def rate_of(right: Any) -> Rate:
    """Share of an array of right answers; of none it may be anything."""
    return wilson(float(right.sum()), len(right)) or NO_RATE


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """What a measure or attack found."""

    measure: str
    # By name a number, or a text that says why there is none; `WHOLE`: why nothing was computed at all.
    figures: Mapping[str, Any] = field(default_factory=dict)
    breakdown: pd.DataFrame = field(default_factory=pd.DataFrame)  # What they are made of
    _: KW_ONLY
    why: InitVar[str] = ""  # Why figures have no number that are NaN
    more: Mapping[str, pd.DataFrame] = field(default_factory=dict)  # Further tables, for pictures
    # What a reader must know: rows left out, columns that are constant, samples taken.
    notes: Sequence[str] = ()  # Held as a tuple
    # How many columns of one table its figures over "all" columns read; 0: it has none such.
    over: int = 0
    # Of attacks:
    rate: Rate | None = None  # How often it is right about people of the data
    baseline: Rate | None = None  # How often one is right who guesses without the release
    control: Rate | None = None  # How often the same attack is right about non-members
    control_note: str = ""  # Who the non-members are, or why there is no control
    verdict: str = ""  # What it comes to, in a sentence; empty: the figures speak for themselves

    def __post_init__(self, why: str) -> None:
        figures = {
            name: one
            if isinstance(one, str)
            else why
            if why and not math.isfinite(one)
            else float(one)
            for name, one in self.figures.items()
        }
        object.__setattr__(self, "figures", figures)
        object.__setattr__(self, "notes", tuple(self.notes))

    @property
    def values(self) -> dict[str, float]:
        return {name: one for name, one in self.figures.items() if not isinstance(one, str)}

    @property
    def why_not(self) -> dict[str, str]:
        """Figure, or `WHOLE` -> why it was not computed."""
        return {name: one for name, one in self.figures.items() if isinstance(one, str)}

    @property
    def entry(self) -> Entry:
        return ENTRIES.get(self.measure) or Entry(name=self.measure, title=self.measure)

    @property
    def rates(self) -> list[tuple[str, Rate | None]]:
        """Rate, baseline and control under their names; nothing where the measure is no attack."""
        found = (self.rate, self.baseline, self.control)
        return list(zip(self.entry.rates, found, strict=True)) if any(found) else []

    @property
    def all_notes(self) -> tuple[str, ...]:
        return (*self.notes, *([self.control_note] if self.control_note else []))


def not_computed(measure: str, why: str, *notes: str) -> Finding:
    return Finding(measure, {WHOLE: why}, notes=notes)


def frame(
    findings: Mapping[str, Finding], subject: str, *, breakdowns: bool = True
) -> pd.DataFrame:
    """Findings as a tidy frame: a row a figure, with `columns` and `by` empty, then a row a figure of breakdowns.

    Without a value a row is a note: about a figure, why it was not computed; about a measure, what a reader must know.
    """
    rows: list[tuple[Any, ...]] = []
    parts: list[pd.DataFrame] = []
    for name, one in findings.items():
        for value, figure in one.values.items():
            known = FIGURES.get(f"{name}.{value}")
            better = "" if known is None else known.better
            rows.append((subject, f"{name}.{value}", "", "", figure, None, None, better, ""))
        for kind, (words, rate) in zip(("rate", "baseline", "control"), one.rates, strict=False):
            if rate is not None:
                note = f"{words}; of {rate.n:,}"
                span = (rate.value, rate.low, rate.high)
                rows.append((subject, f"{name}.{kind}", "", "", *span, "", note))
        for value, why in one.why_not.items():
            figure_name = f"{name}.{value}".rstrip(".")
            rows.append(
                (subject, figure_name, "", "", None, None, None, "", f"not computed: {why}")
            )
        notes = (*([one.verdict] if one.verdict else []), *one.all_notes)
        rows += [(subject, name, "", "", None, None, None, "", note) for note in notes]
        if breakdowns:
            parts.append(_details(one).assign(subject=subject))
    whole = pd.DataFrame(rows, columns=list(FRAME))
    parts = [whole, *(part for part in parts if len(part))]
    return pd.concat(parts, ignore_index=True)[list(FRAME)] if len(parts) > 1 else whole


def notes_frame(subject: str, notes: Sequence[str]) -> pd.DataFrame:
    """Notes about a subject as rows of the public frame."""
    rows = [(subject, "", "", "", None, None, None, "", note) for note in notes]
    return pd.DataFrame(rows, columns=list(FRAME))


def _details(one: Finding) -> pd.DataFrame:
    """A breakdown as rows of the public frame, those without a number left out."""
    table = one.breakdown.reset_index(drop=True)
    numbers = [c for c in table if pd.api.types.is_numeric_dtype(table[c])]
    if table.empty or not numbers:
        return pd.DataFrame()
    named = [str(c) for c in table if c in NAMES_COLUMNS and c not in numbers]
    others = [str(c) for c in table if c not in (*numbers, *named)]
    out = table[numbers].astype("float64").add_prefix(f"{one.measure}/")
    out = out.assign(columns=_joined(table, named), by=_joined(table, others))
    long = out.melt(id_vars=["columns", "by"], var_name="measure").dropna(subset="value")
    return long.assign(low=None, high=None, better="", note="")


def _joined(table: pd.DataFrame, names: Sequence[str]) -> Any:
    if not names:
        return [""] * len(table)
    texts = [table[c].astype(str).tolist() for c in names]
    return ["; ".join(cell) for cell in zip(*texts, strict=True)]


def of_frame(measure: str, found: pd.DataFrame) -> Finding:
    """A finding of a measure of another package, from its tidy frame; `measure` and `value` are needed.

    Rows without `columns` and `by` are the figures; a row without a value says in `note` why, or is a note.
    """
    if not {"measure", "value"} <= set(found.columns):
        raise SpecError(f"measure {measure}: gives no frame with the columns measure and value")
    table = found.reindex(columns=list(FRAME))
    texts = [c for c in FRAME if c not in ("value", "low", "high")]
    table[texts] = table[texts].fillna("").astype(str)
    plain = table["measure"].str.removeprefix(f"{measure}.").where(table["measure"] != measure, "")
    table = table.assign(measure=plain, value=pd.to_numeric(table["value"], errors="coerce"))
    is_whole = (table["columns"] == "") & (table["by"] == "")
    has_value = table["value"].notna()
    figures = table[is_whole & has_value & (table["measure"] != "")]
    missing = table[is_whole & ~has_value & (table["measure"] != "")]
    details = table[~is_whole]
    return Finding(
        measure,
        dict(zip(figures["measure"], figures["value"], strict=True))
        | dict(zip(missing["measure"], missing["note"], strict=True)),
        notes=tuple(table.loc[table["measure"] == "", "note"]),
        breakdown=details[["measure", "columns", "by", "value", "low", "high", "note"]]
        .rename(columns={"measure": "figure"})
        .dropna(axis=1, how="all"),
    )


def named(findings: Mapping[str, Finding]) -> dict[str, float]:
    return {
        f"{m}.{value}": figure
        for m, one in findings.items()
        for value, figure in one.values.items()
    }


# The catalogue


def _read(
    text: str, plugin: EntryPoint | None = None
) -> tuple[dict[str, Figure], dict[str, Entry]]:
    """Figures by `measure.value` and entries by name, both in the order of reports."""
    figures: dict[str, Figure] = {}
    entries: dict[str, Entry] = {}
    for measure, table in tomllib.loads(text).items():
        own = {k: table.pop(k) for k in ("title", "words", "kind", "run", "options") if k in table}
        own |= {k: table.pop(k) for k in ("of_several", "on_sample", "texts") if k in table}
        if rates := table.pop("rates", None):
            own["rates"] = tuple(rates)
        named = {"name": measure, "title": measure.replace("_", " ")}
        entries[measure] = Entry(plugin=plugin, **named | own)
        shared = {key: value for key, value in table.items() if not isinstance(value, dict)}
        listed = [(key, value) for key, value in table.items() if isinstance(value, dict)]
        for name, fields in _of_each_width(listed):
            is_context = fields.get("better") == "neither"
            inherited = {k: v for k, v in shared.items() if not is_context or k == "columns"}
            full_name = f"{measure}.{name}"
            figures[full_name] = Figure(name=full_name, **inherited | fields)
    return figures, entries


def _of_each_width(
    entries: list[tuple[str, dict[str, Any]]],
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Entries, those of several widths as one for each, neighbours of the same widths together."""
    for widths, group in groupby(entries, key=lambda entry: entry[1].pop("of_width", None)):
        several = list(group)
        for width in widths or ():
            for name, fields in several:
                words = {k: fields[k].format(columns=WIDTHS[width]) for k in ("title", "words")}
                more = {k: v for k, v in fields.items() if k != "headline_widths"}
                is_headline = width in fields.get("headline_widths", ())
                whole = more | words | {"columns": str(width), "is_headline": is_headline}
                yield f"{name}_{width}", whole
        if not widths:
            yield from several


FIGURES, ENTRIES = _read(files("engine.evaluation").joinpath("figures.toml").read_text("utf-8"))
# Measures of other packages, with the texts of a `figures.toml` in their package, if there is one
for _point in entry_points(group=GROUP_OF_MEASURES):
    if _point.name not in ENTRIES:
        _texts = files(_point.module.partition(".")[0]).joinpath("figures.toml")
        _figures, _entries = _read(_texts.read_text("utf-8") if _texts.is_file() else "", _point)
        FIGURES |= {n: f for n, f in _figures.items() if n.partition(".")[0] == _point.name}
        ENTRIES[_point.name] = (_read(f"[{_point.name}]", _point)[1] | _entries)[_point.name]
TITLES = {name: entry.title for name, entry in ENTRIES.items()}


def say(measure: str, text: str, **values: Any) -> str:
    """A text of the catalogue with some values in it."""
    return ENTRIES[measure].texts[text].format(**values)


STRONG = frozenset(name for name, entry in ENTRIES.items() if entry.kind == "strong attack")
"""Attacks that `tablepack attack` runs, and `evaluate` does not."""


def figures_of(*measures: str) -> tuple[Figure, ...]:
    return tuple(f for name, f in FIGURES.items() if name.partition(".")[0] in measures)
