"""What commands print about a release that they made.

Opens no release and imports nothing that answers queries, so that `add` starts fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from engine.cli.console import number, print_json, print_note
from engine.guarantee import Guarantee, bound_sentences
from engine.store import GeneratorCard, Signature, exposure_sentences, signature_path

if TYPE_CHECKING:
    from engine.release import Made
    from engine.spec import ReleaseSpec
    from queries.release import Release


def summary_of(
    described: Release | ReleaseSpec, made: Release | Made, signature: Signature | None
) -> dict[str, Any]:
    """What is printed about a release, as plain values; of one that was just written, without opening it."""
    return {
        "path": str(made.path),
        "bytes": made.path.stat().st_size,
        "title": described.title,
        "vintage": described.vintage,
        "key_id": made.key_id,
        "unit": described.unit.as_dict(),
        "entity": described.entity.as_dict(),
        "tables": len(described.tables),
        "content_hash": made.content_hash,
        "signed_by": None if signature is None else signature.fingerprint,
        "signature_checked": signature is not None and signature.is_checked,
    }


def is_signed(release: Path) -> bool:
    """Whether there is a signature of a release."""
    return signature_path(release).exists()


def print_built(release: Release, *, was_signed: bool, as_json: bool) -> None:
    """Print a summary of a finished release, and close it; exit code 4 if the fit did not converge."""
    with release:
        summary = summary_of(release, release, release.signature)
        card = release.card(*release.tables[0]) if release.tables else None
    remarks = _remarks(card) if card is not None and card.dp else []
    print_summary(
        {**summary, "remarks": remarks} if remarks else summary,
        [*remarks, *(_exposure_of(card) if card else ())],
        was_signed=was_signed,
        as_json=as_json,
    )
    if card is not None and card.dp and not card.dp["converged"]:
        raise typer.Exit(4)


def print_summary(
    summary: dict[str, Any], sentences: Sequence[str], *, was_signed: bool, as_json: bool
) -> None:
    """Print one line about a finished release, and what its custodian must know."""
    path = Path(summary["path"])
    if was_signed and not is_signed(path):
        print_note(f"{path} was replaced, so its signature was removed; sign it again")
    if as_json:
        print_json(summary)
        return
    print_note(
        f"wrote {summary['path']} ({summary['bytes'] / 1e6:.1f} MB): {number(summary['tables'], 'table')}, content "
        f"hash {summary['content_hash']}"
    )
    for sentence in sentences:
        print_note(sentence)


def _exposure_of(card: GeneratorCard) -> list[str]:
    """What a custodian must know about a finished sticky release."""
    if card.dp:
        return []
    return [*bound_sentences(card.scale, card.words), *exposure_sentences(card.exposure)]


def _remarks(card: GeneratorCard) -> list[str]:
    """What a custodian must know about a finished release in mode dp."""
    remarks = Guarantee.of(card.dp).sentences()
    if card.dp["uniform"]:
        remarks.append(
            f"warning: in no margin, so released as uniform: {', '.join(card.dp['uniform'])}"
        )
    if not card.rows:
        remarks.append("warning: NO ROWS: the noisy total is 0 or less; use a larger epsilon")
    if not card.dp["converged"]:
        remarks.append(
            "warning: the fit did NOT converge; the cards state this. Try a larger max_cycles or other margins"
        )
    return remarks
