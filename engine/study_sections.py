"""Sections of a study: what each utility measure is about, as data.

Every section is optional; an unknown key is a mistake. See `engine.study` for the whole, `engine.study_risks` for the
attacks.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Section(BaseModel):
    """A part of a study; frozen, and an unknown key is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Binning(Section):
    """How the values of a column are grouped: by ranks of the original, or by edges.

    Attributes
    ----------
    ranks : int, optional
        Number of groups of equal share of the original; ties stay together.
    apart : tuple of float
        Values that are no part of the ranking and a group each.
    edges : tuple of float
        Groups (edges[i], edges[i + 1]]; what is above the last edge is in the last group, what is not above the first
        belongs to none and is left out.
    """

    ranks: int | None = None
    apart: tuple[float, ...] = ()
    edges: tuple[float, ...] = ()


class Univariate(Section):
    """Counts of one column.

    Attributes
    ----------
    leave_out : tuple of str
        Columns that are not counted.
    known : tuple of str
        Columns of which only values of the original count, blanks not.
    """

    leave_out: tuple[str, ...] = ()
    known: tuple[str, ...] = ()


class Correlations(Section):
    """Correlations of pairs of columns: Kendall's tau, Pearson, Spearman of ordered ones, Cramer's V of all.

    Attributes
    ----------
    columns : tuple of str
        Ordered columns: numbers, times, texts with a declared order, and codes that stand for an order.
    categories : tuple of str
        Columns of Cramer's V; none: all columns of at most `most_values` values.
    most_values : int
    binned : tuple of str
        Columns that are binned first.
    blanks : str
        "lowest": a blank is the lowest value; "left out": pairs with a blank do not count.
    diagonal : bool
        Count each column's tau with itself too, whose difference is nought (a published median did).
    """

    columns: tuple[str, ...]
    categories: tuple[str, ...] = ()
    most_values: int = 100
    binned: tuple[str, ...] = ()
    blanks: Literal["lowest", "left out"] = "left out"
    diagonal: bool = False


class Marginals(Section):
    """Densities of combinations of columns.

    Attributes
    ----------
    width : int
        Number of columns combined, beside `group`.
    group : tuple of str
        Columns that are in every combination.
    leave_out : tuple of str
        Columns in none.
    unbinned : tuple of str
        Columns that a second score leaves unbinned.
    most : int
        If there are more combinations, so many are drawn, each at most once.
    shares : tuple of float
        Percentages of the original that are sampled for the sampling equivalent.
    """

    width: int = Field(default=2, ge=1)
    group: tuple[str, ...] = ()
    leave_out: tuple[str, ...] = ()
    unbinned: tuple[str, ...] = ()
    most: int = Field(default=2_000, ge=1)
    shares: tuple[float, ...] = (1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100)


class Propensity(Section):
    """How well a decision tree tells synthetic rows from original ones.

    Attributes
    ----------
    depth : int
        Depth of the tree.
    binned : tuple of str
        Columns that are binned first.
    blanks_last : tuple of str
        Columns whose blanks are the highest value; elsewhere they are the lowest.
    """

    depth: int = 6
    binned: tuple[str, ...] = ()
    blanks_last: tuple[str, ...] = ()


class RegressionGroup(Section):
    """Rows of one regression: those with one of the listed values in every column of `where`."""

    name: str
    where: dict[str, list[float | str]] = {}


class Regression(Section):
    """Slopes of `y` on `x` by least squares, one for each group, rounded to `digits`."""

    x: str
    y: str
    digits: int = 2
    groups: tuple[RegressionGroup, ...]


class Rule(Section):
    """Something that never is: DuckDB SQL over `columns`, true where a record is impossible; counted in `group`."""

    name: str
    columns: tuple[str, ...]
    violated: str
    group: str = "all"


class Inconsistencies(Section):
    """Rules, and how they spell a blank.

    Attributes
    ----------
    file : str, optional
        JSON list of rules, relative to the study.
    rules : tuple of Rule
        Rules; those of `file` are added.
    blank : str, optional
        Columns are texts in the rules and a blank is this one; without it they have their types, and blanks are NULL.
    unless : dict of str to tuple of str
        Rule -> columns; the rule does not count in a table that has any of them.
    """

    file: str | None = None
    rules: tuple[Rule, ...] = ()
    blank: str | None = None
    unless: dict[str, tuple[str, ...]] = {}


class Components(Section):
    """Principal components of the widest table, compared by the Kolmogorov-Smirnov distance.

    Attributes
    ----------
    n : int
        Number of components.
    leave_out : tuple of str
    binned : tuple of str
        Columns that are binned first.
    blanks : dict of str to float
        Number that stands for a blank of a column; elsewhere `blank`.
    blank : float
    highlight : str, optional
        A column whose blanks are marked in the picture.
    """

    n: int = Field(default=5, ge=1)
    leave_out: tuple[str, ...] = ()
    binned: tuple[str, ...] = ()
    blanks: dict[str, float] = {}
    blank: float = -1
    highlight: str | None = None


class Tables(Section):
    """Closed-form pMSE and S_pMSE of tables (synthpop's utility.tables).

    Attributes
    ----------
    widths : tuple of int
    groups : int
        Numbers with more values are cut at so many quantiles of both sides together.
    leave_out : tuple of str
    most_cells : int
        Larger tables are left out, and said to be.
    most : int
        If there are more tables of a width, so many are drawn, each at most once.
    """

    widths: tuple[int, ...] = (1, 2, 3)
    groups: int = Field(default=5, ge=2)
    leave_out: tuple[str, ...] = ()
    most_cells: int = 1_000_000
    most: int = Field(default=3_000, ge=1)


class Models(Section):
    """Propensity scores by logistic regression with interactions and by a tree (CART), over columns of one table.

    Attributes
    ----------
    columns : tuple of str
        None: those of the widest table.
    leave_out : tuple of str
    groups : int
        Numbers are cut at so many quantiles for the regression.
    most_levels : int
        Rarer levels of a column are put together.
    interactions : bool
        Products of all pairs of columns, too.
    rows : int
        Rows of each side that are looked at; a sample where there are more.
    depth : int
        Depth of the tree.
    """

    columns: tuple[str, ...] = ()
    leave_out: tuple[str, ...] = ()
    groups: int = Field(default=5, ge=2)
    most_levels: int = Field(default=8, ge=2)
    interactions: bool = True
    rows: int = Field(default=20_000, ge=10)
    depth: int = Field(default=8, ge=1)


class Distributions(Section):
    """Empirical distribution functions of ordered columns; none named: all numbers and times."""

    columns: tuple[str, ...] = ()


class Estimate(Section):
    """A parameter that an analyst estimates, over the rows that have one of the listed values in `where`.

    Attributes
    ----------
    name : str
    kind : str
        "mean" of `column`; "share" of rows with `value` in it; "slope" of `column` on `on` by least squares.
    column : str
    value : float or str, optional
    on : str, optional
    where : dict of str to list
    """

    name: str
    kind: Literal["mean", "share", "slope"]
    column: str
    value: float | str | None = None
    on: str | None = None
    where: dict[str, list[float | str]] = {}


class Learning(Section):
    """A task for learners: predict `target` from `features`, trained on synthetic rows, tested on real ones.

    Attributes
    ----------
    target : str
    features : tuple of str
        None: all other columns of the smallest table that has the target and most columns.
    test_share : float
        Share of the original that is tested on; the rest trains for comparison.
    trees : int
        Of the random forest.
    rows : int
        Rows of each training set that are used; a sample where there are more.
    """

    target: str
    features: tuple[str, ...] = ()
    test_share: float = Field(default=0.3, gt=0, lt=1)
    trees: int = Field(default=100, ge=1)
    rows: int = Field(default=20_000, ge=10)


class Gap(Section):
    """Difference of the proportions of two groups in each cell of `by` (the gender gap).

    Attributes
    ----------
    group : str
        Column of the groups.
    values : tuple of two
        The two groups.
    by : tuple of str
    where : dict of str to list
    """

    group: str
    values: tuple[float | str, float | str]
    by: tuple[str, ...]
    where: dict[str, list[float | str]] = {}


class Ranges(Section):
    """A column of whole numbers whose ranges are counted: all snapped ones, and `random` others."""

    column: str
    random: int = 200
