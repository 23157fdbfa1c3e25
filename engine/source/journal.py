"""The journal beside the key: which state of the source a vintage stands for.

The same draws used on two states of the data, or at two noise scales, could be set against each other. So the
first build of a vintage pins its source, encoding and privacy parameters here, as keyed digests, and a build that
differs is refused. Columns that a vintage has not seen yet are added to it. The file has mode 0600 and holds no
value of the data.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

from engine.errors import PrivacyError, StoreError
from engine.schema import Entity
from engine.source.charges import charges, charges_path
from engine.source.files import locked, read_json, replace_file

MOST_OF = "release.most with each = "
"""With a column's name: how many of its values count of an entity is pinned under this, as an encoding is."""
MOST_RELEASES = 100
"""Releases of a vintage that are noted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VintageState:
    """What a vintage is pinned to."""

    # The vintage whose draws it uses: itself, or the first of those that it goes on from.
    draws: str
    # entities, identity: Entity columns; identity columns of the rows where there are none.
    entities: tuple[Entity, ...]
    identity: tuple[str, ...]
    privacy: str  # Fingerprint of the privacy parameters
    # encodings, contents: Per column a digest of its encoding, and a keyed digest of its content; under the
    # empty name that of the entities and the number of rows, which every build pins, whatever its columns.
    # Where entities are counted in each value of a column, how many of these count is among the encodings.
    encodings: dict[str, str]
    contents: dict[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Vintage(VintageState):
    """What is known of a vintage: its state and its builds."""

    order: tuple[str, ...] = ()  # Its columns, as they came
    stands: tuple[str, ...] = ()  # Columns that stood for copies of theirs in any of its builds
    # SHA-256, recipe, and of the newest the exposure that it states
    releases: tuple[tuple[Any, ...], ...] = ()


@dataclass(kw_only=True, slots=True)
class Journal:
    """All that the file holds."""

    format: Literal[1] = 1
    vintages: dict[str, Vintage]
    # charges, ledger: How many entries the ledgers of exposure and of mode dp have at least.
    charges: int = 0
    ledger: int = 0

    def draws_of(self, vintage: str, previous: str | None) -> str:
        """The vintage whose draws a vintage uses."""
        if previous is None:
            return vintage
        if previous not in self.vintages:
            known = ", ".join(sorted(self.vintages)) or "none yet"
            raise PrivacyError(
                f"release.previous: no vintage {previous!r} was built with this key; there are: {known}"
            )
        return self.vintages[previous].draws

    def stands(self, draws: str) -> frozenset[str]:
        """Columns that stood for copies of theirs in any build with these draws."""
        return frozenset(
            name for one in self.vintages.values() if one.draws == draws for name in one.stands
        )


_JOURNAL = TypeAdapter(Journal)
"""How it stands in the file."""


def journal_path(key_path: Path) -> Path:
    """The journal of a key file."""
    return key_path.with_name(key_path.name + ".journal")


def read_journal(key_path: Path) -> Journal:
    """The journal of a key file; an empty one if there is none yet."""
    path = journal_path(key_path)
    try:
        raw = read_json(path)
    except FileNotFoundError:
        return Journal(vintages={})
    # Whatever cannot be read is refused: taken for an empty journal, it would free every vintage.
    try:
        # Before there was `previous`, every vintage had draws of its own.
        named = {name: {"draws": name, **entry} for name, entry in raw["vintages"].items()}
        return _JOURNAL.validate_python({**raw, "vintages": named})
    except (TypeError, KeyError, AttributeError, ValueError):
        pass
    raise StoreError(f"the journal {path} cannot be read; restore it, or use a new key")


@contextmanager
def _changing(key_path: Path) -> Iterator[Journal]:
    """Lend the journal to be changed, and replace the file, synced to disk, where it was."""
    path = journal_path(key_path)
    with locked(path):
        journal = read_journal(key_path)
        before = replace(journal, vintages={**journal.vintages})
        yield journal
        if journal != before:
            raw = _JOURNAL.dump_python(journal, mode="json", exclude_defaults=True)
            text = json.dumps({"format": 1} | raw, indent=1, sort_keys=True)
            replace_file(path, text.encode(), "the journal")


def note_release(
    key_path: Path, vintage: str, sha256: str, recipe: str, exposure: dict[str, Any]
) -> None:
    """Note a release that was built: only these lend tables, for anybody can write a file that looks like one.

    exposure: As the release states it; of the newest release only it is kept.
    """
    with _changing(key_path) as journal:
        if vintage in journal.vintages:
            pinned = journal.vintages[vintage]
            known = [one[:2] for one in pinned.releases if one[0] != sha256]
            releases = (*known, (sha256, recipe, exposure))[-MOST_RELEASES:]
            journal.vintages[vintage] = replace(pinned, releases=releases)


def noted_releases(key_path: Path, vintage: str) -> dict[str, str]:
    """Recipes of the releases of a vintage that were built last, by their SHA-256."""
    pinned = read_journal(key_path).vintages.get(vintage)
    return {one[0]: one[1] for one in pinned.releases} if pinned else {}


def noted_exposure(key_path: Path, vintage: str, sha256: str) -> dict[str, Any] | None:
    """What the newest release of a vintage states of its exposure; None: another one is meant, or it is not noted."""
    pinned = read_journal(key_path).vintages.get(vintage)
    newest = pinned.releases[-1] if pinned and pinned.releases else (None,)
    return newest[2] if newest[0] == sha256 and len(newest) > 2 else None


def note_charges(key_path: Path, n_charges: int) -> None:
    """Note how many charges the ledger of exposure has: one that has fewer is not the newest."""
    with _changing(key_path) as journal:
        journal.charges = max(journal.charges, n_charges)


def note_entries(key_path: Path, n_entries: int) -> None:
    """Note how many entries the ledger has, of mode dp and of exact counts."""
    with _changing(key_path) as journal:
        journal.ledger = max(journal.ledger, n_entries)


def pinned_vintages(key_path: Path) -> tuple[str, ...]:
    """Names of the vintages that are pinned, in order."""
    return tuple(sorted(read_journal(key_path).vintages))


def unpin_vintage(key_path: Path, vintage: str) -> None:
    """Forget a vintage of which nothing was released."""
    with _changing(key_path) as journal:
        journal.vintages.pop(vintage, None)


def check_vintage(key_path: Path, journal: Journal, vintage: str, state: VintageState) -> None:
    """Check, without pinning anything, that a vintage stands for no other state."""
    told = charges(key_path)
    if len(told) < journal.charges:
        raise StoreError(
            f"the ledger {charges_path(key_path)} lacks builds that the journal knows: it is gone, or not the newest "
            "one; restore the newest"
        )
    if vintage not in journal.vintages and any(one.vintage == vintage for one in told):
        raise StoreError(
            f"the journal {journal_path(key_path)} lacks vintage {vintage!r}, which was built with this key: it is "
            "gone, or not the newest one; restore the newest"
        )
    _refuse_differences(journal, vintage, state)
    first = journal.vintages.get(state.draws)
    if state.draws != vintage and first is not None:
        if differences := _differences(
            replace(first, draws=state.draws), replace(state, contents={})
        ):
            raise PrivacyError(
                f"vintage {vintage!r} goes on from {state.draws!r}, but {'; '.join(differences)} changed. The same "
                "noise on another scale would cancel: keep them, or leave release.previous out"
            )


def pin_vintage(
    key_path: Path, vintage: str, state: VintageState, stands: Iterable[str] = ()
) -> bool:
    """Pin a vintage at its first build, or check that this build is of the same state.

    Returns: Whether it was not known before.
    """
    with _changing(key_path) as journal:
        _refuse_differences(journal, vintage, state)
        known = journal.vintages.get(vintage)
        pinned = known or Vintage(**asdict(state))
        columns = {name for name in state.encodings if not name.startswith(MOST_OF)}
        journal.vintages[vintage] = replace(
            pinned,
            order=(*pinned.order, *sorted(columns - {*pinned.order})),
            encodings=pinned.encodings | state.encodings,
            contents=pinned.contents | state.contents,
            stands=tuple(sorted({*pinned.stands, *stands})),
        )
    return known is None


def _refuse_differences(journal: Journal, vintage: str, state: VintageState) -> None:
    """Raise if a vintage is pinned to another state."""
    known = journal.vintages.get(vintage)
    differences = _differences(known, state) if known is not None else []
    if differences:
        raise PrivacyError(
            f"vintage {vintage!r} is pinned to another state: {'; '.join(differences)} changed since its "
            "first build. Noise drawn for one state must not be used on another: give release.vintage "
            "a new name. To try settings out, use tablepack draft (in Python: draft), which spends nothing"
        )


def _differences(known: Vintage, state: VintageState) -> list[str]:
    """In which respects a build differs from what its vintage is pinned to."""
    respects = {
        "draws": "the vintage that it goes on from (release.previous)",
        "entities": "the entity columns",
        "identity": "the identity columns",
        "privacy": "the privacy parameters",
    }
    out = [said for key, said in respects.items() if getattr(known, key) != getattr(state, key)]
    changed = _changed(known.encodings, state.encodings)
    out += [name for name in changed if name.startswith(MOST_OF)]
    coded = [name for name in changed if not name.startswith(MOST_OF)]
    filled = [name for name in _changed(known.contents, state.contents) if name not in coded]
    if coded and not state.entities:
        filled = []  # rows that are coded otherwise are other rows: nothing is known of their content
    if "" in filled:
        out.append("the entities or the number of rows")
    for what, names in (("encoding", coded), ("content", [name for name in filled if name])):
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            out.append(f"the {what} of column {', '.join(names[:3])}{more}")
    return out


def _changed(pinned: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Names whose digest is another than the pinned one."""
    return sorted(name for name in now if pinned.get(name, now[name]) != now[name])
