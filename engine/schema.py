"""The core types, on both sides of the process boundary: columns, measurements, supports, synthetic tables.

All are frozen and keyword-only; their arrays are never written to after construction.

A value of a column is a pair `(kind, grid)`: `kind` is one of the four constants below, `grid` an int64, its grid
code. For grid columns (integer, real, decimal, boolean, date, timestamp) that is the value in units of the column's
resolution, on an absolute grid anchored at 0. For ranked columns (category, text) it is the rank of the value in
the column's released list (the declared domain, if it is public); in text whose values nobody declared, ranks leave
gaps, so that all values with a common prefix are a snapped range. The `codes` of a table are something else: positions
in the supports of its columns.
"""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from engine.periods import MONTHS, SECONDS, number_of, seconds_of, starts_of
from engine.units import ENTITIES, ROWS, Unit


@dataclass(frozen=True, kw_only=True, slots=True)
class Universe:
    """For which rows a column has a value."""

    column: str  # The column that decides; rows where it is null are outside
    # low, high: Smallest and largest value inside, for columns on a grid. None: no limit.
    low: Any = None
    high: Any = None
    # The values inside, for columns with a list of values. None: all.
    values: tuple[Any, ...] | None = None
    complete: bool = True  # Every row inside has a value: the column is null exactly outside
    outside: Any = (
        None  # The value of all rows outside, if not null (columns with a list of values)
    )

    @property
    def condition(self) -> tuple[Any, ...]:
        """The condition for being inside: equal for columns that share a universe."""
        values = None if self.values is None else frozenset(self.values)
        return self.column, self.low, self.high, values

    def __str__(self) -> str:
        """In words, as in a code book."""
        parts = [f"{self.column} from {self.low}"] if self.low is not None else []
        parts += [f"{self.column} up to {self.high}"] if self.high is not None else []
        if self.values is not None:
            parts.append(f"{self.column} in {', '.join(map(str, self.values))}")
        return " and ".join(parts) or f"{self.column} not null"


@dataclass(frozen=True, kw_only=True, slots=True)
class CodedUniverse:
    """A universe in grid codes of the deciding column."""

    declared: Universe
    # low, high: Its limits.
    low: int | None = None
    high: int | None = None


ColumnSet = tuple[str, ...]
"""Sorted tuple of column names; identifies a table."""
Int64Array = NDArray[np.int64]
Int32Array = NDArray[np.int32]
UInt64Array = NDArray[np.uint64]
UInt8Array = NDArray[np.uint8]
BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]

KIND_NULL, KIND_NEGATIVE, KIND_NONNEGATIVE, KIND_OTHER = 0, 1, 2, 3
"""Kinds of values: null; below 0; 0 and above; an unreleased value of a ranked column (its placeholder)."""
NULL_CODE, OTHER_CODE = -(2**63), -(2**63) + 1
"""Grid codes of null and of the placeholder in the confidential table `rows`: smaller than all other codes."""

ColumnKind = Literal[
    "integer", "real", "decimal", "boolean", "category", "text", "date", "timestamp", "time"
]
ValueType = Literal["integer", "real", "decimal", "boolean", "text", "date", "timestamp", "time"]
Format = Literal[
    "csv",
    "parquet",
    "xlsx",
    "duckdb",
    "sqlite",
    "sav",
    "por",
    "dta",
    "xpt",
    "sas7bdat",
    "postgres",
    "mysql",
]
SourceFormat = Literal[Format, "frame", "table"]
RANKED_KINDS = frozenset({"category", "text"})
NUMBER_KINDS = ("integer", "real", "decimal")
DATE_KINDS = ("date", "timestamp")
GRID_KINDS = (*NUMBER_KINDS, *DATE_KINDS, "time")
"""Kinds whose values lie on an unbounded grid, or on one as long as the calendar or the day."""
SQL_TYPES = {
    "integer": "BIGINT",
    "real": "DOUBLE",
    "decimal": "DECIMAL(18,2)",  # where no resolution says otherwise
    "boolean": "BOOLEAN",
    "text": "VARCHAR",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "time": "TIME",
}
"""SQL type of the released values, by their type."""
MEMORY, SERVED_MEMORY = "2GB", "1GB"
"""Stated memory, where nobody states another: of the working database of a build, or of everything that is asked of an
open release; and of all statements of a server together. Processes take up to 300 MB more."""
MAX_WIDTH = 4
"""Widest table that mode sticky measures; wider ones are modelled from narrower ones."""
WIDEST = 64
"""Widest modelled table of mode sticky: all its pairs of columns are measured."""
DEFAULT_PLACEHOLDER = "(other)"
LONGEST_PREFIX = 64
"""Characters of the longest prefix of text that is released."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """What stands for the values of a text column that begin alike and are too rare to be shown."""

    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Resolution:
    """The grid step of a column: of numbers `base ** exponent`, of dates and times a period."""

    base: int = 10  # 2 or 10; or any whole number, with exponent 1
    exponent: int = 0  # The step's exponent; -2 with base 10 is cents
    period: str = ""  # Such as "month", see `engine.periods`; empty for numbers

    @classmethod
    def read(cls, written: float | str) -> Resolution:
        """Read one as a spec writes it; ValueError if it is none."""
        if written in (*SECONDS, *MONTHS):
            return cls(period=str(written))
        if isinstance(written, bool) or not 0 < float(written) < float("inf"):
            raise ValueError(written)
        digits = Decimal(str(written)).normalize().as_tuple()
        if digits.digits == (1,):
            return cls(base=10, exponent=int(digits.exponent))
        exact = Fraction(float(written))
        for part, sign in ((exact.numerator, 1), (exact.denominator, -1)):
            if part & (part - 1) == 0 and exact in (Fraction(part), Fraction(1, part)):
                return cls(base=2, exponent=sign * (part.bit_length() - 1))
        if exact.denominator > 1:
            raise ValueError(written)
        return cls(base=exact.numerator, exponent=1)

    @property
    def step(self) -> Fraction:
        """The step of numbers."""
        return Fraction(self.base) ** self.exponent

    @property
    def parts(self) -> list[int | str]:
        """What digests cover."""
        return [self.period] if self.period else [self.base, self.exponent]

    def holds(self, value: Any) -> bool:
        """Whether a number is a multiple of the step, or a date or time the start of a period."""
        if not self.period:
            return (Fraction(str(value)) / self.step).denominator == 1
        moment = seconds_of(value)
        return int(starts_of(np.array(number_of(moment, self.period)), self.period)) == moment

    @property
    def toml(self) -> str:
        """As a spec writes it."""
        return f'"{self.period}"' if self.period else str(self)

    def __str__(self) -> str:
        """As `read` reads it."""
        if self.period:
            return self.period
        if self.exponent >= 0:
            return str(self.base**self.exponent)
        return f"1e{self.exponent}" if self.base == 10 else repr(float(self.step))


@dataclass(frozen=True, kw_only=True, slots=True)
class Writing:
    """How numbers and dates are written in text."""

    decimal: str = "."  # Decimal separator
    thousands: str = ""  # Thousands separator; empty: none
    date_format: str = ""  # In `strftime` notation, such as "%d.%m.%Y"; empty: ISO 8601
    century: str = ""  # The hundred years of years of two digits, such as "1927..2026"

    @property
    def has_short_years(self) -> bool:
        """Whether its years have two digits."""
        return "%y" in self.date_format.replace("%%", "")


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """One column of the source as the spec declares it.

    Attributes
    ----------
    name : str
        As in the source.
    kind : str
        How its values are encoded; see `ColumnKind`.
    value_type : str
        Type of a released value; differs from `kind` only for categories (such as categories of integers).
    resolution : Resolution or None
        Grid step of a number, a date or a time; None: of whole numbers 1, of dates a day, of times a second.
    domain : tuple or None
        Declared values of a category or text column, in order. None: not declared.
    bounds : tuple of (value, value) or None
        Declared smallest and largest value of any other column, in its own type.
    public : bool
        The domain (or bounds) is public knowledge, so no value is suppressed for being rare.
    detected : tuple of str
        Settings that `tablepack init` detected in the data and nobody has confirmed.
    nulls : tuple of str, optional
        Spellings of null among its texts; CSV export writes the first. None: the empty text, but no text where the
        source tells null from text (frames, Parquet, databases) and the column holds texts.
    placeholder : str or None
        Text shown for unreleased values of a text column. None: their share goes to released values.
    label : str
        Label for readers.
    labels : tuple of (str, str)
        Labels of single values, as (value as text, label).
    step : int
        Integer columns: values are multiples of it.
    universe : Universe or None
        For which rows the column has a value, where declared.
    breaks : tuple or None
        Columns with bounds, mode dp: lower ends of the groups that are counted, without the first, which starts at
        the smallest value. None: every value is a group.
    nullable : bool
        Whether a value may be null; public knowledge.
    max_rows : int or None
        Mode sticky: most rows of one entity that count in a bucket of a single value, a power of two. None: as many
        as in any bucket.
    determines : tuple of str
        Columns implied by this one: rows that agree in this column agree in them.
    order : str
        "numeric": values of a category or text without a domain are in the order of the numbers that they begin with
        (5-9 before 10-14); empty: in that of their code points.
    hierarchy : tuple of int
        Text: lengths of the prefixes that are levels of its codes, ascending. Empty: every prefix may be shown.
    tree : mapping of str to tuple of str
        Text whose levels are those of a list of codes: of each code its ancestors from the top on, and itself.
    level_of : tuple of (str, int) or None
        The column whose level this is, and which: the characters of it, or the depth in the tree.
    release : str
        Why it may be published although it looks like an identifier. Empty: no reason was given.
    writing : Writing
        How its numbers or dates are written in a text source.
    outside : str or None
        Mode dp: "clamp" or "drop" values beyond the bounds. None: clamp them, or count them as `other`.
    other : value or None
        Mode dp: value of the domain that stands for all that the domain does not hold. None: such rows are left out.
    sums : bool
        Numbers, mode sticky: their sums are measured too.
    """

    name: str
    kind: ColumnKind
    value_type: ValueType
    resolution: Resolution | None = None
    domain: tuple[Any, ...] | None = None
    bounds: tuple[Any, Any] | None = None
    public: bool = False
    detected: tuple[str, ...] = ()
    nulls: tuple[str, ...] | None = None
    placeholder: str | None = None
    label: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    step: int = 1
    universe: Universe | None = None
    breaks: tuple[Any, ...] | None = None
    nullable: bool = True
    max_rows: int | None = None
    determines: tuple[str, ...] = ()
    order: str = ""
    hierarchy: tuple[int, ...] = ()
    tree: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    level_of: tuple[str, int] | None = None
    release: str = ""
    writing: Writing = Writing()
    outside: str | None = None
    other: Any = None
    sums: bool = True

    @property
    def spellings(self) -> tuple[str, ...]:
        """Spellings of null, by default the empty text."""
        return ("",) if self.nulls is None else self.nulls

    @property
    def levels(self) -> tuple[int, ...]:
        """Its levels above single codes: characters, or depths in the tree."""
        return self.hierarchy or tuple(range(1, max(map(len, self.tree.values()), default=1)))

    @property
    def is_ranked(self) -> bool:
        """Whether values are encoded by rank in a list, not by position on a grid."""
        return self.kind in RANKED_KINDS


@dataclass(frozen=True, kw_only=True, slots=True)
class Sums:
    """Noisy sums of one column in the groups that the other columns of a table make, each of single values."""

    column: str
    # shape (n_groups,): Position of a bucket of the table that has the group's values; in the column it is a range.
    node: Int64Array
    # low, high: shape (n_groups,): Grid codes; smaller values count as `low`, larger ones as `high`.
    low: Int64Array
    high: Int64Array
    n: Int64Array  # shape (n_groups,): Noisy sum of what the values are above `middle`
    scale: (
        Int64Array  # shape (n_groups,): The power of two by which both noise layers were multiplied
    )

    @property
    def middle(self) -> Int64Array:
        """Subtracted from each value, so that a sum hardly depends on how many there are."""
        return self.low + (self.high - self.low) // 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    """What crosses the process boundary for one column set: its released buckets, all of them noisy.

    Nodes are sorted by depth, then by position; a node is listed only if it and all its ancestors pass the threshold.
    """

    columns: ColumnSet  # Empty for the total, which is one node of depth 0
    depth: UInt8Array  # shape (n_nodes,)
    # kind, level: shape (n_nodes, n_columns): A range of column j holds 2**level[:, j] grid codes of its kind.
    kind: UInt8Array
    level: UInt8Array
    # shape (n_nodes, n_columns): Offset of the range in units of its size. Negative values are mirrored:
    # grid code -1 has index 0 at level 0.
    index: Int64Array
    # shape (n_nodes,): Position of the node that contains this one, one depth up; -1 at depth 0.
    parent: Int64Array
    n: Int64Array  # shape (n_nodes,): Noisy number of rows; may be negative
    # shape (max_depth + 1,): By depth, the power of two by which both noise layers were multiplied (1: one row per
    # entity).
    scale: Int64Array
    # One-way tables of a ranked column only: the released values and prefixes by code, ascending.
    values: Mapping[int, Any] | None = None
    sums: tuple[Sums, ...] = ()  # Of some of its columns

    @property
    def n_nodes(self) -> int:
        """Number of released buckets."""
        return len(self.n)

    def kept(self, where: BoolArray) -> Measurement:
        """The measurement restricted to some buckets, before sums; each must come with the one that contains it."""
        at, place = np.flatnonzero(where), np.cumsum(where) - 1
        parent = self.parent.take(at)
        return replace(
            self,
            depth=self.depth.take(at),
            kind=self.kind.take(at, axis=0),
            level=self.level.take(at, axis=0),
            index=self.index.take(at, axis=0),
            parent=np.where(parent >= 0, place[parent], -1),
            n=self.n.take(at),
        )


def is_leaf(tree: Measurement) -> BoolArray:
    """Nodes without released children."""
    out = np.ones(tree.n_nodes, dtype=bool)
    out[tree.parent[tree.parent >= 0]] = False
    return out


@dataclass(frozen=True, kw_only=True, slots=True)
class Support:
    """The leaf support of one column: its released values, of which the cells of every table are combinations.

    Sorted: null first, then negative, non-negative, other; each ascending by grid. A value inside a released range was
    drawn once, when the one-way table was fitted, so that every table shows the same values.
    """

    column: Column
    kind: UInt8Array  # shape (n_values,)
    # shape (n_values,): Position on the column's grid, or rank in `values` for ranked columns; 0 if kind is null or
    # other.
    grid: Int64Array
    n: Int64Array  # shape (n_values,): Fitted number of rows, all > 0
    # shape (n_values,): The value is itself a released bucket (otherwise it was drawn inside a released range).
    measured: BoolArray
    # Ranked columns: the released values and prefixes by code, ascending.
    values: Mapping[int, Any] | None = None
    # Standard deviation of the error of a measured value's count, in rows (root mean square).
    noise_sd: float = 0.0

    def __len__(self) -> int:
        return len(self.grid)


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightedRows:
    """Distinct rows with their numbers.

    codes: By column, int64 of shape (n_rows,): grid codes, of ranked columns positions in the domain; `NULL_CODE` and
        `OTHER_CODE` for a blank and the placeholder.
    n: shape (n_rows,).
    measured: shape (n_rows,): The number of this combination is itself released; None where nobody knows.
    """

    codes: dict[str, Int64Array]
    n: Int64Array
    measured: BoolArray | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CellGroups:
    """What is known about the noise: one entry for each finest released bucket and each imputed remainder."""

    kind: UInt8Array  # shape (n_groups, n_columns)
    # low, high: shape (n_groups, n_columns): The box of grid codes, both ends included (0, 0 if kind is null or other).
    low: Int64Array
    high: Int64Array
    n: Int64Array  # shape (n_groups,): Fitted number of rows in the group
    # shape (n_groups,): Standard deviation, in rows, of the noise of its bucket.
    noise_sd: FloatArray
    # shape (n_groups,): True: a released bucket of single values. False: the remainder of a box, imputed. A synthetic
    # row is measured if its group is: `SyntheticTable.measured` says the same.
    measured: BoolArray
    # shape (n_groups,): Depth in the measured tree of the bucket, or of the one whose remainder the group is; -1 if no
    # released bucket contains the rows, and always in mode dp.
    depth: NDArray[np.int8]
    # By column, level of its ranges at depth 0; at depth d it is max(top - d, 0). Empty in mode dp.
    tops: tuple[int, ...] = ()
    scale: tuple[int, ...] = ()  # As in `Measurement`. Empty in mode dp.


@dataclass(frozen=True, kw_only=True, slots=True)
class SyntheticTable:
    """One fitted table: distinct synthetic rows with their counts."""

    columns: ColumnSet
    # shape (n_cells, n_columns): Positions in the columns' supports; rows distinct, in lexicographic order.
    codes: NDArray[np.int32]
    n: Int64Array  # shape (n_cells,): Number of synthetic rows, all > 0
    # shape (n_cells,): The cell is itself a released bucket (otherwise it was imputed within a larger one).
    measured: BoolArray
    groups: CellGroups
    # Standard deviation of the error of a measured cell, in rows: that of its own noise, or of a narrower table that
    # it is locked to, if that is larger.
    noise_sd: float = 0.0
    # Largest difference between a margin of this table and the published narrower table.
    gap: int = 0
    rake_cycles: int = 0  # Raking cycles run (0: nothing to rake to)
    # Rows by which a margin's sums were off when raking stopped, as a share of all rows.
    rake_error: float = 0.0

    @property
    def n_rows(self) -> int:
        """Number of synthetic rows."""
        return int(self.n.sum())


def usual_nulls(
    value_type: ValueType, *, knows_null: bool, is_entity: bool = False
) -> tuple[str, ...]:
    """The spellings of null of a column of which nobody said any.

    knows_null: The source tells null from text: there an empty text is a value like any other, but no number, no date,
        and no name of an entity.
    """
    return () if knows_null and value_type == "text" and not is_entity else ("",)


def column_set(names: Sequence[str]) -> ColumnSet:
    """The canonical name of a table: its columns, sorted by code point."""
    return tuple(sorted(names))


def quoted(name: str) -> str:
    """Quote an identifier for DuckDB SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Quote a string for DuckDB SQL."""
    return "'" + text.replace("'", "''") + "'"


Entity = str | tuple[str, ...]
"""What names one kind of entity: a column, or several columns together (household and person number)."""


def columns_of(entity: Entity) -> tuple[str, ...]:
    """The columns that name an entity."""
    return (entity,) if isinstance(entity, str) else entity


def entity_columns(entities: Iterable[Entity]) -> tuple[str, ...]:
    """All columns that name entities, each once."""
    return tuple(dict.fromkeys(name for one in entities for name in columns_of(one)))


def entity_name(entity: Entity) -> str:
    """What names an entity, in words."""
    return " + ".join(columns_of(entity))


def entity_option(entity: Entity) -> str:
    """What names an entity, as the command line has it: a line of CSV."""
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(columns_of(entity))
    return shlex.quote(out.getvalue())


def as_entities(given: Iterable[str | Iterable[str]]) -> tuple[Entity, ...]:
    """Kinds of entities as somebody wrote them: one of a single column is that column."""
    kinds = [(one,) if isinstance(one, str) else tuple(one) for one in given]
    return tuple(kind[0] if len(kind) == 1 else kind for kind in kinds)


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceSpec:
    """Where the rows are and whom they are about."""

    # File, glob or database connection; None for a frame given in Python.
    path: str | None
    # As in the spec; also "table" (of Spark's catalogue) or "frame".
    format: SourceFormat
    table: str | None = None  # Table (or schema.table) of a database
    # Kinds of protected entities, each by the column or the columns that name it; empty: each row is one.
    entities: tuple[Entity, ...] = ()
    # Columns that identify a row if there are no entity columns; empty: all columns of the spec.
    identity: tuple[str, ...] = ()
    more: tuple[str, ...] = ()  # Files or globs besides `path`
    # encoding, delimiter: Of text; None: UTF-8, and the delimiter that fits the first records.
    encoding: str | None = None
    delimiter: str | None = None
    skip: int = 0  # Lines of text, or rows of a sheet, above the column names
    sheet: str | None = None  # Of a workbook; None: its only one
    sql: str | None = None  # A SELECT over the files, each a table named after its file
    # How many units a row stands for; it is read as so many rows, without this column. None, or empty: it is one.
    count_column: str | None = None
    # engine, master, memory: What reads and counts the rows, "duckdb" or "spark"; the Spark master, empty: as Spark is
    # configured; memory limit of the working database, such as "4GB", empty: the default.
    engine: Literal["duckdb", "spark"] = "duckdb"
    master: str = ""
    memory: str = ""

    @property
    def entity_columns(self) -> tuple[str, ...]:
        """All columns that name entities, each once."""
        return entity_columns(self.entities)

    @property
    def paths(self) -> tuple[str, ...]:
        """All files and globs."""
        return (self.path, *self.more) if self.path is not None else ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseHeader:
    """What a release says about itself, apart from its tables: all of it public."""

    title: str
    logical_name: str  # Name of the logical table in SQL
    vintage: str
    mode: str  # "sticky"
    # Public name of the key (a keyed digest, 16 hex digits); reveals nothing about it.
    key_id: str
    privacy: dict[str, Any] = field(default_factory=dict)  # The privacy parameters as plain values
    engine_version: str = ""
    columns: tuple[Column, ...] = ()  # The columns of the tables, without the entity columns
    tables: tuple[ColumnSet, ...] = ()  # The tables to be published, by width, then name
    notes: tuple[str, ...] = ()  # Sentences for readers of the release
    # unit, entity: What a row and a protected entity are called.
    unit: Unit = ROWS
    entity: Unit = ENTITIES
    is_reviewed: bool = False  # A person has checked all settings marked as detected
