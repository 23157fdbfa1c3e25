"""What the figures of `engine.utility.margins` mean. Gives the catalogue that the module hands on."""

from __future__ import annotations

import math
from typing import Literal

from engine.score import Figure


def _figure(
    name: str,
    title: str,
    words: str,
    *,
    better: Literal["lower", "higher", "neither"] = "lower",
    high: float = math.inf,
    perfect: float | None = None,
    columns: str = "",
    digits: int = 0,
    is_headline: bool = False,
) -> Figure:
    """A figure of this module; a copy of the original has no error."""
    return Figure(
        name=name,
        title=title,
        words=words,
        better=better,
        high=high,
        perfect=0 if better == "lower" else perfect,
        columns=columns,
        digits=digits,
        is_headline=is_headline,
    )


def _gap(name: str, title: str, of: str, *, is_headline: bool = False) -> Figure:
    """A largest gap between tables."""
    words = f"The largest difference, in rows, between a count that {of} show and the same count in a narrower table."
    return _figure(f"margins.{name}", title, words, is_headline=is_headline)


FIGURES: tuple[Figure, ...] = (
    _gap("up_to_2", "1- against 2-column tables, largest gap", "tables of two columns"),
    _gap("above_2", "wider tables against narrower ones, largest gap", "tables of three or more"),
    _gap("above_2_on_1", "... against 1-column tables", "tables of three or more columns"),
    _gap("above_2_on_2", "... against 2-column tables", "tables of three or more columns"),
    _figure(
        "margins.share_equal_above_2",
        "pairs of tables that agree",
        "The share of the pairs of a wider and a narrower table of which every shared count is the same.",
        better="higher",
        high=1,
        perfect=1,
        digits=3,
    ),
    _figure(
        "margins.share_within_1_above_2",
        "pairs of tables that agree within 1",
        "The share of the pairs of a wider and a narrower table of which no shared count differs by more than 1 row.",
        better="higher",
        high=1,
        perfect=1,
        digits=3,
    ),
    _figure(
        "one_way_from_wider.rmse",
        "1-column counts from 3-column tables, error",
        "The usual error, in rows, of the counts of one column when they are read from tables of three.",
        columns="3",
        digits=2,
    ),
    _figure(
        "one_way_from_wider.rmse_of_1",
        "the same counts from 1-column tables, error",
        "The usual error, in rows, of the same counts read from the narrowest table.",
        columns="1",
        digits=2,
    ),
    _figure("one_way_from_wider.n", "counts from wider tables", "How many.", better="neither"),
    _figure(
        "averaging.rmse_alone",
        "1-column counts, usual error",
        "The usual error, in rows, of a count that the table of one column shows.",
        columns="1",
        digits=2,
    ),
    _figure(
        "averaging.rmse_all",
        "1-column counts averaged over all tables, usual error",
        "The usual error, in rows, of the mean of a count over all tables that show it.",
        columns="1",
        digits=2,
    ),
    _figure(
        "averaging.ratio",
        "what averaging over tables leaves of the error",
        "The error of counts averaged over all tables as a share of the error of one table: 1 where averaging gains an "
        "attacker nothing, lower where noise averages away.",
        better="higher",
        digits=3,
        perfect=1,
    ),
    _figure(
        "averaging.sd_alone",
        "1-column counts, deviation of the error",
        "How much noise the counts of the tables of one column carry.",
        better="neither",
        digits=2,
    ),
    _figure(
        "averaging.exact_alone",
        "1-column counts, share exact",
        "The share of the counts of one column that are the true ones.",
        better="neither",
        high=1,
        digits=2,
    ),
    _figure(
        "averaging.exact_all",
        "1-column counts averaged, share exact",
        "The share of the counts that are the true ones after averaging over all tables and rounding.",
        better="neither",
        high=1,
        digits=2,
    ),
    _figure("averaging.n", "counts averaged", "How many counts were looked at.", better="neither"),
    _figure(
        "ranges.sd",
        "ranges of a column, usual error",
        "The usual error, in rows, of the number of rows in a range of values, read from any table with the column.",
        columns="1",
        digits=2,
    ),
    _figure(
        "ranges.sd_of_1",
        "ranges of a column, from its own table, usual error",
        "The same read from the table of that column alone.",
        columns="1",
        digits=2,
    ),
    _figure(
        "ranges.largest",
        "ranges of a column, largest error",
        "The range whose number of rows is furthest off, in rows.",
        columns="1",
    ),
    _figure(
        "ranges.n", "ranges", "How many ranges of how many tables were read.", better="neither"
    ),
)
