"""Columns of a spec, swapping and wide tables: what is read, and mistakes with their places."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pytest
from fixtures.spec import HEAD, TABLES, cases, column, mistakes, places

from engine.errors import SpecError
from engine.params import PROFILES, SwapParams
from engine.schema import Resolution
from engine.spec import WideOptions, amended, read_spec


@pytest.mark.parametrize(
    ("place", "lines"),
    cases(r"""
columns.v.kind        |
columns.v.type        | kind = "integer" ; type = "text"
columns.v.resolution  | kind = "integer" ; resolution = 0.1
columns.v.resolution  | kind = "integer" ; resolution = "month"
columns.v.resolution  | kind = "integer" ; resolution = 100 ; step = 10
columns.v.resolution  | kind = "date" ; resolution = 7
columns.v.resolution  | kind = "date" ; resolution = "hour"
columns.v.resolution  | kind = "time" ; resolution = "day"
columns.v.resolution  | kind = "category" ; resolution = 1
columns.v.resolution  | kind = "real"
columns.v.resolution  | kind = "real" ; resolution = "fine"
columns.v.resolution  | kind = "real" ; resolution = 0.3
columns.v.resolution  | kind = "real" ; resolution = 0
columns.v.resolution  | kind = "real" ; resolution = inf
columns.v.resolution  | kind = "real" ; resolution = true
columns.v.resolution  | kind = "real" ; resolution = 1e-30
columns.v.resolution  | kind = "decimal" ; resolution = 10
columns.v.resolution  | kind = "decimal" ; resolution = 0.125
columns.v.step        | kind = "integer" ; step = 0
columns.v.step        | kind = "date" ; step = 2
columns.v.step        | kind = "integer" ; step = 0.5
columns.v.domain      | kind = "category" ; domain = []
columns.v.domain      | kind = "category" ; domain = ["a", ""]
columns.v.domain      | kind = "category" ; domain = [1]
columns.v.domain      | kind = "category" ; domain = 5
columns.v.domain      | kind = "integer" ; domain = { min = 1 }
columns.v.domain      | kind = "integer" ; domain = { min = 2, max = 1 }
columns.v.domain      | kind = "boolean" ; domain = [true]
columns.v.domain      | kind = "category" ; type = "integer" ; domain = [1, true]
columns.v.domain      | kind = "category" ; type = "integer" ; domain = [1, 2.0]
columns.v.domain      | kind = "category" ; type = "integer" ; domain = [9223372036854775807]
columns.v.domain      | kind = "category" ; type = "real" ; domain = [inf]
columns.v.domain      | kind = "category" ; type = "date" ; domain = ["x"]
columns.v.domain      | kind = "category" ; type = "date" ; domain = [2020-01-01T00:00:00]
columns.v.domain      | kind = "category" ; domain = { min = 1, max = 2 }
columns.v.domain      | kind = "integer" ; domain = [1]
columns.v.domain      | kind = "integer" ; domain = { min = 1, max = "x" }
columns.v.public      | kind = "category" ; public = true
columns.v.public      | kind = "category" ; public = "yes"
columns.v.public      | kind = "category" ; public = true ; domain = ["a"] ; detected = ["kind", "domain"]
columns.v.public      | kind = "real" ; resolution = 1 ; public = true ; domain = {min=0,max=1} ; detected = ["domain"]
columns.v.detected    | kind = "text" ; detected = ["all"]
columns.v.placeholder | kind = "integer" ; placeholder = "x"
columns.v.placeholder | kind = "category" ; domain = ["a"] ; public = true ; placeholder = "x"
columns.v.placeholder | kind = "text" ; placeholder = ""
columns.v.placeholder | kind = "text" ; nulls = ["N"] ; placeholder = "N"
columns.v.placeholder | kind = "text" ; domain = ["(other)"]
columns.v.labels      | kind = "text" ; domain = ["a"] ; labels = { b = "B" }
columns.v.labels      | kind = "text" ; labels = { b = 1 }
columns.v.label       | kind = "text" ; label = 1
columns.v.max_rows    | kind = "text" ; max_rows = 2
columns.v.max_rows    | kind = "text" ; max_rows = 6 ; [privacy] ; max_rows = 8
columns.v.date_format | kind = "date" ; date_format = "%d.%d.%Y"
columns.v.century     | kind = "date" ; date_format = "%d/%m/%y"
columns.v.century     | kind = "date" ; date_format = "%d/%m/%y" ; century = "1900..2000"
columns.v.century     | kind = "timestamp" ; date_format = "%y-%m-%d %H:%M" ; century = "1900"
columns.v.domain      | kind = "time" ; domain = { min = "06:00", max = "24:00" }
columns.v.domain      | kind = "time" ; domain = { min = 08:00:00, max = 06:00:00 }
columns.v.null        | kind = "text" ; null = "N"
"""),
)
def test_column_mistakes(write, place, lines):
    assert places(mistakes(write(HEAD + f"[columns.v]\n{lines}\n" + TABLES))) == [place]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ('kind = "integer"\nresolution = 1000', Resolution(exponent=3)),
        ('kind = "integer"\nresolution = 250', Resolution(base=250, exponent=1)),
        ('kind = "real"\nresolution = 250', Resolution(base=250, exponent=1)),
        ('kind = "date"\nresolution = "quarter"', Resolution(period="quarter")),
        ('kind = "timestamp"\nresolution = "hour"', Resolution(period="hour")),
    ],
)
def test_numbers_and_dates_have_resolutions(write, lines, expected):
    assert column(write, lines).resolution == expected


@pytest.mark.parametrize(
    ("lines", "attributes"),
    [
        ('kind = "integer"', {"value_type": "integer", "nulls": ("",), "placeholder": None}),
        ('kind = "category"', {"value_type": "text", "placeholder": "(other)"}),
        ('kind = "category"\ntype = "integer"', {"value_type": "integer", "placeholder": None}),
        ('kind = "text"', {"value_type": "text", "placeholder": "(other)"}),
        ('kind = "decimal"', {"resolution": Resolution(exponent=-2)}),
        ('kind = "real"\nresolution = 0.125', {"resolution": Resolution(base=2, exponent=-3)}),
        ('kind = "integer"\ndomain = { min = 0, max = 9 }', {"bounds": (0, 9), "domain": None}),
        (
            'kind = "real"\nresolution = 1\ndomain = { min = 0, max = 1.5 }\npublic = true',
            {"bounds": (0.0, 1.5), "public": True},
        ),
        (
            'kind = "date"\ndomain = { min = 1900-01-01, max = "2020-12-31" }',
            {"bounds": (dt.date(1900, 1, 1), dt.date(2020, 12, 31))},
        ),
        (
            'kind = "timestamp"\ndomain = { min = 2020-01-01T00:00:00Z, max = 2020-01-02T00:00:00 }',
            {"bounds": (dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 2))},
        ),
        (
            'kind = "timestamp"\ndomain = { min = "2020-01-01T00:00:00", max = "2020-01-02 12:00" }',
            {"bounds": (dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 2, 12))},
        ),
        ('kind = "boolean"\npublic = true', {"bounds": (False, True), "public": True}),
        (
            'kind = "category"\ntype = "boolean"\ndomain = [true, false]\nlabels = { true = "yes" }',
            {"domain": (True, False), "labels": (("true", "yes"),)},
        ),
        ('kind = "category"\ntype = "real"\ndomain = [1, -0.0]', {"domain": (1.0, 0.0)}),
        (
            'kind = "category"\ndomain = ["b", "a"]\npublic = true\ndetected = ["kind"]',
            {"domain": ("b", "a"), "placeholder": None},
        ),
    ],
)
def test_columns(write, lines, attributes):
    found = column(write, lines)
    assert {key: getattr(found, key) for key in attributes} == attributes
    for value in found.domain or ():
        assert type(value) is {"real": float, "boolean": bool, "text": str}[found.value_type]


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0.01, Resolution(exponent=-2)),
        (1, Resolution()),
        (1000, Resolution(exponent=3)),
        (1e-7, Resolution(exponent=-7)),
        (0.125, Resolution(base=2, exponent=-3)),
        (8, Resolution(base=2, exponent=3)),
        (2.0**-30, Resolution(base=2, exponent=-30)),
        (25.0, Resolution(base=25, exponent=1)),
        ("month", Resolution(period="month")),
    ],
)
def test_resolutions(number, expected):
    assert Resolution.read(number) == expected
    assert Resolution.read(str(expected)) == expected


@pytest.mark.parametrize("number", [0.2, 0.75, 0, -1, True, float("nan"), float("inf"), "moon"])
def test_what_is_no_resolution(number):
    with pytest.raises(ValueError, match=r"."):
        Resolution.read(number)


COLUMNS = """
[columns.region]
kind = "category"
[columns.place]
kind = "category"
[columns.sex]
kind = "category"
[columns.age]
kind = "integer"
[columns.work]
kind = "category"
universe = { column = "age", min = 15 }
"""


def text(swap: str, *, head: str = HEAD) -> str:
    return f"{head}[privacy]\nswap = {{ {swap} }}\n{COLUMNS}{TABLES}"


def test_all_keys(write):
    found = read_spec(
        write(
            text(
                'columns = ["place", "age", "work"], within = ["region"], similar = ["sex"], '
                'rare = ["sex", "region"], rate = 0.05, publish_rate = true'
            )
        ),
        check_key=False,
    ).privacy.swap
    assert found == SwapParams(
        columns=("age", "place", "work"),
        within=("region",),
        similar=("sex",),
        rare=("region", "sex"),
        rate=0.05,
        publish_rate=True,
    )
    assert found.named == ("age", "place", "region", "sex", "work")


@pytest.mark.parametrize(
    ("place", "swap"),
    cases(r"""
privacy.swap.columns | columns = [], within = ["region"], rate = 0.1
privacy.swap.columns | columns = ["place", "place"], within = ["sex"], rate = 0.1
privacy.swap.columns | columns = "place", within = ["sex"], rate = 0.1
privacy.swap.rare    | columns = ["place"], rate = 0.1
privacy.swap.rare    | columns = ["place"], rare = ["place"], rate = 0.1
privacy.swap.rate    | columns = ["place"], within = ["region"], rate = 0.0
privacy.swap.rate    | columns = ["place"], within = ["region"], rate = 0.6
privacy.swap.rate    | columns = ["place"], within = ["sex"]
privacy.swap.within  | columns = ["place"], within = ["place"], rate = 0.1
privacy.swap.similar | columns = ["place"], within = ["sex"], similar = ["sex"], rate = 0.1
privacy.swap.rates   | columns = ["place"], within = ["sex"], rates = 0.1
privacy.swap         | columns = ["plaice"], within = ["sex"], rate = 0.1
privacy.swap         | columns = ["work"], within = ["sex"], rate = 0.1
privacy.swap         | columns = ["age"], within = ["sex"], rate = 0.1
"""),
)
def test_mistakes(write, place, swap):
    assert place in places(mistakes(write(text(swap)), check_key=False))


def test_an_implied_column_is_swapped_together_with_the_one_that_implies_it(write):
    implied = COLUMNS.replace("[columns.place]\n", '[columns.place]\ndetermines = ["region"]\n')
    assert implied != COLUMNS
    swap = text('columns = ["place"], within = ["sex"], rate = 0.1').replace(COLUMNS, implied)
    assert places(mistakes(write(swap), check_key=False)) == ["privacy.swap"]
    for more in (
        'columns = ["place", "region"], within = ["sex"]',
        'columns = ["place"], within = ["region"]',
    ):
        swap = text(f"{more}, rate = 0.1").replace(COLUMNS, implied)
        assert read_spec(write(swap), check_key=False).privacy.swap


@pytest.mark.parametrize("line", ['entities = ["sex"]', "dp"])
def test_entities_are_never_swapped_and_mode_dp_swaps_nothing(write, line):
    head = HEAD.replace("[source]", 'mode = "dp"\n[source]') if line == "dp" else f"{HEAD}{line}\n"
    swap = 'columns = ["place"], within = ["sex"], rate = 0.1'
    assert "privacy.swap" in places(mistakes(write(text(swap, head=head)), check_key=False))


def test_every_setting_is_pinned_except_whether_the_rate_is_published():
    swap = SwapParams(columns=("a",), within=("b",), similar=("c",), rare=("d",), rate=0.1)
    first = replace(PROFILES["standard"], swap=swap).fingerprint()
    others = [
        replace(PROFILES["standard"], swap=replace(swap, **change)).fingerprint()
        for change in (
            {"columns": ("a", "e")},
            {"within": ()},
            {"similar": ()},
            {"rare": ("e",)},
            {"rate": 0.2},
        )
    ]
    assert len({first, PROFILES["standard"].fingerprint(), *others}) == 7
    shown = replace(PROFILES["standard"], swap=replace(swap, publish_rate=True))
    assert shown.fingerprint() == first


def test_a_release_shows_the_rate_only_if_asked_to():
    swap = SwapParams(columns=("a",), within=("b",), rare=("d",), rate=0.1)
    privacy = replace(PROFILES["standard"], swap=swap)
    assert privacy.public()["swap"] == {"columns": ["a"], "within": ["b"]}
    shown = replace(privacy, swap=replace(swap, publish_rate=True))
    assert shown.public()["swap"] == {"columns": ["a"], "within": ["b"], "rate": 0.1}
    assert "swap" not in PROFILES["standard"].public()
    with pytest.raises(SpecError, match=r"swap\.rate"):
        replace(swap, rate=-1.0)


WIDE_COLUMNS = """
[columns.AGE]
kind = "integer"
[columns.SEX]
kind = "category"
[columns.PAY]
kind = "real"
resolution = 0.01
[columns.id]
kind = "text"
""" + "".join(f'[columns.c{i}]\nkind = "category"\n' for i in range(3))


def test_a_wide_table_has_a_target(write):
    entries = '[[tables]]\ncolumns = "all"\ntarget = "PAY"\n[[tables]]\ncolumns = ["AGE"]\n'
    spec = read_spec(write(HEAD + 'entities = ["id"]\n' + WIDE_COLUMNS + entries))
    assert spec.targets == {spec.tables[-1]: "PAY"}
    fewer = amended(spec, fewer=[spec.tables[-1]])
    assert fewer.targets == {}
    assert amended(spec, fewer=[["AGE"]]).targets == spec.targets


def test_options_of_a_wide_table(write):
    entry = '[[tables]]\ncolumns = "all"\nsets = 3\nmax_added = 0\n'
    spec = read_spec(write(HEAD + 'entities = ["id"]\n' + WIDE_COLUMNS + entry))
    (wide,) = spec.tables
    assert spec.wide_options == {wide: WideOptions(sets=3, max_added=0)}
    assert (spec.targets, spec.sets) == ({}, {wide: 3})


@pytest.mark.parametrize(
    ("place", "entry"),
    cases(r"""
tables[1].target    | columns = "all" ; target = "PYA"
tables[1].target    | columns = "all" ; target = "id"
tables[1].target    | columns = "all" ; target = 5
tables[1].target    | columns = ["AGE", "SEX"] ; target = "AGE"
tables[1].target    | all = 2 ; target = "AGE"
tables[1].sets      | columns = "all" ; sets = 0
tables[1].sets      | columns = "all" ; sets = 101
tables[1].sets      | columns = ["AGE"] ; sets = 2
tables[1].max_added | columns = "all" ; max_added = -1
tables[1].max_added | all = 2 ; max_added = 4
"""),
)
def test_mistakes_are_reported_with_all_others(write, place, entry):
    text = HEAD + 'entities = ["id"]\nformat = "odd"\n' + WIDE_COLUMNS + f"[[tables]]\n{entry}\n"
    assert places(mistakes(write(text))) == ["source.format", place]
