"""Generator cards: what went into one released table, in plain values.

A card holds only what is public once the table is: parameters, noisy shares, fitted totals. It is stored with
the table and shown by `tablepack show`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import Any

from engine.errors import DamagedRelease
from engine.schema import ColumnSet, ReleaseHeader
from engine.store.card_words import dp_sentences, range_words, wide_sentences
from engine.texts import html_sentences
from engine.units import ENTITIES, ROWS, Unit

UNREVIEWED = "Detected in the data, reviewed by nobody"
"""How sentences begin on settings that were found in the data and that no person looked at."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GeneratorCard:
    """What was measured and fitted for one table."""

    columns: ColumnSet
    sub_tables: tuple[ColumnSet, ...]  # Narrower tables that this one is locked to
    mode: str
    profile: str
    vintage: str
    key_id: str
    engine_version: str
    # low_threshold, threshold_mean: Fewest entities of a released bucket, and mean of the noisy threshold
    # (its sd is 1).
    low_threshold: int
    threshold_mean: int
    # Standard deviation of the noise on a finest bucket, in rows: both layers together.
    noise_sd: float
    noise_sd_total: float  # The same for the total
    buckets_released: int  # Released buckets, ranges included
    cells_released: int  # Released buckets of single values
    cells: int  # Distinct synthetic rows
    rows: int  # Synthetic rows (the fitted total)
    # Noisy share of rows that lie in no released bucket of single values, and were filled blindly.
    suppressed_share: float
    # Largest difference between a margin of this table and the narrower published table.
    rounding_gap: int
    rake_cycles: int
    # Rows that the sums of a narrower table were off by when raking stopped, as a share of all rows.
    rake_error: float
    rake_converged: bool  # That share was at most 1 %
    # Independent released cells over the fitted number of rows: how much the table tells a person (r/n).
    cells_per_entity: float
    # Largest factor of the noise, the declared bound on the rows of one entity; 1: each has one row.
    scale: int = 1
    # Mode dp only, plain values: method, post, sample, noise, epsilon, delta, rho, max_rows, margins
    # (number), margins_inside (those inside this table), sd (smallest and largest of the margins' noise),
    # total ("noisy" or "public"), total_sd, strata, prior, how, cycles, error, converged, uniform (columns
    # nothing was measured of), covered (the table lies inside a measured margin). Other fields then mean:
    # `noise_sd` that of a combination of levels (covered), or the largest of the margins that the table
    # follows from; `cells_released` the combinations measured; `suppressed_share` rows whose own
    # combination of values was not; thresholds are 0.
    dp: dict[str, Any] = field(default_factory=dict)
    # Wide tables of mode sticky only, plain values: pairs and triples (numbers of the locked tables it was
    # fitted to), off (by their width: share of rows that would have to change for one of them, mean),
    # impossible (rows with two values that a locked table keeps apart), step (so many rows were searched as
    # one, where there are many), set and sets (which it is of how many independent syntheses, where there
    # are several). Nothing was measured of the table as such: counts of what was released, noise and scale
    # are 0 or 1 and say nothing.
    wide: dict[str, Any] = field(default_factory=dict)
    # Mode sticky only: columns whose values some records exchanged before anything was counted, columns
    # that the partners agree in, and the share of records if it is told. Empty: none did, or no count of
    # this table changes by it.
    swap: dict[str, Any] = field(default_factory=dict)
    # Columns that another one determines, with that one: the table shows what the one in `sub_tables`
    # shows.
    told: dict[str, str] = field(default_factory=dict)
    # Mode sticky only, of the whole release, plain values: see `engine.exposure.Exposure.as_dict`.
    exposure: dict[str, Any] = field(default_factory=dict)
    # What one row (`one`) and many (`many`) are called, and whom the release protects (`entity`,
    # `entities`).
    words: dict[str, str] = field(default_factory=lambda: words_of(ROWS, ENTITIES))
    # What was found in the data and reviewed by nobody: settings by column.
    detected: dict[str, str] = field(default_factory=dict)

    @property
    def is_converged(self) -> bool:
        """Whether the fit ended as it should (mode dp; what sticky mode says is `rake_converged`)."""
        return bool(self.dp.get("converged", True))

    def __repr__(self) -> str:
        return "\n".join(self.sentences())

    def _repr_html_(self) -> str:
        return html_sentences(self.sentences())

    def to_json(self) -> str:
        """The card as JSON with sorted keys."""
        # All fields are plain: `asdict` would copy each of them first.
        return json.dumps({f.name: getattr(self, f.name) for f in fields(self)}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> GeneratorCard:
        """Read back what `to_json` wrote."""
        try:
            raw = json.loads(text, parse_constant=_refuse)
            raw["columns"] = tuple(raw["columns"])
            raw["sub_tables"] = tuple(tuple(s) for s in raw["sub_tables"])
            card = cls(**{f.name: raw[f.name] for f in fields(cls) if f.name in raw})
            _check_kinds(card)
            card.sentences()  # fails where something inside its mappings is missing or of another kind
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
            raise DamagedRelease("a card of the release is not one that tablepack wrote") from None
        return card

    def sentences(self) -> list[str]:
        """The card in plain words, a sentence a line."""
        origin = f"Vintage {self.vintage}, key {self.key_id}, profile {self.profile}, engine {self.engine_version}."
        if self.dp or self.wide:
            return [*self._modelled(), *self._unreviewed(), origin]
        one, many, entities = (self.words[word] for word in ("entity", "many", "entities"))
        locked = ", ".join(" x ".join(s) for s in self.sub_tables) or "the noisy total"
        bounded = (
            [
                f"Of each {one} {self.scale:,} {many} at most count in a bucket, perhaps fewer in finer ones, as "
                "declared; the noise grows with that bound, whoever is in the data. What is beyond it is left out, so "
                f"counts of groups with {entities} of very many {many} are too low, beyond the noise stated."
            ]
            if self.scale > 1
            else []
        )
        raking = (
            f"{self.rake_cycles} raking cycles, then sums off by {self.rake_error:.2%} of the {many} at most"
            + (
                ""
                if self.rake_converged
                else " (NOT converged: the narrower tables contradict each other)"
            )
        )
        return [
            f"{self.rows:,} synthetic {many} in {self.cells:,} distinct combinations of {', '.join(self.columns)}.",
            f"Buckets of fewer than {self.low_threshold} {entities} are never released; the threshold is noisy, "
            f"mean {self.threshold_mean}, sd 1.",
            f"Each released count carries noise of sd {self.noise_sd:.2f} {many}{self._of_ranges()}, always the same "
            f"for the same {entities}.",
            *bounded,
            *swap_sentences(self.swap),
            f"{self.cells_released:,} combinations were released as such; about {self.suppressed_share:.1%} of the "
            f"{many} lie outside them and were filled in without looking at the data.",
            *(
                f"{name} is told by {by}: for the same {entities} there is no second noise."
                for name, by in self.told.items()
            ),
            f"Locked to {locked}: margins differ from them by at most {self.rounding_gap}.",
            raking + "." if self.rake_cycles else "Nothing to rake to.",
            *exposure_sentences(self.exposure),
            *self._unreviewed(),
            origin,
        ]

    def _of_ranges(self) -> str:
        """What counts of ranges carry, where finer ones have a lower bound of rows and so less noise."""
        return range_words(self.noise_sd, self.noise_sd_total)

    def _modelled(self) -> list[str]:
        """What the card of a table of mode dp says, or of a wide one."""
        known: dict[str, Any] = {"columns": self.columns, "rows": self.rows, "cells": self.cells}
        many = self.words["many"]
        if self.dp:
            return dp_sentences(self.dp, **known, noise_sd=self.noise_sd, many=many)
        return [
            *wide_sentences(self.wide, **known, many=many),
            *swap_sentences(self.swap),
            *exposure_sentences(self.exposure),
        ]

    def _unreviewed(self) -> list[str]:
        """What was found in the data and reviewed by nobody, in words; nothing where all was."""
        if not self.detected:
            return []
        told = "; ".join(f"{settings} of {name}" for name, settings in self.detected.items())
        return [f"{UNREVIEWED}: {told}."]


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no number")


_KINDS: dict[str, type | tuple[type, ...]] = {
    "str": str,
    "int": int,
    "float": (int, float),
    "bool": bool,
    "dict[str, Any]": dict,
    "dict[str, str]": dict,
    "ColumnSet": tuple,
    "tuple[ColumnSet, ...]": tuple,
}
"""What a field of a card may hold, by its annotation."""


def _check_kinds(card: GeneratorCard) -> None:
    """Refuse a field that holds something of another kind."""
    for field_ in fields(card):
        value = getattr(card, field_.name)
        is_flag = isinstance(value, bool) and field_.type != "bool"
        if is_flag or not isinstance(value, _KINDS[str(field_.type)]):
            raise TypeError(field_.name)
    names = [*card.columns, *(name for table in card.sub_tables for name in table)]
    texts = [*card.told.items(), *card.words.items(), *card.detected.items()]
    if not all(isinstance(name, str) for name in (*names, *(t for pair in texts for t in pair))):
        raise TypeError("columns")


def words_of(unit: Unit, entity: Unit) -> dict[str, str]:
    """What cards and notes call rows and entities, by the name of the word."""
    return {"one": unit.one, "many": unit.many, "entity": entity.one, "entities": entity.many}


def detected_of(header: ReleaseHeader, columns: ColumnSet) -> dict[str, str]:
    """What the card of a table says was found in the data and reviewed by nobody: settings by column."""
    if header.is_reviewed:
        return {}
    return {
        c.name: ", ".join(c.detected) for c in header.columns if c.name in columns and c.detected
    }


def swap_of_table(told: dict[str, Any] | None, columns: ColumnSet) -> dict[str, Any]:
    """What the card of a table says of records that were exchanged.

    told: What the release says of it; None: none were.

    Returns: Empty if no count of the table changes by it: it has none of the exchanged columns, or beside
    them only those that partners agree in.
    """
    if told is None:
        return {}
    exchanged, within = {*told["columns"]}, {*told["within"]}
    is_touched = exchanged & {*columns} and {*columns} - exchanged - within
    return told if is_touched else {}


def swap_sentences(told: dict[str, Any]) -> list[str]:
    """Records that were exchanged, in plain words; nothing where none were."""
    if not told:
        return []
    columns, within = ", ".join(told["columns"]), ", ".join(told["within"])
    share = f"{told['rate']:.1%} of the records" if "rate" in told else "Some records"
    partners = f"a partner who agrees in {within}" if within else "a partner"
    return [
        f"{share} exchanged their {columns} with {partners}, rare ones first, before anything was counted; the noise "
        "stated, and noise intervals, say nothing of that"
        + ("." if "rate" in told else ", and how many did is not told.")
    ]


def exposure_sentences(exposure: dict[str, Any]) -> list[str]:
    """What a card says of the release that its table belongs to; nothing where that is not known."""
    if not exposure:
        return []
    most = exposure["with_earlier_builds"]
    lines = [
        f"All tables of this release together tell at most {exposure['figures_a_person']:.2f} noisy figures a person "
        "in any group that one or two columns single out"
        + (f", {most:.2f} with earlier builds" if exposure["earlier_builds"] else "")
        + f"; refused above {exposure['refuse_at']:g}, unless accepted."
    ]
    if exposure["accept_risk"]:
        lines.append(f"The owner accepted this risk: {exposure['accept_risk']}")
    return lines
