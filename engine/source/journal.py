"""The journal beside the key: which state of the source a vintage stands for.

The same draws used on two states of the data, or at two noise scales, could be set against each other. So the
first build of a vintage pins its source, encoding and privacy parameters here, as keyed digests, and a build that
differs is refused. Columns that a vintage has not seen yet are added to it. The file has mode 0600 and holds no
value of the data.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from engine.errors import PrivacyError, StoreError
from engine.schema import Entity, as_entities
from engine.source.charges import charges, charges_path
from engine.source.files import locked, read_json, replace_file

FORMAT = 1
"""Version of the journal's form."""
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


def journal_path(key_path: Path) -> Path:
    """The journal of a key file."""
    return key_path.with_name(key_path.name + ".journal")


def pinned_identity(key_path: Path, vintage: str) -> tuple[str, ...] | None:
    """Identity columns that a vintage was pinned to, None before its first build."""
    entry = _read(journal_path(key_path)).get(vintage)
    return None if entry is None else tuple(entry["identity"])


def pinned_order(key_path: Path, vintage: str) -> tuple[str, ...]:
    """Columns that a vintage has seen, in the order in which they came."""
    entry = _read(journal_path(key_path)).get(vintage)
    return () if entry is None else tuple(entry["order"])


def pinned_stands(key_path: Path, draws: str) -> frozenset[str]:
    """Columns that stood for copies of theirs in any build with these draws."""
    entries = _read(journal_path(key_path)).values()
    return frozenset(
        name for entry in entries if entry["draws"] == draws for name in entry.get("stands", ())
    )


def pinned_stands_of(key_path: Path, vintage: str) -> frozenset[str]:
    """The same in builds of this very vintage."""
    entry = _read(journal_path(key_path)).get(vintage, {})
    return frozenset(entry.get("stands", ()))


def note_release(
    key_path: Path, vintage: str, sha256: str, recipe: str, exposure: dict[str, Any]
) -> None:
    """Note a release that was built: only these lend tables, for anybody can write a file that looks like one.

    exposure: As the release states it; of the newest release only it is kept.
    """
    path = journal_path(key_path)
    with locked(path):
        entries, n_charges = _read_all(path)
        if vintage in entries:
            known = [one[:2] for one in entries[vintage].get("releases", []) if one[0] != sha256]
            fresh = [sha256, recipe, exposure]
            entries[vintage]["releases"] = [*known, fresh][-MOST_RELEASES:]
            _write(path, entries, n_charges)


def noted_releases(key_path: Path, vintage: str) -> dict[str, str]:
    """Recipes of the releases of a vintage that were built last, by their SHA-256."""
    entry = _read(journal_path(key_path)).get(vintage, {})
    return {one[0]: one[1] for one in entry.get("releases", ())}


def noted_exposure(key_path: Path, vintage: str, sha256: str) -> dict[str, Any] | None:
    """What the newest release of a vintage states of its exposure; None: another one is meant, or it is not noted."""
    entry = _read(journal_path(key_path)).get(vintage, {})
    newest = (entry.get("releases") or [[None]])[-1]
    return newest[2] if newest[0] == sha256 and len(newest) > 2 else None


def pinned_vintages(key_path: Path) -> tuple[str, ...]:
    """Names of the vintages that are pinned, in order."""
    return tuple(sorted(_read(journal_path(key_path))))


def draws_of(key_path: Path, vintage: str, previous: str | None) -> str:
    """The vintage whose draws a vintage uses."""
    if previous is None:
        return vintage
    entries = _read(journal_path(key_path))
    if previous not in entries:
        known = ", ".join(sorted(entries)) or "none yet"
        raise PrivacyError(
            f"release.previous: no vintage {previous!r} was built with this key; there are: {known}"
        )
    return str(entries[previous]["draws"])


def check_vintage(key_path: Path, vintage: str, state: VintageState) -> None:
    """Check, without pinning anything, that a vintage stands for no other state."""
    entries, n_charges = _read_all(journal_path(key_path))
    told = charges(key_path)
    if len(told) < n_charges:
        raise StoreError(
            f"the ledger {charges_path(key_path)} lacks builds that the journal knows: it is gone, or not the newest "
            "one; restore the newest"
        )
    if vintage not in entries and any(one.vintage == vintage for one in told):
        raise StoreError(
            f"the journal {journal_path(key_path)} lacks vintage {vintage!r}, which was built with this key: it is "
            "gone, or not the newest one; restore the newest"
        )
    _refuse_differences(entries.get(vintage), vintage, state)
    _refuse_other_draws(entries.get(state.draws), vintage, state)


def _refuse_other_draws(first: dict[str, Any] | None, vintage: str, state: VintageState) -> None:
    """Raise if a vintage that goes on from another one codes or protects otherwise than that one."""
    if state.draws == vintage or first is None:
        return
    differences = _differences(
        {**first, "draws": state.draws, "contents": {}}, replace(state, contents={})
    )
    if differences:
        raise PrivacyError(
            f"vintage {vintage!r} goes on from {state.draws!r}, but {'; '.join(differences)} changed. The same noise "
            "on another scale would cancel: keep them, or leave release.previous out"
        )


def _refuse_differences(known: dict[str, Any] | None, vintage: str, state: VintageState) -> None:
    """Raise if a vintage is pinned to another state."""
    differences = _differences(known, state) if known is not None else []
    if differences:
        raise PrivacyError(
            f"vintage {vintage!r} is pinned to another state: {'; '.join(differences)} changed since its "
            "first build. Noise drawn for one state must not be used on another: give release.vintage "
            "a new name. To try settings out, use tablepack draft (in Python: draft), which spends nothing"
        )


def unpin_vintage(key_path: Path, vintage: str) -> None:
    """Forget a vintage of which nothing was released."""
    path = journal_path(key_path)
    with locked(path):
        entries, n_charges = _read_all(path)
        if entries.pop(vintage, None) is not None:
            _write(path, entries, n_charges)


def note_charges(key_path: Path, n_charges: int) -> None:
    """Note how many charges the ledger of exposure has: one that has fewer is not the newest."""
    path = journal_path(key_path)
    with locked(path):
        entries, known = _read_all(path)
        _write(path, entries, max(known, n_charges))


def note_entries(key_path: Path, n_entries: int) -> None:
    """Note how many entries the ledger has, of mode dp and of exact counts."""
    path = journal_path(key_path)
    with locked(path):
        raw = _raw(path)
        text = json.dumps(
            {**raw, "ledger": max(raw.get("ledger", 0), n_entries)}, indent=1, sort_keys=True
        )
        replace_file(path, text.encode(), "the journal")


def noted_entries(key_path: Path) -> int:
    """How many entries the ledger has at least."""
    return int(_raw(journal_path(key_path)).get("ledger", 0))


def pin_vintage(
    key_path: Path, vintage: str, state: VintageState, stands: Iterable[str] = ()
) -> bool:
    """Pin a vintage at its first build, or check that this build is of the same state.

    Returns: Whether it was not known before.
    """
    path = journal_path(key_path)
    with locked(path):
        entries, n_charges = _read_all(path)
        known = entries.get(vintage)
        _refuse_differences(known, vintage, state)
        seen = (known or {}).get("order", [])
        merged = {
            "draws": state.draws,
            "order": seen + sorted(_columns(state) - {*seen}),
            "entities": list(state.entities),
            "identity": list(state.identity),
            "privacy": state.privacy,
            "encodings": {**(known or {}).get("encodings", {}), **state.encodings},
            "contents": {**(known or {}).get("contents", {}), **state.contents},
        }
        if releases := (known or {}).get("releases"):
            merged["releases"] = releases
        if named := sorted({*(known or {}).get("stands", []), *stands}):
            merged["stands"] = named
        if merged != known:
            entries[vintage] = merged
            _write(path, entries, n_charges)
    return known is None


def _columns(state: VintageState) -> set[str]:
    """Columns that a build has."""
    return {name for name in state.encodings if not name.startswith(MOST_OF)}


def _differences(known: dict[str, Any], state: VintageState) -> list[str]:
    """In which respects a build differs from what its vintage is pinned to."""
    out = []
    if known["draws"] != state.draws:
        out.append("the vintage that it goes on from (release.previous)")
    if as_entities(known["entities"]) != state.entities:
        out.append("the entity columns")
    if tuple(known["identity"]) != state.identity:
        out.append("the identity columns")
    if known["privacy"] != state.privacy:
        out.append("the privacy parameters")
    changed = _changed(known["encodings"], state.encodings)
    out += [name for name in changed if name.startswith(MOST_OF)]
    coded = [name for name in changed if not name.startswith(MOST_OF)]
    filled = [name for name in _changed(known["contents"], state.contents) if name not in coded]
    if coded and not state.entities:
        filled = []  # rows that are coded otherwise are other rows: nothing is known of their content
    if "" in filled:
        out.append("the entities or the number of rows")
    for what, names in (("encoding", coded), ("content", [name for name in filled if name])):
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            out.append(f"the {what} of column {', '.join(names[:3])}{more}")
    return out


def _changed(pinned: dict[str, str], now: dict[str, str]) -> list[str]:
    """Names whose digest is another than the pinned one."""
    return sorted(name for name in now if pinned.get(name, now[name]) != now[name])


def _read(path: Path) -> dict[str, Any]:
    """All entries; none if there is no journal yet."""
    return _read_all(path)[0]


def _read_all(path: Path) -> tuple[dict[str, Any], int]:
    """All entries, and how many charges the ledger of exposure had."""
    raw = _raw(path)
    # Before there was `previous`, every vintage had draws of its own.
    entries = {name: {"draws": name, **entry} for name, entry in raw["vintages"].items()}
    return entries, int(raw.get("charges", 0))


def _raw(path: Path) -> dict[str, Any]:
    """The journal as it was written; an empty one if there is none yet."""
    try:
        raw = read_json(path)
    except FileNotFoundError:
        return {"format": FORMAT, "vintages": {}, "charges": 0}
    vintages = (
        raw.get("vintages") if isinstance(raw, dict) and raw.get("format") == FORMAT else None
    )
    # Whatever cannot be read is refused: taken for an empty journal, it would free every vintage.
    if not isinstance(vintages, dict) or not all(map(_is_entry, vintages.values())):
        raise StoreError(f"the journal {path} cannot be read; restore it, or use a new key")
    return {**raw}


def _is_entry(entry: Any) -> bool:
    """Whether an entry has all the fields of a vintage's state."""
    wanted = {field.name for field in fields(VintageState)} - {"draws"}
    return isinstance(entry, dict) and entry.keys() >= wanted


def _write(path: Path, entries: dict[str, Any], n_charges: int) -> None:
    """Replace the journal, synced to disk before the first draw."""
    raw = _raw(path) | {"format": FORMAT, "vintages": entries, "charges": n_charges}
    text = json.dumps(raw, indent=1, sort_keys=True)
    replace_file(path, text.encode(), "the journal")
