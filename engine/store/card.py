"""Generator cards: what went into one released table, in plain values.

A card holds only what is public once the table is: parameters, noisy shares, fitted totals. It is stored with
the table and shown by `tablepack show`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import Any

from engine.schema import ColumnSet
from engine.store.card_dp import dp_sentences


@dataclass(frozen=True, kw_only=True, slots=True)
class GeneratorCard:
    """What was measured and fitted for one table.

    Attributes
    ----------
    sub_tables : tuple of ColumnSet
        Narrower tables that this one is locked to.
    low_threshold, threshold_mean : int
        Fewest entities of a released bucket, and mean of the noisy threshold (its sd is 1).
    noise_sd : float
        Standard deviation of the noise on a finest bucket, in rows: both layers together.
    noise_sd_total : float
        The same for the total.
    buckets_released : int
        Released buckets, ranges included.
    cells_released : int
        Released buckets of single values.
    cells : int
        Distinct synthetic rows.
    rows : int
        Synthetic rows (the fitted total).
    suppressed_share : float
        Noisy share of rows that lie in no released bucket of single values, and were filled blindly.
    rounding_gap : int
        Largest difference between a margin of this table and the narrower published table.
    rake_error : float
        Rows that the sums of a narrower table were off by when raking stopped, as a share of all rows.
    rake_converged : bool
        That share was at most 1 %.
    cells_per_entity : float
        Independent released cells over the fitted number of rows: how much the table tells a person (r/n).
    scale : int
        Largest factor of the noise, the declared bound on the rows of one entity; 1: each has one row.
    dp : dict
        Mode dp only, plain values: method, post, sample, noise, epsilon, delta, rho, max_rows, margins (number),
        margins_inside (those inside this table), sd (smallest and largest of the margins' noise), total ("noisy" or
        "public"), total_sd, strata, prior, how, cycles, error, converged, uniform (columns nothing was measured of),
        covered (the table lies inside a measured margin). Other fields then mean: `noise_sd` that of a combination
        of levels (covered), or the largest of the margins that the table follows from; `cells_released` the
        combinations measured; `suppressed_share` rows whose own combination of values was not; thresholds are 0.
    exposure : dict
        Mode sticky only, of the whole release, plain values: see `engine.exposure.Exposure.as_dict`.
    """

    columns: ColumnSet
    sub_tables: tuple[ColumnSet, ...]
    mode: str
    profile: str
    vintage: str
    key_id: str
    engine_version: str
    low_threshold: int
    threshold_mean: int
    noise_sd: float
    noise_sd_total: float
    buckets_released: int
    cells_released: int
    cells: int
    rows: int
    suppressed_share: float
    rounding_gap: int
    rake_cycles: int
    rake_error: float
    rake_converged: bool
    cells_per_entity: float
    scale: int = 1
    dp: dict[str, Any] = field(default_factory=dict)
    exposure: dict[str, Any] = field(default_factory=dict)

    @property
    def is_converged(self) -> bool:
        """Whether the fit ended as it should (mode dp; what sticky mode says is `rake_converged`)."""
        return bool(self.dp.get("converged", True))

    def to_json(self) -> str:
        """The card as JSON with sorted keys."""
        # All fields are plain: `asdict` would copy each of them first.
        return json.dumps({f.name: getattr(self, f.name) for f in fields(self)}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> GeneratorCard:
        """Read back what `to_json` wrote."""
        raw = json.loads(text)
        raw["columns"] = tuple(raw["columns"])
        raw["sub_tables"] = tuple(tuple(s) for s in raw["sub_tables"])
        return cls(**{f.name: raw[f.name] for f in fields(cls) if f.name in raw})

    def sentences(self) -> list[str]:
        """The card in plain words, a sentence a line."""
        origin = f"Vintage {self.vintage}, key {self.key_id}, profile {self.profile}, engine {self.engine_version}."
        if self.dp:
            sentences = dp_sentences(
                self.dp,
                columns=self.columns,
                rows=self.rows,
                cells=self.cells,
                noise_sd=self.noise_sd,
            )
            return [*sentences, origin]
        locked = ", ".join(" x ".join(s) for s in self.sub_tables) or "the noisy total"
        bounded = (
            [
                f"Of each entity {self.scale:,} rows at most count in a bucket, perhaps fewer in finer ones, as "
                "declared; the noise grows with that bound, whoever is in the data. Rows beyond it are left out, so "
                "counts of groups with very heavy entities are too low, beyond the noise stated."
            ]
            if self.scale > 1
            else []
        )
        raking = (
            f"{self.rake_cycles} raking cycles, then sums off by {self.rake_error:.2%} of the rows at most"
            + (
                ""
                if self.rake_converged
                else " (NOT converged: the narrower tables contradict each other)"
            )
        )
        return [
            f"{self.rows:,} synthetic rows in {self.cells:,} distinct combinations of {', '.join(self.columns)}.",
            f"Buckets of fewer than {self.low_threshold} entities are never released; the threshold is noisy, "
            f"mean {self.threshold_mean}, sd 1.",
            f"Each released count carries noise of sd {self.noise_sd:.2f} rows, always the same for the same people.",
            *bounded,
            f"{self.cells_released:,} combinations were released as such; about {self.suppressed_share:.1%} of the "
            "rows lie outside them and were filled in without looking at the data.",
            f"Locked to {locked}: margins differ from them by at most {self.rounding_gap}.",
            raking + "." if self.rake_cycles else "Nothing to rake to.",
            *exposure_sentences(self.exposure),
            origin,
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
