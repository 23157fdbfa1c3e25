"""Finds columns that name somebody, whatever their names: patient numbers, e-mail addresses, names, free text.

Takes a table on a confidential connection. Gives for each suspect why, in plain words, by four signs: nearly every
value is of one entity only; numbers that look issued, not measured; long codes; rows of one value that agree in
columns that have nothing to do with each other, as the rows of one person do. Gives columns that name somebody only
together: household and number in it. What tells there: a number that occurs again in other households; together the
columns are of one row each, or of rows that agree in what neither of them tells; and their names. Counts carry a noisy
slack: one person more changes an answer only where it depends on a hair.

A build whose tables hold a suspect is refused until its owner has said what it is. A table of frequencies (each
combination of values once, beside how many units it stands for) is recognised, too: whoever took it for microdata
would protect its lines, not the people counted in them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import combinations, product
from typing import Any

import duckdb
import numpy as np

from engine.errors import PrivacyError
from engine.schema import NULL_CODE, NUMBER_KINDS, Column, FloatArray, entity_name, quoted
from engine.source.detection.determined import Table, encoded_table
from engine.source.detection.names import (
    RULES,
    WORDS,
    Role,
    reads_like_an_identifier,
    role_of,
    words_of,
)
from engine.source.detection.thresholds import MEAN, Thresholds
from engine.source.encoding import joined_sql
from engine.source.entities import ROWS_WITH_TOKENS, EntityColumn
from engine.source.ingest import Ingested
from engine.source.relation import fetch

NAMED_VALUES, LEAST_VALUES, MANY_VALUES = 10, 30, 100
"""Columns of fewer values are lists of categories: with a telling name, shared by one person's rows, and else."""
SAMPLE = 10_000
"""Distinct values whose form is looked at."""
MOST_TOLD = 60
"""Other columns that rows of one value are compared in."""
ALONE = {"text": 0.5, "number": 0.95, "weak name": 0.8}
"""Share of rows whose value is of one entity only, from which on values are nearly unique."""
NEARLY_ALL = 0.95
"""Share of values that have one form."""
LONG, VERY_LONG = 7, 9
"""Digits that few measurements have all alike, and that hardly any has."""
MANY_CODES, LEAST_DIGITS = 1_000, 4
"""Classifications have fewer codes of one pattern, or their codes are common to very different degrees."""
EVEN_FROM, EVEN_DIGITS = 1_000, 6
"""Fewer values of fewer digits lie evenly by chance, or as amounts do."""
ROWS_A_VALUE = 100
"""Codes of more rows each are of places or things."""
BY_CHANCE = 0.7
"""The most by which two of all rows may agree in a column that tells somebody's rows."""
_FORMS = {about: re.compile(pattern) for about, pattern in RULES["values"].items()}
_LETTERS, _DIGITS = re.compile(r"[^\W\d_]"), re.compile(r"\d")
_UNIQUE = "nearly every value is of one {who} only"
_ISSUED = "nearly all numbers differ, and they look issued, not measured"
_CODES = "long codes, each in few rows"
_SHARED = "rows that share a value agree in other columns too, as the rows of one person do"
_NAMED = "named like an identifier, with many values"
_ADDRESSES = "addresses, of mail, places in the net, phones or accounts"


Values = Callable[[], Sequence[Any]]
"""Gives the sample, drawn at the first call."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """A column that may be an identifier."""

    # is_number, is_whole: Numbers, and whole ones; else texts or codes.
    is_number: bool
    is_whole: bool
    # Gives distinct values of it, at most so many as are asked for.
    sample: Callable[[int], Sequence[Any]]


def judged_columns(
    columns: Iterable[Column], sample: Callable[[Column, int], Sequence[Any]]
) -> dict[str, Judged]:
    """Of some columns those of a kind that identifiers have, of which nobody has said that they may be published."""
    return {
        c.name: Judged(
            is_number=c.value_type in NUMBER_KINDS,
            is_whole=c.value_type == "integer",
            sample=partial(sample, c),
        )
        for c in columns
        if c.kind in JUDGED_KINDS and not (c.public and c.domain is not None) and not c.release
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class _Counts:
    """What is counted of one column. Only to be compared with a margin that is noisy."""

    n_values: int
    n_rows: int
    n_alone: int
    n_most: int  # rows of the commonest value

    @property
    def rows_a_value(self) -> float:
        """Rows of a value, on average."""
        return self.n_rows / max(self.n_values, 1)

    @property
    def is_even(self) -> bool:
        """Whether no value is much commoner than others, as with people's rows; things and places have common ones."""
        return self.rows_a_value <= ROWS_A_VALUE and self.n_most <= 5 * self.rows_a_value + 10


def suspects(table: Table, judged: Mapping[str, Judged], thresholds: Thresholds) -> dict[str, str]:
    """Columns that look like identifiers.

    table: All columns: rows of one value of a suspect are compared in the others.
    """
    many = about_distinct(table)
    found = {}
    for name, column in judged.items():
        is_named = reads_like_an_identifier(name) == "strong"
        # Counted about only: a few more are asked for, so that wide files of few rows cost nothing.
        if many[name] < (NAMED_VALUES if is_named else LEAST_VALUES + 5):
            continue
        facts = _counts_of(table, name)
        slack = max(thresholds.of("key", name, "alone") - MEAN // 2, 0)
        values = cache(
            partial(column.sample, SAMPLE)
        )  # few columns need them, and they cost a sort
        if column.is_number and not column.is_whole and not _are_whole(values()):
            continue
        why = _by_itself(
            name, column, facts, values, slack, who="person" if table.entities else "row"
        )
        if why is None and not table.entities and _may_be_shared(facts):
            is_code = partial(_looks_issued, column, facts, values)
            why = _by_others(table, name, many, is_code=is_code)
        if why is not None:
            found[name] = why
    return found


def about_distinct(table: Table) -> dict[str, int]:
    """About how many values each column has."""
    if table.cells is not None:  # all in one look at the rows
        table.cells([(name,) for name in table.columns])
    return {
        name: int(table.row(f"SELECT approx_count_distinct({sql}) FROM {table.of(name)}")[0])
        for name, sql in table.columns.items()
    }


def _counts_of(table: Table, name: str) -> _Counts:
    """Count values, rows with one, and rows whose value nobody else has."""
    own = [f"min({entity}) = max({entity})" for entity in table.entities] or [f"{table.rows} = 1"]
    row = table.row(
        "SELECT count(*), coalesce(sum(r), 0), coalesce(sum(r) FILTER (alone), 0), coalesce(max(r), 0) FROM ("
        f"SELECT {table.rows} AS r, {' OR '.join(own)} AS alone FROM {table.of(name)} "
        f"WHERE {table.columns[name]} IS NOT NULL GROUP BY {table.columns[name]})"
    )
    n_values, n_rows, n_alone, n_most = map(int, row)
    return _Counts(n_values=n_values, n_rows=n_rows, n_alone=n_alone, n_most=n_most)


def _by_itself(
    name: str, column: Judged, facts: _Counts, values: Values, slack: int, *, who: str
) -> str | None:
    """Why a column is a suspect by its own values and name; None if it is none."""
    named = reads_like_an_identifier(name)
    if facts.n_values < NAMED_VALUES:
        return None

    def alone(share: float) -> bool:
        return facts.n_alone >= share * facts.n_rows - slack

    if named == "strong":
        return _NAMED
    if not column.is_number and _share("address", values()) >= NEARLY_ALL:
        return _ADDRESSES
    if named == "weak" and facts.n_values >= LEAST_VALUES and alone(ALONE["weak name"]):
        return _NAMED if not column.is_number or looks_issued(values()) else None
    if facts.n_values < MANY_VALUES:
        return None
    if column.is_number and not alone(ALONE["number"]):
        return None
    if _share("measure", values()) >= NEARLY_ALL:
        return None  # dates, times and amounts that are written as texts
    if column.is_number:
        return _ISSUED if looks_issued(values()) else None
    if alone(ALONE["text"]):
        return _UNIQUE.format(who=who)
    is_coded = _share("code", values()) >= NEARLY_ALL or _has_one_pattern(facts, values())
    return _CODES if facts.is_even and is_coded else None


def _has_one_pattern(facts: _Counts, values: Sequence[Any]) -> bool:
    """Whether thousands of values share one pattern of letters and digits, such as P004711.

    Codes of digits alone are left to other signs: postal codes look the same.
    """
    if facts.n_values < MANY_CODES or not values:
        return False
    patterns = Counter(_DIGITS.sub("9", _LETTERS.sub("A", str(value))) for value in values)
    pattern, n = patterns.most_common(1)[0]
    return n >= NEARLY_ALL * len(values) and "A" in pattern and pattern.count("9") >= LEAST_DIGITS


def _looks_issued(column: Judged, facts: _Counts, values: Values) -> bool:
    """Whether values look like numbers or codes that were given out, and are as common as people's rows are."""
    if facts.n_values < MANY_VALUES or not facts.is_even:
        return False
    if column.is_number:
        return looks_issued(values())
    return _share("issued", values()) >= NEARLY_ALL


def looks_issued(values: Sequence[Any]) -> bool:
    """Whether distinct numbers were given out one by one, or drawn as codes, and not measured.

    Those lie close together, or as evenly as drawn numbers do, or have many digits, and all equally
    many, or very many. Numbers that read as dates are none.
    """
    numbers = np.sort(np.abs(np.asarray(values, dtype=np.float64)))
    digits = np.floor(np.log10(np.maximum(numbers, 1))) + 1
    usual = float(np.median(digits))
    is_alike = float(np.mean(digits == usual)) >= 0.98
    is_close = float(numbers[-1] - numbers[0]) <= 3 * len(numbers)
    may_be_even = len(numbers) >= EVEN_FROM or usual >= EVEN_DIGITS
    is_long = usual >= VERY_LONG or (is_alike and usual >= LONG)
    return is_close or is_long or (may_be_even and _is_even(numbers))


def _are_whole(values: Sequence[Any]) -> bool:
    """Whether no number has decimals: those are measured."""
    numbers = np.asarray(values, dtype=np.float64)
    return bool((numbers == np.floor(numbers)).all())


def _is_even(numbers: FloatArray) -> bool:
    """Whether sorted numbers lie as draws from one interval do: Kolmogorov's distance, at 5 %."""
    n = len(numbers)
    places = (numbers - numbers[0]) / max(float(numbers[-1] - numbers[0]), 1.0)
    distance = float(np.abs(places - (np.arange(n) + 0.5) / n).max())
    return bool(distance <= max(1.36 / n**0.5, 0.03))


def _share(form: str, values: Sequence[Any]) -> float:
    """Share of values that have a form."""
    found = [_FORMS[form].fullmatch(str(v)) is not None for v in values]
    return float(np.mean(found)) if found else 0.0


def _may_be_shared(facts: _Counts) -> bool:
    """Whether values have as many rows as one person may have."""
    return facts.n_values >= LEAST_VALUES and facts.rows_a_value >= 1.5


def _by_others(
    table: Table, name: str, many: Mapping[str, int], *, is_code: Callable[[], bool]
) -> str | None:
    """Why a column is a suspect by what its rows share; None if it is none.

    Two columns are needed, neither of which tells the other: a place tells its region, and that its country; a person
    has a sex and a year of birth. Of values that look issued one is enough.
    """
    others = [c for c, n in many.items() if c != name and 2 <= n <= max(many[name] // 2, 2)]
    told = agreed(table, name, others[:MOST_TOLD])
    if told and is_code():
        return _SHARED
    for place, one in enumerate(told):
        for other in told[place + 1 :]:
            if other not in agreed(table, one, [other]) and one not in agreed(table, other, [one]):
                return _SHARED
    return None


def agreed(table: Table, name: str, others: Sequence[str]) -> list[str]:
    """Columns in which the rows of nearly every value agree, though two of all rows often do not."""
    if not others:
        return []
    if table.cells is None:
        shares = [*_shares_agreed(table, name, others, table.name)]
    else:  # in pairs: all columns together have as many cells as rows
        pairs = table.cells([(name, other) for other in others])
        shares = [
            share
            for other, of in zip(others, pairs, strict=True)
            for share in _shares_agreed(table, name, [other], of)
        ]
    alike = [c for c, share in zip(others, shares, strict=True) if float(share) >= NEARLY_ALL]
    return [c for c in alike if _by_chance(table, c) <= BY_CHANCE]


def _shares_agreed(table: Table, name: str, others: Sequence[str], of: str) -> tuple[Any, ...]:
    """Of the values of a column with several rows: in how many these agree in each of other columns."""
    cell = {c: table.columns[c] for c in (name, *others)}
    same = ", ".join(
        f"min({cell[c]}) = max({cell[c]}) AS {quoted(f's{j}')}" for j, c in enumerate(others)
    )
    shares = ", ".join(
        f"coalesce(avg(CAST({quoted(f's{j}')} AS INTEGER)), 0)" for j in range(len(others))
    )
    return table.row(
        f"SELECT {shares} FROM (SELECT {same} FROM {of} WHERE {cell[name]} IS NOT NULL "
        f"GROUP BY {cell[name]} HAVING {table.rows} > 1)"
    )


def _by_chance(table: Table, name: str) -> float:
    """How often two rows agree in a column."""
    cell = table.columns[name]
    row = table.row(
        f"SELECT coalesce(sum(r * r) / (sum(r) * sum(r)), 1) FROM (SELECT CAST({table.rows} AS DOUBLE) AS r "
        f"FROM {table.of(name)} WHERE {cell} IS NOT NULL GROUP BY {cell})"
    )
    return float(row[0])


MOST_GROUPS, MOST_NUMBERS = 4, 6
"""Columns that are tried as a household, or as a number in it."""
WIDEST = 2
"""Columns that name a group together: a school and a class in it."""
SEVERAL = 1.5
"""Numbers of a group, and groups of a number, on average."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Together:
    """Columns that name somebody together: those of the group, and last the number in it."""

    columns: tuple[str, ...]
    is_sure: bool  # Names and values say so; else the values alone


def named_together(table: Table, columns: Sequence[str], thresholds: Thresholds) -> Together | None:
    """Columns that name somebody together; None if there are none.

    table: Each row is one.
    columns: Those that may name somebody: numbers or texts.
    """
    many = about_distinct(table)
    fitting = [name for name in columns if many[name] > 1]
    roles = {name: role_of(name) for name in fitting}
    by_size = sorted(fitting, key=lambda name: -many[name])
    doubtful = None
    for groups, number, is_named in _tries(roles, by_size):
        facts = _facts(table, groups, number, thresholds)
        if facts is None:
            continue
        found, (is_counted, is_one) = (*groups, number), facts
        is_named_so = is_named == 2 or roles[number] == "member"
        if is_one and ((is_named == 2 and len(groups) == 1) or (is_counted and is_named_so)):
            return Together(columns=found, is_sure=True)
        if is_counted and (is_one or is_named == 2):
            doubtful = doubtful or Together(columns=found, is_sure=False)
    only = [name for name in fitting if roles[name] == "group"]
    if doubtful is None:
        return None
    # Of several groups, a narrower one may be meant.
    is_sure = only == [doubtful.columns[0]] and roles[doubtful.columns[-1]] == "member"
    return replace(doubtful, is_sure=is_sure)


def _tries(
    roles: Mapping[str, Role], by_size: Sequence[str]
) -> Iterator[tuple[tuple[str, ...], str, int]]:
    """Columns of a group, the number in it, and how many of the two are named so: what is likely first."""
    groups = [name for name in roles if roles[name] == "group"][:MOST_GROUPS]
    numbers = [name for name in roles if roles[name] == "member"][:MOST_NUMBERS]
    for width in range(1, WIDEST + 1):
        yield from ((of, number, 2) for of, number in product(combinations(groups, width), numbers))
    others = [name for name in by_size if roles[name] == "none"]
    yield from (((of,), number, 1) for number in numbers for of in others[:MOST_GROUPS])
    counts = others[::-1][:MOST_NUMBERS]
    yield from (((of,), number, 1) for of in groups for number in counts)
    for of, number in product(others[:MOST_GROUPS], counts):
        if of != number:
            yield (of,), number, 0


def _facts(
    table: Table, groups: Sequence[str], number: str, thresholds: Thresholds
) -> tuple[bool, bool] | None:
    """Look at a group's columns and a number in it.

    Returns: Whether it counts from one, or zero, upwards in nearly every group, which are of several sizes; whether
    nearly every pair has one row, or its rows agree in what neither column tells. None: groups do not have several
    numbers each, or these do not occur in several groups.
    """
    cells = [table.columns[name] for name in (*groups, number)]
    group, both = joined_sql(cells[:-1]), joined_sql(cells)
    pairs = (
        f"SELECT {group} AS g, {cells[-1]} AS b, count(*) AS n FROM {table.name} "
        f"WHERE {both} IS NOT NULL GROUP BY ALL"
    )
    n_pairs, n_rows, n_alone, n_numbers, n_groups = table.row(
        "SELECT count(*), coalesce(sum(n), 0), coalesce(sum(n) FILTER (n = 1), 0), count(DISTINCT b), "
        f"count(DISTINCT g) FROM ({pairs})",
    )
    enough = thresholds.of("key", number, entity_name(tuple(groups)))
    if n_groups < enough or n_pairs < SEVERAL * max(n_groups, n_numbers):
        return None
    others = [name for name in table.columns if name not in (*groups, number)][:MOST_TOLD]
    names = {"\0group": group, "\0number": cells[-1], "\0both": both}  # no column is called so
    beside = replace(table, columns={name: table.columns[name] for name in others} | names)
    if agreed(beside, "\0number", others):
        return None  # it names somebody by itself
    share, is_varied = table.row(
        "SELECT avg(CAST(is_counted AS INTEGER)), min(k) < max(k) FROM (SELECT count(*) AS k, "
        "coalesce(min(v) IN (0, 1) AND max(v) - min(v) + 1 = count(*), false) AS is_counted "
        f"FROM (SELECT g, TRY_CAST(b AS BIGINT) AS v FROM ({pairs})) GROUP BY g)",
    )
    is_one = n_alone >= NEARLY_ALL * n_rows - max(enough - MEAN // 2, 0)
    if not is_one:
        told = {*agreed(beside, "\0both", others)} - {*agreed(beside, "\0group", others)}
        is_one = bool(told)
    return bool(is_varied) and share >= NEARLY_ALL, is_one


_DENSE = 0.2
"""Such a share of all combinations of values occurs at least: microdata of few columns repeat some instead."""
_REPEATED = 0.02
"""Such a share of the lines may repeat a combination, by mistake."""
_LEAST_MEAN = 2


def count_column_of(
    con: duckdb.DuckDBPyConnection, columns: Sequence[Column], place: str
) -> str | None:
    """The column that says for how many units each row of `source` stands; None: each row is one."""
    for column in columns:
        if column.value_type == "integer" and not WORDS["counts"].isdisjoint(words_of(column.name)):
            others = [
                c.name
                for c in columns
                if c.name != column.name and c.value_type not in ("real", "decimal")
            ]
            if others and _is_of_counts(con, column.name, others, place):
                return column.name
    return None


def _is_of_counts(
    con: duckdb.DuckDBPyConnection, name: str, others: Sequence[str], place: str
) -> bool:
    """Whether a column holds the counts of the combinations of all others."""
    if any(reads_like_an_identifier(other) != "none" for other in others):
        return False
    count, listed = f"TRY_CAST({quoted(name)} AS DOUBLE)", ", ".join(map(quoted, others))
    distinct = ", ".join(
        f"count(DISTINCT {quoted(c)}) + bool_or({quoted(c)} IS NULL)::INT" for c in others
    )
    n, total, is_whole, *values = fetch(
        con,
        f"SELECT count(*), sum({count}), bool_and(coalesce({count} = trunc({count}) AND {count} >= 0, false)), "
        f"{distinct} FROM source",
        place,
    )[0]
    # A column that tells all lines apart beside others is a name of what they are about.
    if not is_whole or total < _LEAST_MEAN * n or (len(others) > 1 and max(values) >= n):
        return False
    combinations = 1
    for number in values:
        combinations *= number
    if n < _DENSE * combinations:
        return False
    found = fetch(con, f"SELECT count(*) FROM (SELECT DISTINCT {listed} FROM source)", place)[0][0]
    return bool(n - found <= _REPEATED * n)


JUDGED_KINDS = ("category", "decimal", "integer", "real", "text")
WAYS_OUT = (
    "if it names whom to protect, name it in source.entities; if it is to be left out, say drop = true; "
    'if it is harmless, say release = "why", which the release will show'
)


def check_identifiers(
    ingested: Ingested,
    entities: Sequence[EntityColumn],
    published: Collection[str],
    thresholds: Thresholds,
) -> None:
    """Refuse tables of columns that look like identifiers."""
    shown = [column for column in ingested.columns if column.name in published]
    judged = judged_columns(shown, partial(_sample, ingested))
    if not judged:
        return
    columns = {name: f"nullif({cell}, {NULL_CODE})" for name, cell in ingested.sql_names.items()}
    found = suspects(encoded_table(ingested, entities, columns), judged, thresholds)
    if found:
        raise PrivacyError(
            "the tables hold what looks like identifiers:\n"
            + "\n".join(f"  columns.{name}: {why}" for name, why in found.items())
            + f"\nSay of each what it is: {WAYS_OUT}."
        )


def _sample(ingested: Ingested, column: Column, most: int) -> Sequence[Any]:
    """Distinct values of an encoded column."""
    values = ingested.dictionaries.get(column.name)
    if values is not None:
        return values[:: -(-len(values) // most)] if values else ()
    cell, spark = ingested.sql_names[column.name], ingested.spark
    of = ROWS_WITH_TOKENS if spark is None else spark.relations([(cell,)], ())[0]
    rows = fetch(
        ingested.con,
        f"SELECT c FROM (SELECT DISTINCT {cell} AS c FROM {of}) "
        f"WHERE c > {NULL_CODE + 1} ORDER BY hash(c) LIMIT {most}",
        "the source",
    )
    size = float(column.resolution.step) if column.resolution is not None else column.step
    return [int(code) * size for (code,) in rows]
