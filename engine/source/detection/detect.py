"""Detects what a spec must say of a source: kinds, resolutions, spellings of null, columns that name entities.

Takes a source; gives columns marked as detected and remarks in plain words, for `spec_text` to write or, from Python, a
spec at once. Runs in scratch space that is swept afterwards. Invariant: nothing here is a declaration: no column is
public and no domain set until a person says so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import duckdb

from engine.errors import DataError, SpecError
from engine.keys import MasterKey
from engine.progress import Progress, silent
from engine.schema import (
    DATE_KINDS,
    NUMBER_KINDS,
    Column,
    Entity,
    SourceSpec,
    as_entities,
    columns_of,
    entity_columns,
    entity_option,
    literal,
    quoted,
)
from engine.source.detection.column import NULLS, Look, look_at
from engine.source.detection.determined import MOST_COLUMNS, Table, determined
from engine.source.detection.identifiers import (
    Together,
    count_column_of,
    judged_columns,
    named_together,
    suspects,
)
from engine.source.detection.names import is_named_like_an_id
from engine.source.detection.profile import (
    NUMBER_PATTERN,
    Rows,
    people_sql,
    plain_cell,
    proposed_bound,
    proposed_bounds_of_values,
    who_sql,
)
from engine.source.detection.spec_text import Detection, toml
from engine.source.detection.thresholds import Thresholds, keyed_thresholds
from engine.source.detection.written import Written, with_plain_cells, written_columns
from engine.source.encoding import cell_class, cell_sql
from engine.source.forms.opened import open_source
from engine.source.forms.text import found_form
from engine.source.relation import Source
from engine.source.scratch import confidential_connection, scratch_directory
from engine.spec import knows_null, named_format, warning_of_many

_DATE = re.compile(r"[0-9]{1,4}([-/.])[0-9]{1,2}\1[0-9]{1,4}([T ].*)?")
_NO_HEADER = (
    "the first line looks like data, not names: it holds numbers or dates, or values that occur below it; "
    "if the file has no line of column names, write one"
)


def detect_source(
    path: str | Path,
    *,
    table: str | None = None,
    entities: tuple[Entity, ...] = (),
    key: MasterKey | None = None,
    count_column: str | None = None,
    progress: Progress | None = None,
) -> Detection:
    """Detect the columns of a file.

    count_column: See `SourceSpec`; None: a table of frequencies is refused.
    key: Decides the noisy thresholds, so that the same data gives the same spec. Without one they are drawn
        afresh and forgotten: two calls may differ where about ten entities decide.
    """
    source = replace(
        source_of(str(path), table), entities=as_entities(entities), count_column=count_column
    )
    return detect(source, thresholds=keyed_thresholds(key), progress=progress)


def source_of(path: str | None, table: str | None) -> SourceSpec:
    """A source of which no more than its file is said, and perhaps a table, or a sheet; a frame without a file."""
    if path is None:
        return SourceSpec(path=None, format="frame", table=table)
    form = named_format(path)
    is_workbook = form == "xlsx"
    return SourceSpec(
        path=path,
        format=form,
        table=None if is_workbook else table,
        sheet=table if is_workbook else None,
    )


def detect(
    source: SourceSpec,
    frame: Any = None,
    entities: tuple[Entity, ...] = (),
    *,
    thresholds: Thresholds,
    progress: Progress | None = None,
) -> Detection:
    """Detect the columns of a source."""
    source, of_form = found_form(replace(source, entities=as_entities(entities) or source.entities))
    with scratch_directory() as scratch:
        con = confidential_connection(scratch)
        try:
            opened = open_source(con, source, frame)
            detector = _Detector(con, source, opened, thresholds, progress or silent)
            return detector.detected(of_form)
        finally:
            con.close()


class _Detector:
    """Looks at an opened source, one question after the other."""

    def __init__(
        self,
        con: duckdb.DuckDBPyConnection,
        source: SourceSpec,
        opened: Source,
        thresholds: Thresholds,
        report: Progress,
    ) -> None:
        self.con, self.source, self.opened = con, source, opened
        self.thresholds, self.report = thresholds, report
        known = [e for e in source.entities if {*columns_of(e)} <= {*opened.columns} and e]
        every = Rows(con=con, thresholds=thresholds, n_rows=0, place=opened.place)
        ((n_rows,),) = every.fetch("SELECT count(*) FROM source")
        self.rows = replace(every, n_rows=int(n_rows), entities=tuple(known))
        self.is_headless = source.format == "csv" and self._first_line_is_data()
        missing = [name for name in source.entity_columns if name not in opened.columns]
        missing += ["''" for one in source.entities if not columns_of(one)]
        if missing:
            there = _NO_HEADER if self.is_headless else f"there are: {', '.join(opened.columns)}"
            raise SpecError([f"source.entities: no column {name}; {there}" for name in missing])
        self.remarks: list[str] = []
        self.candidates: tuple[Entity, ...] = ()
        self.columns: dict[str, Column] = {}
        self.suspects: dict[str, str] = {}

    @property
    def named(self) -> tuple[Entity, ...]:
        """The kinds of entities: those given, else what looks so."""
        return self.source.entities or self.candidates

    @property
    def published(self) -> list[str]:
        """The columns that do not name entities, nor look like it."""
        named = entity_columns((*self.source.entities, *self.candidates))
        return [name for name in self.columns if name not in named and name not in self.suspects]

    def detected(self, of_form: Sequence[str]) -> Detection:
        """What there is to say of the source; `of_form`: what is to be said of its form."""
        if self.is_headless:
            self.remarks.append(f"in doubt: {_NO_HEADER}")
        self.remarks += of_form
        texts = [name for name, sql_type in self._readable().items() if sql_type == "VARCHAR"]
        written = written_columns(self.rows, texts, delimiter=self.source.delimiter, nulls=NULLS)
        if written:  # from here on `source` shows them plainly
            with_plain_cells(self.con, self.opened.columns, written, self.opened.place)
        looks = self._looks(written)
        unreadable = self._unreadable(looks)
        self._find_candidates(looks)
        named = entity_columns(self.named)
        remarks = {name: look.remarks for name, look in looks.items() if look.remarks}
        for name, look in looks.items():
            column = (
                _as_entity(look.column) if name in named else _as_told(look.column, self.opened)
            )
            how = written.get(name)
            kinds = DATE_KINDS if how is not None and how.writing.date_format else NUMBER_KINDS
            if how is not None and column.value_type in kinds:
                guessed = ("century",) if how.writing.century else ()
                detected = (*column.detected, *guessed)
                column = replace(column, writing=how.writing, detected=detected)
                if how.doubt:
                    remarks[name] = (*remarks.get(name, ()), how.doubt)
            self.columns[name] = column
        if self.source.count_column is None and not self.named:
            self._refuse_counts()
        self._remark_nameless()
        self._find_suspects()
        max_rows = self._bound_rows()
        self._find_determined()
        self.remarks += self._of_width()
        return Detection(
            source=self.source,
            columns=tuple(self.columns.values()),
            entity_candidates=self.candidates,
            remarks=tuple(self.remarks),
            column_remarks=remarks,
            values={
                name: look.values
                for name, look in looks.items()
                if look.values and name not in named
            },
            max_rows=max_rows,
            unreadable=unreadable,
            suspects=self.suspects,
        )

    def _first_line_is_data(self) -> bool:
        """Whether a column name reads as a number or a date, or is a value of its column for enough entities."""
        names = self.opened.columns
        if any(re.fullmatch(NUMBER_PATTERN, n.strip()) or _DATE.fullmatch(n) for n in names):
            return True
        repeated = " OR ".join(f"{quoted(name)} = {literal(name)}" for name in names)
        people = people_sql([*map(who_sql, self.rows.entities)])
        ((n,),) = self.rows.fetch(f"SELECT {people} FROM source WHERE {repeated}")
        return int(n) >= self.thresholds.of("header", "")

    def _readable(self) -> dict[str, str]:
        """The columns of a type that can be read, with it."""
        return {
            name: sql_type
            for name, sql_type in self.opened.types.items()
            if name not in self.opened.unreadable and cell_class(sql_type) not in ("other", "blob")
        }

    def _looks(self, written: Mapping[str, Written]) -> dict[str, Look]:
        """Look at the columns that can be read, in the source's order."""
        types = self._readable()
        looks: dict[str, Look] = {}
        for block in self.rows.blocks(types):
            self.report("columns", len(looks), len(types))
            looks |= look_at(
                block,
                writings={name: of.writing for name, of in written.items()},
                knows_null=knows_null(self.source),
                labels=self.opened.labels.values,
            )
        return {name: looks[name] for name in self.opened.columns if name in looks}

    def _unreadable(self, looks: Mapping[str, Look]) -> dict[str, str]:
        """Why the other columns are left out; refused if one names entities, or none is left."""
        told, given = self.opened.unreadable, self.source.entity_columns
        reasons = {
            name: told.get(name, "is of a type that cannot be read")
            for name in self.opened.columns
            if name not in looks
        }
        lost = [name for name in given if name in reasons]
        if lost or not set(looks) - set(given):
            faults = [
                f"column {name!r}: {reasons[name]}; convert it to one type"
                for name in lost or reasons
            ]
            only = f"{self.opened.place}: has only columns that name entities"
            raise DataError("\n".join(faults) or only)
        self.remarks += [f"column {name!r} is left out: it {why}" for name, why in reasons.items()]
        return reasons

    def _table(self, names: Iterable[str], entities: Sequence[Entity] = ()) -> Table:
        """Columns of the source as it has them."""
        return Table(
            con=self.con,
            name="source",
            columns={name: plain_cell(name, self.opened.types[name]) for name in names},
            entities=tuple(map(who_sql, entities)),
        )

    def _find_candidates(self, looks: Mapping[str, Look]) -> None:
        """Columns that may name entities, alone or together, where nobody said which do.

        Of columns that were given as kinds of their own, where they are several, it is said if they name one together.
        """
        entities, given, together = self.source.entities, self.source.entity_columns, None
        alike = [one for one in entities if isinstance(one, str)]
        if not entities or len(alike) >= max(len(entities), 2):
            kinds = ("integer", "category", "text")
            judged = [name for name in alike or looks if looks[name].column.kind in kinds]
            together = named_together(self._table(looks), judged, self.thresholds)
        pair: tuple[str, ...] = ()
        if together is not None and together.is_sure and not given:
            pair = together.columns
        alone = [
            name
            for name, look in looks.items()
            if look.is_key and is_named_like_an_id(name) and name not in (*given, *pair)
        ]
        candidates: tuple[Entity, ...] = (pair, *alone) if pair else tuple(alone)
        if set(looks) - set(entity_columns(candidates)) - set(given):
            self.candidates = candidates
        else:
            alone = []
        if together is not None:
            self.remarks.append(_of_together(together, given))
        if alone and not given:
            listed = ", ".join(alone)
            self.remarks.append(f"in doubt: {listed} may name the entities; check entities below")
        elif not given and not self.candidates:
            self.remarks.append("no column names whom to protect: each row is taken for one entity")

    def _refuse_counts(self) -> None:
        """Refuse a table of frequencies, unless somebody said what its rows are."""
        counts = count_column_of(self.con, [*self.columns.values()], self.opened.place)
        if counts is not None:
            raise DataError(
                f"{self.opened.place}: looks like a table of frequencies: column {counts!r} counts, and each "
                "combination of the other columns occurs once. Its units want protection, not its rows: to read each "
                f"row as so many units, say --count-column {counts} (in [source] count_column = {toml(counts)}; of a "
                f"data frame, frame.loc[frame.index.repeat(frame[{counts!r}])]). If each row is one unit, say "
                '--count-column "" (of a data frame, entities=[])'
            )

    def _remark_nameless(self) -> None:
        """Say where a column that names entities names none in some rows: a build refuses that."""
        for name in (name for name in self.columns if name in entity_columns(self.named)):
            cell = cell_sql(self.columns[name], self.opened.types[name])
            if self.rows.fetch(f"SELECT 1 FROM source WHERE ({cell}) IS NULL LIMIT 1"):
                self.remarks.append(
                    f"column {name!r}: holds a null, which names nobody, and a build refuses it; give each row its "
                    "entity, or leave such rows out of the source"
                )

    def _find_suspects(self) -> None:
        """Leave out columns that look like identifiers and name no entities."""
        judged = judged_columns([self.columns[name] for name in self.published], self._sample)
        # Candidates may be declined: then each row is one.
        for entities in dict.fromkeys((self.named, self.source.entities)):
            self.suspects |= suspects(self._table(self.columns, entities), judged, self.thresholds)
        if self.suspects:
            left_out = ", ".join(self.suspects)
            self.remarks.append(
                f"left out of the tables, as identifiers may be: {left_out}; see each below"
            )

    def _sample(self, column: Column, most: int) -> Sequence[Any]:
        """Distinct values of a column of the source."""
        types = {"integer": "BIGINT", "real": "DOUBLE", "decimal": "DOUBLE"}
        cell = plain_cell(column.name, self.opened.types[column.name])
        value = f"TRY_CAST({cell} AS {types.get(column.value_type, 'VARCHAR')})"
        rows = self.rows.fetch(
            f"SELECT v FROM (SELECT DISTINCT {value} AS v FROM source) WHERE v IS NOT NULL "
            f"ORDER BY hash(v) LIMIT {most}"
        )
        return [v for (v,) in rows]

    def _detect(self, name: str, key: Literal["max_rows", "determines"], value: Any) -> None:
        """Note a setting of a column as detected."""
        column = self.columns[name]
        settings: dict[str, Any] = {key: value, "detected": (*column.detected, key)}
        self.columns[name] = replace(column, **settings)

    def _bound_rows(self) -> int | None:
        """How many rows of one entity are to count, also in a value of each column, where columns name entities."""
        if not self.named:
            return None
        rows = replace(self.rows, entities=self.named)
        most = proposed_bound(rows)
        for block in rows.blocks({name: self.opened.types[name] for name in self.published}):
            for name, bound in proposed_bounds_of_values(block, most).items():
                if bound < most:
                    self._detect(name, "max_rows", bound)
        return most

    def _find_determined(self) -> None:
        """Which columns determine which."""
        implied: dict[str, list[str]] = {}
        for finer, coarser in determined(
            self._table(self.published, self.named), self.thresholds, self.report
        ):
            # What is seen of values as written need not hold of coarser ones.
            if self.columns[finer].resolution is None:
                implied.setdefault(finer, []).append(coarser)
        for finer, coarser_ones in implied.items():
            self._detect(finer, "determines", tuple(coarser_ones))

    def _of_width(self) -> list[str]:
        """What is to be known of a source of many columns."""
        n = len(self.published)
        pairs = math.comb(n, 2)
        if n <= MOST_COLUMNS:
            warning = warning_of_many(pairs)
            return [f"every pair of {n} columns: {warning}"] if warning else []
        return [
            f"every pair of {n:,} columns would be {pairs:,} tables, so they are not asked for below; name the tables "
            'that people ask for (columns = ["...", "..."]), or the columns to combine (all = 2, of = ["...", "..."])',
            f"which columns determine each other is not looked for: there are more than {MOST_COLUMNS}",
        ]


def _of_together(together: Together, given: Sequence[str]) -> str:
    """What is understood of columns that name somebody together."""
    *groups, number = together.columns
    group, pair = " and ".join(groups), list(together.columns)
    start = f"in doubt: {number} seems to number somebody within {group}"
    if given:
        return (
            f"{start}, yet each is protected by itself, which multiplies the noise; if they name one entity together, "
            f"say --entity {entity_option(together.columns)}, or entities = {toml([pair])}"
        )
    if not together.is_sure:
        return f"{start}; if they name one entity together, say entities = {toml([pair])}"
    wider = groups[0] if len(groups) == 1 else groups
    return (
        f"{start}: they are taken to name one entity together; check entities below. To protect each {group} as a "
        f"whole too, with more noise: entities = {toml([pair, wider])}"
    )


def _as_told(column: Column, opened: Source) -> Column:
    """The column with the labels, and its values in the order, that the source has for them."""
    labels = opened.labels
    column = replace(
        column,
        label=labels.columns.get(column.name, ""),
        labels=tuple(labels.values.get(column.name, {}).items()),
    )
    order = opened.orders.get(column.name, ())
    if not order or column.kind != "category" or column.value_type != "text":
        return column
    values = tuple(v for v in order if v not in (*column.spellings, column.placeholder))
    return replace(column, domain=values, detected=(*column.detected, "domain"))


def _as_entity(column: Column) -> Column:
    """The column as a name of entities: a number or a text."""
    column = replace(column, nulls=tuple(dict.fromkeys((*column.spellings, ""))))
    if column.kind in ("integer", "text"):
        detected = tuple(key for key in column.detected if key != "resolution")
        return replace(column, resolution=None, detected=detected)
    is_number = column.value_type == "integer"
    return replace(
        column,
        kind="integer" if is_number else "text",
        value_type="integer" if is_number else "text",
        resolution=None,
        detected=("kind",),
    )
