"""Reading for evaluations: the original, and what is compared with it, a release or a synthetic table of any tool.

Takes paths or frames and a study; gives frames for `engine.evaluation.data.aligned.align`, and subjects. A source of
several files, a statement or any encoding is read as its spec declares it, so that what is evaluated is what was
released. The original says what kind of values a column has, by all of them (or the release that is evaluated does);
synthetic tables follow: other tools write 1.0 for 1, and nan for a blank. Numbers are floats, times datetimes, texts
categoricals, which are coded without touching a row twice. Invariants: what is left out of a table is in its notes;
nothing is guessed from a sample of the rows; no message repeats what DuckDB said: it may hold a value of the data.
Rows of the original are CONFIDENTIAL: copies and spills lie in the scratch folder alone.
"""

from __future__ import annotations

import glob
import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, cast

import duckdb
import numpy as np
import pandas as pd
import xxhash

import engine.store.manifest
import engine.store.opening
from engine.errors import DamagedRelease, DataError, StoreError
from engine.evaluation.data.aligned import Distinct, Reading, distinct, listed
from engine.periods import PERIODS
from engine.schema import (
    NUMBER_KINDS,
    Column,
    ColumnKind,
    ColumnSet,
    Entity,
    Resolution,
    SourceSpec,
    ValueType,
    Writing,
    as_entities,
    column_set,
    entity_columns,
    entity_name,
    literal,
    quoted,
)
from engine.source import (
    cell_sql,
    check_names,
    code_sql,
    confidential_connection,
    csv_shape,
    fetch,
    memory_connection,
    open_source,
    register_frame,
    scratch_directory,
    value_sql,
)
from engine.source.detection import source_of
from engine.source.forms.text import found_form
from engine.source.ingest import add_levels
from engine.spec import SUFFIXES, ReleaseSpec, format_of, writing_problems
from engine.store import HIDDEN_WORDS, GeneratorCard, count_names, manifest_path, swap_sentences
from engine.units import Unit, unit_from_json

# The original as its spec declares it


_SHAPED = "declared_rows"


@dataclass(frozen=True, kw_only=True, slots=True)
class Declared:
    source: SourceSpec
    columns: tuple[Column, ...]  # Those whose numbers or dates are not written plainly


def data_of(spec: ReleaseSpec, data: Any = None) -> Any:
    """What is to be read: what is given, or, where that is nothing or a file of the spec's source, this as it says."""
    source = spec.source
    if data is not None:
        named = [Path(f).resolve() for p in source.paths for f in (p, *glob.glob(p))]
        if not isinstance(data, str | Path) or Path(data).resolve() not in named:
            return data
    if source.path is None and not source.sql:
        return data
    written = tuple(c for c in spec.columns if c.writing != Writing())
    return Declared(source=source, columns=written)


def write_plainly(
    con: duckdb.DuckDBPyConnection, declared: Sequence[Column], types: dict[str, str], place: str
) -> list[str]:
    """Put the numbers and dates that the cells of `source` say in their place, and change their types accordingly."""
    columns = [c for c in declared if types.get(c.name) == "VARCHAR" and c.writing != Writing()]
    if not columns:
        return []
    cells = {c.name: cell_sql(c, "VARCHAR") for c in columns}
    values = {c.name: value_sql(c, "VARCHAR", cells[c.name]) for c in columns}
    odd = ", ".join(
        f"count(*) FILTER (({cells[name]}) IS NOT NULL AND ({value}) IS NULL)"
        for name, value in values.items()
    )
    counts = fetch(con, f"SELECT {odd} FROM source", place)[0]
    wrong = [name for name, n in zip(values, counts, strict=True) if n]
    fitting = {name: value for name, value in values.items() if name not in wrong}
    if not fitting:
        return wrong
    put = ", ".join(f"({value}) AS {quoted(name)}" for name, value in fitting.items())
    fetch(con, f"CREATE TABLE {_SHAPED} AS SELECT * REPLACE ({put}) FROM source", place)
    is_view = fetch(con, "SELECT 1 FROM duckdb_views() WHERE view_name = 'source'", place)
    fetch(con, f"DROP {'VIEW' if is_view else 'TABLE'} source", place)
    fetch(con, f"ALTER TABLE {_SHAPED} RENAME TO source", place)
    described = {str(row[0]): str(row[1]) for row in fetch(con, "DESCRIBE source", place)}
    types |= {name: described[name] for name in fitting}
    return wrong


# Whatever holds rows, as a relation named `source`


INDEX = "Unnamed: 0"
"""What pandas calls an index that was written without a name."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Relation:
    con: duckdb.DuckDBPyConnection  # Holds the relation `source`
    # DuckDB type of each column that can be read; VARCHAR for every column of a text file.
    types: dict[str, str]
    place: str  # What it is, for messages
    notes: tuple[str, ...] = ()  # Columns that were left out, and why


@contextmanager
def opened(
    what: Any,
    *,
    name: str = "the data frame",
    table: str | None = None,
    written: Sequence[Column] = (),
) -> Iterator[Relation]:
    """Open rows for reading; they are closed at the end of the block.

    written: Columns of a release, which says how texts were read: those whose cells all are written so are read so.
    """
    remarks: tuple[str, ...] = ()
    if isinstance(what, str | Path):
        name, form = str(what), form_of_file(Path(what))
        if form == "duckdb" and manifest_path(Path(name)).exists():
            raise DataError(f"{name}: is a release, not the rows of a table")
        source = source_of(name, table)
        if form == "csv":
            source, remarks = found_form(source)
        what = Declared(source=source, columns=())
        is_plain = form == "csv" and not (source.encoding or source.skip)
        shape = csv_shape(Path(name)) if is_plain else None
        if shape is not None and not shape.names[0].strip() and INDEX not in shape.names:
            # An index of other tools: pandas names it, and would rename others.
            check_names(shape.names[1:], name)
            how: dict[str, Any] = {"dtype": str, "keep_default_na": False, "na_values": [""]}
            with suppress(ValueError):
                what = pd.read_csv(name, sep=shape.delimiter, **how)
    with ExitStack() as stack:
        if isinstance(what, Declared):
            scratch = stack.enter_context(scratch_directory())
            con = stack.enter_context(confidential_connection(scratch))
            found = add_levels(con, open_source(con, what.source), what.columns)
            types, place, bad = dict(found.types), found.place, found.unreadable
            if wrong := write_plainly(con, what.columns, types, place):
                raise DataError(
                    f"{place}: {', '.join(wrong)}: cells that are not written as the spec says (decimal, thousands, "
                    "date_format)"
                )
        else:
            con, place = stack.enter_context(memory_connection()), name
            prepared = register_frame(con, what)
            check_names(prepared.columns, place)
            fetch(con, "CREATE TEMP VIEW source AS SELECT * FROM frame", place)
            described = fetch(con, "DESCRIBE source", place)
            types, bad = {str(row[0]): str(row[1]) for row in described}, prepared.unreadable
        if not fetch(con, "SELECT 1 FROM source LIMIT 1", place):
            raise DataError(f"{place}: has no rows")
        write_plainly(con, written, types, place)
        notes = [*remarks, *(f"{column}: {why}; left out" for column, why in bad.items())]
        if next(iter(types)) == INDEX and len(types) > 1:
            notes.append(
                "its first column is an index without a name, as other tools write it; left out"
            )
            del types[INDEX]
        usable = {c: t for c, t in types.items() if c not in bad}
        yield Relation(con=con, types=usable, place=place, notes=tuple(notes))


def form_of_file(path: Path) -> str:
    if not path.exists():
        raise StoreError(f"{path}: there is no such file")
    if not path.is_file():
        raise StoreError(f"{path}: is not a file; name one file")
    form = format_of(str(path))
    if form is None:
        raise StoreError(f"{path}: is read by its ending, which is none of {', '.join(SUFFIXES)}")
    if path.stat().st_size == 0:
        raise DataError(f"{path}: the file is empty")
    return form


# Columns of a release: what a value is, on which grid, and what stands for rare ones


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleasedColumn:
    sql_type: str  # Of its values
    # Its name, kind, resolution and placeholder; as `writing` and `nulls` how it was read from the source, but for
    # spellings of null that are values of the release.
    column: Column
    prefixes: tuple[str, ...] = ()  # Those that stand for hidden values, as they are shown


def columns_in(con: duckdb.DuckDBPyConnection) -> dict[str, ReleasedColumn]:
    listed = con.execute(
        "SELECT name, sql_type, kind, value_type, placeholder, resolution, null_spelling "
        "FROM catalog.columns ORDER BY position"
    ).fetchall()
    # How columns were read from the source, as the cards say it, which may be anybody's.
    stated: dict[str, Mapping[str, Any]] = {}
    cards = con.execute("SELECT columns, card FROM catalog.tables ORDER BY width").fetchall()
    for columns, card in cards:
        if not stated.keys() >= set(columns):
            stated |= GeneratorCard.from_json(card).written
    keys = [key.name for key in fields(Writing)]
    writings = {c: Writing(**{k: of[k] for k in keys if k in of}) for c, of in stated.items()}
    if any(writing_problems(writing, "card") for writing in writings.values()):
        raise DamagedRelease("a card of the release was not written by tablepack")
    # How columns spell a blank, as the cards say or, where they do not, as the release writes it; but never as one of
    # their values: typed files (Parquet) have blanks of their own, and the spelling may be a value that is shown.
    nulls = {
        name: stated[name].get("nulls", ("",)) if name in stated else (blank, "")
        for name, *_, blank in listed
    }
    pairs = [(name, text) for name, texts in nulls.items() for text in dict.fromkeys(texts)]
    shown = con.execute(
        "SELECT s.name, s.text FROM (SELECT unnest(?::VARCHAR[]) AS name, unnest(?::VARCHAR[]) AS text) AS s "
        "JOIN catalog.codes AS v ON v.column_name = s.name AND v.kind <> 'null' AND (v.value = s.text OR "
        "TRY_CAST(v.value AS DOUBLE) = TRY_CAST(s.text AS DOUBLE))",
        [[name for name, _ in pairs], [text for _, text in pairs]],
    ).fetchall()
    prefixes: dict[str, list[str]] = {}
    for name, text in con.execute(
        "SELECT column_name, value FROM catalog.codes WHERE list_contains(?, kind)",
        [[*HIDDEN_WORDS]],
    ).fetchall():
        prefixes.setdefault(name, []).append(text)
    return {
        name: ReleasedColumn(
            sql_type=sql_type,
            prefixes=tuple(prefixes.get(name, ())),
            column=Column(
                name=name,
                kind=cast(ColumnKind, kind),
                value_type=cast(ValueType, value_type),
                placeholder=placeholder,
                resolution=None if step is None else Resolution.read(step),
                nulls=tuple(t for c, t in pairs if c == name and (c, t) not in set(shown)),
                writing=writings.get(name, Writing()),
            ),
        )
        for name, sql_type, kind, value_type, placeholder, step, _ in listed
    }


def on_grid_sql(column: Column, value: str) -> str:
    """SQL that puts a number or time on a column's grid, as a build does; unchanged where there is no grid."""
    step = column.resolution
    if step is not None and step.period:
        return f"CAST(date_trunc({literal(step.period)}, {value}) AS TIMESTAMP)"
    if column.kind == "timestamp":
        code = code_sql(column, "TIMESTAMP", value)
        return f"coalesce(make_timestamp(({code}) * 1000000), {value})"
    if column.kind not in NUMBER_KINDS or step is None:
        return value
    code, scale = code_sql(column, "DOUBLE", value), step.base ** abs(step.exponent)
    factor = f"CAST({float(scale)!r} AS DOUBLE)"
    # A quotient of two whole numbers that floats hold is rounded correctly, as a release's value is.
    number = f"CAST(({code}) AS DOUBLE) {'/' if step.exponent < 0 else '*'} {factor}"
    return f"coalesce({number}, {value})"


# What a release says of itself: PUBLIC


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """A release in its own words."""

    title: str
    vintage: str
    mode: str
    key_id: str
    version: str
    # unit, entity: What a row is, and whom the release protects.
    unit: Unit
    entity: Unit
    privacy: Mapping[str, Any]  # Parameters, as plain values
    detected: Mapping[str, tuple[str, ...]]  # Column -> settings that were found in the data
    is_reviewed: bool  # A person says that these were looked at
    notes: tuple[str, ...]  # Sentences about this release alone
    # Mode sticky: the most exposed groups, as its catalogue lists them.
    groups: tuple[Mapping[str, Any], ...] = ()
    # Columns of the source of whose values each counts once: that of the entities, and of `each`; none
    # where rows count.
    counted: tuple[Entity, ...] = ()


def facts_of(con: duckdb.DuckDBPyConnection) -> Facts:
    row = con.execute(
        "SELECT title, vintage, mode, key_id, engine_version, unit, entity, privacy, reviewed FROM catalog.release"
    ).fetchone()
    found = con.execute("SELECT name, detected FROM catalog.columns ORDER BY position").fetchall()
    notes = con.execute(
        "SELECT note FROM catalog.notes WHERE topic = 'release' ORDER BY position"
    ).fetchall()
    groups: list[Mapping[str, Any]] = []
    has_groups = "SELECT 1 FROM information_schema.tables WHERE table_schema = 'catalog' AND table_name = 'exposure'"
    if row is not None and row[2] == "sticky" and con.execute(has_groups).fetchone():
        exposed = con.execute("FROM catalog.exposure")
        names = [column[0] for column in exposed.description]
        groups = [dict(zip(names, values, strict=True)) for values in exposed.fetchall()]
    try:
        title, vintage, mode, key_id, version, unit, entity, privacy, is_reviewed = row or ()
        counted = json.loads(privacy).get("counted") or {"by": None, "each": None}
        entities = [counted[key] for key in ("by", "each") if counted[key] is not None]
        return Facts(
            title=title or "",
            vintage=vintage,
            mode=mode,
            key_id=key_id,
            version=version,
            unit=unit_from_json(unit),
            entity=unit_from_json(entity),
            privacy=dict(json.loads(privacy)),
            counted=as_entities(entities),
            detected={name: tuple(settings) for name, settings in found if settings},
            is_reviewed=bool(is_reviewed),
            notes=tuple(note for (note,) in notes),
            groups=tuple(groups),
        )
    except (ValueError, TypeError, AttributeError, KeyError):
        raise DamagedRelease(
            "what the release says of itself is not what tablepack wrote"
        ) from None


# What the values of a column are: numbers, times or texts


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
    if pd.api.types.is_datetime64_any_dtype(column):
        return "time"
    if pd.api.types.is_bool_dtype(column) or pd.api.types.is_numeric_dtype(column):
        return "number"
    is_truth = pd.api.types.infer_dtype(column, skipna=True) == "boolean"
    return "number" if column.dtype == object and is_truth else "text"


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
    """Read columns as their kinds say."""
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
            # What spells a blank is left as it is, for it is looked for later.
            snapped = on_grid_sql(known[name], value)
            if kind == ("time" if known[name].kind in PERIODS else "number"):
                numbers = [] if kind == "time" else filter(is_number, spelled[name])
                blanks = ", ".join(repr(float(n)) for n in numbers)
                kept = f"CASE WHEN {value} IN ({blanks}) THEN {value} ELSE {snapped} END"
                value = kept if blanks and snapped != value else snapped
        listed.append(f"{value} AS {quoted(name)}")
    frame = None
    with suppress(duckdb.Error, MemoryError):
        frame = relation.con.execute(f"SELECT {', '.join(listed)} FROM source").df()
    if (
        frame is None
    ):  # raised here: the new error must not carry the old one, which may quote the data
        raise DataError(f"{relation.place}: cannot be read; it may be too large for memory")
    for name, kind in kinds.items():
        if kind == "number":  # without those that spell a blank, and without infinite ones
            values = frame[name].to_numpy(np.float64)
            no_values = [float(n) for n in spelled[name] if is_number(n)]
            is_blank = ~np.isfinite(values) | np.isin(values, no_values)
            frame[name] = pd.Series(np.where(is_blank, np.nan, values), name=name)
    return frame


def like_texts(column: pd.Series, original: pd.Series) -> pd.Series:
    """Spell texts as the original does: without a needless .0, or with it; usual spellings of a blank are blanks.

    original: Texts; what it has is never changed.
    """
    is_listed = isinstance(original.dtype, pd.CategoricalDtype)
    known = set(map(str, original.cat.categories if is_listed else original.dropna().unique()))
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
    if text in known:
        return text
    if (short := _NEEDLESS.sub(r"\1", text)) in known:
        return short
    if f"{text}.0" in known:
        return f"{text}.0"
    return None if text.strip().lower() in USUAL_BLANKS else text


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
        value = _text_sql(name, relation.types[name], ("", *nulls))
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
    if kind == "text":
        return _text_sql(name, sql_type, nulls)
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


def _text_sql(name: str, sql_type: str, nulls: Sequence[str]) -> str:
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
    return f"(DATE '1970-01-01' + {clock})"


def _time(value: str, sql_type: str = "VARCHAR") -> str:
    """SQL that reads a cell as a moment; NULL where it is none."""
    clock = moment_of_clock(value_sql(_CLOCK, sql_type, value))
    time = clock if sql_type in _CLOCKS else f"TRY_CAST({value} AS TIMESTAMP)"
    if kind_of_type(sql_type) == "text":
        time = f"coalesce({time}, {clock})"
    return f"CASE WHEN isfinite({time}) THEN {time} END"


def is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def _usual_note(names: Sequence[str]) -> list[str]:
    meaning = "nan, NA, None, infinite numbers and the like are read as blanks"
    return [f"{', '.join(names)}: {meaning}"] if names else []


# Reading


_NAMED = 8
_FEW_TEXTS = 2_000
"""Texts of a column that are listed as a type, at most: every table that is read then has them all."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Subject:
    name: str  # For people; unique within an evaluation
    kind: Literal["release", "table"]  # "release" or "table"
    tables: Mapping[ColumnSet, Distinct]  # One for a synthetic table; all of a release
    content_hash: str  # Of a release, as its manifest has it; of a table xxh3-128 of the file
    # Cards of a release's tables, as stored.
    cards: Mapping[ColumnSet, Mapping[str, Any]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # What was left out in reading, and why
    facts: Facts | None = None  # What a release says of itself
    # What stands for the rare values of a release's columns of texts: the placeholder, and prefixes.
    placeholders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Released:
    """A release as it is read for an evaluation, in one opening."""

    tables: dict[ColumnSet, Distinct]
    cards: dict[ColumnSet, Mapping[str, Any]]
    columns: dict[str, ReleasedColumn]  # Every column
    content_hash: str
    facts: Facts
    # labels, value_labels: What columns, and their values as text, are called.
    labels: dict[str, str]
    value_labels: dict[str, dict[str, str]]


def is_release(what: Any) -> bool:
    return isinstance(what, str | Path) and engine.store.manifest.manifest_path(Path(what)).exists()


def read_release(path: Path) -> Released:
    """Read all tables of a release, with their cards."""
    con, record = engine.store.opening.open_release(path, counts=True)
    tables, cards = {}, {}
    with con:
        listed = con.execute(
            "SELECT columns, physical, card FROM catalog.tables ORDER BY width, name"
        ).fetchall()
        known, facts = columns_in(con), facts_of(con)
        named = "SELECT name, label FROM catalog.columns WHERE label <> ''"
        labels = dict(con.execute(named).fetchall())
        value_labels: dict[str, dict[str, str]] = {}
        for name, value, label in con.execute(
            "SELECT column_name, coalesce(value, ''), label FROM catalog.codes WHERE label <> ''"
        ).fetchall():
            value_labels.setdefault(name, {})[value] = label
        clocks = [c for c, one in known.items() if one.sql_type == "TIME"]
        texts = _text_types(con, known, {physical: names for names, physical, _ in listed})
        for names, physical, card in listed:
            columns = column_set(names)
            # Texts as their types, and times of day as moments of one day.
            cells = {c: f"CAST({quoted(c)} AS {of_type})" for c, of_type in texts.items()}
            cells |= {c: moment_of_clock(quoted(c)) for c in clocks}
            typed = ", ".join(f"{cells[c]} AS {quoted(c)}" for c in columns if c in cells)
            put = f"REPLACE ({typed})" if typed else ""
            frame = con.execute(f"SELECT * {put} FROM tables.{quoted(physical)}").df()
            count, measured = (frame.pop(name) for name in count_names(columns))
            tables[columns] = Distinct(
                frame=frame if tuple(frame) == columns else frame[list(columns)],
                n=count.to_numpy(np.int64),
                measured=measured.to_numpy(np.bool_),
            )
            if GeneratorCard.from_json(card).columns != columns:  # refuses what is no card, too
                raise DamagedRelease(f"{path}: a card is that of another table")
            cards[columns] = json.loads(card)
    return Released(
        tables=tables,
        cards=cards,
        columns=known,
        content_hash=record.content_hash,
        facts=facts,
        labels=labels,
        value_labels=value_labels,
    )


def released_columns(path: Path) -> dict[str, ReleasedColumn]:
    con, _ = engine.store.opening.open_release(path)
    with con:
        return columns_in(con)


def _text_types(
    con: duckdb.DuckDBPyConnection,
    known: Mapping[str, ReleasedColumn],
    tables: Mapping[str, Sequence[str]],
) -> dict[str, str]:
    """Types that list the values of columns of texts, where they are few: texts are then read once, not once a row."""
    found: dict[str, str] = {}
    for name in [c for c, one in known.items() if one.sql_type == "VARCHAR"]:
        parts = [
            f"SELECT DISTINCT {quoted(name)} AS text FROM tables.{quoted(physical)}"
            for physical, columns in tables.items()
            if name in columns
        ]
        if not parts:
            continue
        every = f"SELECT DISTINCT text FROM ({' UNION ALL '.join(parts)}) WHERE text IS NOT NULL"
        texts = [t for (t,) in con.execute(f"{every} LIMIT {_FEW_TEXTS + 1}").fetchall()]
        if 0 < len(texts) <= _FEW_TEXTS:
            found[name] = f"memory.main.texts_{len(found)}"
            listed = ", ".join(map(literal, sorted(texts)))
            con.execute(f"CREATE TYPE {found[name]} AS ENUM ({listed})")
    return found


def read_original(
    what: Any,
    reading: Reading,
    *,
    like: Mapping[str, ReleasedColumn] | None = None,
    table: str | None = None,
) -> pd.DataFrame:
    """Read the original: numbers and truth values as floats, times as datetimes, texts as categoricals.

    what: CSV (may be gzipped), Parquet or DuckDB file; or a source that is read as its spec says.
    reading: Says how blanks are spelled, and which columns are texts whatever their values look like.
    like: Columns of a release: their types decide, and values are put on their grids, as its build did. Else
        a column is what all of its values are.

    Returns: `attrs` has `place`, what it is for messages, `notes`, what was left out (see `notes_of`), and
    `grids`, the columns of `like`.
    """
    written = [one.column for one in (like or {}).values()]
    with opened(what, name="the data", table=table, written=written) as relation:
        kinds, notes = kinds_of(relation, nulls=reading.nulls, texts=reading.texts)
        # Columns of a release whose values look like another kind: they must be of the release's.
        wrong = []
        for column, one in (like or {}).items():
            kind = kind_of_type(one.sql_type)
            if column in kinds and kind not in (None, kinds[column]):
                nulls = (*reading.nulls, *one.column.spellings)
                fitting = fitting_kinds(relation, {column: kind}, nulls=nulls)[0]
                kinds |= fitting
                wrong += [column] * (not fitting)
        if wrong:
            raise DataError(
                f"{relation.place}: {listed(wrong, most=_NAMED)}: the values are not of the release's types; "
                "check that it is made from these data, and how numbers, dates and blanks are written: the spec of the "
                "release (--spec) says it"
            )
        grids = {c: one.column for c, one in (like or {}).items()}
        frame = _frame(relation, kinds, reading, grids)
        all_notes = (*relation.notes, *notes)
        frame.attrs = {"place": relation.place, "notes": all_notes, "grids": grids}
    return frame


def notes_of(original: pd.DataFrame) -> tuple[str, ...]:
    return tuple(original.attrs.get("notes", ()))


def read_like(
    what: Any,
    original: pd.DataFrame,
    reading: Reading,
    *,
    name: str = "the table",
    is_control: bool = False,
) -> pd.DataFrame:
    """Read other rows, synthetic ones or control rows, with the kinds of the original and on its grids."""
    wanted: dict[str, Kind] = {str(c): kind_of_column(original[c]) for c in original.columns}
    written = list(original.attrs.get("grids", {}).values()) if is_control else []
    with opened(what, name=name, written=written) as relation:
        kinds, notes = fitting_kinds(relation, wanted, nulls=reading.nulls)
        lacking = _lacking(list(relation.types), list(wanted))
        if not kinds:
            place = original.attrs.get("place", "the data")
            message = "; ".join(
                [f"{relation.place} and {place} have no usable column in common", *notes]
            )
            raise DataError(message if notes else "; ".join([message, *lacking]))
        frame = _frame(relation, kinds, reading, original.attrs.get("grids", {}))
    for column, kind in kinds.items():
        if kind == "text":
            frame[column] = like_texts(frame[column], original[column])
    frame.attrs = {"place": relation.place, "notes": (*relation.notes, *lacking, *notes)}
    return frame


def read_subject(
    what: Any,
    original: pd.DataFrame,
    reading: Reading,
    name: str,
    *,
    released: Released | None = None,
) -> Subject:
    """Read a release, or a synthetic table of any tool, for an evaluation against its original."""
    if is_release(what):
        path = Path(what)
        return _release(path, released or read_release(path), original, name)
    if isinstance(what, str | Path):
        path = Path(what)
        if form_of_file(path) == "duckdb":
            lacks = engine.store.manifest.manifest_path(path).name
            raise StoreError(
                f"{path}: is no release, as {lacks} is not beside it; "
                "a table of a DuckDB file is read once it is written to Parquet or CSV"
            )
    frame = read_like(what, original, reading, name=name)
    content_hash = hash_of(what if isinstance(what, str | Path) else frame)
    return Subject(
        name=name,
        kind="table",
        tables={column_set(list(frame.columns)): distinct(frame)},
        content_hash=content_hash,
        notes=notes_of(frame),
    )


def hash_of(what: str | Path | pd.DataFrame) -> str:
    """Return the xxh3-128 of a file, or of names and values, hex, so that a report says what it is about."""
    if not isinstance(what, pd.DataFrame):
        with Path(what).open("rb") as file:
            return hashlib.file_digest(file, xxhash.xxh3_128).hexdigest()
    digest = xxhash.xxh3_128(json.dumps(list(map(str, what.columns))).encode())
    for name in what.columns:
        hashed = pd.util.hash_pandas_object(what[name], index=False)
        digest.update(hashed.to_numpy("<u8").tobytes())
    return digest.hexdigest()


def _release(path: Path, release: Released, original: pd.DataFrame, name: str) -> Subject:
    """A release as a subject; tables with columns that the original lacks, or has in another kind, are left out."""
    kinds = {c: kind_of_type(one.sql_type) for c, one in release.columns.items()}
    has = {str(c): kind_of_column(original[c]) for c in original.columns}
    shown = sorted({c for columns in release.tables for c in columns})
    notes = _lacking(shown, [c for c in has if c in kinds])
    other = [c for c in shown if c in has and kinds[c] != has[c] and original[c].notna().any()]
    notes += [f"{c}: of another type than in the data" for c in other]
    usable = {c for c in shown if c in has and c not in other}
    tables = {columns: t for columns, t in release.tables.items() if usable >= set(columns)}
    if not any(len(t.n) for t in tables.values()):
        place = original.attrs.get("place", "the data")
        raise DataError("; ".join([f"{path} and {place} have no table in common", *notes]))
    missing = [c for c in shown if c not in original.columns]
    if 2 * len(missing) > len(shown):  # what is left is hardly what it was made from
        raise DataError(
            f"{original.attrs.get('place', 'the data')} lacks {len(missing)} of the {len(shown)} columns of {path}: "
            f"{listed(missing, most=_NAMED)}; give the data that it was made from, with half of its columns at least "
            "(others are left out, and a note says so)"
        )
    _refuse_rows(path, release.facts.counted, original)
    if len(tables) < len(release.tables):
        n = len(release.tables) - len(tables)
        which = "1 table with such columns is" if n == 1 else f"{n} tables with such columns are"
        notes.append(f"{which} left out; --spec reads the data as the release's spec says")
    swapped = [card["swap"] for card in release.cards.values() if card.get("swap")]
    notes += swap_sentences(swapped[0]) if swapped else []
    return Subject(
        name=name,
        kind="release",
        tables=tables,
        content_hash=release.content_hash,
        cards={columns: release.cards[columns] for columns in tables},
        notes=tuple(notes),
        facts=release.facts,
        placeholders={
            c: texts
            for c, one in release.columns.items()
            if (texts := tuple(t for t in (one.column.placeholder, *one.prefixes) if t is not None))
        },
    )


def _refuse_rows(path: Path, counted: tuple[Entity, ...], original: pd.DataFrame) -> None:
    """Refuse data of several rows an entity for a release that counts each once."""
    if not counted:
        return
    place = original.attrs.get("place", "the data")
    names = entity_columns(counted)
    wanted = f"give as data one row for each {' and '.join(names)}, with what the tables show"
    counts_once = f"{path} counts each {entity_name(counted[0])} once" + "".join(
        f" in each {entity_name(c)}" for c in counted[1:]
    )
    if missing := [name for name in names if name not in original.columns]:
        lacking = ", ".join(missing)
        raise DataError(
            f"{counts_once}, and {place} has no column {lacking}: whether it does, too, is not known; {wanted}, "
            f"and the column {lacking}"
        )
    if original.duplicated(list(names)).any():
        raise DataError(f"{counts_once}, but {place} has several rows of some: {wanted}")


def _frame(
    relation: Relation, kinds: Mapping[str, Kind], reading: Reading, grids: Mapping[str, Column]
) -> pd.DataFrame:
    """Read columns; there must be one."""
    if not kinds:
        raise DataError(f"{relation.place}: has no column that can be evaluated")
    return read_kinds(relation, kinds, nulls=reading.nulls, grids=grids)


def _lacking(here: Sequence[str], original: Sequence[str]) -> list[str]:
    """Say which columns one side lacks, and which may be meant."""
    notes = []
    strange = [c for c in here if c not in original]
    missing = [c for c in original if c not in here]
    if strange:
        notes.append(f"the data has no {listed(strange, most=_NAMED)}: left out")
    if missing:
        notes.append(f"it has no {listed(missing, most=_NAMED)}: not evaluated")
    plain = {c.strip().casefold(): c for c in missing}
    for name in strange:
        if meant := plain.get(name.strip().casefold()):
            notes.append(f"{name!r} is not {meant!r}: capital letters and blanks in names count")
    return notes
