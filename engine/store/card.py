"""Generator cards: what was measured and fitted for one released table, as plain values and in words.

A card holds only what is public once the table is: parameters, noisy shares, fitted totals. It is stored with
the table and shown by `tablepack show`. Whatever weakens a guarantee (no noise, a public number of rows, a fit that
did not converge, unmeasured columns, a modelled table) is written in capitals.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from engine.errors import DamagedRelease
from engine.guarantee import Guarantee
from engine.schema import Column, ColumnSet, ReleaseHeader, SyntheticTable, Writing
from engine.texts import html_sentences
from engine.units import ENTITIES, ROWS, Unit

_PLAIN = Writing()
UNREVIEWED = "Detected in the data, not reviewed"
"""Begins every sentence on settings that were detected in the data and that nobody has confirmed."""


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
    cells: int  # Distinct synthetic rows
    rows: int  # Synthetic rows (the fitted total)
    low_threshold: int = 0  # Cells with fewer entities are never released
    threshold_mean: int = 0  # Mean of the noisy threshold; its sd is 1
    noise_sd: float = 0.0  # Of the noise on a finest cell, in rows: both layers together
    noise_sd_total: float = 0.0  # The same for the total
    buckets_released: int = 0  # Released cells, ranges included
    cells_released: int = 0  # Released cells of single values
    suppressed_share: float = 0.0  # Noisy share of rows outside the latter, and so imputed
    rounding_gap: int = 0  # Largest difference between a margin and the narrower published table
    rake_cycles: int = 0
    rake_error: float = (
        0.0  # Largest difference from a narrower table when raking stopped, as a share of all rows
    )
    rake_converged: bool = True  # That share was at most 1 %
    cells_per_entity: float = 0.0  # Released cells of single values over rows
    scale: int = 1  # Largest noise factor: the declared bound on the rows of one entity
    # Mode dp only, plain values: method, post, sample, noise, epsilon, delta, rho, max_rows, stability, words, who,
    # with_key (what all builds with the key come to: see `Guarantee.of`), accept_delta, margins
    # (number), margins_inside (those inside this table), sd (smallest and largest of the margins' noise),
    # total ("noisy" or "public"), total_sd, strata, prior, how, cycles, error, converged, uniform (columns
    # that were not measured), covered (the table lies within a measured margin). Other fields then mean:
    # `noise_sd` that of a combination of levels (covered), or the largest of the margins that the table
    # is derived from; `cells_released` the combinations measured; `suppressed_share` rows whose own
    # combination of values was not measured; thresholds are 0.
    dp: dict[str, Any] = field(default_factory=dict)
    # Wide tables of mode sticky only, plain values: pairs and triples (numbers of the locked tables it was
    # fitted to), off (by their width: share of rows that would have to change for one of them, mean),
    # impossible (rows with two values that a locked table excludes), step (rows that were placed together,
    # for large tables), design_effect (as of `WideFit`; none where it is not known), set and sets (number of
    # this synthesis and of all independent ones, where there are several). Nothing was measured for the
    # table itself: counts of released cells, noise and scale are 0 or 1 and carry no meaning.
    wide: dict[str, Any] = field(default_factory=dict)
    # Mode sticky only: columns whose values some records swapped before counting, columns in which partners
    # agree, and the share of records if it is published. Empty: no swapping, or it changes no count of this
    # table.
    swap: dict[str, Any] = field(default_factory=dict)
    # Mode sticky only: columns whose sums were measured, with low, high (smallest and largest end to which a group's
    # values were clipped, as texts) and beyond (the share of the column's total that lies beyond these ends).
    sums: dict[str, Any] = field(default_factory=dict)
    # Columns that are implied by another one (functional dependency), with that one: the table shows what
    # the one in `sub_tables` shows.
    told: dict[str, str] = field(default_factory=dict)
    # Mode sticky only, of the whole release, plain values: see `engine.exposure.Exposure.as_dict`.
    exposure: dict[str, Any] = field(default_factory=dict)
    # Names of one row (`one`) and several (`many`), and of the protected entity (`entity`, `entities`).
    words: dict[str, str] = field(default_factory=lambda: words_of(ROWS, ENTITIES))
    # What was detected in the data and not reviewed: settings by column.
    detected: dict[str, str] = field(default_factory=dict)
    # How the source was read, by column: the keys of the spec (decimal, thousands, date_format, century, nulls) that
    # differ from the default.
    written: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, table: SyntheticTable, header: ReleaseHeader, **own: Any) -> GeneratorCard:
        """The card of a table: what its release says of it, and what is its own."""
        return cls(
            columns=table.columns,
            mode=header.mode,
            vintage=header.vintage,
            key_id=header.key_id,
            engine_version=header.engine_version,
            cells=len(table.n),
            rows=table.n_rows,
            words=words_of(header.unit, header.entity),
            detected=detected_of(header, table.columns),
            written=written_of(header, table.columns),
            **own,
        )

    @property
    def is_converged(self) -> bool:
        """Whether the fit converged (mode dp; for sticky mode see `rake_converged`)."""
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
            card.sentences()  # fails if a value inside its mappings is missing or of the wrong type
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
            raise DamagedRelease("a card of the release was not written by tablepack") from None
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
                f"As declared, at most {self.scale:,} {many} per {one} count in a cell, perhaps fewer in finer ones; "
                f"the noise grows with that bound, whatever the data. Further {many} are left out, so counts of groups "
                f"with {entities} that have very many {many} are too low, by more than the noise stated."
            ]
            if self.scale > 1
            else []
        )
        cycles = "1 raking cycle" if self.rake_cycles == 1 else f"{self.rake_cycles} raking cycles"
        raking = (
            f"{cycles}; the largest remaining difference is {_percent(self.rake_error, 2)} of the {many}"
            + ("" if self.rake_converged else " (NOT converged: the narrower tables contradict each other)")
        )  # fmt: skip
        were = "combination was" if self.cells_released == 1 else "combinations were"
        return [
            _size(self.rows, self.cells, self.columns, many),
            f"Cells with fewer than {self.low_threshold} {entities} are never released; the threshold is noisy, "
            f"mean {self.threshold_mean}, sd 1.",
            f"Each released count includes noise of sd {self.noise_sd:.2f} {many}"
            f"{range_words(self.noise_sd, self.noise_sd_total)}, always the same for the same {entities}.",
            *bounded,
            *swap_sentences(self.swap),
            f"{self.cells_released:,} {were} released; about {_percent(self.suppressed_share, 1)} of the {many} fall "
            "outside released combinations and were imputed without reference to the data.",
            *(clipped_words(name, ends) for name, ends in self.sums.items()),
            *(
                f"{name} is implied by {by}: it adds no further noisy figures about the same {entities}."
                for name, by in self.told.items()
            ),
            f"Locked to {locked}: counts differ from theirs by at most {self.rounding_gap}.",
            raking + "." if self.rake_cycles else "No raking was needed.",
            *exposure_sentences(self.exposure),
            *self._unreviewed(),
            origin,
        ]

    def _modelled(self) -> list[str]:
        """The sentences of a table of mode dp, or of a wide one."""
        known: dict[str, Any] = {"columns": self.columns, "rows": self.rows, "cells": self.cells}
        many = self.words["many"]
        if self.dp:
            return _dp_sentences(self.dp, **known, noise_sd=self.noise_sd, many=many)
        return [
            *_wide_sentences(self.wide, **known, many=many),
            *swap_sentences(self.swap),
            *exposure_sentences(self.exposure),
        ]

    def _unreviewed(self) -> list[str]:
        """What was detected in the data and not reviewed, in words; nothing if all was."""
        if not self.detected:
            return []
        listed = "; ".join(f"{settings} of {name}" for name, settings in self.detected.items())
        return [f"{UNREVIEWED}: {listed}."]


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number")


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
"""Python types of a card's fields, by annotation."""


def _check_kinds(card: GeneratorCard) -> None:
    """Refuse a field that holds a value of the wrong type."""
    for field_ in fields(card):
        value = getattr(card, field_.name)
        is_flag = isinstance(value, bool) and field_.type != "bool"
        if is_flag or not isinstance(value, _KINDS[str(field_.type)]):
            raise TypeError(field_.name)
    for told in card.written.values():
        texts_of = {**told, "nulls": ""}.values(), told.get("nulls", [])
        if not all(isinstance(text, str) for texts in texts_of for text in texts):
            raise TypeError("written")
    names = [*card.columns, *(name for table in card.sub_tables for name in table)]
    texts = [*card.told.items(), *card.words.items(), *card.detected.items()]
    if not all(isinstance(name, str) for name in (*names, *(t for pair in texts for t in pair))):
        raise TypeError("columns")


def words_of(unit: Unit, entity: Unit) -> dict[str, str]:
    """What cards and notes call rows and entities, by the placeholder in their sentences."""
    return {"one": unit.one, "many": unit.many, "entity": entity.one, "entities": entity.many}


def detected_of(header: ReleaseHeader, columns: ColumnSet) -> dict[str, str]:
    """Settings of a table that were detected in the data and not reviewed, by column."""
    if header.is_reviewed:
        return {}
    return {
        c.name: ", ".join(c.detected) for c in header.columns if c.name in columns and c.detected
    }


def written_of(header: ReleaseHeader, columns: ColumnSet) -> dict[str, Any]:
    """How the columns of a table were read from the source: see `GeneratorCard.written`."""
    return {c.name: _reading(c) for c in header.columns if c.name in columns}


def _reading(column: Column) -> dict[str, Any]:
    """The keys of the spec that say how a column is read, where they differ from the default."""
    said = asdict(column.writing)
    own: dict[str, Any] = {k: v for k, v in said.items() if v != getattr(_PLAIN, k)}
    return own if column.spellings == ("",) else own | {"nulls": list(column.spellings)}


def swap_of_table(swap: dict[str, Any] | None, columns: ColumnSet) -> dict[str, Any]:
    """What the card of a table says of record swapping.

    swap: What the release says of it; None: no records were swapped.

    Returns: Empty if swapping changes no count of the table: it has no swapped column, or otherwise only
        columns in which partners agree.
    """
    if swap is None:
        return {}
    swapped, within = {*swap["columns"]}, {*swap["within"]}
    is_affected = swapped & {*columns} and {*columns} - swapped - within
    return swap if is_affected else {}


def clipped_words(name: str, ends: Mapping[str, Any]) -> str:
    """To what the values in measured sums of a column are clipped, as one sentence; `ends`: of `GeneratorCard.sums`."""
    low, high = (_between(*ends[side]) for side in ("low", "high"))
    share = ends["beyond"]
    lost = (
        f"about {_percent(share, 1)} of the column's total lies"
        if share
        else "none of the rows shown lies"
    )
    return (
        f"Sums of {name} in groups were measured too, with noise. In them values below {low} or above {high} count as "
        f"these ends, which are those of the ranges that a group shows: {lost} beyond."
    )


def _between(least: str, most: str) -> str:
    return least if least == most else f"{least} to {most} (by group)"


def swap_sentences(swap: Mapping[str, Any]) -> list[str]:
    """Record swapping, in plain words; nothing if there was none."""
    if not swap:
        return []
    columns, within = ", ".join(swap["columns"]), ", ".join(swap["within"])
    share = f"{_percent(swap['rate'], 1)} of the records" if "rate" in swap else "Some records"
    partners = f"a partner that agrees in {within}" if within else "a partner"
    return [
        f"{share} swapped their {columns} with {partners} before anything was counted, rare records first; the noise "
        "stated and noise intervals do not cover this"
        + ("." if "rate" in swap else ", and the share of records is not published.")
    ]


def exposure_sentences(exposure: Mapping[str, Any]) -> list[str]:
    """The exposure of the release that a table belongs to; nothing if it is unknown."""
    if not exposure:
        return []
    most = exposure["guessed_with_earlier_builds"]
    earlier = f"; {most:.0%} of the most exposed with earlier builds"
    lines = [
        "From all tables of this release together, an attacker who knows everything else about everybody guesses a "
        f"50:50 secret in the place of one column right for at most {exposure['guessed']:.0%} of the most exposed, "
        f"{exposure['guessed_1']:.0%} of the most exposed 1 % and {exposure['guessed_all']:.0%} of all (chance: 50%)"
        + (earlier if exposure["earlier_builds"] else "")
        + f". Builds above {exposure['refused_above']:.0%} are refused unless the risk is accepted."
    ]
    if exposure["accept_risk"]:
        lines.append(f"The custodian accepted this risk: {exposure['accept_risk']}")
    return lines


def _percent(share: float, digits: int) -> str:
    return f"{100 * share:.{digits}f} %"


def _size(rows: int, cells: int, columns: ColumnSet, many: str) -> str:
    of = "1 distinct combination" if cells == 1 else f"{cells:,} distinct combinations"
    return f"{rows:,} synthetic {many} in {of} of {', '.join(columns)}."


_SAMPLES = {
    "rounded": "expected counts rounded up or down at random, then rows adjusted to bring the margins close; counts "
    "that no margin covers have additional noise similar to sampling noise, beyond the sd above",
    "multinomial": "drawn independently, which adds sampling noise",
}
_POSTS = {
    "wls": "made consistent by least squares before the fit",
    "paper": "each truncated at 0 and scaled to the total",
    "synthpop": "each truncated and scaled to the total as synthpop does",
}


def _dp_sentences(
    dp: Mapping[str, Any], *, columns: ColumnSet, rows: int, cells: int, noise_sd: float, many: str
) -> list[str]:
    """The card of a table of mode dp in plain words, a sentence a line."""
    bare = [name for name in columns if name in dp["uniform"]]
    if dp["covered"]:
        precision = (
            f"This table lies within a measured margin: before fitting, its counts carry noise of sd {noise_sd:.4g} "
            f"{many} at most."
        )
    else:
        precision = (
            "MODELLED: no measured margin contains all columns of this table. It is derived from narrower margins, "
            f"whose counts carry noise of sd {noise_sd:.4g} {many} at most; the error of the model is not known."
        )
    return [
        _size(rows, cells, columns, many),
        *Guarantee.of(dp).sentences(),
        _measured(dp, many),
        precision,
        *(
            [f"UNIFORM: nothing was measured for {', '.join(bare)}; values are assumed to be equally frequent."]
            if bare
            else []
        ),
        _fit(dp),
        f"Rows: {_SAMPLES[dp['sample']]}. All tables are projections of the same rows, so their margins agree exactly. "
        "Values within a group of values are spread evenly"
        + (
            f"; those of {', '.join(dp['sums'])} so that they add up to sums that were measured with noise, too."
            if dp.get("sums")
            else "."
        ),
    ]  # fmt: skip


def range_words(noise_sd: float | None, noise_sd_most: float | None) -> str:
    """A remark that ranges carry more noise than single values, to follow the latter's noise; empty if they do not.

    noise_sd, noise_sd_most: Standard deviations of the noise of a finest count, and of one under the bound of
        the whole release.
    """
    if noise_sd is None or noise_sd_most is None or noise_sd_most < noise_sd + 0.01:
        return ""
    return f" (up to {noise_sd_most:.2f} for ranges of values and the total)"


def _measured(dp: Mapping[str, Any], many: str) -> str:
    """Which counts were taken."""
    within = f" within each stratum of {', '.join(dp['strata'])}" if dp["strata"] else ""
    number = f"{dp['margins']:,} {'margin was' if dp['margins'] == 1 else 'margins were'} measured{within}"
    if dp["epsilon"] is None:
        return f"{number}, without noise."
    sds = f"sd {dp['sd'][0]:.4g}"
    if dp["sd"][1] > dp["sd"][0]:
        sds += f" to {dp['sd'][1]:.4g}"
    total = "public" if dp["total"] == "public" else f"noisy, sd {dp['total_sd']:.4g}"
    return f"{number}, each count with independent {dp['noise'].title()} noise of {sds} {many}; total {total}."


def _fit(dp: Mapping[str, Any]) -> str:
    """How margins became a joint distribution."""
    if dp["method"] == "catall":
        return f"Method catall: the full cross-tabulation, {_POSTS[dp['post']]}."
    cycles = "1 cycle" if dp["cycles"] == 1 else f"{dp['cycles']:,} cycles"
    start = f"Method ipf ({dp['how']}): margins were {_POSTS[dp['post']]}; {cycles}"
    rows = "a stratum's rows" if dp["strata"] else "the rows"
    off = f"margins differ from their targets by at most {_percent(dp['error'], 2)} of {rows}"
    if dp["converged"] and dp["error"] <= dp["tolerance"]:
        return f"{start}, converged: {off}."
    if dp["converged"] and "support rows" in dp["how"]:
        return f"{start}; the full table does not fit in memory, so rows were searched that come close: {off}."
    if dp["converged"]:
        return f"{start}, stationary: the noisy targets contradict each other, and {off}."
    return f"{start}, NOT CONVERGED: {off}. The targets contradict each other, or more cycles are needed."


def _model_error(wide: Mapping[str, Any], *, rows: int, many: str) -> str:
    """How far the figures of a wide table may be off."""
    if "design_effect" not in wide:
        return "how far its figures may be off is not known, so there are no intervals."
    size = max(1, round(rows / max(float(wide["design_effect"]), 1.0)))
    return (
        f"before it was fitted to the tables of {'three' if wide['triples'] else 'two'} columns, it was off by as much "
        f"in them as a random sample of {size:,} {many} would be, and intervals are those of such a sample."
    )


def _wide_sentences(
    wide: Mapping[str, Any], *, columns: ColumnSet, rows: int, cells: int, many: str
) -> list[str]:
    """The card of a wide table in plain words, a sentence a line."""
    pairs, triples = int(wide["pairs"]), int(wide["triples"])
    of = f"{pairs:,} locked {'table' if pairs == 1 else 'tables'} of two columns" + (
        f" and {triples:,} of three" if triples else ""
    )
    near = [
        f"by {_percent(float(share), 2)} in those of {'two' if width == '2' else 'three'} columns"
        for width, share in sorted(wide["off"].items())
    ]
    lines = [
        _size(rows, cells, columns, many),
        f"MODELLED from {of}; nothing else was measured for it. It lacks relationships that only more columns together "
        f"show: {_model_error(wide, rows=rows, many=many)}",
        "Every column has exactly the counts of its own table.",
    ]
    if "sets" in wide:
        lines.append(
            f"Set {int(wide['set']):,} of {int(wide['sets']):,}: independent syntheses of one measurement. Combine the "
            "estimates from all sets by the combining rules for synthetic data."
        )
    if "step" in wide:
        lines.append(
            f"For speed, {many} were placed {int(wide['step']):,} at a time and then partly refined, so identical "
            f"{many} often come {int(wide['step']):,} at a time."
        )
    if "target" in wide:
        lines.append(
            f"Made to train models that predict {wide['target']}: tables with this column had more weight."
        )
    if near:
        lines.append(f"Tables computed from it differ from those on average {' and '.join(near)}.")
    left = int(wide["impossible"])
    lines.append(
        f"{'1 synthetic row has' if left == 1 else f'{left:,} synthetic rows have'} two values that never occur "
        "together in a locked table, because the locked tables contradict each other."
        if left
        else "No two values occur together that a locked table excludes where more than a few would be expected."
    )
    return lines
