"""The service behind the HTTP API: facts, tables, statements and files as finished replies, cached by query.

Table queries and SQL statements of untrusted users have separate worker places (`queries.serve.lanes`), so that neither
blocks the other.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, Literal

import duckdb
from fastapi import Request, Response

from engine.errors import NotAnswerable, QueryRefused, SpecError, TablepackError, TooLarge
from engine.schema import MAX_WIDTH, column_set
from engine.store import said_of
from queries.intervals.replays import replays
from queries.release import Release
from queries.requests import TableRequest, leave_request, read_requests
from queries.sandbox import LimitedProcesses
from queries.serve import downloads
from queries.serve import sql as statement
from queries.serve.about import About, about_of, outlines_of
from queries.serve.cache import Reply, ReplyCache
from queries.serve.cubes import Cubes
from queries.serve.lanes import Lane
from queries.serve.limits import Limits
from queries.serve.question import Question, title_of
from queries.serve.responses import client_name, response_of
from queries.serve.tabulate import answer, as_json, displayed
from queries.serve.values import Variable, key_of, variable_of, variables_of
from queries.serve.workbook import Shown, cross_table
from queries.sql import marked, workbook_of

Format = Literal["json", "csv", "parquet", "json-stat", "xlsx"]
Kind = Literal["table", "sql"]
"""The lane of a query: table builder, or SQL of untrusted users."""
_FEW_VALUES = 60  # longer lists are loaded when needed, to keep the first load small
_OWN_NOTES = (
    "SELECT note FROM catalog.notes WHERE topic = 'release' AND NOT starts_with(note, 'Universe of ') "
    "AND NOT starts_with(note, 'Bounds found in the data') AND NOT contains(note, ': its tables add up to those of ') "
    "AND NOT contains(note, ': their tables are the same') "
    "AND NOT contains(note, ' may look like an identifier. The owner released it: ') "
    "ORDER BY position"
)
"""Notes shown on the start page; those that mention source columns are among the notes and definitions."""

MOST_REQUESTS = 20
"""Table requests that one client may submit while the server runs."""


class Service:
    """Shared by all requests: the release, its variables, cached replies, and the lanes.

    statements: Run the SQL of untrusted users in separate processes, as DuckDB's memory limit alone is not reliable.
    takes_requests: Users may request tables that are not released.
    """

    def __init__(
        self,
        release: Release,
        limits: Limits,
        statements: LimitedProcesses,
        *,
        formulas: downloads.Formulas = "quote",
        siblings: Sequence[Mapping[str, str]] = (),
        takes_requests: bool = False,
    ) -> None:
        self.release = release
        self.takes_requests = takes_requests
        if takes_requests:
            read_requests(release.path)  # an unreadable file is reported at start
        self._requested: Counter[str] = Counter()
        self._requesting = threading.Lock()
        self.formulas = formulas
        self.limits = limits
        self.statements = statements
        self.variables: dict[str, Variable] = variables_of(release)
        self.beside: About = about_of(release.path, frozenset(self.variables))
        self.maps = {
            name: self._map(release.path.parent / given.file, given.key)
            for name, given in self.beside.maps.items()
        }
        self.siblings = siblings
        self.cubes = Cubes(release)
        self.cache = ReplyCache(limits.cache_bytes)
        self.lanes: dict[Kind, Lane] = {"table": Lane(limits), "sql": Lane(limits)}
        self._is_closed = threading.Event()

    def draw_ahead(self) -> None:
        """Draw the replays of tables such as the start page charts, single columns and small pairs, in the background.

        Each is drawn once, as long as the server runs and for the next one: see `queries.intervals.cache`.
        """
        narrow = [table for table in self.release.tables if len(table) <= 2]
        n_values = {name: len(variable.values) for name, variable in self.variables.items()}
        narrow.sort(key=lambda table: (len(table), prod(n_values[name] for name in table)))

        def draw() -> None:
            release = self.release.until(self._is_closed.is_set)
            with suppress(TablepackError, duckdb.Error):  # as a request for the table will say
                for table in narrow[: self.limits.ahead]:
                    replays(release, table)

        threading.Thread(target=draw, daemon=True).start()

    async def answer(
        self,
        request: Request,
        question: str,
        make: Callable[[Release], Reply],
        *,
        name: str = "",
        format: str = "json",
    ) -> Response:
        """Answer a request from the tables: from the cache, or newly made in its lane.

        question: The key of the cache. make: Takes a handle that is cancelled when the client leaves. name, format: Of
        a file.
        """

        def made(stop: threading.Event) -> Reply:
            return make(self.release.until(stop.is_set))

        reply = await self._reply("table", request, question, made)
        return response_of(request, reply, name, format)

    async def answer_sql(
        self,
        request: Request,
        text: str,
        format: Format,
        page: Callable[[Reply], Reply],
        *,
        intervals: bool,
    ) -> Response:
        """Answer a statement of an untrusted user, by a page of its rows or as a file."""
        key = f"{intervals:d} {text}"

        def run(stop: threading.Event) -> Reply:
            entity = self.release.entity
            return statement.run(
                self.statements, text, self.limits, entity, stop=stop, intervals=intervals
            )

        reply = await self._reply("sql", request, f"sql {key}", run)
        if format == "json":
            return response_of(request, page(reply))

        def made(stop: threading.Event) -> Reply:
            return self._sql_file(reply, format, stop)

        file = await self._reply("sql", request, f"file {format} {key}", made)
        return response_of(request, file, "answer", format)

    async def _reply(
        self, kind: Kind, request: Request, question: str, make: Callable[[threading.Event], Reply]
    ) -> Reply:
        """Return the reply to a query, from the cache or newly made in its lane."""
        reply = self.cache.get(question)
        if reply is None:
            reply = await self.lanes[kind].run(client_name(request), make)
            self.cache.put(question, reply)
        return reply

    def request_table(
        self, client: str, columns: Sequence[str], reason: str, who: str
    ) -> TableRequest:
        """Submit a request for a table."""
        wanted = column_set(tuple(dict.fromkeys(columns)))
        for name in wanted:
            variable_of(self.variables, name)
        if any(set(wanted) <= set(table) for table in self.release.tables):
            raise QueryRefused(f"{', '.join(wanted)}: already released")
        if self.release.mode == "sticky" and len(wanted) > MAX_WIDTH:
            raise QueryRefused(
                f"A table can have at most {MAX_WIDTH} columns; this one has {len(wanted)}"
            )
        with self._requesting:
            if self._requested[client] >= MOST_REQUESTS:
                raise TooLarge(
                    f"You have already submitted {MOST_REQUESTS} requests; try again later"
                )
            self._requested[client] += 1
        return leave_request(self.release.path, wanted, reason=reason, who=who)

    def table_requests(self) -> list[dict[str, Any]]:
        """All requests, without names and reasons."""
        return [
            {
                "number": one.number,
                "columns": list(one.columns),
                "when": one.when,
                "state": one.state,
                "answer": one.answer,
            }
            for one in read_requests(self.release.path)
        ]

    def _map(self, path: Path, key: str) -> Reply:
        """The outlines in a file as a reply, made once at start."""
        reply = json_reply(outlines_of(path, key))
        if len(reply.body) > self.limits.answer_bytes:
            raise SpecError(
                f"{path}: the outlines take {len(reply.body):,} bytes, the limit is {self.limits.answer_bytes:,}; "
                "simplify them"
            )
        return reply

    def close(self) -> None:
        """Stop all work."""
        self._is_closed.set()
        for lane in self.lanes.values():
            lane.close()

    def about(self) -> dict[str, Any]:
        """Facts about the release, and its variables."""
        release = self.release
        return {
            "title": release.title,
            "vintage": release.vintage,
            "mode": release.mode,
            "logical_name": release.logical_name,
            "content_hash": release.content_hash,
            "signature": said_of(release.signature),
            "unit": release.unit.as_dict(),
            "entity": release.entity.as_dict(),
            "n_tables": len(release.tables),
            "about": [
                *([self.beside.about] if self.beside.about else []),
                *(text for (text,) in release.sql(_OWN_NOTES).rows),
            ],
            "contact": self.beside.contact,
            "siblings": [dict(s) for s in self.siblings],
            "takes_requests": self.takes_requests,
            "notes": list(release.notes),
            "variables": [self._variable(v) for v in self.variables.values()],
        }

    def _variable(self, variable: Variable) -> dict[str, Any]:
        """One variable, with its values if they are few."""
        known, n_values = variable.known, len(variable.values)
        is_short = n_values <= _FEW_VALUES
        return {
            "name": variable.name,
            "label": variable.label,
            "type": variable.sql_type,
            "is_numeric": variable.is_numeric,
            "is_weight": variable.is_weight,
            "is_ordered": variable.axis is not None,
            "is_released": any(variable.name in t for t in self.release.tables),
            "bands": list(variable.widths),
            "periods": variable.periods,
            "blank": variable.blank_label,
            "has_map": variable.name in self.maps,
            "n_values": n_values,
            "first": key_of(known[0]) if known else None,
            "last": key_of(known[-1]) if known else None,
            "values": values_json(variable, 0, _FEW_VALUES) if is_short else None,
        }

    def outlines(self, column: str) -> Reply:
        """The map of a variable."""
        variable_of(self.variables, column)
        if column not in self.maps:
            raise NotAnswerable(f"{column} has no map")
        return self.maps[column]

    def tables(self, release: Release) -> Reply:
        """All tables with their key figures."""
        rows = release.sql(
            "SELECT columns, rows, cells, noise_sd, suppressed_share, rounding_gap, "
            "coalesce(json_extract_string(card, '$.wide'), '{}') <> '{}' "
            "FROM catalog.tables ORDER BY width, columns"
        ).rows
        names = ("columns", "rows", "cells", "noise_sd", "suppressed_share", "rounding_gap")
        return json_reply(
            {"tables": [dict(zip((*names, "is_modelled"), row, strict=True)) for row in rows]}
        )

    def table(
        self, release: Release, question: Question, format: Format, layout: tuple[str, bool]
    ) -> Reply:
        """Answer a query in a format; `layout`: the row order of a workbook, and whether it has intervals."""
        cells, table = answer(release, self.variables, question)
        card = release.card(*cells.table).sentences() if cells.table else []
        if format == "json":
            body = as_json(cells, table, question, self.variables)
            return json_reply({**body, "card": card, "link": question.link()})
        if format == "json-stat":
            dataset = downloads.jsonstat_of(
                cells,
                label=self.release.title,
                source=self.source,
                pack=self.cubes.pack,
                variables=displayed(question, self.variables),
            )
            return Reply(body=dataset, media_type=downloads.MEDIA[format])
        names, rows = downloads.rows_of(cells)
        notes = [("Query", f"?{question.link()}")]
        notes += [("Accuracy", sentence) for sentence in (cells.words, *card)]
        shown = None
        if format == "xlsx":
            title = title_of(question, self.variables, self.release.unit)
            body = as_json(cells, table, question, self.variables)
            shown = Shown(title=title, body=body, sort=layout[0], has_intervals=layout[1])
        return self.file(format, names, rows, notes, shown)

    def _sql_file(self, reply: Reply, format: Format, stop: threading.Event) -> Reply:
        """Return a statement's result as a file; workbooks, made for reading, also have marks and notes."""
        names, rows = statement.all_rows(reply, self.release.until(stop.is_set).check_cancelled)
        if format != "xlsx":
            return self.file(format, names, rows, [])
        body = json.loads(reply.body)
        notes = [("Accuracy", line) for line in (*body["footnotes"], body["source"])]
        return self.file(format, names, marked(rows, reply.hidden), notes)

    def file(
        self,
        format: str,
        names: list[str],
        rows: Any,
        notes: list[tuple[str, str]],
        shown: Shown | None = None,
    ) -> Reply:
        """Return rows as CSV, Parquet or a workbook."""
        if format == "csv":
            body = downloads.csv_of(names, rows, self.formulas)
        elif format == "parquet":
            body = downloads.parquet_of(names, rows)
        else:
            origin = [("Title", self.release.title), ("Source", self.source)]
            general = [("Note", note) for note in self.release.notes]
            cross = None if shown is None else partial(cross_table, shown)
            body = workbook_of(names, rows, [*origin, *notes, *general], first=cross)
        formulas = self.formulas if format == "csv" else ""
        return self.limited(Reply(body=body, media_type=downloads.MEDIA[format], formulas=formulas))

    def limited(self, reply: Reply) -> Reply:
        """Return a reply unless it is too large."""
        if len(reply.body) > self.limits.answer_bytes:
            raise TooLarge(
                f"The result is too large: a file can have at most {self.limits.answer_bytes:,} bytes"
            )
        return reply

    @property
    def source(self) -> str:
        """Return what to cite."""
        release = self.release
        return f"{release.title}, vintage {release.vintage}, content hash {release.content_hash}"


def values_json(variable: Variable, start: int, size: int) -> list[dict[str, Any]]:
    """Return some of a variable's values as plain values."""
    return [
        {"key": v.key, "label": v.label, "n": v.n} for v in variable.values[start : start + size]
    ]


def json_reply(body: Any) -> Reply:
    """Return plain values as a reply in JSON."""
    return Reply(body=json.dumps(body, ensure_ascii=False, allow_nan=False).encode())
