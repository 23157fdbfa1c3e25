"""The answer to a statement: rows, and which table they came from with how much noise.

A `Result` keeps its own read-only connection and so outlives the handle that made it. It fetches in the form
asked for first; another form runs the statement again.
"""

from __future__ import annotations

import csv
import datetime
import decimal
import html
import io
import json
import os
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import duckdb

from engine.errors import QueryRefused
from engine.schema import ColumnSet
from queries.columns import limited, refusal

if TYPE_CHECKING:
    import pandas

Form = Literal["fetchall", "df", "to_arrow_table", "pl"]
"""Names under which DuckDB hands over a result."""
WORTH_SAYING = 0.01
"""Filled share from which an answer speaks of it."""
N_SHOWN = 20
"""Rows shown in a notebook or at the prompt."""


class Statement:
    """A statement on its own connection: started once, then fetched; run again for a second form.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        Its own; a temporary view it reads is there already.
    text : str
    names : tuple of str
        Columns of the logical table, to name near ones of an unknown one.
    timeout_s : float
    """

    def __init__(
        self, con: duckdb.DuckDBPyConnection, text: str, names: tuple[str, ...], timeout_s: float
    ) -> None:
        self._con, self._text, self._names, self._timeout_s = con, text, names, timeout_s
        self._is_fresh = False

    def start(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Run it; return names and types of its columns."""
        try:
            with limited(self._con, self._timeout_s):
                self._con.execute(self._text)
        except duckdb.Error as error:
            raise refusal(error, self._names) from None
        self._is_fresh = True
        description = self._con.description or []
        return tuple(d[0] for d in description), tuple(str(d[1]) for d in description)

    def fetch(self, form: Form) -> Any:
        """Return the whole result in one form."""
        source: Any = self._con
        try:
            if form in ("fetchall", "df"):
                if not self._is_fresh:
                    self.start()
                self._is_fresh = False
            else:
                source = self._con.sql(self._text)
            with limited(self._con, self._timeout_s):
                return getattr(source, form)()
        except duckdb.Error as error:
            raise refusal(error, self._names) from None


class Result:
    """What a statement returned.

    Attributes
    ----------
    columns : tuple of str
        Names of the result's columns.
    types : tuple of str
        Their SQL types.
    table : ColumnSet or None
        The released table that answered; None where the statement did not read the logical table.
    noise_sd : float or None
        Standard deviation of the noise of that table's finest counts, in rows; see its card.
    filled_share : float or None
        Noisy share of that table's rows that were filled in without looking at the data.
    dp : dict
        What a card says of mode dp; empty in sticky mode.
    """

    def __init__(
        self,
        *,
        columns: tuple[str, ...],
        types: tuple[str, ...],
        table: ColumnSet | None,
        noise_sd: float | None,
        filled_share: float | None,
        dp: Mapping[str, Any] | None = None,
        fetch: Callable[[Form], Any],
    ) -> None:
        self.columns = columns
        self.types = types
        self.table = table
        self.noise_sd = noise_sd
        self.filled_share = filled_share
        self.dp: dict[str, Any] = dict(dp or {})
        self._fetch = fetch

    @cached_property
    def rows(self) -> list[tuple[Any, ...]]:
        """The rows as tuples of Python values."""
        rows: list[tuple[Any, ...]] = self._fetch("fetchall")
        return rows

    def __len__(self) -> int:
        return len(self.rows)

    def df(self) -> pandas.DataFrame:
        """Return a pandas DataFrame."""
        frame: pandas.DataFrame = self._fetch("df")
        return frame

    def arrow(self) -> Any:
        """Return a pyarrow Table.

        Raises
        ------
        QueryRefused
            pyarrow is not installed.
        """
        return self._fetch_with("pyarrow", "to_arrow_table")

    def pl(self) -> Any:
        """Return a polars DataFrame.

        Raises
        ------
        QueryRefused
            polars or pyarrow is not installed.
        """
        return self._fetch_with("polars", "pl")

    def _fetch_with(self, package: str, form: Form) -> Any:
        try:
            __import__(package)
            return self._fetch(form)
        except ImportError:
            raise QueryRefused(f"this form of a result needs the package {package}") from None

    def to_csv(self, path: str | os.PathLike[str] | None = None, *, null: str = "") -> str:
        """Return the rows as CSV with a header; write them to a file too, where a path is given."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows([[null if v is None else _plain(v) for v in row] for row in self.rows])
        return _written(out.getvalue(), path)

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the rows as JSON with the table that answered and its noise; see `to_csv`.

        Columns and rows are lists, so that equal names stay apart; dates are ISO text, decimals text.
        """
        answer = {
            "columns": list(self.columns),
            "types": list(self.types),
            "rows": [[_finite(v) for v in row] for row in self.rows],
            "table": list(self.table) if self.table is not None else None,
            "noise_sd": self.noise_sd,
            "filled_share": self.filled_share,
        }
        text = json.dumps(answer, default=_plain, ensure_ascii=False, allow_nan=False)
        return _written(text + "\n", path)

    @property
    def source(self) -> str:
        """Which table answered, in words."""
        if self.table is None:
            return "Not read from the logical table."
        if self.dp:
            return " ".join([f"Answered from table {', '.join(self.table)};", *self._dp_source()])
        filled = ""
        if self.filled_share is not None and self.filled_share >= WORTH_SAYING:
            filled = (
                f" About {self.filled_share:.0%} of its rows lie in groups too small to show and were filled in: "
                "figures in fine detail, and averages over such values, are rough."
            )
        return (
            f"Answered from table {', '.join(self.table)}; "
            f"each of its measured counts carries noise of sd {self.noise_sd:.2f} rows.{filled}"
        )

    def _dp_source(self) -> list[str]:
        """How sure an answer of a release in mode dp is, in words."""
        if not self.dp["covered"]:
            said = [
                "MODELLED from narrower margins, so nobody measured these combinations; the margins' counts carry "
                f"noise of sd {self.noise_sd:.2f} rows at most."
            ]
        elif self.dp["epsilon"] is None:
            said = ["its counts were measured without noise."]
        else:
            said = [
                f"each of its measured counts carries noise of sd {self.noise_sd:.2f} rows at most."
            ]
        if self.dp["epsilon"] is None:
            said.append("NOTHING IS GUARANTEED.")
        if not self.dp["converged"]:
            said.append("The fit did NOT converge.")
        bare = [name for name in self.table or () if name in self.dp["uniform"]]
        if bare:
            said.append(
                f"Of {', '.join(bare)} nothing was measured: evenly frequent by assumption."
            )
        return said

    def __repr__(self) -> str:
        cells = [list(self.columns)]
        cells += [["NULL" if v is None else str(v) for v in row] for row in self.rows[:N_SHOWN]]
        widths = [max(len(row[j]) for row in cells) for j in range(len(self.columns))]
        lines = [
            "  ".join(v.ljust(w) for v, w in zip(row, widths, strict=True)).rstrip()
            for row in cells
        ]
        lines.insert(1, "  ".join("-" * w for w in widths))
        return "\n".join([*lines, *self._more(), self.source])

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(c)}</th>" for c in self.columns)
        body = "".join(
            "<tr>"
            + "".join(f"<td>{'' if v is None else html.escape(str(v))}</td>" for v in row)
            + "</tr>"
            for row in self.rows[:N_SHOWN]
        )
        notes = "<br>".join(html.escape(line) for line in [*self._more(), self.source])
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{notes}</p>"

    def _more(self) -> list[str]:
        hidden = len(self.rows) - N_SHOWN
        return [f"... and {hidden:,} more rows"] if hidden > 0 else []


def _finite(value: Any) -> Any:
    """Return a value that JSON can hold: NaN and infinities as text."""
    return str(value) if isinstance(value, float) and value - value != 0 else value


def _plain(value: Any) -> Any:
    """Return a value as text where it is not text or a number."""
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str | int | float) else str(value)


def _written(text: str, path: str | os.PathLike[str] | None) -> str:
    if path is not None:
        Path(path).write_text(text, encoding="utf-8", newline="")
    return text
