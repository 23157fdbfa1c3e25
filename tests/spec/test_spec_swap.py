"""`swap` in the section [privacy]: its keys, and mistakes in them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fixtures.spec import HEAD, TABLES, cases, mistakes, places

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
