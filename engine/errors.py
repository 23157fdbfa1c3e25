"""The one error tree of tablepack.

Every message says what is wrong, where (spec entry, table, column) and what is allowed. A message is an
output like any other: it never holds a value of the data, a true count or a key.
Each class carries the exit code the command line returns for it (engine/DESIGN.md, "Exit codes").
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


class TablepackError(Exception):
    """Base of all errors that tablepack raises on purpose."""

    exit_code = 2


class SpecError(TablepackError, ValueError):
    """The spec, an argument or the key file is not as it must be; carries every mistake found.

    Parameters
    ----------
    problems : str or sequence of str
        One sentence a mistake.
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
    """A rule that protects the entities would be broken: nothing is built."""

    exit_code = 3


class BudgetError(PrivacyError):
    """A differential privacy budget would be overspent."""


class StoreError(TablepackError):
    """A file cannot be written: disk full, folder read-only, another build at work, name taken."""


class DamagedRelease(StoreError):
    """A release file is cut, swapped, altered or of another format version."""

    exit_code = 6


class UntrustedRelease(DamagedRelease):
    """A release is not signed by the key that the reader trusts."""


class ReplacedRelease(StoreError):
    """The release was replaced by another since it was opened: open it again."""


class MissingPackage(StoreError):
    """A package that this needs, and that is an extra, is not installed."""


class QueryRefused(TablepackError):
    """A statement that is not one SELECT, or that reaches outside the release."""

    exit_code = 5


class TimedOut(QueryRefused):
    """A statement ran longer than it may."""


class TooLarge(QueryRefused):
    """A statement needs more memory, or its answer more rows or bytes, than it may."""


class DuckDBFailed(QueryRefused):
    """A statement on which DuckDB itself failed; what it ran on is of no further use."""


class AnotherAnswer(QueryRefused):
    """A further page was asked for, and the statement, run again, gave other rows or another order."""


class NotAnswerable(QueryRefused):
    """A statement that no released table covers.

    Parameters
    ----------
    message : str
        What is missing and which tables come nearest.
    missing : tuple of str
        The columns that the statement reads and no single table holds.
    nearest : tuple of tuple of str
        The column sets of the nearest released tables.
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
    """A promise of our own code is broken: our bug, please report it."""

    exit_code = 1


def place_of(error: BaseException) -> str:
    """File, line and function of the innermost frame of ours: enough to report, nothing of the data."""
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
