"""A question to a release as the table builder asks it: a link, a JSON body, and the same thing in SQL.

The link is the saved query: `?rows=age&cols=sex&band.age=10&only.region=London&from.hours=1&percent=row`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engine.errors import QueryRefused
from engine.schema import literal, quoted
from queries.api_values import BLANK, Variable, bound_of, variable

Percent = Literal["none", "total", "row", "column"]
AskedMeasure = Literal["count", "mean", "median", "quantile", "sum"]
Name = Annotated[str, Field(max_length=300)]
Width = Annotated[int, Field(le=10**13)]  # beyond, the ends of bands are no numbers
_PLAIN = ("measure", "of", "quantile", "percent")
_MOST_COLUMNS = 6


class Question(BaseModel):
    """What a table shows.

    Attributes
    ----------
    rows, cols : tuple of str
        Columns whose values label rows and columns of the table.
    bands : dict
        Width of the bands that an ordered column is put in; years for dates.
    only : dict
        Keys of the values to keep, by column; `~` is a blank.
    between : dict
        Lowest and highest value to keep, as text; an empty one is open.
    measure, of, quantile
        What is shown, and of which column.
    percent : str
        Counts as shares of all, of their row or of their column.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    rows: Annotated[tuple[Name, ...], Field(max_length=_MOST_COLUMNS)] = ()
    cols: Annotated[tuple[Name, ...], Field(max_length=_MOST_COLUMNS)] = ()
    bands: Annotated[dict[Name, Width], Field(max_length=_MOST_COLUMNS)] = {}
    only: Annotated[dict[Name, tuple[Name, ...]], Field(max_length=_MOST_COLUMNS)] = {}
    between: Annotated[dict[Name, tuple[Name, Name]], Field(max_length=_MOST_COLUMNS)] = {}
    measure: AskedMeasure = "count"
    of: Name | None = None
    quantile: Annotated[float, Field(gt=0, lt=1)] = 0.5
    percent: Percent = "none"

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of rows and columns, in order."""
        return (*self.rows, *self.cols)

    @property
    def reads(self) -> tuple[str, ...]:
        """Every column it reads, once."""
        of = () if self.of is None or self.measure == "count" else (self.of,)
        return tuple(dict.fromkeys((*self.columns, *self.only, *self.between, *of)))

    def link(self) -> str:
        """Return it as the query of a URL: the same question gives the same link."""
        pairs = [("rows", c) for c in self.rows] + [("cols", c) for c in self.cols]
        pairs += [(f"band.{c}", str(w)) for c, w in sorted(self.bands.items())]
        pairs += [(f"only.{c}", v) for c, vs in sorted(self.only.items()) for v in vs]
        for column, (low, high) in sorted(self.between.items()):
            pairs += [(f"from.{column}", low), (f"to.{column}", high)]
        if self.measure != "count":
            pairs += [("measure", self.measure), ("of", self.of or "")]
        if self.measure == "quantile":
            pairs.append(("quantile", repr(self.quantile)))
        if self.percent != "none":
            pairs.append(("percent", self.percent))
        return urlencode(pairs)


def question_of(pairs: Iterable[tuple[str, str]]) -> Question:
    """Return the question in the query of a URL.

    Raises
    ------
    QueryRefused
        A parameter is unknown, given twice, or not as it must be.
    """
    made: dict[str, Any] = {"rows": [], "cols": [], "bands": {}, "only": {}, "between": {}}
    for name, text in pairs:
        head, _, column = name.partition(".")
        if name in ("rows", "cols"):
            made[name].append(text)
        elif head == "band" and column and column not in made["bands"]:
            made["bands"][column] = text
        elif head == "only" and column:
            made["only"].setdefault(column, []).append(text)
        elif head in ("from", "to") and column:
            ends = made["between"].setdefault(column, ["", ""])
            ends[head == "to"] = text
        elif name in _PLAIN and name not in made:
            made[name] = text
        else:
            raise QueryRefused(
                f"parameter {name!r} is unknown or given twice: allowed are rows, cols, band.COLUMN, only.COLUMN, "
                f"from.COLUMN, to.COLUMN, {', '.join(_PLAIN)}"
            )
    try:
        return Question(**made)
    except ValidationError as error:
        raise QueryRefused(mistakes(error.errors())) from None


def mistakes(errors: Iterable[Mapping[str, Any]]) -> str:
    """Return what pydantic found wrong, a sentence a mistake."""
    return "; ".join(
        f"{'.'.join(str(p) for p in e['loc'] if p != 'body') or 'the request'}: {e['msg']}"
        for e in errors
    )


def check(asked: Question, variables: Mapping[str, Variable]) -> None:
    """Refuse a question that no table could answer, whatever is released.

    Raises
    ------
    NotAnswerable
        A column does not exist.
    QueryRefused
        Its parts do not go together.
    """
    for name in (*asked.reads, *asked.bands):
        variable(variables, name)
    twice = sorted({c for c in asked.columns if asked.columns.count(c) > 1})
    if twice:
        raise QueryRefused(f"{', '.join(twice)}: stands in rows or columns twice")
    both = sorted(set(asked.only) & set(asked.between))
    if both:
        raise QueryRefused(f"{', '.join(both)}: give values to keep, or a range, not both")
    empty = sorted(c for c, keys in asked.only.items() if not keys)
    if empty:
        raise QueryRefused(f"{', '.join(empty)}: no value to keep")
    if asked.measure == "count":
        return
    if asked.of is None:
        raise QueryRefused(f"measure {asked.measure} needs `of`: the column it is taken of")
    if not variables[asked.of].is_numeric:
        raise QueryRefused(f"measure {asked.measure} needs numbers, and {asked.of} has none")
    if asked.of in asked.columns:
        raise QueryRefused(f"{asked.of} cannot be a row or column and be measured at once")
    if asked.percent != "none":
        raise QueryRefused("percentages are of counts: leave out measure, or percent")


def sql_of(asked: Question, variables: Mapping[str, Variable], logical_name: str) -> str:
    """Return SQL that gives the same figures, without the noise intervals."""
    heads = [f"{_expression(c, asked, variables)} AS {quoted(c)}" if c in asked.bands else quoted(c)
             for c in asked.columns]  # fmt: skip
    figure = "n" if asked.measure == "count" else asked.measure
    lines = [
        "SELECT " + ", ".join([*heads, f"{_measured(asked, variables)} AS {quoted(figure)}"]),
        f"FROM {quoted(logical_name)}",
    ]
    wheres = [_kept(c, keys, variables[c]) for c, keys in asked.only.items()]
    wheres += [_ranged(c, ends, variables[c]) for c, ends in asked.between.items()]
    if wheres:
        lines.append("WHERE " + "\n  AND ".join(wheres))
    if heads:
        places = ", ".join(str(i + 1) for i in range(len(heads)))
        lines += [f"GROUP BY {places}", f"ORDER BY {places}"]
    return "\n".join(lines)


def _expression(column: str, asked: Question, variables: Mapping[str, Variable]) -> str:
    """The start of a value's band."""
    width = asked.bands[column]
    is_dated = variables[column].sql_type in ("DATE", "TIMESTAMP")
    value = f"year({quoted(column)})" if is_dated else quoted(column)
    return f"CAST(floor({value} / {width}) * {width} AS BIGINT)"


def _measured(asked: Question, variables: Mapping[str, Variable]) -> str:
    """The aggregate."""
    if asked.measure != "count":
        of = quoted(asked.of or "")
        names = {"mean": "avg", "sum": "sum", "median": "median"}
        if asked.measure in ("median", "quantile") and variables[
            asked.of or ""
        ].sql_type.startswith("DECIMAL"):
            of = f"CAST({of} AS DOUBLE)"  # DuckDB cuts what lies between two decimals
        if asked.measure == "quantile":
            return f"quantile_cont({of}, {asked.quantile!r})"
        return f"{names[asked.measure]}({of})"
    within = {"none": None, "total": (), "row": asked.rows, "column": asked.cols}[asked.percent]
    if within is None:
        return "count(*)"
    part = ", ".join(
        _expression(c, asked, variables) if c in asked.bands else quoted(c) for c in within
    )
    return f"100.0 * count(*) / sum(count(*)) OVER ({'PARTITION BY ' + part if part else ''})"


def _kept(column: str, keys: Iterable[str], asked: Variable) -> str:
    """One condition on values."""
    known = [_constant(k, asked) for k in keys if k != BLANK]
    tests = [f"{quoted(column)} IN ({', '.join(known)})"] if known else []
    if BLANK in keys:
        tests.append(f"{quoted(column)} IS NULL")
    return tests[0] if len(tests) == 1 else f"({' OR '.join(tests)})"


def _ranged(column: str, ends: tuple[str, str], asked: Variable) -> str:
    """One condition on a range."""
    low, high = (bound_of(asked, text, is_high=bool(i)) for i, text in enumerate(ends))
    shown = [literal(str(v)) if not asked.is_numeric else str(v) for v in (low, high)]
    return f"{quoted(column)} BETWEEN {shown[0]} AND {shown[1]}"


def _constant(key: str, asked: Variable) -> str:
    """A value in SQL."""
    if asked.is_numeric or asked.sql_type in ("BIGINT", "INTEGER", "DOUBLE", "BOOLEAN"):
        return key
    return literal(key[1:] if key.startswith(BLANK) else key)
