"""The ledger of exposure beside the key: what sticky releases of these people gave away so far.

Every build that adds a table, and every vintage, is charged with its tables, and with how exposed the most exposed
people are by them, before its release is put in place. A key stands for one population: what was built with it adds
up, whatever the source or vintage is called, unless the sketches of two vintages show that hardly anybody is in both.
The file has mode 0600; it holds names of columns, rounded exposures and keyed sketches, no value of the data.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from engine.errors import StoreError
from engine.params import ratio_of, right_of
from engine.schema import ColumnSet
from engine.source.files import read_json, replace_file

FORMAT = 1
"""Version of the ledger's form."""
FEW_SHARED = 0.05
"""Two vintages are of other people if at most this share of the smaller one is in the larger."""
ENOUGH = 20
"""Hashes of the smaller vintage that it takes to say so."""
_UNIT = "(entities"
"""How the name of a table begins that says what it counts, beside its columns."""
NEARLY_SAME = 0.9
"""From here on two vintages are nearly the same data."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sketch:
    """The smallest keyed hashes of a vintage's entities (bottom-k, Broder 1997), to tell how many two vintages
    share.
    """

    # What the entities are known by: entity columns, or the identity columns of rows. Only sketches of the
    # same can be compared.
    of: tuple[str, ...]
    named: bool  # Whether columns name the entities: then a changed person is still the same
    hashes: tuple[int, ...]  # Ascending
    size: int  # Most hashes that it holds

    def shared_with(self, other: Sketch) -> float | None:
        """Share of the entities of both that are in both (Jaccard); None: they cannot be compared."""
        if (self.of, self.named) != (other.of, other.named):
            return None
        smallest = sorted({*self.hashes, *other.hashes})[: min(self.size, other.size)]
        both = set(self.hashes) & set(other.hashes)
        return sum(one in both for one in smallest) / max(len(smallest), 1)

    def held_by(self, other: Sketch) -> float | None:
        """Share of the smaller one's entities that are in the larger too; None: too few hashes can be compared."""
        if (self.of, self.named) != (other.of, other.named):
            return None
        most = min(self._reach(), other._reach())
        sides = [{one for one in sketch.hashes if one <= most} for sketch in (self, other)]
        fewer = min(map(len, sides))
        return len(sides[0] & sides[1]) / fewer if fewer >= ENOUGH else None

    def _reach(self) -> float:
        """Up to which hash all entities are known."""
        return max(self.hashes) if self.hashes and len(self.hashes) >= self.size else math.inf


@dataclass(frozen=True, kw_only=True, slots=True)
class Charge:
    """One line of the ledger: a build that told something new."""

    # vintage, draws: Its vintage, and the one whose draws it uses (another with `previous`).
    vintage: str
    draws: str
    title: str
    # Measured tables of two and more columns that no earlier build of the vintage held.
    tables: tuple[ColumnSet, ...]
    # Exposure of the most exposed by these alone, by column told (second; the first names a group in older ledgers).
    pairs: tuple[tuple[ColumnSet, str, float], ...]
    accepted: str = ""  # Why its owner accepted more than the bound; empty: within it
    # Keyed digests of the columns' contents under its draws, as the journal has them: equal where nothing
    # changed.
    contents: dict[str, str] = field(default_factory=dict, repr=False)
    sketch: Sketch = field(repr=False)
    # Keyed digests of how columns group the rows, under its draws: equal for a column and its relabelled
    # copies.
    shapes: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def unit(self) -> ColumnSet:
        """What its tables count, if not rows."""
        return tuple(name for table in self.tables[:1] for name in table if name.startswith(_UNIT))

    @property
    def plain_tables(self) -> frozenset[ColumnSet]:
        """Its tables, by their columns alone."""
        return frozenset(
            tuple(name for name in table if not name.startswith(_UNIT)) for table in self.tables
        )

    @property
    def worst(self) -> float:
        """Highest exposure by what it added."""
        return max((exposure for _, _, exposure in self.pairs), default=0.0)

    @property
    def ratios(self) -> dict[str, float]:
        """The same as ratios of signal to noise, which add up, by column told."""
        out: dict[str, float] = {}
        for _, told, exposure in self.pairs:
            out[told] = max(out.get(told, 0.0), ratio_of(0.5 + exposure / 2))
        return out

    def renamed(self, draws: str, shapes: dict[str, str], copies: dict[str, str]) -> dict[str, str]:
        """Its columns that a build under the same draws counts under another name: that name by this one."""
        if self.draws != draws:
            return {}
        named = {shape: name for name, shape in sorted(shapes.items(), reverse=True)}
        now = {name: named[shape] for name, shape in self.shapes.items() if shape in named}
        now |= {name: name for name in self.shapes if name in shapes}
        return {name: copies.get(other, other) for name, other in now.items()}

    def is_of(self, contents: dict[str, str]) -> bool:
        """Whether its tables are of the same people with the same values."""
        named = {"", *(name for columns in self.tables for name in columns)}
        return all(self.contents.get(name) == contents.get(name) for name in named)


_CHARGES = TypeAdapter(tuple[Charge, ...])
"""How charges stand in the file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class History:
    """What was built of the same people before."""

    builds: int  # Earlier builds that told something which this one does not
    # Their tables of the same data under the same draws: told again, they are no news.
    held: frozenset[ColumnSet]
    # Their tables with noise of other draws, under this build's names: how often each was measured.
    again: dict[ColumnSet, int]
    # Ratio of signal to noise of what the rest of them told, of which this build cannot see who is in which cell.
    known: dict[str, float]
    charged: frozenset[ColumnSet]  # The same of all earlier builds
    is_known: bool  # Whether the vintage was ever charged
    is_whole: bool  # Whether the ledger was there from the key's first day
    # States of nearly the same data with draws of their own, this one included. One more where the ledger
    # was not there from the first day: nobody knows what the key was used for before.
    looks: int


def charges_path(key_path: Path) -> Path:
    """The ledger of exposure of a key file."""
    return key_path.with_name(key_path.name + ".exposure.json")


def charges(key_path: Path) -> tuple[Charge, ...]:
    """All charges; none if nothing was ever built."""
    return _read(key_path)[0]


def begin_charges(key_path: Path) -> None:
    """Begin the ledger of a new key: a key that has none was perhaps used before, elsewhere."""
    _write(key_path, (), is_whole=True)


def _read(key_path: Path) -> tuple[tuple[Charge, ...], bool]:
    """All charges, and whether the ledger was there from the key's first day."""
    path = charges_path(key_path)
    try:
        raw = read_json(path)
    except FileNotFoundError:
        return (), False
    # Whatever cannot be read is refused: taken for an empty ledger, it would forget what was told.
    try:
        if raw["format"] == FORMAT and raw["digest"] == _digest(raw["is_whole"], raw["charges"]):
            return _CHARGES.validate_python(raw["charges"]), bool(raw["is_whole"])
    except (TypeError, KeyError, ValueError):
        pass
    raise StoreError(
        f"the ledger {path} cannot be read, or was changed by hand; restore it, or use a new key"
    )


def history(
    key_path: Path,
    *,
    vintage: str,
    draws: str,
    contents: dict[str, str],
    sketch: Sketch,
    shapes: dict[str, str],
    copies: dict[str, str],
    tables: frozenset[ColumnSet],
    columns: Collection[str],
    unit: ColumnSet = (),
) -> History:
    """What counts against a build.

    columns: Those whose cells it can look at.
    unit: What the ledger adds to the names of its tables: which rows or entities they count.
    """
    recorded, is_whole = _read(key_path)
    mine = [one for one in recorded if not _are_others(one, vintage, sketch)]
    same = [
        one
        for one in mine
        if one.vintage == vintage or (one.draws == draws and one.is_of(contents))
    ]
    of_unit = [one for one in same if one.unit == unit or not one.tables]
    within = [one for one in of_unit if tables.issuperset(one.plain_tables)]
    others = [one for one in mine if one not in within]
    held: set[ColumnSet] = set()
    again: dict[ColumnSet, set[Any]] = {}
    known: dict[str, float] = {}
    for one in others:
        now = one.renamed(draws, shapes, copies)
        its = {tuple(sorted(now.get(c, c) for c in table)) for table in one.plain_tables}
        if not all(name in columns for table in its for name in table):
            for told, ratio in one.ratios.items():
                name = now.get(told, told)
                known[name] = known.get(name, 0.0) + ratio
        elif one in of_unit:
            held |= its
        else:
            for table in its:
                state = tuple(one.contents.get(name) for name in ("", *table))
                again.setdefault(table, set()).add((one.draws, state, one.unit))
    fresh = {one.draws for one in mine if _is_nearly(one, sketch)} | {draws}
    return History(
        builds=len(others),
        held=frozenset(held),
        again={table: len(states) for table, states in again.items()},
        known=known,
        charged=frozenset(table for one in of_unit for table in one.plain_tables),
        is_known=any(one.vintage == vintage for one in mine),
        is_whole=is_whole,
        looks=len(fresh) + (not is_whole),
    )


def added_up(told: Sequence[Charge]) -> float:
    """Highest exposure by all charges that may be of the same people, as if none had noise in common."""
    most = 0.0
    for last in told:
        ratios: dict[str, float] = {}
        for one in told:
            if not _are_others(one, last.vintage, last.sketch):
                now = one.renamed(last.draws, last.shapes, {})
                for name, ratio in one.ratios.items():
                    ratios[now.get(name, name)] = ratios.get(now.get(name, name), 0.0) + ratio
        most = max(most, 2 * right_of(max(ratios.values(), default=0.0)) - 1)
    return most


def _are_others(charge: Charge, vintage: str, sketch: Sketch) -> bool:
    """Whether a charge was for other people. Rows that nobody names change with what is in them: no proof."""
    if charge.vintage == vintage or not sketch.named:
        return False
    shared = sketch.held_by(charge.sketch)
    return shared is not None and shared <= FEW_SHARED


def _is_nearly(charge: Charge, sketch: Sketch) -> bool:
    """Whether a charge was for nearly the same data, as far as can be told: of rows without a name nothing can."""
    shared = sketch.shared_with(charge.sketch)
    return shared is None or not sketch.named or shared >= NEARLY_SAME


def add_charge(key_path: Path, charge: Charge) -> int:
    """Write down what a build tells, synced to disk; called, with the ledger locked, before its release is placed."""
    known, is_whole = _read(key_path)
    _write(key_path, (*known, charge), is_whole=is_whole)
    return len(known) + 1


def _write(key_path: Path, known: Sequence[Charge], *, is_whole: bool) -> None:
    """Replace the ledger."""
    rows = _CHARGES.dump_python(tuple(known), mode="json")
    raw = {"format": FORMAT, "is_whole": is_whole, "charges": rows}
    text = json.dumps(raw | {"digest": _digest(is_whole, rows)}, indent=1)
    replace_file(charges_path(key_path), text.encode(), "the ledger")


def _digest(is_whole: bool, rows: Sequence[Any]) -> str:
    """Digest of all that the ledger says."""
    return blake2b(
        json.dumps([is_whole, rows], sort_keys=True).encode(), digest_size=16
    ).hexdigest()
