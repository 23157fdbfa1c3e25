"""How sure a table's figures are, for its readers: plain sentences in their language, and no word of the engine's.

Takes a table and its pack; gives sentences made of the pack's words. What a custodian wants to know of the making of a
table is on its card, in the release.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from engine.store import bounds_rows
from queries.packs.model import NOT_RELEASED, Pack, PackTable
from queries.packs.texts import number_text

WORTH_SAYING = 0.01
"""Share of filled rows from which readers are told."""


def sentences_of(table: PackTable, pack: Pack, language: int) -> list[str]:
    """Return what is true of a table's figures, a sentence or two each."""
    words = {word: told[language] for word, told in pack.words.items()}
    card = pack.cards.get(table.answered)
    out = [words["interval means"]] if pack.has_noise else [words["no noise"]]
    if pack.is_unreviewed:
        out.append(words["unreviewed means"])
    if table.is_listed:
        out.append(words["listed means"])
    if _hides_parts(table):
        out.append(words["totals mean"])
    if card is None:
        return out
    of_mode = _of_dp(card.dp, words) if card.dp else _of_sticky(card, words)
    return [*out, *of_mode, *_exchanged(card.swap, pack, language)]


def _hides_parts(table: PackTable) -> bool:
    """Whether totals or subtotals stand beside parts that are not released."""
    if not (table.status == NOT_RELEASED).any() or table.measure not in ("count", "sum"):
        return False
    return any(
        dimension.items[place].kind in ("total", "group")
        for j, dimension in enumerate(table.dimensions)
        for place in set(table.index[:, j].tolist())
    )


def _of_sticky(card: Any, words: dict[str, str]) -> Iterator[str]:
    """Noise and filling of a table of mode sticky."""
    if card.wide:
        yield words["modelled means"]
    else:
        yield words["noise of"].format(number_text(card.noise_sd, 1, words))
    if card.suppressed_share >= WORTH_SAYING and not card.wide:
        yield words["filled means"].format(number_text(100 * card.suppressed_share, 0, words))
    if card.rounding_gap:
        yield words["gap means"].format(number_text(card.rounding_gap, 0, words))
    if card.scale > 1:
        yield words["bounded means"].format(number_text(card.scale, 0, words))
    if card.exposure.get("accept_risk"):
        yield words["accepted means"].format(card.exposure["accept_risk"])


def _of_dp(dp: dict[str, Any], words: dict[str, str]) -> Iterator[str]:
    """Guarantee and making of a table of mode dp."""
    if dp["epsilon"] is not None:
        yield words["epsilon means"].format(f"{dp['epsilon']:g}")
    if bounds_rows(dp):
        yield words["bounded means"].format(number_text(dp["max_rows"], 0, words))
    if not dp["covered"]:
        yield words["modelled means"]
    if not dp["converged"]:
        yield words["not converged"]
    if dp["uniform"]:
        yield words["uniform means"].format(", ".join(dp["uniform"]))


def _exchanged(swap: dict[str, Any], pack: Pack, language: int) -> Iterator[str]:
    """Records that were exchanged before anything was counted."""
    if not swap:
        return
    labels = [
        pack.dimensions[name].labels[language] if name in pack.dimensions else name
        for name in swap["columns"]
    ]
    yield pack.words["exchanged means"][language].format(", ".join(labels))
