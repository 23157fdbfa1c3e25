"""The exceptions of tablepack.

Every message says what is wrong, where (spec entry, table, column) and what is allowed. A message is an output like
any other: it never contains a value of the data, a true count or a key. Each class has the exit code that the command
line returns for it (engine/DESIGN.md, "Exit codes").
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


class TablepackError(Exception):
    """Base class of all errors that tablepack raises deliberately."""

    exit_code = 2


class SpecError(TablepackError, ValueError):
    """The spec, an argument or the key file is invalid; lists every mistake found.

    Parameters
    ----------
    problems : str or sequence of str
        One sentence per mistake.
    """

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems: tuple[str, ...] = (
            (problems,) if isinstance(problems, str) else tuple(problems)
        )
        head = f"{len(self.problems)} mistakes:\n" if len(self.problems) > 1 else ""
        super().__init__(head + "\n".join(self.problems))


class DataError(TablepackError, ValueError):
    """The source cannot be read as the spec declares it."""


class PrivacyError(TablepackError):
    """A rule that protects the entities would be violated: nothing is built."""

    exit_code = 3


class BudgetError(PrivacyError):
    """A differential privacy budget would be overspent."""


class StoreError(TablepackError):
    """A file cannot be written: disk full, folder read-only, another build running, name taken."""


class DamagedRelease(StoreError):
    """A release file is truncated, replaced, altered or of another format version."""

    exit_code = 6


class UntrustedRelease(DamagedRelease):
    """A release is not signed with the key that the reader trusts."""


class ReplacedRelease(StoreError):
    """The release was replaced by another since it was opened: open it again."""


class MissingPackage(StoreError):
    """An optional package (an extra) that is needed here is not installed."""


class QueryRefused(TablepackError):
    """A statement is not a single SELECT, or reads outside the release."""

    exit_code = 5


class TimedOut(QueryRefused):
    """A statement exceeded its time limit."""


class TooLarge(QueryRefused):
    """A statement exceeded its memory limit, or its answer the limit of rows or bytes."""


class DuckDBFailed(QueryRefused):
    """DuckDB itself failed on a statement; its connection can no longer be used."""


class AnotherAnswer(QueryRefused):
    """The statement, run again for a further page, returned other rows or another order."""


class NotAnswerable(QueryRefused):
    """A statement that no released table covers.

    Parameters
    ----------
    message : str
        What is missing, and which tables come closest.
    missing : tuple of str
        Columns that the statement reads and that no single table has together.
    nearest : tuple of tuple of str
        Column sets of the closest released tables.
    """

    def __init__(
        self,
        message: str,
        *,
        missing: tuple[str, ...] = (),
        nearest: tuple[tuple[str, ...], ...] = (),
    ) -> None:
        self.missing = missing
        self.nearest = nearest
        super().__init__(message)


class InternalError(TablepackError):
    """An invariant of our own code is violated: a bug in tablepack, please report it."""

    exit_code = 1


def place_of(error: BaseException) -> str:
    """File, line and function of our innermost frame: enough for a bug report, and nothing about the data."""
    place, step = "?", error.__traceback__
    ours = Path(__file__).parent.parent
    while step is not None:
        code = step.tb_frame.f_code
        if Path(code.co_filename).is_relative_to(ours / "engine") or Path(
            code.co_filename
        ).is_relative_to(ours / "queries"):
            place = f"{Path(code.co_filename).name}:{step.tb_lineno} ({code.co_name})"
        step = step.tb_next
    return place
