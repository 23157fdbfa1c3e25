"""Code lists of the simulated census, as a national statistics office would publish them beforehand.

Data, and one fixed, invented geography; no seed affects it. The position of a value in its list is its code in all
other modules. About 100 occupations follow SOC 2020, 20 industries SIC 2007; each occupation says who does it and
where, from which the simulation builds its tables, and the rules read the same rows.

Invariant: wards nest in districts, districts in regions, by code prefix.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.schema import FloatArray

REFERENCE_DATE = date(2021, 3, 21)
"""Census day: ages, hours and arrivals are as of this day; events are in the year before."""


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


MAX_HOURS = 80
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


INDUSTRIES = {
    "A": "Agriculture, forestry and fishing",
    "B": "Mining and quarrying",
    "C": "Manufacturing",
    "D": "Electricity and gas",
    "E": "Water and waste",
    "F": "Construction",
    "G": "Wholesale and retail trade",
    "H": "Transport and storage",
    "I": "Accommodation and food",
    "J": "Information and communication",
    "K": "Finance and insurance",
    "L": "Real estate",
    "M": "Professional, scientific and technical",
    "N": "Administrative and support services",
    "O": "Public administration and defence",
    "P": "Education",
    "Q": "Health and social work",
    "R": "Arts and recreation",
    "S": "Other services",
    "T": "Households as employers",
}
INDUSTRY_SHARES = (9, 2, 73, 6, 7, 87, 149, 50, 49, 47, 38, 16, 66, 53, 57, 99, 147, 26, 19, 1)
"""Weights of the industries, for occupations found in any industry."""


class Occupation(NamedTuple):
    """One occupation."""

    code: str
    name: str
    weight: float  # Relative size
    female: float  # Share of women among those who do it
    pay: float  # Typical full-time pay, thousands a year
    # 0 elementary, 1 intermediate, 2 skilled; a degree is 3 usual, 4 required; 5 a master's is.
    entry: int
    own: float  # How often self-employed, relative to all
    # Letters, the main one first. All others are ruled out, unless the last is "*": anywhere.
    industries: str


_TEXT = """
1111|Chief executives and senior officials|8|.28|92|3|1.5|MCGKO*
1121|Production managers|22|.18|52|3|.5|CBDE
1122|Managers in construction|17|.08|50|2|1.2|F
1131|Financial managers|22|.42|66|3|.4|KMCG*
1132|Marketing and sales directors|16|.38|68|3|.5|GCJM*
1136|Human resource managers|12|.64|52|3|.3|NOMQ*
1171|Health services managers|10|.65|52|3|.1|Q
1211|Farm managers|6|.2|32|2|4|A
1221|Hotel and restaurant managers|18|.45|29|1|1.5|I
1251|Property managers|14|.47|38|2|1.2|LNF
1254|Shopkeepers and owners|12|.42|22|1|6|G
2111|Chemical and biological scientists|12|.47|43|4|.2|MCPQ
2121|Civil engineers|9|.15|45|4|.7|FMOE
2122|Mechanical engineers|8|.08|44|3|.4|CMFD
2134|Programmers and software developers|42|.16|50|3|.8|JMKC*
2137|IT network professionals|12|.14|41|3|.5|JMOK*
2139|Cyber and data specialists|9|.24|52|3|.4|JKMO*
2211|General practitioners|6|.54|92|4|1.2|Q
2212|Specialist doctors|12|.45|81|4|.4|Q
2221|Physiotherapists|5|.75|36|4|1|QR
2225|Clinical psychologists|4|.8|46|5|.6|QP
2231|Midwives|4|.99|38|4|.05|Q
2232|Nurses|52|.88|36|3|.05|QN
2240|Veterinarians|2|.6|48|4|1|MA
2251|Pharmacists|5|.62|46|4|.4|GQ
2253|Dentists|3|.52|72|4|4|Q
2311|University teachers|16|.47|52|5|.1|P
2313|Secondary school teachers|34|.64|42|4|.1|P
2314|Primary school teachers|36|.86|38|4|.1|P
2315|Nursery teachers|7|.97|22|2|.4|PQ
2411|Barristers and judges|3|.42|82|4|3|MO
2412|Solicitors and lawyers|13|.54|56|4|.8|MKO
2421|Chartered accountants|18|.43|46|4|1.2|MKCG*
2431|Management consultants|18|.4|58|3|2|MKJO
2451|Architects|6|.32|46|4|2.5|MF
2461|Social workers|11|.8|38|4|.1|QO
2463|Clergy|4|.3|27|3|.8|S
2491|Journalists and editors|8|.48|36|3|2.5|JRM
3111|Laboratory technicians|9|.52|26|2|.1|CMQP
3113|Engineering technicians|10|.1|35|2|.3|CDFM
3131|IT support technicians|14|.2|31|2|.4|JNOP*
3213|Paramedics|4|.42|40|3|.05|Q
3221|Youth and community workers|11|.65|26|2|.2|QSP
3311|Armed forces, other ranks|7|.11|31|1|0|O
3312|Police officers|15|.32|42|2|0|O
3313|Fire officers|5|.07|36|2|0|O
3411|Artists|5|.5|23|3|9|RM
3413|Actors and musicians|6|.42|23|3|9|RJ
3421|Graphic designers|9|.42|31|3|3|MJC
3431|Sports coaches|9|.42|21|2|3|RP
3512|Aircraft pilots|2|.06|72|2|.2|H
3534|Financial analysts|14|.42|48|3|.5|KM
3543|Marketing professionals|24|.6|35|3|1|MJGC*
3554|Estate agents|8|.52|31|1|1|L
4112|Government clerks|28|.63|26|1|.02|O
4122|Bookkeepers and payroll clerks|36|.78|25|1|1.2|MGCF*
4131|Records clerks|14|.65|24|1|.1|QONH*
4151|Sales administrators|12|.6|24|1|.2|GCMN*
4159|Other office clerks|44|.72|23|1|.2|NOPG*
4211|Medical secretaries|7|.97|24|1|.1|Q
4215|Personal assistants|26|.92|27|1|.3|MKOQ*
4216|Receptionists|20|.9|20|1|.1|QIMS*
5111|Farmers|9|.16|23|2|12|A
5113|Gardeners|13|.1|21|0|5|NAR
5223|Metal machinists|12|.04|32|2|.5|CF
5231|Vehicle mechanics|17|.02|29|2|2|G
5241|Electricians|22|.02|35|2|3.5|FDC
5311|Steel erectors and welders|8|.02|31|2|1.2|CF
5314|Plumbers and heating engineers|16|.02|34|2|4.5|F
5315|Carpenters and joiners|20|.01|31|2|5|FC
5319|Builders|26|.03|29|1|5|F
5323|Painters and decorators|9|.04|27|1|6|F
5413|Tailors and upholsterers|4|.55|22|1|3|C
5431|Butchers and bakers|6|.3|23|1|1|GC
5434|Chefs|22|.25|25|1|.6|IQP
6111|Early years workers|24|.97|19|1|1.5|PQ
6112|Teaching assistants|38|.91|19|1|.02|P
6135|Care workers|76|.82|21|0|.4|QN
6136|Senior care workers|12|.82|24|1|.1|Q
6211|Sports and leisure assistants|7|.48|19|0|.2|R
6221|Hairdressers|17|.9|18|1|7|S
6222|Beauticians|9|.97|17|1|7|S
6231|Housekeepers|5|.85|20|0|1|TI
6240|Caretakers|6|.12|23|0|.1|PLO
7111|Sales assistants|88|.62|19|0|.1|G
7112|Cashiers|18|.68|19|0|.02|GI
7132|Sales supervisors|12|.55|24|1|.1|G
7211|Call centre workers|14|.58|22|1|.05|NKJD
7219|Customer service workers|30|.6|24|1|.1|GNKH*
8111|Food process operatives|11|.38|23|0|.1|C
8131|Assemblers|12|.22|25|0|.1|C
8141|Scaffolders|3|.01|33|1|3|F
8149|Construction operatives|10|.03|28|0|3|F
8211|Lorry drivers|24|.02|32|1|.8|HGE
8213|Bus drivers|9|.09|28|1|.2|H
8214|Taxi drivers|16|.05|20|0|11|H
8229|Plant drivers|8|.02|30|1|1.2|FBE
9111|Farm workers|7|.25|22|0|1|A
9120|Labourers|13|.04|24|0|2|F
9223|Cleaners|50|.72|18|0|1.8|NPIQ*
9231|Security guards|14|.1|24|0|.4|NO
9244|School midday staff|10|.93|16|0|.02|P
9252|Warehouse workers|42|.22|24|0|.1|HGC
9253|Delivery workers|22|.09|21|0|3|HN
9263|Kitchen assistants|26|.58|18|0|.1|IPQ
9264|Waiters|16|.64|17|0|.1|I
9265|Bar staff|13|.55|17|0|.2|IR
"""


def _parsed(line: str) -> Occupation:
    code, name, weight, female, pay, entry, own, industries = line.split("|")
    return Occupation(
        code, name, float(weight), float(female), float(pay), int(entry), float(own), industries
    )


OCCUPATIONS = tuple(_parsed(line) for line in _TEXT.strip().splitlines())
"""All occupations, ordered by code."""
