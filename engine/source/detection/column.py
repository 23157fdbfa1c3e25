"""Looks at columns of an opened source: their kinds, their spellings of null, their resolutions.

Takes a block of columns of the relation `source` on a confidential connection; gives for each a `Column` marked as
detected, with remarks in plain words. Invariant: every decision compares a number of entities (rows, where no entity
is named) to a noisy threshold of its own: values, spellings of null, decimals, kinds. In doubt a column
is a category, and a remark says so.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from engine.schema import (
    DEFAULT_PLACEHOLDER,
    Column,
    ColumnKind,
    Resolution,
    ValueType,
    Writing,
    entity_columns,
    literal,
)
from engine.source.detection.code_lists import remarks_on_codes
from engine.source.detection.holders import Block, by_place, holders, list_cells
from engine.source.detection.resolution import detected_resolutions
from engine.source.detection.shape import Shape, outside, shapes_of
from engine.source.detection.spelling.remarks import remarks_on
from engine.source.detection.thresholds import MEAN, Thresholds
from engine.source.encoding import cell_class, cell_sql, value_sql
from engine.texts import are_bands, numeric_place

MAX_VALUES = 30
"""Longest list of values that is written, as a comment."""
FEW_NUMBERS = 20
"""Numbers with no more usual values than this, and few others, may be codes: a category, in doubt."""
FEW_TEXTS = 100
"""Texts with no more usual values than this, and about as many people with others at most, are a category."""
_TIMES = (
    "times of day: fractions of a second are cut off, and 24:00 is 00:00; spans of time look the same, and want "
    "numbers by sql in [source]"
)
_SLACK = MEAN - 2
"""A threshold beyond it tolerates ids that were entered twice in tiny data."""

_PLAIN_NULLS = (
    "NA",
    "N/A",
    "n/a",
    "#N/A",
    "<NA>",
    "null",
    "NULL",
    "Null",
    "NaN",
    "nan",
    "NaT",
)
"""Mean null in any column."""
_IN_DOUBT = ("None", "none", "na", ".", "..", "-", "--", "?", "*", "missing")
"""Mean null where all other cells are numbers or dates; among texts they may be values like any other."""
NULLS = (*_PLAIN_NULLS, *_IN_DOUBT, "N", "n")
"""All of them; N among texts says no."""
_CONTINENTS = frozenset("AF AN AS EU OC SA".split())
_COUNTRIES = frozenset(
    (
        "AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW "
        "BY BZ CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI "
        "FJ FK FM FO FR GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN "
        "IO IQ IR IS IT JE JM JO JP KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME "
        "MF MG MH MK ML MM MN MO MP MQ MR MS MT MU MV MW MX MY MZ NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG "
        "PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX "
        "SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS YE YT "
        "ZA ZM ZW"
    ).split()
)
"""Codes of continents (NA: North America) and countries (NA: Namibia), ISO 3166-1."""
_STATES = frozenset(
    (
        "AK AL AR AZ CA CO CT DC DE FL GA HI IA ID IL IN KS KY LA MA MD ME MI MN MO MS MT NC ND NE NH NJ NM NV NY "
        "OH OK OR PA RI SC SD TN TX UT VA VT WA WI WV WY"
    ).split()
)
"""States of the USA: many of their codes are countries' codes too, and NA is none of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """What is detected of one column."""

    column: Column
    # Its values, ascending, if all that enough entities hold fit into a short list; else empty.
    # Confidential until someone has confirmed them.
    values: tuple[Any, ...]
    remarks: tuple[str, ...]  # In plain words; no value, no number of the data
    is_key: bool  # Has (nearly) as many distinct values as rows, or many: can name entities


def look_at(
    block: Block,
    thresholds: Thresholds,
    *,
    n_rows: int,
    writings: Mapping[str, Writing],
    knows_null: bool = False,
    labels: Mapping[str, Mapping[str, str]] | None = None,
) -> dict[str, Look]:
    """Detect columns of the relation `source`.

    block: Of one that names entities itself, only whether it holds numbers or texts is told.
    writings: Of columns that are not written plainly in the file, and shown so.
    knows_null: The source tells null from text (Parquet, databases, frames): a text is a value there, also "NA" and "".
    labels: Of values, as text, by column, where the source has any: what has a label is no number but a code.
    """
    list_cells(block)
    spellings = _spellings(block)
    written = {
        name: [t for t, n in counts.items() if n >= thresholds.of("spelling", name, t)]
        for name, counts in spellings.items()
    }
    is_text = block.sql_type == "VARCHAR"
    shapes = shapes_of(block, thresholds, dict.fromkeys(block.names, NULLS if is_text else ()))
    in_doubt: dict[str, list[str]] = {}
    of_texts = [
        name
        for name in block.names
        if is_text and (_is_of_texts(shapes[name]) or (knows_null and _is_code(shapes[name])))
    ]
    codes = set() if knows_null else _code_lists(block, of_texts, written, thresholds)
    for name in of_texts:
        plain = [] if knows_null else [t for t in _PLAIN_NULLS if not (t == "NA" and name in codes)]
        unsure = NULLS if knows_null else [*(["NA"] if name in codes else []), *_IN_DOUBT]
        in_doubt[name] = [text for text in dict.fromkeys(unsure) if text in written[name]]
        written[name] = [text for text in written[name] if text in plain]
    if in_doubt:
        shapes |= shapes_of(block, thresholds, {name: written[name] for name in in_doubt})
    empty = () if knows_null else ("",)
    nulls = {n: (*sorted(t), *(empty if n in of_texts else ("",))) for n, t in written.items()}
    labelled = _labelled(block, labels or {}, thresholds)
    columns, doubts = _columns(block, thresholds, shapes, nulls, in_doubt, labelled)
    blank = {} if knows_null else _blank(block)
    for name, texts in written.items():
        held = {text: spellings[name][text] for text in sorted(texts)}
        if name in blank and name not in entity_columns(block.entities):
            held |= {"": blank[name]}
        listed = [
            f'"{text}" in {_about(n, thresholds, name, text)}'
            for text, n in held.items()
            if n >= thresholds.of("spelling", name, text)
        ]
        if listed:
            who = "entities" if block.entities else "rows"
            doubts[name].append(
                f"read as null: {', '.join(listed)} {who}; what is a value must not be in nulls"
            )
    for name, sentences in remarks_on(block, columns, thresholds, writings).items():
        doubts[name] += sentences
    coded = [c.name for c in columns if c.kind in ("category", "text", "integer")]
    for name, sentence in remarks_on_codes(block, shapes, coded, thresholds).items():
        doubts[name].append(sentence)
    values = _values(block, [c for c in columns if c.kind == "category"], thresholds)
    columns = [_in_bands(column, values) for column in columns]
    return {
        column.name: Look(
            column=column,
            values=values.get(column.name, ()),
            remarks=tuple(doubts[column.name]),
            is_key=_is_key(column.name, shapes[column.name].n, n_rows, thresholds),
        )
        for column in columns
    }


def _in_bands(column: Column, values: dict[str, tuple[Any, ...]]) -> Column:
    """The column in the order of its numbers, as its listed values then are, where they are bands of numbers."""
    listed = values.get(column.name, ())
    if column.value_type != "text" or not are_bands(listed):
        return column
    values[column.name] = tuple(sorted(listed, key=numeric_place))
    return replace(column, order="numeric", detected=(*column.detected, "order"))


def _is_of_texts(shape: Shape) -> bool:
    """Whether the cells are neither numbers nor times nor truth values."""
    return not (
        shape.is_number or shape.is_date or shape.is_timestamp or shape.is_time or shape.is_boolean
    )


def _is_code(shape: Shape) -> bool:
    """Whether texts of digits are no numbers: they have leading zeros, or too many digits."""
    return shape.is_number and (shape.has_leading_zero or shape.is_huge)


def _many(name: str, thresholds: Thresholds) -> int:
    """So many texts are too many for a list."""
    return FEW_TEXTS + thresholds.of("distinct", name, "texts") - MEAN


def _is_key(name: str, n: int, n_rows: int, thresholds: Thresholds) -> bool:
    """Whether so many distinct cells can name entities."""
    # 0.95: a key may have been entered twice. The other: people with many rows each.
    slack = max(thresholds.of("key", name) - _SLACK, 0)
    return n > 1 and (n >= 0.95 * n_rows - slack or n > _many(name, thresholds))


def _columns(
    block: Block,
    thresholds: Thresholds,
    shapes: Mapping[str, Shape],
    nulls: Mapping[str, tuple[str, ...]],
    in_doubt: Mapping[str, Sequence[str]],
    labelled: Collection[str],
) -> tuple[list[Column], dict[str, list[str]]]:
    """What is detected of each column, and what is in doubt."""
    kinds: dict[str, tuple[ColumnKind, ValueType]] = {}
    doubts: dict[str, list[str]] = {}
    for name in block.names:
        few, many = thresholds.of("distinct", name, "numbers"), _many(name, thresholds)
        kind, value_type, doubts[name] = _kind(
            block.sql_type,
            shapes[name],
            few,
            many,
            is_entity=name in entity_columns(block.entities),
        )
        if name in labelled and kind in ("integer", "real", "decimal", "category"):
            kind, doubts[name] = "category", []
        kinds[name] = kind, value_type
        if unsure := in_doubt.get(name):
            listed = ", ".join(f'"{text}"' for text in (*unsure, *nulls[name]))
            doubts[name].append(
                f"in doubt: a value looks like a null; if it is one, add nulls = [{listed}]"
            )
    continuous = {name: kind for name, (kind, _) in kinds.items() if kind in ("real", "decimal")}
    steps = detected_resolutions(block, continuous, thresholds)
    for name, (step, written) in steps.items():
        if written is None or step.exponent > 0:
            kinds[name] = ("real", "real")
        if written not in (None, step):
            doubts[name].append(
                "coarser than the values are written, since hardly anybody shares one; "
                f"as written: resolution = {written}"
            )
        if step == Resolution() and not shapes[name].is_whole:
            doubts[name].append(
                "in doubt: too few rows show decimals; say a finer resolution if it is public"
            )
    columns = [
        Column(
            name=name,
            kind=kind,
            value_type=value_type,
            resolution=steps[name][0] if name in steps else None,
            detected=(
                "kind",
                *(("resolution",) if name in steps else ()),
                *(("nulls",) if any(nulls[name]) else ()),
            ),
            nulls=nulls[name],
            placeholder=DEFAULT_PLACEHOLDER
            if kind in ("category", "text") and value_type == "text"
            else None,
        )
        for name, (kind, value_type) in kinds.items()
    ]
    return columns, doubts


def _labelled(
    block: Block, labels: Mapping[str, Mapping[str, str]], thresholds: Thresholds
) -> set[str]:
    """Columns nearly all of whose values have a label."""
    found = set()
    text = value_sql(Column(name="cell", kind="text", value_type="text"), block.sql_type, "cell")
    for name in (
        name
        for name in block.names
        if labels.get(name) and name not in entity_columns(block.entities)
    ):
        has_label = f"{text} IN ({', '.join(map(literal, labels[name]))})"
        ((shown, others),) = holders(block, [has_label], block.places([name]))[name]
        enough = thresholds.of("form", name, "label shown")
        if shown >= enough and others < thresholds.of("form", name, "no label"):
            found.add(name)
    return found


def _code_lists(
    block: Block,
    names: Sequence[str],
    written: Mapping[str, Sequence[str]],
    thresholds: Thresholds,
) -> set[str]:
    """Columns of texts in which NA is plainly a code: of a continent, or of a country."""
    found = set()
    for name in (name for name in names if "NA" in written[name]):
        enough = thresholds.of("spelling", name, "code list")
        place = block.names.index(name)
        rows = block.fetch(f"SELECT cell FROM cells WHERE j = {place} AND n >= {enough}")
        codes = {str(cell) for (cell,) in rows} - set(NULLS)
        is_country = len(codes) >= 4 and codes <= _COUNTRIES and not codes <= _STATES
        if (len(codes) >= 3 and codes <= _CONTINENTS) or is_country:
            found.add(name)
    return found


def _about(n: int, thresholds: Thresholds, name: str, text: str) -> str:
    """How many entities hold a spelling of null, in steps of 50, 100, 200, 500, ...

    Each limit between two steps is noisy, for rounding alone would show one entity more where `n` is near a limit.
    """
    steps = [digit * 10**power for power in range(1, len(str(n)) + 1) for digit in (1, 2, 5)][2:]
    said = "a few"
    for lower, step in pairwise((20, *steps)):
        limit = (lower + step) // 2
        if n < limit - MEAN + thresholds.of("spelling", name, f"{text} about {step}"):
            break
        said = f"about {step:,}"
    return said


def _blank(block: Block) -> dict[str, int]:
    """How many entities, or rows, have an empty cell, by column of a text file."""
    counts = [f"count(DISTINCT who{i})" for i in range(len(block.entities))] or ["count(*)"]
    n = counts[0] if len(counts) == 1 else f"least({', '.join(counts)})"
    found = block.fetch(
        f"SELECT j, {n} FROM ({block.laid_out(block.entities)}) WHERE cell IS NULL GROUP BY j"
    )
    return {block.names[j]: int(n) for j, n in found}


def _spellings(block: Block) -> dict[str, dict[str, int]]:
    """By column: cells of the fixed list of spellings of null, with the entities that hold them."""
    found: dict[str, dict[str, int]] = {name: {} for name in block.names}
    if block.sql_type == "VARCHAR":
        listed = ", ".join(map(literal, NULLS))
        for j, cell, n in block.fetch(f"SELECT j, cell, n FROM cells WHERE cell IN ({listed})"):
            found[block.names[j]][cell] = n
    return found


def _kind(
    sql_type: str, shape: Shape, few: int, many: int, *, is_entity: bool
) -> tuple[ColumnKind, ValueType, list[str]]:
    """Kind, type of values, and what is in doubt.

    few, many: A category of numbers, or of texts, has fewer entities with rare values.
    """
    has_zeros = shape.has_leading_zero and cell_class(sql_type) == "text"
    is_code = shape.is_number and (has_zeros or shape.is_huge)
    if is_entity:
        return (
            ("integer", "integer", []) if shape.is_whole and not is_code else ("text", "text", [])
        )
    if shape.is_empty and cell_class(sql_type) == "text":
        return "category", "text", ["in doubt: all cells are null, or nearly all"]
    if shape.is_boolean:
        return "boolean", "boolean", []
    if shape.is_number and not is_code:
        if shape.n_usual <= FEW_NUMBERS and shape.n_with_rare < few:
            doubt = 'in doubt: numbers, but few different ones; if they are amounts, not codes, say kind = "{}"'
            if shape.is_whole:
                return "category", "integer", [doubt.format("integer")]
            return "category", "real", [doubt.format("real") + " and a resolution"]
        if shape.is_whole:
            return "integer", "integer", []
        cell_type = cell_class(sql_type)
        if cell_type == "decimal" or (cell_type == "text" and shape.has_fixed_digits):
            return "decimal", "decimal", []
        return "real", "real", []
    if shape.is_date:
        return "date", "date", []
    if shape.is_timestamp:
        return "timestamp", "timestamp", []
    if shape.is_time:
        return "time", "time", [_TIMES]
    doubts = (
        ["digits with leading zeros, or too many for a number: codes, kept as text"]
        if is_code
        else []
    )
    is_list = shape.n_usual <= FEW_TEXTS and shape.n_with_rare < many
    if is_list or sql_type.startswith("ENUM"):
        return "category", "text", doubts
    return "text", "text", doubts


def _values(
    block: Block, columns: Sequence[Column], thresholds: Thresholds
) -> dict[str, tuple[Any, ...]]:
    """Values of categories that enough entities hold, ascending; none if they are too many to list."""
    held_type = "VARCHAR" if cell_class(block.sql_type) == "text" else block.sql_type
    enough = by_place(thresholds.of("values", name) for name in block.names)
    values: dict[str, list[Any]] = {}
    for value_type in sorted({column.value_type for column in columns}):
        of_type = {
            c.name: [text for text in c.spellings if text]  # an empty text is no cell at all
            for c in columns
            if c.value_type == value_type
        }
        probe = Column(name="cell", kind="category", value_type=value_type)
        value = value_sql(probe, held_type, cell_sql(probe, held_type))
        for j, v in block.fetch(
            f"SELECT j, {value} AS v FROM cells WHERE {outside(block, of_type)} GROUP BY j, v "
            f"HAVING v IS NOT NULL AND max(n) >= {enough} "
            f"QUALIFY row_number() OVER (PARTITION BY j ORDER BY v) <= {MAX_VALUES + 1} ORDER BY j, v"
        ):
            values.setdefault(block.names[j], []).append(v)
    return {name: tuple(listed) for name, listed in values.items() if len(listed) <= MAX_VALUES}
