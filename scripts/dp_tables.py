"""The coded tables that ./scripts/dp works on, and the published figures they are held against.

SD2011 and the NIST excerpt are read where they lie; nothing of them is kept. A coded table is whole numbers from 0 on,
one column a variable, every level of the public list counted though no row may have it.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.evaluation.measures.combinations import fit

SD2011 = ("sex", "age", "placesize", "edu", "socprof", "income", "marital")
"""S3, S5 and S7 are the first 3, 5 and 7 (Raab 2022, table 4)."""
NIST7 = ("SEX", "AGEP", "EDU", "MSP", "RAC1P", "OWN_RENT", "HISP")
NIST_AGE_BREAKS = (18, 35, 50, 65)
NOT_APPLICABLE = -8
GROUPS = 5


@dataclass(frozen=True, kw_only=True)
class Coded:
    """A table as codes.

    Attributes
    ----------
    columns : tuple of str
    codes : ndarray of int64, shape (n_rows, n_columns)
    sizes : tuple of int
        Levels of each column.
    """

    columns: tuple[str, ...]
    codes: NDArray[np.int64]
    sizes: tuple[int, ...]

    def first(self, n: int) -> Coded:
        """The first columns only."""
        return Coded(columns=self.columns[:n], codes=self.codes[:, :n], sizes=self.sizes[:n])

    def margin(self, columns: Sequence[str]) -> NDArray[np.int64]:
        """Counts of every combination of levels, one axis a column in the order given."""
        at = [self.columns.index(c) for c in columns]
        shape = tuple(self.sizes[i] for i in at)
        key = np.zeros(len(self.codes), np.int64)
        for i in at:
            key = key * self.sizes[i] + self.codes[:, i]
        return np.bincount(key, minlength=prod(shape)).reshape(shape)


def coded(frame: pd.DataFrame, domains: dict[str, Sequence[object]]) -> Coded:
    """Code a frame by its columns' lists; a value that a list lacks is an error."""
    columns = tuple(frame.columns)
    codes = np.empty((len(frame), len(columns)), np.int64)
    for i, name in enumerate(columns):
        codes[:, i] = pd.Index(domains[name]).get_indexer(frame[name])
        if (codes[:, i] < 0).any():
            raise ValueError(f"{name}: a value is not in its list")
    return Coded(columns=columns, codes=codes, sizes=tuple(len(domains[c]) for c in columns))


def quintile(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Group of each value between the quintiles of all of them; a limit belongs to the group below (as R's `cut`)."""
    limits = np.quantile(values, np.arange(1, GROUPS) / GROUPS)
    return np.searchsorted(limits, values, side="left").astype(np.int64)


def sd2011(folder: Path, *, blanks: bool = False) -> Coded:
    """Code SD2011 as Raab 2022 did, as far as that can be recovered: k = 60, 2,160, 77,760.

    Age and income in quintile groups of the data; missing education, group and marital status are the commonest value;
    income that is missing or does not apply is one level more. With `blanks` every kind of blank is a level of its own,
    as synthpop's syntheses have them (k = 60, 3,000, 147,000). The project's own users declare breaks instead: groups
    that are cut from the data are a leak.
    """
    raw = pd.read_csv(folder / "SD2011.csv")
    frame = pd.DataFrame({"sex": raw["sex"], "age": quintile(raw["age"].to_numpy(np.float64))})
    frame["placesize"] = raw["placesize"]
    for name in ("edu", "socprof", "marital"):
        frame[name] = raw[name].fillna("(blank)" if blanks else raw[name].mode()[0])
    income = raw["income"].to_numpy(np.float64)
    has = ~np.isnan(income) & (income != NOT_APPLICABLE)
    group = np.full(len(raw), GROUPS, np.int64)
    group[has] = quintile(income[has])
    if blanks:
        group[np.isnan(income)] = GROUPS + 1
    frame["income"] = group
    return coded(frame[list(SD2011)], {c: sorted(frame[c].unique()) for c in SD2011})


def nist7(folder: Path) -> Coded:
    """Seven columns of the NIST excerpt by the lists of its schema, age in 5 public groups: 122,850 cells."""
    raw = pd.read_csv(folder / "national2019.csv", dtype=str, keep_default_na=False)
    schema = json.loads((folder / "schema.json").read_text("utf-8"))["schema"]
    frame = raw[list(NIST7)].copy()
    ages = raw["AGEP"].astype(int).to_numpy()
    frame["AGEP"] = np.searchsorted(NIST_AGE_BREAKS, ages, side="right")
    domains: dict[str, Sequence[object]] = {
        name: _listed(schema[name]) for name in NIST7 if name != "AGEP"
    }
    domains["AGEP"] = range(len(NIST_AGE_BREAKS) + 1)
    return coded(frame, domains)


def _listed(described: dict[str, object]) -> list[str]:
    """Values of a column of the schema as texts, N (a blank) among them where it may be null."""
    values = [str(v) for v in described["values"]]
    nulls = ["N"] if described.get("has_null") else []
    return list(dict.fromkeys(nulls + values))


def shape(table: Coded) -> dict[str, float]:
    """k cells, percentage of them that are empty (p0), percentage of rows that are unique (p1)."""
    n = np.unique(table.codes, axis=0, return_counts=True)[1]
    k = prod(table.sizes)
    return {
        "k": k,
        "p0": 100 * (1 - len(n) / k),
        "p1": 100 * float((n == 1).sum()) / len(table.codes),
    }


def replicated_uniques(original: Coded, cells: NDArray[np.int64], n: NDArray[np.int64]) -> float:
    """Uniques of the synthetic rows that are unique in the original too, in percent of the original's rows (ru).

    Parameters
    ----------
    original : Coded
    cells : ndarray of int64, shape (n_cells, n_columns)
        Distinct synthetic rows, columns in the original's order.
    n : ndarray of int64, shape (n_cells,)
    """
    keys, counts = np.unique(_keys(original.codes, original.sizes), return_counts=True)
    found = _keys(cells[n == 1], original.sizes)
    return 100 * float(np.isin(found, keys[counts == 1]).sum()) / len(original.codes)


def _keys(codes: NDArray[np.int64], sizes: Sequence[int]) -> NDArray[np.int64]:
    key = np.zeros(len(codes), np.int64)
    for i, size in enumerate(sizes):
        key = key * size + codes[:, i]
    return key


def mean_s_pmse(original: Coded, cells: NDArray[np.int64], n: NDArray[np.int64], way: int) -> float:
    """Mean S_pMSE over all tables of so many columns; arguments as in `replicated_uniques`."""
    found = []
    for at in combinations(range(len(original.columns)), way):
        size = prod(original.sizes[i] for i in at)
        sizes = [original.sizes[i] for i in at]
        left = np.bincount(_keys(original.codes[:, at], sizes), minlength=size)
        right = np.bincount(_keys(cells[:, at], sizes), weights=n, minlength=size)
        found.append(fit(left.astype(np.float64), right).s_pmse)
    return float(np.mean(found))


def published(
    folder: Path, method: str, measure: str, data: str, epsilon: float | None = None
) -> float:
    """A figure of tables 1 to 3 of Raab 2022; NaN where they have none."""
    with (folder / "published_tables.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            row_epsilon = float(row["epsilon"]) if row["epsilon"] else None
            if (row["method"], row["measure"], row_epsilon) == (method, measure, epsilon):
                return float(row[data]) if row[data] else float("nan")
    return float("nan")
