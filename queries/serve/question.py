"""A table builder query as a link, a JSON body, and SQL.

The link is the saved query: `?rows=age&cols=sex&band.age=10&only.region=London&from.hours=1&percent=row`; custom groups
are `group.age=Working age|16..64` (`queries.serve.groups`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from engine.errors import QueryRefused
from engine.schema import quoted
from engine.units import Unit
from queries.serve.groups import (
    case_of,
    check_groups,
    group_of,
    membership_sql,
    range_sql,
    text_of,
)
from queries.serve.values import Band, Variable, bands_of, bounds_of, key_of, values_of, variable_of

Percent = Literal["none", "total", "row", "column"]
MeasureName = Literal["count", "ratio", "mean", "median", "quantile", "sum"]
Name = Annotated[str, Field(max_length=300)]
WIDEST = 10**13
"""Limits of wider bands would no longer be exact numbers."""
Width = Annotated[int, Field(le=WIDEST)] | Literal["month", "quarter", "year"]
Group = tuple[Name, Annotated[tuple[Name, ...], Field(max_length=2000)]]
_PLAIN = ("measure", "of", "quantile", "percent")
_MOST_COLUMNS = 6
_MEDIAN = 0.5


class Question(BaseModel):
    """A query for a cross table."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    # rows, cols: Columns whose values label rows and columns of the table.
    rows: Annotated[tuple[Name, ...], Field(max_length=_MOST_COLUMNS)] = ()
    cols: Annotated[tuple[Name, ...], Field(max_length=_MOST_COLUMNS)] = ()
    # Band width of an ordered column; for dates, years, or `month`, `quarter` or `year`.
    bands: Annotated[dict[Name, Width], Field(max_length=_MOST_COLUMNS)] = {}
    # Custom groups by column: name and members; see `queries.serve.groups`.
    groups: Annotated[
        dict[Name, Annotated[tuple[Group, ...], Field(max_length=60)]],
        Field(max_length=_MOST_COLUMNS),
    ] = {}
    # Keys of the values to include, by column; `~` is a blank.
    only: Annotated[dict[Name, tuple[Name, ...]], Field(max_length=_MOST_COLUMNS)] = {}
    # Lowest and highest value to include, as text; empty means open.
    between: Annotated[dict[Name, tuple[Name, Name]], Field(max_length=_MOST_COLUMNS)] = {}
    # measure, of, quantile: The measure and its column; `ratio`: rows divided by the other rows of their total.
    measure: MeasureName = "count"
    of: Name | None = None
    quantile: Annotated[float, Field(gt=0, lt=1)] = _MEDIAN
    # Base of percentages: everything, the row or the column; for a ratio, its total.
    percent: Percent = "none"

    @model_validator(mode="before")
    @classmethod
    def _has_a_total(cls, given: Any) -> Any:
        """A ratio needs a total: everything, unless another is given."""
        if isinstance(given, dict) and given.get("measure") == "ratio":
            is_bare = given.get("percent", "none") == "none"
            return {**given, "percent": "total"} if is_bare else given
        return given

    @field_validator("only", "groups")
    @classmethod
    def _holds_something(cls, given: dict[str, tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
        """An empty list would vanish from the link, which is also the cache key."""
        empty = sorted(c for c, parts in given.items() if not parts)
        if empty:
            raise PydanticCustomError(
                "nothing_given", "no values given for {names}", {"names": ", ".join(empty)}
            )
        return given

    @property
    def is_counted(self) -> bool:
        """Whether it counts rows instead of measuring a column."""
        return self.measure in ("count", "ratio")

    @property
    def columns(self) -> tuple[str, ...]:
        """Row columns, then column columns."""
        return (*self.rows, *self.cols)

    @property
    def reads(self) -> tuple[str, ...]:
        """Every column used, once."""
        of = () if self.of is None or self.is_counted else (self.of,)
        return tuple(dict.fromkeys((*self.columns, *self.only, *self.between, *of)))

    def link(self) -> str:
        """Return the URL query; equal questions give equal links."""
        pairs = [("rows", c) for c in self.rows] + [("cols", c) for c in self.cols]
        pairs += [(f"band.{c}", str(w)) for c, w in sorted(self.bands.items())]
        pairs += [(f"group.{c}", text_of(g)) for c, gs in sorted(self.groups.items()) for g in gs]
        pairs += [(f"only.{c}", v) for c, vs in sorted(self.only.items()) for v in vs]
        for column, (low, high) in sorted(self.between.items()):
            pairs += [(f"from.{column}", low), (f"to.{column}", high)]
        if self.measure != "count":
            pairs.append(("measure", self.measure))
        if self.of or not self.is_counted:  # kept even if it does not apply, so that it is refused
            pairs.append(("of", self.of or ""))
        if self.measure == "quantile" or self.quantile != _MEDIAN:
            pairs.append(("quantile", repr(self.quantile)))
        if self.percent != "none":
            pairs.append(("percent", self.percent))
        return urlencode(pairs)


def question_of(pairs: Iterable[tuple[str, str]]) -> Question:
    """Parse a URL query."""
    parts: dict[str, Any] = {"rows": [], "cols": []}
    parts |= {"bands": {}, "groups": {}, "only": {}, "between": {}}
    for name, text in pairs:
        head, _, column = name.partition(".")
        if name in ("rows", "cols"):
            parts[name].append(text)
        elif head == "band" and column and column not in parts["bands"]:
            parts["bands"][column] = text
        elif head == "group" and column:
            parts["groups"].setdefault(column, []).append(group_of(text))
        elif head == "only" and column:
            parts["only"].setdefault(column, []).append(text)
        elif head in ("from", "to") and column:
            ends = parts["between"].setdefault(column, ["", ""])
            ends[head == "to"] = text
        elif name in _PLAIN and name not in parts:
            parts[name] = text
        else:
            raise QueryRefused(
                f"unknown or repeated parameter {name!r}; allowed: rows, cols, band.COLUMN, group.COLUMN, "
                f"only.COLUMN, from.COLUMN, to.COLUMN, {', '.join(_PLAIN)}"
            )
    try:
        return Question(**parts)
    except ValidationError as error:
        raise QueryRefused(mistakes(error.errors())) from None


def mistakes(errors: Iterable[Mapping[str, Any]], allowed: Iterable[str] = ()) -> str:
    """Return pydantic's errors as text."""
    messages = (_mistake(e, tuple(allowed)) for e in errors)
    return "; ".join(
        dict.fromkeys(messages)
    )  # a union reports the same mistake for each of its types


def _mistake(error: Mapping[str, Any], allowed: tuple[str, ...]) -> str:
    """One mistake: where, what, and what would be allowed."""
    if error["type"] == "json_invalid":
        return f"the body is not valid JSON: {error.get('ctx', {}).get('error', 'it cannot be parsed')}"
    places = [str(p) for p in error["loc"] if p not in ("body", "query")]
    if len(places) > 2 and places[0] == "bands":
        name = "bands" if "body" in error["loc"] else "band"
        return f"{name}.{places[1]}: {_expected_width(error.get('input'))}"
    where = ".".join(places) or "the request"
    if error["type"] == "extra_forbidden":
        return f"{where}: unknown field; allowed: {', '.join(allowed or Question.model_fields)}"
    return f"{where}: {error['msg']}"


def _expected_width(given: Any) -> str:
    """The message for an invalid band width."""
    if str(given).isdecimal():
        return f"expected a whole number up to {WIDEST:,}"
    return "expected a whole number, month, quarter or year"


def check(question: Question, variables: Mapping[str, Variable]) -> None:
    """Refuse a query that could not be answered whatever is released."""
    for name in (*question.reads, *question.bands, *question.groups):
        variable_of(variables, name)
    twice = sorted({c for c in question.columns if question.columns.count(c) > 1})
    if twice:
        raise QueryRefused(f"{', '.join(twice)}: appears more than once in rows and columns")
    _check_measure(question, variables)
    if (question.percent == "row" and not question.cols) or (
        question.percent == "column" and not question.rows
    ):
        raise QueryRefused(f"percentages of a {question.percent} need both rows and columns")
    _check_values(question, variables)


def _check_measure(question: Question, variables: Mapping[str, Variable]) -> None:
    """Refuse a measure that does not fit its column or the rest of the query."""
    if question.quantile != _MEDIAN and question.measure != "quantile":
        raise QueryRefused(f"quantile does not apply to measure {question.measure}; remove it")
    if question.is_counted:
        if question.of:
            raise QueryRefused(f"of does not apply to measure {question.measure}; remove it")
        return
    if question.of is None:
        raise QueryRefused(f"measure {question.measure} needs `of`, the column to summarise")
    if not variables[question.of].is_numeric:
        raise QueryRefused(
            f"measure {question.measure} needs a numeric column; {question.of} is not numeric"
        )
    if question.of in question.columns:
        raise QueryRefused(f"{question.of} cannot be both a row or column and the measured column")
    if question.percent != "none":
        raise QueryRefused("percentages are available for counts only; remove measure or percent")


def _check_values(question: Question, variables: Mapping[str, Variable]) -> None:
    """Refuse unknown or contradictory values, ranges, bands and groups."""
    unused = sorted({*question.bands, *question.groups} - set(question.columns))
    if unused:
        raise QueryRefused(
            f"{', '.join(unused)}: bands and groups apply to variables in rows or columns; add it there, or filter "
            "with only, from and to"
        )
    both = sorted(set(question.only) & set(question.between))
    if both:
        raise QueryRefused(f"{', '.join(both)}: give either values or a range, not both")
    both = sorted(set(question.bands) & set(question.groups))
    if both:
        raise QueryRefused(f"{', '.join(both)}: give either a band width or groups, not both")
    for c, keys in question.only.items():
        values_of(variables[c], keys)
    for c, ends in question.between.items():
        bounds_of(variables[c], ends)
    for c in set(question.bands) & set(question.columns):
        bands_in(question, variables[c])
    for c, groups in question.groups.items():
        check_groups(variables[c], groups)


_TITLES = {
    "mean": "Average",
    "median": "Median",
    "sum": "Total",
}
_MOST_NAMED = 4


def title_of(question: Question, variables: Mapping[str, Variable], unit: Unit) -> str:
    """Return a query in words, as on the page."""
    by = [variables[c].label for c in question.columns]
    within = {"row": ", of each row", "column": ", of each column"}.get(question.percent, "")
    titles = _TITLES | {
        "count": f"{'Number' if question.percent == 'none' else 'Percentage'} of {unit.many}",
        "ratio": f"{unit.many[:1].upper()}{unit.many[1:]} as a ratio to the rest",
    }
    word = titles.get(question.measure, f"{question.quantile:g} quantile")
    if question.measure == "sum" and variables[question.of or ""].is_weight:
        word = f"Weighted number of {unit.many}"
    elif not question.is_counted:
        word += f" of {variables[question.of or ''].label}"
    filters = []
    for c, keys in question.only.items():
        words = [variables[c].by_key[key].label for key in keys[:_MOST_NAMED]]
        more = f" and {len(keys) - _MOST_NAMED} more" if len(keys) > _MOST_NAMED else ""
        filters.append(f"{variables[c].label}: {', '.join(words)}{more}")
    for c, ends in question.between.items():
        low, high = map(key_of, bounds_of(variables[c], ends))
        filters.append(f"{variables[c].label}: {low} to {high}")
    joined = " and ".join([", ".join(by[:-1]), by[-1]] if len(by) > 1 else by)
    return "".join([word, f" by {joined}" if by else "", within, *(f"; only {f}" for f in filters)])


def bands_in(question: Question, variable: Variable) -> list[Band]:
    """Return the bands of a variable in a query."""
    name = variable.name
    return bands_of(variable, question.bands[name], question.between.get(name))


def sql_of(question: Question, variables: Mapping[str, Variable], logical_name: str) -> str:
    """Return SQL for the same figures, without noise intervals."""
    derived = {*question.bands, *question.groups}
    heads = [f"{_expression(c, question, variables)} AS {quoted(c)}" if c in derived else quoted(c)
             for c in question.columns]  # fmt: skip
    figure = "n" if question.measure == "count" else question.measure
    lines = [
        "SELECT " + ", ".join([*heads, f"{_measured(question, variables)} AS {quoted(figure)}"]),
        f"FROM {quoted(logical_name)}",
    ]
    wheres = [
        membership_sql(variables[c], values_of(variables[c], keys))
        for c, keys in question.only.items()
    ]
    wheres += [
        range_sql(variables[c], bounds_of(variables[c], ends))
        for c, ends in question.between.items()
    ]
    if wheres:
        lines.append("WHERE " + "\n  AND ".join(wheres))
    if heads:
        places = ", ".join(str(i + 1) for i in range(len(heads)))
        lines += [f"GROUP BY {places}", f"ORDER BY {places}"]
    return "\n".join(lines)


def _expression(column: str, question: Question, variables: Mapping[str, Variable]) -> str:
    """The grouping expression of a column: itself, the start of its band, or its group."""
    if question.groups.get(column):
        return case_of(variables[column], question.groups[column])
    if column not in question.bands:
        return quoted(column)
    width = question.bands[column]
    if isinstance(width, str):
        return f"date_trunc('{width}', {quoted(column)})"
    value = quoted(column)
    if variables[column].is_dated:
        value = f"year({value})"
    elif variables[column].is_clock:
        value = f"(60 * hour({value}) + minute({value}))"
    return f"CAST(floor({value} / {width}) * {width} AS BIGINT)"


def _measured(question: Question, variables: Mapping[str, Variable]) -> str:
    """The aggregate expression."""
    if not question.is_counted:
        of = quoted(question.of or "")
        names = {"mean": "avg", "sum": "sum", "median": "median"}
        if question.measure in ("median", "quantile") and variables[
            question.of or ""
        ].sql_type.startswith("DECIMAL"):
            of = f"CAST({of} AS DOUBLE)"  # DuckDB truncates quantiles between two decimals
        if question.measure == "quantile":
            return f"quantile_cont({of}, {question.quantile!r})"
        return f"{names[question.measure]}({of})"
    within = {"none": None, "total": (), "row": question.rows, "column": question.cols}[
        question.percent
    ]
    if within is None:
        return "count(*)"
    part = ", ".join(_expression(c, question, variables) for c in within)
    total = f"sum(count(*)) OVER ({'PARTITION BY ' + part if part else ''})"
    if question.measure == "ratio":
        return f"count(*) / nullif({total} - count(*), 0)"
    return f"100.0 * count(*) / {total}"
