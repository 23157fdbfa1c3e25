"""The data of the three applications of the paper on auditable generation: a simulated census, 15 categorical columns.

Takes a number of people. Gives a frame of texts, and what each application looks at, may use and must not use, after
Houssiau et al. 2022 (arXiv:2211.11540, section 4.1), whose census file of England and Wales is not in this project.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from engine.schema import ColumnSet
from engine.simulation import simulate_census

SEED = 2021
NONE = "none"
"""A person to whom a question is not put."""
ACTIVE = ("Employee", "Self-employed", "Student in work", "Unemployed")
"""Who is economically active."""
AGES = (0, 16, 25, 35, 45, 55, 65, 75)
HOURS = (0, 16, 31, 49)
ETHNIC: Mapping[str, tuple[str, ...]] = {
    "White British": ("White British",),
    "Other White": ("White Irish", "Gypsy or Traveller", "Roma", "Other White"),
    "Mixed": ("White and Caribbean", "White and African", "White and Asian", "Other mixed"),
    "Asian": ("Indian", "Pakistani", "Bangladeshi", "Chinese", "Other Asian"),
    "Black": ("African", "Caribbean", "Other Black"),
    "Other": ("Arab", "Other group"),
}
EUROPE = frozenset(
    "Albania Bulgaria Cyprus France Germany Greece Hungary Ireland Italy Latvia Lithuania Poland Portugal Romania "
    "Russia Spain Ukraine".split()
)
# Approximated social grade goes by the major group of the occupation, as market research has it.
MERGED: Mapping[str, Mapping[str, str]] = {
    "marital": {"Civil partnership": "Married"},
    "activity": {"Employed full-time": "Employee", "Employed part-time": "Employee"},
    "industry": dict(
        zip(
            "BCDEHJLMNRSTU",
            [*["BCDE"] * 4, *["HJ"] * 2, *["LMN"] * 3, *["RSTU"] * 4],
            strict=True,
        )
    ),
    "grade": dict(zip("123456789", ["AB"] * 2 + ["C1"] * 2 + ["C2"] + ["DE"] * 4, strict=True)),
}
RENAMED = {
    "household_type": "family",
    "marital_status": "marital",
    "ethnic_group": "ethnic",
    "birth_country": "country",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Application:
    """One analysis.

    Attributes
    ----------
    columns : ColumnSet
        Sorted by name.
    safe : tuple of ColumnSet
        Margins that a generator may use.
    forbidden : ColumnSet
        Margin that the dishonest ones take as well.
    """

    title: str
    columns: ColumnSet
    safe: tuple[ColumnSet, ...]
    forbidden: ColumnSet


def _application(
    title: str, columns: str, forbidden: str, safe: tuple[str, ...] = ()
) -> Application:
    """An application; without safe margins all pairs are."""
    names = tuple(sorted(columns.split()))
    margins = tuple(tuple(sorted(margin.split())) for margin in safe)
    return Application(
        title=title,
        columns=names,
        safe=margins or tuple(combinations(names, 2)),
        forbidden=tuple(sorted(forbidden.split())),
    )


APPLICATIONS: Mapping[str, Application] = {
    "1": _application(
        "gender gap by occupation", "activity occupation sex", "activity occupation sex"
    ),
    "2": _application(
        "multinomial regression of social grade",
        "country ethnic family grade",
        "country ethnic family grade",
        ("country ethnic family", "country grade", "ethnic grade", "family grade"),
    ),
    "3": _application(
        "random forest of health",
        "age health hours industry marital occupation region",
        "hours marital occupation",
    ),
}


def census(people: int) -> pd.DataFrame:
    """Simulate a census in 15 categorical columns."""
    with tempfile.TemporaryDirectory() as folder:
        made = simulate_census(Path(folder) / "census", people=people, seed=SEED)
        return recoded(pd.read_parquet(made.people))


def recoded(people: pd.DataFrame) -> pd.DataFrame:
    """The columns of the applications, and those that a generator of whole rows sees beside them; no blanks."""
    found = people.rename(columns=RENAMED)
    ethnic = {value: group for group, values in ETHNIC.items() for value in values}
    country = found["country"].astype(str)
    abroad = np.where(country.isin(EUROPE), "Europe", "elsewhere")
    job = found["occupation"].str[0]
    columns = {
        "age": _banded(found["age"], AGES),
        "hours": _banded(found["hours"], HOURS),
        "ethnic": found["ethnic"].map(ethnic),
        "country": pd.Series(np.where(country == "United Kingdom", country, abroad)),
        "occupation": job,
        "grade": job,
        **{
            name: found[name]
            for name in "region family relation sex marital education activity industry health".split()
        },
    }
    return pd.DataFrame(
        {
            name: column.astype(object).replace(dict(MERGED.get(name, {}))).fillna(NONE).astype(str)
            for name, column in sorted(columns.items())
        }
    )


def _banded(column: pd.Series, starts: tuple[int, ...]) -> pd.Series:
    """Numbers in bands, called so that they sort."""
    at = np.searchsorted(np.array(starts[1:]), column.to_numpy(float), side="right")
    return pd.Series([f"{starts[i]:02d}" for i in at]).where(column.notna().to_numpy())
