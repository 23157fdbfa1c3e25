"""Columns of hierarchical codes (diagnoses, branches, occupations, areas), whose levels a spec can declare.

Takes a block of columns of the relation `source` and its table `cells`; gives a remark for each column that nearly
everybody fills with codes of a known list. Entities are counted against noisy thresholds, as for all that is detected.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from engine.schema import literal
from engine.source.detection.holders import Block, holders
from engine.source.detection.names import words_of
from engine.source.detection.shape import Shape
from engine.source.detection.thresholds import MEAN, Thresholds

FEW_CODES = 20
"""A column with no more usual values than this needs no levels."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CodeList:
    """A list of codes with levels.

    pattern: What a code looks like, for RE2. levels: Characters of the levels above a code. names: Words in the name of
        a column, one of which it needs where other things than these codes look the same; empty: none.
    """

    name: str
    pattern: str
    levels: tuple[int, ...]
    names: frozenset[str] = frozenset()


CODE_LISTS = (
    CodeList(name="ICD-10", pattern=r"[A-Z][0-9][0-9A-Z](\.?[0-9A-Z]{1,4})?", levels=(1, 3)),
    CodeList(
        name="NUTS", pattern=r"[A-Z]{2}([0-9][0-9A-Z]{0,2}|[A-Z][0-9][0-9A-Z]?)", levels=(2, 3, 4)
    ),
    CodeList(
        name="NACE",
        pattern=r"[0-9]{2}(\.[0-9]{1,2}(\.[0-9]{1,2})?)?",
        levels=(2, 4),
        names=frozenset("nace noga wz naf sic branch industry activity sector".split()),
    ),
    CodeList(
        name="ISCO",
        pattern=r"[0-9]{3,4}",
        levels=(1, 2, 3),
        names=frozenset("isco occupation occ job profession beruf".split()),
    ),
    CodeList(
        name="postal",
        pattern=r"[0-9]{5}|[A-Z]{1,2}[0-9][0-9A-Z]? ?[0-9][A-Z]{2}",
        levels=(1, 2, 3),
        names=frozenset("zip postal postcode plz post zipcode".split()),
    ),
)


def remarks_on_codes(
    block: Block, shapes: Mapping[str, Shape], names: Collection[str], thresholds: Thresholds
) -> dict[str, str]:
    """Say of each column that holds codes of a known list which levels it could declare.

    names: Columns that may hold codes.
    """
    wanted = [
        name
        for name in block.names
        if name in names
        and shapes[name].n_usual > FEW_CODES + thresholds.of("distinct", name, "codes") - MEAN
    ]
    if not wanted:
        return {}
    tests = [
        f"regexp_full_match(CAST(cell AS VARCHAR), {literal(one.pattern)})" for one in CODE_LISTS
    ]
    held = holders(block, tests, block.places(wanted))
    out = {}
    for name in wanted:
        words = {*words_of(name)}
        for one, (shown, others) in zip(CODE_LISTS, held[name], strict=True):
            enough = thresholds.of("form", name, f"{one.name} shown")
            is_such = shown >= enough and others < thresholds.of("form", name, f"no {one.name}")
            if is_such and (not one.names or words & one.names):
                levels = ", ".join(map(str, one.levels))
                out[name] = (
                    f'looks like {one.name} codes: with kind = "text" and hierarchy = [{levels}] each level is a '
                    "column, too"
                )
                break
    return out
