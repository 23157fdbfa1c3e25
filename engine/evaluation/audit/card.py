"""Generator cards of releases: what was used (Phi), what it came to (psi), the generator; headings of model cards.

PUBLIC: all of it stands in the release. Headings after Mitchell et al. 2019, doi:10.1145/3287560.3287596; the triple
(psi, Phi, G) after Houssiau et al., arXiv:2211.11540.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.evaluation.audit.claim import Claim, claim_of_release
from engine.evaluation.data import Released, read_release
from engine.evaluation.report import check_target
from engine.evaluation.report.files import json_text
from engine.evaluation.report.page import render
from engine.guarantee import Guarantee
from engine.outputs import write_output
from engine.schema import ColumnSet
from engine.store import exposure_sentences, open_release
from engine.version import ENGINE_VERSION

Card = dict[str, Any]


def write_card(release: Path, out: Path, *, force: bool = False) -> tuple[Path, Path]:
    """Write a release's generator card as a page, and JSON beside it."""
    check_target(out, force=force, inputs=(release,))
    card = generator_card(release)
    beside = out.with_suffix(".json")
    page = render("card.html.j2", card=card, version=ENGINE_VERSION)
    texts = {out: page, beside: json_text(card)}
    for file, text in texts.items():
        write_output(file, text, force=force)
    return out, beside


def generator_card(path: Path) -> Card:
    """Return the card of a release as plain values."""
    release, claim = read_release(path), claim_of_release(path)
    return {
        "confidential": False,
        "kind": "generator card",
        "tablepack": ENGINE_VERSION,
        "title": release.facts.title,
        "Phi": [list(margin) for margin in claim.margins],
        "psi": _psi(path, claim),
        "generator": _generator(release, claim),
        "sections": [
            {"heading": heading, "sentences": sentences}
            for heading, sentences in _sections(release, claim).items()
            if sentences
        ],
    }


def _psi(path: Path, claim: Claim) -> dict[str, Any]:
    """The safe statistics: the released counts, named by their digests; they are in the release."""
    con, record = open_release(path)
    with con:
        listed = con.execute(
            "SELECT columns, rows, cells, content_hash, noise_sd FROM catalog.tables ORDER BY width, name"
        ).fetchall()
    shown = set(claim.margins)
    return {
        "release": record.content_hash,
        "tables": [
            {
                "columns": list(columns),
                "rows": rows,
                "cells": cells,
                "content_hash": digest,
                "noise_sd": noise,
                "measured": tuple(columns) in shown,
            }
            for columns, rows, cells, digest, noise in listed
        ],
    }


def _generator(release: Released, claim: Claim) -> dict[str, Any]:
    """Which generator made it, and with what parameters."""
    facts = release.facts
    return {
        "name": f"tablepack {facts.version}, mode {facts.mode}",
        "key_id": facts.key_id,
        "vintage": facts.vintage,
        "parameters": {k: v for k, v in facts.privacy.items() if k not in ("measured", "bounds")},
        "modelled": [list(table) for table in claim.tables if table not in set(claim.margins)],
    }


def _sections(release: Released, claim: Claim) -> Mapping[str, list[str]]:
    """The headings of a model card, with what a release says under each."""
    facts, cards = release.facts, release.cards
    first = next(iter(cards.values()), {})
    many = facts.unit.many
    return {
        "Generator details": [
            f"Made by tablepack {facts.version} in mode {facts.mode}, vintage {facts.vintage}, key {facts.key_id}.",
            f"{len(claim.tables):,} tables are published; {len(claim.margins):,} margins were measured for them (Phi, "
            "with all narrower ones).",
            *_modelled(claim),
        ],
        "Intended use": [
            f"Counts, and what follows from counts, of {many} in the published tables.",
            "Not meant for looking up one person, for joining tables row by row, or for combinations of columns that "
            "no table holds.",
        ],
        "Factors": [
            f"What is counted are {many}; what is protected are {facts.entity.many}.",
            *(
                f"{column}: {', '.join(settings)} found in the data, "
                + ("reviewed" if facts.is_reviewed else "not reviewed")
                for column, settings in facts.detected.items()
            ),
        ],
        "Metrics": _metrics(cards),
        "Training data": [
            "The real data was read by the measuring step alone; all else was made from the noisy counts of Phi, "
            "which are psi, named below by their digests.",
            *facts.notes,
        ],
        "Evaluation data": [
            "None is part of the release. `tablepack evaluate` and `tablepack audit` need the data; confidential.",
        ],
        "Quantitative analyses": list(exposure_sentences(first.get("exposure") or {}))
        if facts.mode == "sticky"
        else _spent(first),
        "Ethical considerations": [
            _promise(facts.mode, facts.privacy, first),
            "Who knows nearly everything of a small group may learn of its members: see the exposure above."
            if facts.mode == "sticky"
            else "The guarantee holds whatever an attacker knows, at the epsilon stated.",
        ],
        "Caveats and recommendations": [
            "The card says what the release was made from; `tablepack audit RELEASE --data DATA` tests whether the "
            "engine keeps to it.",
            "Which ranges and values are shown depends on how many there are, decided with noise: it is part of psi.",
        ],
    }


def _modelled(claim: Claim) -> list[str]:
    """Tables that nothing was measured of as such."""
    if not claim.modelled:
        return []
    told = ", ".join(f"{len(table)} columns" for table in claim.modelled)
    return [
        f"Modelled from the tables of two and three of their columns that are named here, and nothing else: "
        f"tables of {told}."
    ]


def _metrics(cards: Mapping[ColumnSet, Mapping[str, Any]]) -> list[str]:
    """What is known of errors."""
    noise = [float(card["noise_sd"]) for card in cards.values() if not card.get("wide")]
    gaps = [int(card["rounding_gap"]) for card in cards.values()]
    out = []
    if noise:
        out.append(
            f"Standard deviation of the noise of a count: {min(noise):.2f} to {max(noise):.2f}."
        )
    if gaps:
        out.append(f"Largest difference between the same margin in two tables: {max(gaps)}.")
    return out


def _spent(card: Mapping[str, Any]) -> list[str]:
    """What mode dp spent, and what limits the guarantee."""
    promise, *rest = _guarantee(card).sentences()
    return rest or [promise]


def _guarantee(card: Mapping[str, Any]) -> Guarantee:
    """What a card of mode dp promises."""
    return Guarantee.of(card.get("dp") or {})


def _promise(mode: str, privacy: Mapping[str, Any], card: Mapping[str, Any]) -> str:
    """How the entities are protected."""
    if mode == "dp":
        return _guarantee(card).promise()
    return (
        f"No count of fewer than {privacy['low_threshold']} entities is shown; the threshold is drawn around "
        f"{privacy['threshold_mean']}; each count has two layers of noise, fixed for the same entities."
    )
