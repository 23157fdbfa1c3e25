"""`swap` in the section [privacy]: what it holds, and what of it cannot be."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fixtures.spec import HEAD, TABLES, mistakes

from engine.errors import SpecError
from engine.params import PROFILES, SwapParams
from engine.spec import read_spec

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


def test_what_makes_a_record_rare_is_what_partners_agree_in_unless_said(write):
    swap = 'columns = ["place"], within = ["region"], similar = ["sex"], rate = 0.1'
    found = read_spec(write(text(swap)), check_key=False).privacy.swap
    assert (found.rare, found.publish_rate) == (("region", "sex"), False)


@pytest.mark.parametrize(
    ("swap", "said"),
    [
        ('columns = [], within = ["region"], rate = 0.1', "swap.columns: names no column"),
        ('columns = ["place"], rate = 0.1', "swap.rare: names no column that makes"),
        ('columns = ["place"], within = ["region"], rate = 0.0', "swap.rate: wants a share"),
        ('columns = ["place"], within = ["region"], rate = 0.6', "swap.rate: wants a share"),
        ('columns = ["place"], within = ["place"], rate = 0.1', "swap.within: place is in columns"),
        (
            'columns = ["place"], within = ["sex"], similar = ["sex"], rate = 0.1',
            "swap.similar: sex is in within too",
        ),
        ('columns = ["place"], rare = ["place"], rate = 0.1', "swap.rare: place is in columns too"),
        (
            'columns = ["place", "place"], within = ["sex"], rate = 0.1',
            "swap.columns: names a column twice",
        ),
        ('columns = ["plaice"], within = ["sex"], rate = 0.1', "did you mean 'place'"),
        ('columns = ["place"], within = ["sex"], rates = 0.1', "swap.rates: unknown key"),
        ('columns = ["place"], within = ["sex"]', "privacy.swap.rate: is missing"),
        ('columns = "place", within = ["sex"], rate = 0.1', "swap.columns: wants a list"),
        (
            'columns = ["work"], within = ["sex"], rate = 0.1',
            "the universe of work is decided by age, so an exchange of one alone would make impossible records: "
            "name age in columns too, or in within",
        ),
        ('columns = ["age"], within = ["sex"], rate = 0.1', "name work in columns too"),
    ],
)
def test_what_cannot_be(write, swap, said):
    problems = mistakes(write(text(swap)), check_key=False)
    assert len([p for p in problems if said in p]) == 1, problems


@pytest.mark.parametrize("within", ['["age"]', '["age", "sex"]'])
def test_columns_that_belong_together_may_stay_in_the_group(write, within):
    swap = f'columns = ["work"], within = {within}, rate = 0.1'
    assert read_spec(write(text(swap)), check_key=False).privacy.swap.columns == ("work",)


def test_what_another_column_tells_is_exchanged_with_it(write):
    told = COLUMNS.replace("[columns.place]\n", '[columns.place]\ndetermines = ["region"]\n')
    assert told != COLUMNS
    swap = text('columns = ["place"], within = ["sex"], rate = 0.1').replace(COLUMNS, told)
    wrong = [p for p in mistakes(write(swap), check_key=False) if "place determines region" in p]
    assert len(wrong) == 1
    assert "name region in columns too, or in within" in wrong[0]
    for more in (
        'columns = ["place", "region"], within = ["sex"]',
        'columns = ["place"], within = ["region"]',
    ):
        swap = text(f"{more}, rate = 0.1").replace(COLUMNS, told)
        assert read_spec(write(swap), check_key=False).privacy.swap


def test_entity_columns_are_never_exchanged(write):
    head = HEAD + 'entities = ["sex"]\n'
    swap = 'columns = ["place"], within = ["sex"], rate = 0.1'
    assert any(
        "sex names entities" in p for p in mistakes(write(text(swap, head=head)), check_key=False)
    )


def test_mode_dp_exchanges_nothing(write):
    head = HEAD.replace("[source]", 'mode = "dp"\n[source]')
    swap = 'columns = ["place"], within = ["sex"], rate = 0.1'
    problems = mistakes(write(text(swap, head=head)), check_key=False)
    assert any("mode dp exchanges no records" in p for p in problems)


def test_every_setting_is_pinned_but_whether_the_share_is_told():
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
    told = replace(PROFILES["standard"], swap=replace(swap, publish_rate=True))
    assert told.fingerprint() == first


def test_a_release_tells_the_share_only_where_it_is_wanted():
    swap = SwapParams(columns=("a",), within=("b",), rare=("d",), rate=0.1)
    privacy = replace(PROFILES["standard"], swap=swap)
    assert privacy.public()["swap"] == {"columns": ["a"], "within": ["b"]}
    told = replace(privacy, swap=replace(swap, publish_rate=True))
    assert told.public()["swap"] == {"columns": ["a"], "within": ["b"], "rate": 0.1}
    assert "swap" not in PROFILES["standard"].public()
    with pytest.raises(SpecError, match=r"swap\.rate"):
        replace(swap, rate=-1.0)
