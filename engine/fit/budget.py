"""How long searches may look: what bounds the work of a fit, not what it looks for.

Each search ends by itself where nothing is left to gain; these figures end it where that would take too long, or limit
what is looked at in one step. Larger ones make a fit slower; how much better it would become has not
been measured. Rows that are released do depend on them.
"""

from __future__ import annotations

from typing import NamedTuple


class SearchBudget(NamedTuple):
    """A tuple of whole numbers, as kernels take it."""

    # Raking: most cycles; cycles in which what the sums are out of bounds must have halved for it to go on.
    raking_cycles: int = 30
    raking_patience: int = 6
    # Calibration to measured sums, each followed by raking.
    calibrations: int = 2
    # Controlled rounding and settling: what is weighed for a sum that is off. Rounding, for each sum that is off and
    # another twenty: most moves, and moves that may go by without a gain.
    tries: int = 256
    steps: int = 200
    patience: int = 5
    # Most cells of a table in which filled counts are searched for, too: in larger ones hardly any can be met.
    bold_cells: int = 10_000
    # Rows that rounding could not place: most combinations of such rows and short codes that are weighed; above it
    # they are put together in order.
    pairings: int = 1 << 20
    # Settling: most rounds; most sums that one looks at; turns of all margins and columns that
    # may settle nothing.
    settlings: int = 120
    settled_at_once: int = 256
    idle_turns: int = 4
    # A column that several coarser ones follow from: turns in which it is benchmarked to each.
    benchmarking_turns: int = 12
    # Wide tables. So many rows are searched one by one; of more, each stands for several, and so many are searched
    # again at a time, and so often, once all of them are there.
    wide_rows: int = 100_000
    polished_rows: int = 200_000
    polishes: int = 2
    # Sweeps of block exchanges, and of matched ones to the pairs alone and to all tables; of values within groups, and
    # of these for sums.
    block_sweeps: int = 3
    pair_sweeps: int = 2
    sweeps: int = 8
    value_sweeps: int = 3
    sum_sweeps: int = 32
    # Of a batch of rows: turns in which those whose choice was taken choose again; pairs that try a block exchange.
    matches: int = 6
    block_pairs: int = 2048
    # Rows with an impossible pair of values: most rounds, and rows in one; rounds without an exchange after which a
    # row is left as it is; partners that a row looks at for each block; columns that may move together with those of
    # the pair, and sets of them; and the last three for the few rows that are left then.
    repairs: int = 8
    repaired_rows: int = 2000
    repair_patience: int = 3
    repair_partners: int = 4096
    repair_near: int = 10
    repair_subsets: int = 4
    last_partners: int = 1 << 16
    last_near: int = 16
    last_subsets: int = 12


BUDGET = SearchBudget()
