"""Code lists of the simulated census: what a national statistics office would publish beforehand.

Data and one fixed, invented geography; no seed reaches it. The position of a value in its list is
its code in all other `simulate` modules.

Invariant: wards nest in districts, districts in regions, by code prefix.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from engine.schema import FloatArray

REFERENCE_DATE = date(2021, 3, 21)
"""Census day: ages, hours and arrivals are as of this day; events lie in the year before."""


class Kind(IntEnum):
    """Kinds of household, as positions in `HOUSEHOLD_TYPES`."""

    ONE = 0
    COUPLE = 1
    FAMILY = 2
    LONE = 3
    EXTENDED = 4
    SHARED = 5
    ESTABLISHMENT = 6


class Relation(IntEnum):
    """Relations to the household's reference person, as positions in `RELATIONS`."""

    REFERENCE = 0
    PARTNER = 1
    CHILD = 2
    PARENT = 3
    UNRELATED = 4
    RESIDENT = 5


class Activity(IntEnum):
    """Economic activities, as positions in `ACTIVITIES`."""

    FULL_TIME = 0
    PART_TIME = 1
    SELF_EMPLOYED = 2
    WORKING_STUDENT = 3
    UNEMPLOYED = 4
    STUDENT = 5
    RETIRED = 6
    HOME = 7
    SICK = 8
    OTHER = 9


SEXES = ("Female", "Male")
FEMALE, MALE = 0, 1
HOUSEHOLD_TYPES = (
    "One person", "Couple", "Couple with children", "Lone parent", "Three generations", "Shared",
    "Establishment",
)  # fmt: skip
RELATIONS = ("Reference person", "Partner", "Child", "Parent", "Unrelated", "Resident")
MARITAL_STATUSES = (
    "Single", "Married", "Civil partnership", "Separated", "Divorced", "Widowed",
)  # fmt: skip
EDUCATIONS = (
    "None", "Level 1", "Level 2", "Apprenticeship", "Level 3", "Bachelor", "Master", "Doctorate",
)  # fmt: skip
ACTIVITIES = (
    "Employed full-time", "Employed part-time", "Self-employed", "Student in work", "Unemployed",
    "Student", "Retired", "Looking after home", "Long-term sick", "Other inactive",
)  # fmt: skip
HEALTHS = ("Very good", "Good", "Fair", "Bad", "Very bad")
DISABILITIES = ("Limited a lot", "Limited a little", "Not limited")
TENURES = ("Owned outright", "Owned with mortgage", "Social rented", "Private rented", "Rent free")

_ETHNIC_TEXT = """
White British|744|.03|Germany 3,South Africa 3,Australia 3,United States 2,\
Hong Kong 1,Cyprus 1,Kenya 1,Canada 1
White Irish|9|.55|Ireland 60,United States 1
Gypsy or Traveller|1.5|.1|Ireland 5
Roma|1.7|.75|Romania 8,Poland 1,Bulgaria 1
Other White|62|.74|Poland 22,Romania 16,Italy 8,Portugal 5,Spain 5,Lithuania 5,\
France 4,Germany 4,Bulgaria 4,\
United States 4,Australia 3,Greece 3,Turkey 3,Hungary 3,Latvia 3,\
Ukraine 2,Brazil 3,New Zealand 2,Albania 2,Russia 2
Indian|31|.57|India 80,Kenya 9,Uganda 4,South Africa 1,Malaysia 1
Pakistani|27|.42|Pakistan 90,India 1,Kenya 1,Italy 1
Bangladeshi|11|.46|Bangladesh 90,Italy 3,India 1
Chinese|7.5|.68|China 50,Hong Kong 28,Malaysia 8,Vietnam 3
Other Asian|16|.7|Sri Lanka 20,Philippines 20,Afghanistan 12,Nepal 9,Iran 6,Malaysia 4,Vietnam 3
African|25|.6|Nigeria 30,Ghana 14,Somalia 13,Zimbabwe 11,Kenya 4,Uganda 3,South Africa 2,Eritrea 4
Caribbean|10|.38|Jamaica 60,Trinidad and Tobago 7
Other Black|5|.3|Jamaica 4,Nigeria 4,Portugal 1,United States 1
White and Asian|8|.2|India 3,Hong Kong 2,Malaysia 1,United States 1
White and African|4|.25|South Africa 5,Zimbabwe 2,Nigeria 1
White and Caribbean|9|.06|Jamaica 5
Other mixed|8|.3|United States 3,Brazil 3,South Africa 1
Arab|6|.7|Iraq 12,Syria 7,Iran 1
Other group|16|.68|Iran 9,Turkey 9,Iraq 8,Afghanistan 4,Brazil 3,Philippines 2
"""
_ETHNIC_ROWS = tuple(line.split("|") for line in _ETHNIC_TEXT.strip().splitlines())
ETHNIC_GROUPS = tuple(row[0] for row in _ETHNIC_ROWS)
ETHNIC_SHARES = np.array([float(row[1]) for row in _ETHNIC_ROWS])
MIXED_GROUPS = tuple(ETHNIC_GROUPS.index(name) for name in ETHNIC_GROUPS[13:17])
"""Positions of the mixed groups, from which children of mixed couples are drawn."""
HOME = "United Kingdom"
_ABROAD = tuple(
    tuple((item.rsplit(" ", 1)[0], float(item.rsplit(" ", 1)[1])) for item in row[3].split(","))
    for row in _ETHNIC_ROWS
)
COUNTRIES = (HOME, *sorted({name for row in _ABROAD for name, _ in row}))
"""Countries of birth; the first is the country of the census."""

DEPARTMENTS = {
    "Emergency": "Injury,Chest pain,Breathing,Abdominal pain,Collapse",
    "General practice": "Check-up,Infection,Prescription,Pain,Referral",
    "Cardiology": "Hypertension,Angina,Arrhythmia,Heart failure,Follow-up of surgery",
    "Orthopaedics": "Fracture,Back pain,Arthritis,Joint replacement,Sprain",
    "Maternity": "Booking,Scan,Antenatal,Delivery,Postnatal",
    "Paediatrics": "Vaccination,Growth,Fever,Asthma,Allergy",
    "Mental health": "Anxiety,Depression,Addiction,Psychosis,Eating disorder",
    "Dental": "Examination,Filling,Extraction,Hygiene,Orthodontics",
    "Eye clinic": "Vision test,Cataract,Glaucoma,Retina,Eye infection",
    "Dermatology": "Eczema,Mole check,Psoriasis,Acne,Rash",
    "Oncology": "Screening,Chemotherapy,Radiotherapy,Biopsy,Remission check",
    "Renal": "Dialysis,Transplant check,Kidney stones,Kidney function,Access care",
}
REASONS = tuple(
    f"{department}: {reason}"
    for department, text in DEPARTMENTS.items()
    for reason in text.split(",")
)
"""Reasons of visits; five for each department, in the order of `DEPARTMENTS`."""


def birth_country_weights() -> FloatArray:
    """Return weights of birth countries for each ethnic group, shape (n_groups, n_countries)."""
    weights = np.zeros((len(ETHNIC_GROUPS), len(COUNTRIES)))
    for group, (row, abroad) in enumerate(zip(_ETHNIC_ROWS, _ABROAD, strict=True)):
        share = float(row[2])
        total = sum(weight for _, weight in abroad)
        weights[group, 0] = 1 - share
        for name, weight in abroad:
            weights[group, COUNTRIES.index(name)] = share * weight / total
    return weights


@dataclass(frozen=True, kw_only=True, slots=True)
class Geography:
    """The invented country: about 800 wards in about 80 districts in 9 regions."""

    regions: tuple[str, ...]
    districts: tuple[str, ...]
    wards: tuple[str, ...]
    # district_of, region_of: shape (n_wards,)
    district_of: NDArray[np.int64]
    region_of: NDArray[np.int64]
    weight: FloatArray  # shape (n_wards,): Relative number of households, skewed
    diversity: NDArray[np.int64]  # shape (n_wards,): 0 (few people from elsewhere) to 4 (many)
    # shape (n_wards,): 0 young and urban, 1 suburban, 2 mixed, 3 old and rural.
    character: NDArray[np.int64]
    wealth: NDArray[np.int64]  # shape (n_wards,): 0 deprived, 1 middling, 2 wealthy


_DISTRICTS_OF_REGION = (5, 9, 8, 9, 10, 12, 11, 10, 7)
_REGION_SCALE = (0.6, 1.0, 0.8, 0.9, 1.1, 1.5, 1.3, 0.9, 0.5)
_REGION_DIVERSITY = (0, 1, 1, 1, 2, 3, 1, 0, 0)


def _geography() -> Geography:
    districts = [
        (region, district) for region, n in enumerate(_DISTRICTS_OF_REGION) for district in range(n)
    ]
    wards = [
        (at, region, district, ward)
        for at, (region, district) in enumerate(districts)
        for ward in range(4 + (7 * at * at + 5 * at + 3) % 13)
    ]
    at, region, district, ward = np.array(wards, dtype=np.int64).T
    # Fixed spreads of numbers in [0, 1): arithmetic, which no version of numpy changes.
    spread = np.arange(len(wards)) * 0.6180339887498949 % 1.0
    other_spread = np.arange(len(wards)) * 0.7548776662466927 % 1.0
    town = 1.0 / (1.0 + district) ** 0.5
    character = np.clip((spread * 3 + 1.2 * (1 - town)).astype(np.int64), 0, 3)
    return Geography(
        regions=tuple(f"R{r + 1}" for r in range(len(_DISTRICTS_OF_REGION))),
        districts=tuple(f"R{r + 1}-D{d + 1:02}" for r, d in districts),
        wards=tuple(f"R{r + 1}-D{d + 1:02}-W{w + 1:02}" for _, r, d, w in wards),
        district_of=at,
        region_of=region,
        weight=np.array(_REGION_SCALE)[region]
        * town
        * (0.3 + 1.7 * other_spread**3)
        / (1 + 0.1 * ward),
        diversity=np.clip(np.array(_REGION_DIVERSITY)[region] + (character == 0), 0, 4),
        character=character,
        wealth=np.array([1, 2, 1, 0, 1, 2, 0])[(3 * ward + at) % 7],
    )


GEOGRAPHY = _geography()
"""The one geography, the same for every seed and size."""
