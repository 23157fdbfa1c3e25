"""What a server does with a release, without a word of HTTP: facts, tables, statements, files, each kept by question.

Takes an open release and limits; gives finished answers. Work is done in a few threads of its own, and only so many
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
from queries import api_downloads as downloads
from queries import api_sql
from queries.api_cache import Cache, Kept
from queries.api_guard import Limits
from queries.api_question import Question
from queries.api_shown import as_json
from queries.api_tabulate import answer, shown
from queries.api_values import Variable, key_of, variables_of
from queries.limited import LimitedProcesses
from queries.session import Release

Form = Literal["json", "csv", "parquet", "json-stat", "xlsx"]
_FEW_VALUES = 300


class Service:
    """What all requests share: the release, its variables, finished answers, and how many are at work.

    Parameters
    ----------
    release : Release
    limits : Limits
    statements : LimitedProcesses
        Answer the SQL of strangers: in processes of their own, for DuckDB's memory limit alone is not airtight.
    """

    def __init__(self, release: Release, limits: Limits, statements: LimitedProcesses) -> None:
        self.release = release
        self.limits = limits
        self.statements = statements
        self.variables: dict[str, Variable] = variables_of(release)
        self.cache = Cache(limits.cache_bytes)
        self._workers = anyio.CapacityLimiter(limits.workers)
        self._at_work = 0

    async def kept(self, question: str, make: Callable[[], Kept]) -> Kept:
        """Return the answer to a question: the finished one, or a new one made in a worker thread."""
        key = f"{self.release.content_hash} {question}"
        found = self.cache.get(key)
        if found is None:
            found = await self._worked(make)
            self.cache.put(key, found)
        return found

    async def _worked(self, make: Callable[[], Kept]) -> Kept:
        """Make an answer in a worker thread, unless too many wait already."""
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

    def _variable(self, about: Variable) -> dict[str, Any]:
        """One variable, with its values where they are few."""
        is_short = len(about.values) <= _FEW_VALUES
        known = about.known
        return {
            "name": about.name,
            "label": about.label,
            "type": about.sql_type,
            "is_numeric": about.is_numeric,
            "is_ordered": about.step is not None,
            "is_released": any(about.name in t for t in self.release.tables),
            "bands": list(about.widths),
            "n_values": len(about.values),
            "first": key_of(known[0]) if known else None,
            "last": key_of(known[-1]) if known else None,
            "values": values_json(about, 0, _FEW_VALUES) if is_short else None,
        }

    def tables(self) -> list[dict[str, Any]]:
        """All tables with what their cards say in numbers."""
        rows = self.release.sql(
            "SELECT columns, rows, cells, noise_sd, suppressed_share, rounding_gap "
            "FROM catalog.tables ORDER BY table_id"
        ).rows
        names = ("columns", "rows", "cells", "noise_sd", "suppressed_share", "rounding_gap")
        return [dict(zip(names, row, strict=True)) for row in rows]

    def tabulated(self, asked: Question, form: Form) -> Kept:
        """Answer a question in a form."""
        given = answer(self.release, self.variables, asked)
        card = self.release.card(*given.cells.table) if given.cells.table else None
        sure = [given.cells.words, *(card.sentences() if card else [])]
        if form == "json":
            said = as_json(given, self.variables)
            return json_kept(
                {**said, "card": card.sentences() if card else [], "link": asked.link()}
            )
        names, rows = downloads.rows_of(given.cells)
        if form == "json-stat":
            body = downloads.jsonstat_of(
                given.cells,
                label=self.release.title,
                source=self._source(),
                variables=shown(asked, self.variables),
            )
            return Kept(body=body, media_type=downloads.KINDS[form])
        return self._file(
            form, names, rows, [("Question", f"?{asked.link()}"), *(("How sure", s) for s in sure)]
        )

    def sql(self, text: str, *, intervals: bool = False) -> Kept:
        """Run a statement."""
        return api_sql.run(self.statements, text, self.limits, intervals=intervals)

    def sql_file(self, kept: Kept, form: Form) -> Kept:
        """Return a statement's answer as a file."""
        names, rows = api_sql.all_rows(kept)
        return self._file(form, names, rows, [("How sure", json.loads(kept.body)["source"])])

    def _file(self, form: Form, names: list[str], rows: Any, notes: list[tuple[str, str]]) -> Kept:
        """Rows as CSV, Parquet or a workbook."""
        if form == "csv":
            body = downloads.csv_of(names, rows)
        elif form == "parquet":
            body = downloads.parquet_of(names, rows)
        else:
            about = [("Title", self.release.title), ("Source", self._source()), *notes]
            body = downloads.xlsx_of(
                names, rows, [*about, *(("Note", n) for n in self.release.notes)]
            )
        if len(body) > self.limits.answer_bytes:
            raise TooLarge(
                f"The answer is too large: a file may have at most {self.limits.answer_bytes:,} bytes"
            )
        return Kept(body=body, media_type=downloads.KINDS[form])

    def _source(self) -> str:
        release = self.release
        return f"{release.title}, vintage {release.vintage}, content hash {release.content_hash}"


def values_json(about: Variable, start: int, size: int) -> list[dict[str, Any]]:
    """Return some of a variable's values as plain values."""
    return [{"key": v.key, "label": v.label, "n": v.n} for v in about.values[start : start + size]]


def json_kept(said: Any) -> Kept:
    """Return plain values as an answer in JSON."""
    return Kept(body=json.dumps(said, ensure_ascii=False, allow_nan=False).encode())
