"""What a build costs: seconds of one core and memory, from the sizes of its tables.

Takes numbers of released buckets; gives seconds and megabytes. Linear in tables and buckets, which is what measuring,
fitting and storing go through once; rows count where they are grouped. The constants were set on four builds and
tried on a fifth (releases/MEASURED.md, "What plan predicts"): on such a machine all are within a factor of 2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

FIT_START = 0.7
"""Seconds until the fit process stands."""
FIT_TABLE, FIT_BUCKET = 0.006, 1.7e-5
"""Seconds to fit and store a table, and each of its buckets."""
MEASURE_START, MEASURE_TABLE, MEASURE_BUCKET = 1.0, 0.002, 2e-6
"""Seconds to load the program, to measure a table, and each of its buckets."""
READ_ROW, COUNT_ROW, COUNT_PAIR = 5e-6, 1e-7, 8e-7
"""Seconds a row: to read and encode it, and to count it in a table, of entities with one row and with several."""
MEASURE_MB, MB_A_BUCKET, MB_A_ROW = 190.0, 1.2e-4, 3e-4
"""Memory of the process that measures: by itself, for each bucket of all tables, and for each row."""
FIT_MB, MB_OF_LARGEST = 185.0, 5.8e-3
"""Memory of the process that fits: by itself, and for each bucket of the largest table."""
FINE_BUCKET, FINE_ROW = 1.5e-6, 8e-7
"""Pairs of columns of very many values: seconds to fit and store each bucket, and to count, fit and store each row."""
FINE_MB_A_BUCKET, FINE_MB_A_ROW = 6e-5, 8e-4
"""And memory: where they are measured for each bucket of all of them, where they are fitted for each row."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """What a build with one job takes."""

    seconds: float  # Of one core
    megabytes: float  # Of all its processes at their largest

    def __str__(self) -> str:
        return (
            f"about {max(self.seconds, 1):,.0f} s of one core and {self.megabytes:,.0f} MB to build"
        )


def table_seconds(n_buckets: int, *, fine_rows: int = 0) -> float:
    """Seconds to fit and store one table; of a fine one with its rows."""
    if fine_rows:
        return FIT_TABLE + FINE_BUCKET * n_buckets + FINE_ROW * fine_rows
    return FIT_TABLE + FIT_BUCKET * n_buckets


def cost_of(
    buckets: Sequence[float], *, rows: int, is_paired: bool, fine: Sequence[float] = ()
) -> Cost:
    """What a build takes.

    fine: Those of them that are of two columns of very many combinations: rows, not buckets, make most of
        their cost.
    """
    n, n_buckets = len(buckets), float(sum(buckets))
    a_row = READ_ROW + n * (COUNT_PAIR if is_paired else COUNT_ROW)
    measuring = MEASURE_START + MEASURE_TABLE * n + MEASURE_BUCKET * n_buckets + a_row * rows
    fitting = FIT_START + FIT_TABLE * n + FIT_BUCKET * (n_buckets - sum(fine))
    fitting += FINE_BUCKET * sum(fine) + FINE_ROW * len(fine) * rows
    listed = list((Counter(buckets) - Counter(fine)).elements())
    memory = MEASURE_MB + MB_A_BUCKET * sum(listed) + FINE_MB_A_BUCKET * sum(fine) + MB_A_ROW * rows
    memory += FIT_MB + MB_OF_LARGEST * max(listed, default=0)
    memory += FINE_MB_A_ROW * rows if fine else 0.0
    return Cost(seconds=measuring + fitting, megabytes=memory)
