"""Generator cards: what weakens a guarantee is said, and only then; cards survive JSON."""

from __future__ import annotations

import dataclasses

import pytest
from fixtures.release import make_card, make_table

from engine.guarantee import Guarantee
from engine.store import GeneratorCard

STICKY = make_card(make_table(("AGE", "SEX")))
DP = {
    "epsilon": 1.0, "delta": 0.0, "rho": 0.0, "method": "ipf", "post": "wls", "sample": "rounded",
    "noise": "laplace", "max_rows": 1, "margins": 3, "margins_inside": 1, "sd": [4.25, 4.25],
    "total": "noisy", "total_sd": 70.7, "strata": [], "prior": 0.0, "zeros": [], "how": "dense",
    "cycles": 12, "error": 0.00002, "converged": True, "tolerance": 1e-4, "uniform": [], "covered": True,
}  # fmt: skip


def card_with(**changes) -> GeneratorCard:
    return dataclasses.replace(STICKY, mode="dp", dp=DP | changes)


def said(**changes) -> str:
    return "\n".join(card_with(**changes).sentences())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epsilon": None, "delta": None}, "NO PRIVACY GUARANTEE"),
        ({"delta": 1e-6, "noise": "gaussian"}, "1e-06"),
        ({"noise": "gaussian"}, "Gaussian noise"),
        ({"total": "public"}, "THE NUMBER OF ROWS IS PUBLIC"),
        ({"max_rows": 3}, "At most 3 rows per entity"),
        ({"is_bound_said": True}, "At most 1 row per entity"),
        ({"converged": False, "error": 0.031}, "NOT CONVERGED: margins differ from their targets by at most 3.10 %"),
        ({"covered": False}, "MODELLED"),
        ({"uniform": ["SEX", "OTHER"]}, "UNIFORM: nothing was measured for SEX;"),
        ({"strata": ["region"]}, "each stratum of region"),
        ({"sd": [1.0, 8.0]}, "sd 1 to 8 rows"),
        ({"margins": 1}, "1 margin was"),
        ({"epsilon": 1000.0}, "at most inf"),
    ],
)  # fmt: skip
def test_what_weakens_a_guarantee_is_said(changes, words):
    assert words in said(**changes)
    assert words not in said()


def test_without_a_guarantee_no_epsilon_is_claimed():
    text = said(epsilon=None, total="public", max_rows=3)
    for claim in ("epsilon", "PUBLIC", "per entity"):
        assert claim not in text
    assert (
        len(
            Guarantee.of(
                {"epsilon": None, "delta": None, "max_rows": 3, "total": "public"}
            ).sentences()
        )
        == 1
    )


@pytest.mark.parametrize("card", [STICKY, card_with(), card_with(converged=False)])
def test_cards_survive_json(card):
    back = GeneratorCard.from_json(card.to_json())
    assert back == card
    assert back.is_converged == card.dp.get("converged", True)


def test_cards_without_later_fields_can_be_read():
    text = STICKY.to_json().replace('"dp": {}, ', "")
    assert '"dp"' not in text
    assert GeneratorCard.from_json(text) == STICKY
