"""What the values of a column are, numbers, times or texts, and how rows are read as such.

Takes a `Relation`; gives the kind of each column (of the original: by all of its values) and frames of those kinds.
Synthetic tables follow the original: other tools write 1.0 for 1, and nan for a blank. Numbers are floats, times
datetimes, texts categoricals, which are coded without touching a row twice. Messages name columns, never values.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

import duckdb
import numpy as np
import pandas as pd

from engine.errors import DataError
from engine.evaluation.data.columns import on_grid_sql
from engine.evaluation.data.relation import Relation
from engine.schema import Column, literal, quoted
from engine.source import fetch, value_sql

Kind = Literal["number", "time", "text"]
USUAL_BLANKS = (
    *("", "na", "n/a", "#n/a", "<na>", "nan", "nat", "none", "null"),
    *("inf", "+inf", "-inf", "infinity", "-infinity"),
)
"""How tools spell blanks (in small letters): read as such where numbers or times are, for there they can be nothing
else; and among texts where the original has no such text."""
MOST_WHOLE = 2**53
"""Larger whole numbers are no floats: a column that has any is of texts."""
_NEEDLESS = re.compile(r"^([+-]?\d+)\.0+$")
_WORDS = {"number": "numbers", "time": "times", "text": "text"}
_FLOATS = ("DOUBLE", "FLOAT")
_CLOCKS = ("TIME", "TIME_NS")
_CLOCK = Column(name="clock", kind="time", value_type="time")
_LARGE = ("BIGINT", "UBIGINT", "HUGEINT", "UHUGEINT")
_NUMBERS = ("INT", "DOUBLE", "FLOAT", "DECIMAL", "BOOLEAN")


def kind_of_type(sql_type: str) -> Kind | None:
    """Return the kind of a DuckDB type; None: it cannot be evaluated. Texts may turn out to be numbers or times."""
    if "[" in sql_type or sql_type.startswith(
        ("STRUCT", "MAP", "UNION", "BLOB", "BIT", "INTERVAL")
    ):
        return None
    if sql_type.startswith(("DATE", "TIMESTAMP")) or sql_type in _CLOCKS:
        return "time"
    if sql_type.startswith(_NUMBERS) or sql_type.endswith("INT"):
        return "number"
    return "text"


def kind_of_column(column: pd.Series) -> Kind:
    """Return the kind of a frame's column."""
    if pd.api.types.is_datetime64_any_dtype(column):
        return "time"
    if pd.api.types.is_bool_dtype(column) or pd.api.types.is_numeric_dtype(column):
        return "number"
    return "number" if column.dtype == object and _is_truth(column) else "text"


def _is_truth(column: pd.Series) -> bool:
    """Whether a column of objects holds truth values only."""
    return bool(pd.api.types.infer_dtype(column, skipna=True) == "boolean")


def kinds_of(
    relation: Relation, *, nulls: Sequence[str], texts: Collection[str]
) -> tuple[dict[str, Kind], list[str]]:
    """Find the kind of every column by all of its values, and say what was left out."""
    kinds: dict[str, Kind] = {}
    notes = []
    unclear = []
    odd = _odd(relation)
    for name, sql_type in relation.types.items():
        kind = kind_of_type(sql_type)
        if kind is None:
            notes.append(f"{name}: holds {sql_type.partition('(')[0]} values; left out")
        elif kind == "text" and name not in texts:
            unclear.append(name)
        else:
            is_text = name in texts or (name in odd and sql_type not in _FLOATS)
            kinds[name] = "text" if is_text else kind
    usual = [c for c in odd if kinds.get(c) == "number"]
    for name, seen in _seen(relation, unclear, nulls).items():
        n = seen["filled"] - seen["usual"]
        is_number = n > 0 and seen["number"] == n and not seen["large"]
        is_time = n > 0 and seen["time"] == n
        kinds[name] = "number" if is_number else "time" if is_time else "text"
        if seen["usual"] and kinds[name] != "text":
            usual.append(name)
    notes += _usual_note(usual)
    return {name: kinds[name] for name in relation.types if name in kinds}, notes


def fitting_kinds(
    relation: Relation, wanted: Mapping[str, Kind], *, nulls: Sequence[str]
) -> tuple[dict[str, Kind], list[str]]:
    """Return those of the wanted columns whose every value is of the wanted kind, and say what was left out.

    wanted: Columns of the original; those that the relation lacks are passed over.
    """
    here = {c: k for c, k in wanted.items() if c in relation.types}
    seen = _seen(relation, [c for c in here if kind_of_type(relation.types[c]) == "text"], nulls)
    kinds: dict[str, Kind] = {}
    notes, usual = [], [c for c in _odd(relation) if relation.types[c] in _FLOATS and c in here]
    for name, kind in here.items():
        has = kind_of_type(relation.types[name])
        if has == "text" and kind != "text":
            n = seen[name]["filled"] - seen[name]["usual"]
            if seen[name][kind] < n:
                has = "text"
            else:
                has = kind
                usual += [name] * bool(seen[name]["usual"])
        if has == kind or (kind == "text" and has is not None):
            kinds[name] = kind
        else:
            words = "something else" if has is None else _WORDS[has]
            notes.append(f"{name}: {words} where the data has {_WORDS[kind]}; left out")
    return kinds, [*notes, *_usual_note(usual)]


def read_kinds(
    relation: Relation,
    kinds: Mapping[str, Kind],
    *,
    nulls: Sequence[str],
    grids: Mapping[str, Column] | None = None,
) -> pd.DataFrame:
    """Read columns as their kinds say.

    grids: Columns on whose grids numbers and times are put, and whose `nulls` are read as blanks, too.
    """
    known = grids or {}
    spelled = {c: (*nulls, *(known[c].spellings if c in known else ("",))) for c in kinds}
    listed = []
    for i, (name, kind) in enumerate(kinds.items()):
        value = _expression(name, relation.types[name], kind, spelled[name])
        if kind == "text":
            distinct = f"SELECT DISTINCT {value} AS v FROM source"
            fetch(
                relation.con,
                f"CREATE TYPE t_{i} AS ENUM (SELECT v FROM ({distinct}) WHERE v IS NOT NULL ORDER BY v)",
                relation.place,
            )
            value = f"CAST({value} AS t_{i})"
        elif name in known:
            value = _on_grid(known[name], kind, value, spelled[name])
        listed.append(f"{value} AS {quoted(name)}")
    frame = _fetched(relation, f"SELECT {', '.join(listed)} FROM source")
    for name, kind in kinds.items():
        if kind == "number":
            frame[name] = _without_blanks(frame[name], spelled[name])
    return frame


def _on_grid(column: Column, kind: Kind, value: str, nulls: Sequence[str]) -> str:
    """SQL that puts a value on a release's grid; what spells a blank is left as it is, for it is looked for later."""
    if kind != ("time" if column.kind == "timestamp" else "number"):
        return value
    blanks = [repr(float(n)) for n in nulls if _is_number(n)] if kind == "number" else []
    snapped = on_grid_sql(column, value)
    if not blanks or snapped == value:
        return snapped
    return f"CASE WHEN {value} IN ({', '.join(blanks)}) THEN {value} ELSE {snapped} END"


def _fetched(relation: Relation, sql: str) -> pd.DataFrame:
    """Result of a statement; an error of DuckDB in our own words."""
    try:
        return relation.con.execute(sql).df()
    except (duckdb.Error, MemoryError):
        pass
    # Raised here: the new error must not carry the old one, which may quote the data.
    raise DataError(f"{relation.place}: cannot be read; it may be too large for memory")


def like_texts(column: pd.Series, original: pd.Series) -> pd.Series:
    """Spell texts as the original does: without a needless .0, or with it; usual spellings of a blank are blanks.

    original: Texts; what it has is never changed.
    """
    known = set(_texts_of(original))
    texts = [str(v) for v in column.cat.categories]
    spelled = [_like(v, known) for v in texts]
    if spelled == texts:
        return column
    codes, uniques = pd.factorize(pd.Series(spelled, dtype=object))
    place = np.append(codes, -1).astype(np.int64)  # a blank stays one: its code is -1
    return pd.Series(
        pd.Categorical.from_codes(place[column.cat.codes.to_numpy()], categories=uniques),
        name=column.name,
    )


def _like(text: str, known: Collection[str]) -> str | None:
    """One text as the original spells it."""
    if text in known:
        return text
    if (short := _NEEDLESS.sub(r"\1", text)) in known:
        return short
    if f"{text}.0" in known:
        return f"{text}.0"
    return None if text.strip().lower() in USUAL_BLANKS else text


def _texts_of(column: pd.Series) -> Iterable[str]:
    """Distinct texts of a column."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return map(str, column.cat.categories)
    return map(str, pd.unique(column.dropna()))


def _seen(
    relation: Relation, names: Sequence[str], nulls: Sequence[str]
) -> dict[str, dict[str, int]]:
    """How many distinct texts a column has, and are usual spellings of a blank, or read as numbers or times."""
    usual = ", ".join(map(literal, USUAL_BLANKS))
    number, time = _number("v"), _time("v")
    counts = (
        f"SELECT count(v), count(*) FILTER (WHERE lower(trim(v)) IN ({usual})), count({number}), count({time}), "
        f"count(*) FILTER (WHERE abs({number}) > {MOST_WHOLE})"
    )
    keys = ("filled", "usual", "number", "time", "large")
    seen = {}
    for name in names:
        value = _text(name, relation.types[name], ("", *nulls))
        distinct = f"SELECT DISTINCT {value} AS v FROM source"
        row = fetch(relation.con, f"{counts} FROM ({distinct})", relation.place)[0]
        seen[name] = dict(zip(keys, row, strict=True))
    return seen


def _odd(relation: Relation) -> list[str]:
    """Columns of floats that hold infinite ones, and of whole numbers too large for floats."""
    tests = {
        c: f"count(*) FILTER (WHERE isinf({quoted(c)}))"
        if t in _FLOATS
        else f"count(*) FILTER (WHERE {quoted(c)} NOT BETWEEN -{MOST_WHOLE} AND {MOST_WHOLE})"
        for c, t in relation.types.items()
        if t in _FLOATS or t in _LARGE
    }
    if not tests:
        return []
    row = fetch(relation.con, f"SELECT {', '.join(tests.values())} FROM source", relation.place)[0]
    return [c for c, n in zip(tests, row, strict=True) if n]


def _expression(name: str, sql_type: str, kind: Kind, nulls: Sequence[str]) -> str:
    """SQL that reads a column as its kind, which its values are known to be."""
    if kind == "text":
        return _text(name, sql_type, nulls)
    value = quoted(name)
    if kind == "time":
        return _time(value, sql_type)
    if kind_of_type(sql_type) == "text":
        return (
            f"coalesce(TRY_CAST({value} AS DOUBLE), "
            f"CASE lower({value}) WHEN 'true' THEN 1.0 WHEN 'false' THEN 0.0 END)"
        )
    # The shortest text of a short float is what its writer meant: 0.1, not 0.10000000149.
    return f"CAST({f'CAST({value} AS VARCHAR)' if sql_type == 'FLOAT' else value} AS DOUBLE)"


def _without_blanks(numbers: pd.Series, nulls: Sequence[str]) -> pd.Series:
    """Numbers without those that spell a blank, and without infinite ones."""
    values = numbers.to_numpy(np.float64)
    is_blank = ~np.isfinite(values) | np.isin(values, [float(n) for n in nulls if _is_number(n)])
    return pd.Series(np.where(is_blank, np.nan, values), name=numbers.name)


def _text(name: str, sql_type: str, nulls: Sequence[str]) -> str:
    """SQL that reads a column as texts: whole numbers without a point, blanks as NULL."""
    value = quoted(name)
    if sql_type in ("DOUBLE", "FLOAT") or sql_type.startswith("DECIMAL"):
        # NaN and infinity are larger than any number, or smaller: neither is whole here.
        whole = f"abs({value}) < {MOST_WHOLE} AND {value} = trunc({value})"
        value = (
            f"CASE WHEN {whole} THEN CAST(TRY_CAST({value} AS BIGINT) AS VARCHAR) "
            f"WHEN isfinite(CAST({value} AS DOUBLE)) THEN CAST({value} AS VARCHAR) END"
        )
    elif sql_type != "VARCHAR":
        value = f"CAST({value} AS VARCHAR)"
    # A blank that is spelled as a whole number is one with .0, too.
    more = [f"{n}.0" for n in nulls if re.fullmatch(r"[+-]?\d+", n)]
    if not nulls:
        return value
    spelled = ", ".join(map(literal, dict.fromkeys([*nulls, *more])))
    return f"CASE WHEN {value} NOT IN ({spelled}) THEN {value} END"


def _number(value: str) -> str:
    """SQL that reads a text as a number, truth values too; NULL where it is none."""
    number = f"TRY_CAST({value} AS DOUBLE)"
    return (
        f"CASE WHEN isfinite({number}) AND NOT contains({value}, '_') THEN {number} "
        f"WHEN lower({value}) = 'true' THEN 1.0 WHEN lower({value}) = 'false' THEN 0.0 END"
    )


def moment_of_clock(clock: str) -> str:
    """SQL for a time of day as a moment, for these have differences."""
    return f"(DATE '1970-01-01' + {clock})"


def _time(value: str, sql_type: str = "VARCHAR") -> str:
    """SQL that reads a cell as a moment; NULL where it is none."""
    clock = moment_of_clock(value_sql(_CLOCK, sql_type, value))
    time = clock if sql_type in _CLOCKS else f"TRY_CAST({value} AS TIMESTAMP)"
    if kind_of_type(sql_type) == "text":
        time = f"coalesce({time}, {clock})"
    return f"CASE WHEN isfinite({time}) THEN {time} END"


def _is_number(text: str) -> bool:
    """Whether a spelling of a blank is that of a number."""
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def _usual_note(names: Sequence[str]) -> list[str]:
    """Say where usual spellings of a blank were taken for blanks."""
    meaning = "nan, NA, None, infinite numbers and the like are read as blanks"
    return [f"{', '.join(names)}: {meaning}"] if names else []
