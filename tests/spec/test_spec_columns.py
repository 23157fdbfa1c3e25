from __future__ import annotations

import datetime as dt

import pytest
from fixtures.spec import HEAD, TABLES, column, mistakes
from hypothesis import given
from hypothesis import strategies as st

from engine.schema import Resolution
from engine.spec.columns import resolution_from


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("", "columns.v.kind: is missing"),
        ('kind = "integer"\ntype = "text"', 'columns.v.type: only kind = "category" has a type'),
        ('kind = "integer"\nresolution = 1', "columns.v.resolution: only kinds real and decimal"),
        ('kind = "integer"\nstep = 0', "columns.v.step: wants a whole number from 1"),
        ('kind = "date"\nstep = 2', "columns.v.step: wants a whole number from 1; only integer"),
        ('kind = "integer"\nstep = 0.5', "columns.v.step: wants a whole number"),
        ('kind = "real"', "columns.v.resolution: is missing"),
        ('kind = "real"\nresolution = "fine"', "columns.v.resolution: wants a number"),
        ('kind = "real"\nresolution = 0.3', "columns.v.resolution: wants a power of ten or of two"),
        ('kind = "real"\nresolution = 0', "columns.v.resolution: wants a power"),
        ('kind = "real"\nresolution = -1', "columns.v.resolution: wants a power"),
        ('kind = "real"\nresolution = inf', "columns.v.resolution: wants a power"),
        ('kind = "real"\nresolution = true', "columns.v.resolution: wants a"),
        ('kind = "real"\nresolution = 1e-30', "columns.v.resolution: is too fine or too coarse"),
        (
            'kind = "decimal"\nresolution = 10',
            "columns.v.resolution: a decimal column wants 1, 0.1",
        ),
        (
            'kind = "decimal"\nresolution = 0.125',
            "columns.v.resolution: a decimal column wants 1, 0.1",
        ),
        ('kind = "category"\ndomain = []', "columns.v.domain: is empty"),
        ('kind = "category"\ndomain = ["a", ""]', "columns.v.domain: '' is a spelling of null"),
        ('kind = "category"\ndomain = [1]', 'columns.v.domain: wants values of type "text" only'),
        (
            'kind = "category"\ntype = "integer"\ndomain = [1, true]',
            'wants values of type "integer" only',
        ),
        (
            'kind = "category"\ntype = "integer"\ndomain = [1, 2.0]',
            'wants values of type "integer" only',
        ),
        (
            'kind = "category"\ntype = "integer"\ndomain = [9223372036854775807]',
            'type "integer" only',
        ),
        ('kind = "category"\ntype = "real"\ndomain = [inf]', 'wants values of type "real" only'),
        ('kind = "category"\ntype = "date"\ndomain = ["x"]', 'wants values of type "date" only'),
        ('kind = "category"\ntype = "date"\ndomain = [2020-01-01T00:00:00]', 'type "date" only'),
        (
            'kind = "category"\ndomain = { min = 1, max = 2 }',
            'kind = "category" wants a list of values',
        ),
        ('kind = "category"\ndomain = 5', "columns.v.domain: wants a list of values, or {"),
        ('kind = "integer"\ndomain = [1]', 'kind = "integer" wants { min = ..., max = ... }'),
        (
            'kind = "integer"\ndomain = { min = 1 }',
            "columns.v.domain: wants { min = ..., max = ... }",
        ),
        (
            'kind = "integer"\ndomain = { min = 1, max = "x" }',
            'domain: wants values of type "integer"',
        ),
        ('kind = "integer"\ndomain = { min = 2, max = 1 }', "columns.v.domain: min is above max"),
        ('kind = "boolean"\ndomain = [true]', "columns.v.domain: a boolean column needs none"),
        ('kind = "category"\npublic = true', 'columns.v.public: needs a "domain"'),
        ('kind = "category"\npublic = "yes"', "columns.v.public: wants true or false"),
        (
            'kind = "category"\npublic = true\ndomain = ["a"]\ndetected = ["kind", "domain"]',
            "columns.v.public: domain was detected in the data; confirm it",
        ),
        (
            'kind = "real"\nresolution = 1\npublic = true\ndomain = {min=0,max=1}\ndetected = ["resolution"]',
            "columns.v.public: resolution was detected",
        ),
        ('kind = "text"\ndetected = ["all"]', "columns.v.detected: wants 'kind', 'type'"),
        ('kind = "integer"\nplaceholder = "x"', "columns.v.placeholder: only a text or category"),
        (
            'kind = "category"\ntype = "integer"\nplaceholder = "x"',
            "columns.v.placeholder: only a text",
        ),
        (
            'kind = "category"\ndomain = ["a"]\npublic = true\nplaceholder = "x"',
            "columns.v.placeholder: only a text or category column of texts that is not public",
        ),
        ('kind = "text"\nplaceholder = ""', "columns.v.placeholder: is empty, a spelling of null"),
        (
            'kind = "text"\nnulls = ["N"]\nplaceholder = "N"',
            "columns.v.placeholder: is empty, a spelling",
        ),
        (
            'kind = "text"\ndomain = ["(other)"]',
            "columns.v.placeholder: '(other)' is in the domain",
        ),
        (
            'kind = "text"\ndomain = ["a"]\nlabels = { b = "B" }',
            "columns.v.labels: 'b' is not in the domain",
        ),
        (
            'kind = "text"\nlabels = { b = 1 }',
            "columns.v.labels: wants a list or table of texts only",
        ),
        ('kind = "text"\nlabel = 1', "columns.v.label: wants a text"),
        ('kind = "text"\nmax_rows = 2', "columns.v.max_rows: wants privacy.max_rows too"),
        (
            'kind = "text"\nmax_rows = 6\n[privacy]\nmax_rows = 8',
            "columns.v.max_rows: wants a power of two from 1",
        ),
        (
            'kind = "date"\ndate_format = "%d.%d.%Y"',
            "columns.v.date_format: wants year, month and day",
        ),
        ('kind = "text"\nnull = "N"', "columns.v.null: unknown key; did you mean 'nulls'?"),
    ],
)
def test_column_mistakes(write, lines, message):
    found = mistakes(write(HEAD + f"[columns.v]\n{lines}\n" + TABLES))
    assert [message in problem for problem in found] == [True], found


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
        (0.2, None),
        (3, None),
        (0.75, None),
        (0, None),
        (-1, None),
        (True, None),
        (float("nan"), None),
        (float("inf"), None),
    ],
)
def test_resolutions(number, expected):
    assert resolution_from(number) == expected


@given(st.sampled_from([2, 10]), st.integers(-20, 20))
def test_a_resolution_reads_back(base, exponent):
    step = Resolution(base=base, exponent=exponent).step
    found = resolution_from(step)
    assert found is not None
    assert found.step == step


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("columns = 5\n", "columns: declare each column"),
        ("", "columns: declare each column"),
        (
            '[columns.a]\nkind = "text"\n[columns.A]\nkind = "text"\n',
            "columns.A: the same column as a",
        ),
        ('[columns.""]\nkind = "text"\n', "columns: a column has no name"),
        ("[columns]\na = 5\n", "columns.a: wants a section with keys"),
    ],
)
def test_sections_of_columns(write, text, message):
    head, rest = (text, "") if text.startswith("columns") else ("", text)
    assert any(message in problem for problem in mistakes(write(head + HEAD + rest + TABLES)))
