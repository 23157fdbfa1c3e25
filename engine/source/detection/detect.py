"""Detects what a spec must say of a source: kinds, resolutions, spellings of null, columns that name entities.

Takes a source; gives columns marked as detected and remarks in plain words, for `spec_text` to write or, from Python, a
spec at once. Runs in scratch space that is swept afterwards. Invariant: nothing here is a declaration: no column is
public and no domain set until a person says so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

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
    Judged,
    Together,
    count_column_of,
    may_be_suspect,
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
            detection = detector.detected()
        finally:
            con.close()
    first = (f"in doubt: {_NO_HEADER}",) if detector.is_headless else ()
    remarks = (*first, *of_form, *detection.remarks, *_of_width(detection))
    return replace(detection, remarks=remarks)


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

    def detected(self) -> Detection:
        """What there is to say of the source."""
        written = self._written()
        looks = self._looks(written)
        together = self._together(looks)
        detection = _as_written(_detection(self.source, self.opened, looks, together), written)
        is_counted = self.source.count_column is not None
        if not (is_counted or self.source.entities or detection.entity_candidates):
            self._refuse_counts(detection)
        for step in (
            self._with_nameless,
            self._with_suspects,
            self._with_bounds,
            self._with_determined,
        ):
            detection = step(detection)
        return detection

    def _first_line_is_data(self) -> bool:
        """Whether a column name reads as a number or a date, or is a value of its column for enough entities."""
        names = self.opened.columns
        if any(re.fullmatch(NUMBER_PATTERN, n.strip()) or _DATE.fullmatch(n) for n in names):
            return True
        repeated = " OR ".join(f"{quoted(name)} = {literal(name)}" for name in names)
        people = people_sql([*map(who_sql, self.rows.entities)])
        ((n,),) = self.rows.fetch(f"SELECT {people} FROM source WHERE {repeated}")
        return int(n) >= self.thresholds.of("header", "")

    def _written(self) -> dict[str, Written]:
        """How columns are written that are not written plainly; from here on `source` shows them plainly."""
        texts = [
            name
            for name, sql_type in self.opened.types.items()
            if sql_type == "VARCHAR" and name not in self.opened.unreadable
        ]
        found = written_columns(self.rows, texts, delimiter=self.source.delimiter, nulls=NULLS)
        if found:
            with_plain_cells(self.con, self.opened.columns, found, self.opened.place)
        return found

    def _looks(self, written: Mapping[str, Written]) -> dict[str, Look]:
        """Look at the columns of a type that can be read, in the source's order."""
        types = {
            name: sql_type
            for name, sql_type in self.opened.types.items()
            if name not in self.opened.unreadable and cell_class(sql_type) not in ("other", "blob")
        }
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

    def _table(self, names: Sequence[str], entities: Sequence[Entity] = ()) -> Table:
        """Columns of the source as it has them."""
        return Table(
            con=self.con,
            name="source",
            columns={name: plain_cell(name, self.opened.types[name]) for name in names},
            entities=tuple(map(who_sql, entities)),
        )

    def _together(self, looks: Mapping[str, Look]) -> Together | None:
        """Columns that name somebody together; of those given as kinds of their own, where they are several."""
        entities = self.source.entities
        given = [one for one in entities if isinstance(one, str)]
        if entities and len(given) < max(len(entities), 2):
            return None
        kinds = ("integer", "category", "text")
        judged = [name for name in given or looks if looks[name].column.kind in kinds]
        return named_together(self._table([*looks]), judged, self.thresholds)

    def _refuse_counts(self, detection: Detection) -> None:
        """Refuse a table of frequencies, unless somebody said what its rows are."""
        counts = count_column_of(self.con, detection.columns, self.opened.place)
        if counts is not None:
            raise DataError(
                f"{self.opened.place}: looks like a table of frequencies: column {counts!r} counts, and each "
                "combination of the other columns occurs once. Its units want protection, not its rows: to read each "
                f"row as so many units, say --count-column {counts} (in [source] count_column = {toml(counts)}; of a "
                f"data frame, frame.loc[frame.index.repeat(frame[{counts!r}])]). If each row is one unit, say "
                '--count-column "" (of a data frame, entities=[])'
            )

    def _with_nameless(self, detection: Detection) -> Detection:
        """Say where a column that names entities names none in some rows: a build refuses that."""
        cells = {
            c.name: cell_sql(c, self.opened.types[c.name])
            for c in detection.columns
            if c.name in entity_columns(detection.named)
        }
        if not cells:
            return detection
        has_null = [f"coalesce(bool_or(({cell}) IS NULL), false)" for cell in cells.values()]
        flags = self.rows.fetch(f"SELECT {', '.join(has_null)} FROM source")[0]
        nameless = tuple(
            f"column {name!r}: holds a null, which names nobody, and a build refuses it; give each row its entity, or "
            "leave such rows out of the source"
            for name, is_found in zip(cells, flags, strict=True)
            if is_found
        )
        return replace(detection, remarks=(*detection.remarks, *nameless))

    def _with_suspects(self, detection: Detection) -> Detection:
        """Leave out columns that look like identifiers and name no entities."""
        names = [c.name for c in detection.columns]
        published = frozenset(_published(detection))
        judged = {
            column.name: Judged(
                is_number=column.value_type in NUMBER_KINDS,
                is_whole=column.value_type == "integer",
                sample=partial(self._sample, column),
            )
            for column in detection.columns
            if column.name in published and may_be_suspect(column)
        }
        found: dict[str, str] = {}
        # Candidates may be declined: then each row is one.
        for entities in dict.fromkeys((detection.named, detection.source.entities)):
            found |= suspects(self._table(names, entities), judged, self.thresholds)
        if not found:
            return detection
        left_out = ", ".join(found)
        remark = f"left out of the tables, as identifiers may be: {left_out}; see each below"
        return replace(detection, suspects=found, remarks=(*detection.remarks, remark))

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

    def _with_bounds(self, detection: Detection) -> Detection:
        """Add how many rows of one entity are to count, where columns name entities."""
        if not detection.named:
            return detection
        rows = replace(self.rows, entities=detection.named)
        most, own = proposed_bound(rows), dict[str, int]()
        for block in rows.blocks({n: self.opened.types[n] for n in _published(detection)}):
            own |= proposed_bounds_of_values(block, most)
        columns = tuple(
            replace(c, max_rows=own[c.name], detected=(*c.detected, "max_rows"))
            if own.get(c.name, most) < most
            else c
            for c in detection.columns
        )
        return replace(detection, columns=columns, max_rows=most)

    def _with_determined(self, detection: Detection) -> Detection:
        """Add which columns determine which."""
        names = _published(detection)
        if len(names) < 2:
            return detection
        table = self._table(names, detection.named)
        implied: dict[str, list[str]] = {}
        # What is seen of values as written need not hold of coarser ones.
        coarsened = {c.name for c in detection.columns if c.resolution is not None}
        for finer, coarser in determined(table, self.thresholds, self.report):
            if finer not in coarsened:
                implied.setdefault(finer, []).append(coarser)
        columns = tuple(
            replace(c, determines=tuple(implied[c.name]), detected=(*c.detected, "determines"))
            if c.name in implied
            else c
            for c in detection.columns
        )
        return replace(detection, columns=columns)


def _as_written(detection: Detection, written: Mapping[str, Written]) -> Detection:
    """Add to columns of numbers and dates how they are written."""
    columns, remarks = [], dict(detection.column_remarks)
    for column in detection.columns:
        found = written.get(column.name)
        kinds = DATE_KINDS if found and found.writing.date_format else NUMBER_KINDS
        if found is None or column.value_type not in kinds:
            columns.append(column)
            continue
        guessed = ("century",) if found.writing.century else ()
        columns.append(
            replace(column, writing=found.writing, detected=(*column.detected, *guessed))
        )
        if found.doubt:
            remarks[column.name] = (*remarks.get(column.name, ()), found.doubt)
    return replace(detection, columns=tuple(columns), column_remarks=remarks)


def _detection(
    source: SourceSpec, opened: Source, looks: dict[str, Look], together: Together | None
) -> Detection:
    """Put the looks at all columns together."""
    unreadable = [name for name in opened.columns if name not in looks]
    given = source.entity_columns
    lost = [name for name in given if name in unreadable]
    reasons = {
        name: opened.unreadable.get(name, "is of a type that cannot be read") for name in unreadable
    }
    if lost or not set(looks) - set(given):
        faults = [f"column {n!r}: {reasons[n]}; convert it to one type" for n in lost or unreadable]
        raise DataError("\n".join(faults) or f"{opened.place}: has only columns that name entities")
    is_pair = together is not None and together.is_sure and not given
    alone = [
        name
        for name, look in looks.items()
        if name not in given and look.is_key and is_named_like_an_id(name)
        if together is None or not is_pair or name not in together.columns
    ]
    candidates: tuple[Entity, ...] = tuple(alone)
    if together is not None and is_pair:
        candidates = (together.columns, *alone)
    if not set(looks) - set(entity_columns(candidates)) - set(given):
        candidates, alone = (), []
    remarks = [f"column {name!r} is left out: it {why}" for name, why in reasons.items()]
    if together is not None:
        remarks.append(_of_together(together, given))
    if alone and not given:
        listed = ", ".join(alone)
        remarks.append(f"in doubt: {listed} may name the entities; check entities below")
    elif not given and not candidates:
        remarks.append("no column names whom to protect: each row is taken for one entity")
    named = entity_columns(source.entities or candidates)
    columns = tuple(
        _as_entity(look.column) if name in named else _as_told(look.column, opened)
        for name, look in looks.items()
    )
    return Detection(
        source=source,
        columns=columns,
        entity_candidates=candidates,
        remarks=tuple(remarks),
        column_remarks={name: look.remarks for name, look in looks.items() if look.remarks},
        unreadable=reasons,
        values={
            name: look.values for name, look in looks.items() if look.values and name not in named
        },
    )


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


def _published(detection: Detection) -> list[str]:
    """The columns that do not name entities, nor look like it."""
    names = {*entity_columns((*detection.source.entities, *detection.entity_candidates))}
    names |= {*detection.suspects}
    return [column.name for column in detection.columns if column.name not in names]


def _of_width(detection: Detection) -> list[str]:
    """What is to be known of a source of many columns."""
    n = len(_published(detection))
    pairs = math.comb(n, 2)
    if n <= MOST_COLUMNS:
        warning = warning_of_many(pairs)
        return [f"every pair of {n} columns: {warning}"] if warning else []
    return [
        f"every pair of {n:,} columns would be {pairs:,} tables, so they are not asked for below; name the tables that "
        'people ask for (columns = ["...", "..."]), or the columns to combine (all = 2, of = ["...", "..."])',
        f"which columns determine each other is not looked for: there are more than {MOST_COLUMNS}",
    ]


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
