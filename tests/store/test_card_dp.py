"""Cards of mode dp in words: what weakens a promise is said, and only then."""

from __future__ import annotations

import pytest
from fixtures.release import make_card, make_table

from engine.store import GeneratorCard, promises
from engine.store.card_words import guarantee

PLAIN = {
    "epsilon": 1.0, "delta": 0.0, "rho": 0.0, "method": "ipf", "post": "wls", "sample": "rounded",
    "noise": "laplace", "max_rows": 1, "margins": 3, "margins_inside": 1, "sd": [4.25, 4.25],
    "total": "noisy", "total_sd": 70.7, "strata": [], "prior": 0.0, "zeros": [], "how": "dense",
    "cycles": 12, "error": 0.00002, "converged": True, "tolerance": 1e-4, "uniform": [], "covered": True,
}  # fmt: skip


def card_with(**changes) -> GeneratorCard:
    raw = make_card(make_table(("AGE", "SEX")))
    return GeneratorCard(
        **{name: getattr(raw, name) for name in raw.__slots__ if name not in ("dp", "mode")},
        mode="dp",
        dp=PLAIN | changes,
    )


def said(**changes) -> str:
    return "\n".join(card_with(**changes).sentences())


def test_a_plain_card():
    text = said()
    assert "2.718 times as likely" in text
    assert "epsilon 1," in text
    assert "Laplace noise of sd 4.25 rows; total noisy, sd 70.7" in text
    assert "lies inside a measured margin" in text
    assert "12 cycles, converged" in text
    for shout in ("NOTHING", "NOT ", "MODELLED", "UNIFORM", "PUBLIC"):
        assert shout not in text
    assert "Buckets of fewer than" not in text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epsilon": None, "delta": None}, "NOTHING IS GUARANTEED"),
        ({"epsilon": None}, "without noise"),
        ({"delta": 1e-6, "noise": "gaussian"}, "but for a chance of 1e-06"),
        ({"noise": "gaussian"}, "Gaussian noise"),
        ({"total": "public"}, "THE NUMBER OF ROWS IS PUBLIC"),
        ({"max_rows": 3}, "An entity counts with 3 rows at most"),
        ({"converged": False, "error": 0.031}, "NOT CONVERGED: margins then differ from their targets by 3.10%"),
        ({"covered": False}, "MODELLED: no measured margin"),
        ({"uniform": ["SEX", "OTHER"]}, "UNIFORM: of SEX nothing was measured"),
        ({"strata": ["region"]}, "counted within each of region"),
        ({"strata": ["region"]}, "0.00% of a stratum's rows at most"),
        ({"sd": [1.0, 8.0]}, "sd 1 to 8 rows"),
        ({"margins": 1}, "1 margin was counted"),
        ({"method": "catall"}, "the full cross-tabulation"),
        ({"sample": "multinomial"}, "which adds noise of its own"),
        ({"post": "paper"}, "cut off at 0"),
        ({"post": "synthpop"}, "as synthpop does"),
        ({"epsilon": 1000.0}, "inf times"),
        ({"how": "support rows", "error": 0.02}, "rows were searched for that come near"),
        ({"error": 0.02}, "at rest: the targets contradict each other"),
    ],
)  # fmt: skip
def test_what_is_special_is_said(changes, words):
    assert words in said(**changes)
    assert words not in said()


def test_without_a_guarantee_no_epsilon_is_claimed():
    text = said(epsilon=None, total="public")
    assert "epsilon" not in text
    assert "PUBLIC" not in text


def test_the_guarantee_of_a_release():
    assert guarantee({"epsilon": 0.5, "delta": 0.0, "max_rows": 1}).startswith(
        "Whether one entity is there"
    )
    assert "NOTHING" in guarantee({"epsilon": None, "delta": None, "max_rows": 1})


def test_what_the_guarantee_leaves_out_stands_beside_it():
    plain = {"epsilon": 1.0, "delta": 0.0, "max_rows": 1, "total": "noisy"}
    assert len(promises(plain)) == 1
    assert "PUBLIC" in promises(plain | {"total": "public"})[1]
    assert "3 rows at most" in promises(plain | {"max_rows": 3})[1]
    assert "with 1 row at most" in promises(plain | {"is_bound_said": True})[1]
    assert len(promises(plain | {"epsilon": None, "total": "public", "max_rows": 3})) == 1


def test_cards_survive_json():
    card = card_with()
    assert GeneratorCard.from_json(card.to_json()) == card
    sticky = make_card(make_table(("AGE", "SEX")))
    assert sticky.dp == {}
    assert GeneratorCard.from_json(sticky.to_json()) == sticky
    assert sticky.is_converged
    assert not card_with(converged=False).is_converged


def test_cards_of_before_this_mode_can_be_read():
    sticky = make_card(make_table(("AGE", "SEX")))
    text = sticky.to_json().replace('"dp": {}, ', "")
    assert '"dp"' not in text
    assert GeneratorCard.from_json(text) == sticky
