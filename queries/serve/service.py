"""What a server does with a release, without a word of HTTP: facts, tables, statements, files, each cached by question.

Takes an open release and limits; gives finished replies. Work is done in a few threads of its own, and only so many
questions may wait for one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal

import anyio
import anyio.to_thread
from starlette.exceptions import HTTPException

from engine.errors import TooLarge
from queries.release import Release
from queries.sandbox import LimitedProcesses
from queries.serve import downloads
from queries.serve import sql as statement
from queries.serve.cache import Reply, ReplyCache
from queries.serve.display import as_json
from queries.serve.guard import Limits
from queries.serve.question import Question
from queries.serve.tabulate import answer, variables_of_answer
from queries.serve.values import Variable, key_of, variables_of

Format = Literal["json", "csv", "parquet", "json-stat", "xlsx"]
_FEW_VALUES = 300


class Service:
    """What all requests share: the release, its variables, finished replies, and how many are at work.

    Parameters
    ----------
    statements : LimitedProcesses
        Answer the SQL of strangers: in processes of their own, for DuckDB's memory limit alone is not airtight.
    """

    def __init__(self, release: Release, limits: Limits, statements: LimitedProcesses) -> None:
        self.release = release
        self.limits = limits
        self.statements = statements
        self.variables: dict[str, Variable] = variables_of(release)
        self.cache = ReplyCache(limits.cache_bytes)
        self._workers = anyio.CapacityLimiter(limits.workers)
        self._at_work = 0

    async def reply(self, question: str, make: Callable[[], Reply]) -> Reply:
        """Return the reply to a question: the cached one, or a new one made in a worker thread."""
        reply = self.cache.get(question)
        if reply is None:
            reply = await self._made(make)
            self.cache.put(question, reply)
        return reply

    async def _made(self, make: Callable[[], Reply]) -> Reply:
        """Make a reply in a worker thread, unless too many wait already."""
        if self._at_work >= self.limits.workers + self.limits.waiting:
            raise HTTPException(
                503, "too many questions at once: try again in a moment", {"retry-after": "1"}
            )
        self._at_work += 1  # counted here: the limiter counts a burst only after it was let in
        try:
            return await anyio.to_thread.run_sync(make, limiter=self._workers)
        finally:
            self._at_work -= 1

    def about(self) -> dict[str, Any]:
        """What the release is, and its variables."""
        release = self.release
        return {
            "title": release.title,
            "vintage": release.vintage,
            "mode": release.mode,
            "logical_name": release.logical_name,
            "content_hash": release.content_hash,
            "n_tables": len(release.tables),
            "notes": list(release.notes),
            "variables": [self._variable(v) for v in self.variables.values()],
        }

    def _variable(self, variable: Variable) -> dict[str, Any]:
        """One variable, with its values where they are few."""
        known, n_values = variable.known, len(variable.values)
        is_short = n_values <= _FEW_VALUES
        return {
            "name": variable.name,
            "label": variable.label,
            "type": variable.sql_type,
            "is_numeric": variable.is_numeric,
            "is_ordered": variable.step is not None,
            "is_released": any(variable.name in t for t in self.release.tables),
            "bands": list(variable.widths),
            "n_values": n_values,
            "first": key_of(known[0]) if known else None,
            "last": key_of(known[-1]) if known else None,
            "values": values_json(variable, 0, _FEW_VALUES) if is_short else None,
        }

    def tables(self) -> list[dict[str, Any]]:
        """All tables with what their cards say in numbers."""
        rows = self.release.sql(
            "SELECT columns, rows, cells, noise_sd, suppressed_share, rounding_gap "
            "FROM catalog.tables ORDER BY table_id"
        ).rows
        names = ("columns", "rows", "cells", "noise_sd", "suppressed_share", "rounding_gap")
        return [dict(zip(names, row, strict=True)) for row in rows]

    def table(self, question: Question, format: Format) -> Reply:
        """Answer a question in a format."""
        table = answer(self.release, self.variables, question)
        cells = table.cells
        card = self.release.card(*cells.table).sentences() if cells.table else []
        if format == "json":
            body = as_json(table, self.variables)
            return json_reply({**body, "card": card, "link": question.link()})
        if format == "json-stat":
            dataset = downloads.jsonstat_of(
                cells,
                label=self.release.title,
                source=self._source(),
                variables=variables_of_answer(question, self.variables),
            )
            return Reply(body=dataset, media_type=downloads.MEDIA[format])
        names, rows = downloads.rows_of(cells)
        notes = [("Question", f"?{question.link()}")]
        notes += [("How sure", sentence) for sentence in (cells.words, *card)]
        return self._file(format, names, rows, notes)

    def sql(self, text: str, *, intervals: bool = False) -> Reply:
        """Run a statement."""
        return statement.run(self.statements, text, self.limits, intervals=intervals)

    def sql_file(self, reply: Reply, format: Format) -> Reply:
        """Return a statement's answer as a file."""
        names, rows = statement.all_rows(reply)
        return self._file(format, names, rows, [("How sure", json.loads(reply.body)["source"])])

    def _file(
        self, format: Format, names: list[str], rows: Any, notes: list[tuple[str, str]]
    ) -> Reply:
        """Rows as CSV, Parquet or a workbook."""
        if format == "csv":
            body = downloads.csv_of(names, rows)
        elif format == "parquet":
            body = downloads.parquet_of(names, rows)
        else:
            origin = [("Title", self.release.title), ("Source", self._source())]
            general = [("Note", note) for note in self.release.notes]
            body = downloads.xlsx_of(names, rows, [*origin, *notes, *general])
        if len(body) > self.limits.answer_bytes:
            raise TooLarge(
                f"The answer is too large: a file may have at most {self.limits.answer_bytes:,} bytes"
            )
        return Reply(body=body, media_type=downloads.MEDIA[format])

    def _source(self) -> str:
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
