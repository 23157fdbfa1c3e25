"""Looks at columns of an opened source: their kinds, spellings of null, resolutions, and remarks for people.

Takes a block of columns of the relation `source` on a confidential connection; gives for each a `Column` marked as
detected, with remarks in plain words: spikes that may say "not known", numbers that may be codes, text that is nearly
numbers or dates, codes whose levels a spec can declare. Invariant: every decision compares a number of entities (rows,
where no entity is named) to a noisy threshold of its own; a remark shows no values but those of a fixed list, and those
that enough entities hold. In doubt a column is a category, and a remark says so.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from engine.periods import PERIODS
from engine.schema import (
    DEFAULT_PLACEHOLDER,
    NUMBER_KINDS,
    Column,
    ColumnKind,
    Resolution,
    ValueType,
    Writing,
    entity_columns,
    literal,
    quoted,
)
from engine.source.detection.names import RULES, WORDS, words_of
from engine.source.detection.profile import (
    Block,
    Shape,
    coarser_grids,
    detected_resolutions,
    holders,
    list_cells,
    outside,
    people_sql,
    shapes_of,
    who_sql,
)
from engine.source.detection.spec_text import toml
from engine.source.detection.thresholds import LEAST, MEAN
from engine.source.encoding import cell_class, cell_sql, plain_sql, value_sql
from engine.texts import are_bands, numeric_place

MAX_VALUES = 30
"""Longest list of values that is written, as a comment."""
FEW_NUMBERS = 20
"""Numbers with no more usual values than this, and few others, may be codes: a category, in doubt."""
FEW_TEXTS = 100
"""Texts with no more usual values than this, and about as many people with others at most, are a category."""
FEW_CODES = 20
"""A column with no more usual values than this needs no levels."""
MANY = 4
"""What is nearly so has so many times as many entities as what is not."""
MOST_SHOWN = 5
_TIMES = (
    "times of day: fractions of a second are cut off, and 24:00 is 00:00; spans of time look the same, and want "
    "numbers by sql in [source]"
)
_SLACK = MEAN - 2
"""A threshold beyond it tolerates ids that were entered twice in tiny data."""
_PLAIN_NULLS: Sequence[str] = RULES["nulls"]["plain"]
_IN_DOUBT: Sequence[str] = RULES["nulls"]["in_doubt"]
NULLS: tuple[str, ...] = (*_PLAIN_NULLS, *_IN_DOUBT, *RULES["nulls"]["no"])
"""Spellings of null beside numbers."""
_CODES_WITH_NA = {
    about: frozenset(RULES["nulls"][about].split())
    for about in ("continents", "countries", "states")
}
SPIKES: Sequence[int] = RULES["nulls"]["spikes"]
_ZONE = "[0-9][+-][0-9]{2}(:?[0-9]{2})?$"
_FEWEST_CODES, _SPREAD = 15, 5


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
    *,
    writings: Mapping[str, Writing],
    knows_null: bool = False,
    labels: Mapping[str, Mapping[str, str]] | None = None,
) -> dict[str, Look]:
    """Detect columns of the relation `source`.

    block: Of a column that names entities itself, only whether it holds numbers or texts is told.
    writings: Of columns that are not written plainly in the file, and shown so.
    knows_null: The source tells null from text (Parquet, databases, frames): a text is a value there, also "NA" and "".
    labels: Of values, as text, by column, where the source has any: what has a label is no number but a code.
    """
    list_cells(block)
    spellings = _spellings(block)
    written = {
        name: [t for t, n in counts.items() if n >= block.of("spelling", name, t)]
        for name, counts in spellings.items()
    }
    shapes = shapes_of(block, dict.fromkeys(block.names, NULLS if block.is_text else ()))
    in_doubt: dict[str, list[str]] = {}
    of_texts = [
        name
        for name in block.names
        if block.is_text and (_is_of_texts(shapes[name]) or (knows_null and _is_code(shapes[name])))
    ]
    codes = set() if knows_null else _with_na(block, of_texts, written)
    for name in of_texts:
        plain = [] if knows_null else [t for t in _PLAIN_NULLS if not (t == "NA" and name in codes)]
        unsure = NULLS if knows_null else [*(["NA"] if name in codes else []), *_IN_DOUBT]
        in_doubt[name] = [text for text in dict.fromkeys(unsure) if text in written[name]]
        written[name] = [text for text in written[name] if text in plain]
    if in_doubt:
        shapes |= shapes_of(block, {name: written[name] for name in in_doubt})
    empty = () if knows_null else ("",)
    nulls = {n: (*sorted(t), *(empty if n in of_texts else ("",))) for n, t in written.items()}
    labelled = _labelled(block, labels or {})
    columns, doubts = _columns(block, shapes, nulls, in_doubt, labelled)
    blank = {}  # how many hold an empty cell
    if not knows_null:
        blank = {block.names[j]: n for j, n in block.fetch(block.counted("cell IS NULL", "j"))}
    for name, texts in written.items():
        held = {text: spellings[name][text] for text in sorted(texts)}
        if name in blank and name not in entity_columns(block.entities):
            held |= {"": blank[name]}
        listed = [
            f'"{text}" in {_about(block, n, name, text)}'
            for text, n in held.items()
            if n >= block.of("spelling", name, text)
        ]
        if listed:
            who = "entities" if block.entities else "rows"
            doubts[name].append(
                f"read as null: {', '.join(listed)} {who}; what is a value must not be in nulls"
            )
    about = {c.name: c for c in columns if c.name not in entity_columns(block.entities)}
    numbers = [n for n, c in about.items() if c.value_type in NUMBER_KINDS]
    texts = [n for n, c in about.items() if c.value_type == "text" and block.is_text]
    moments = [n for n, c in about.items() if c.value_type == "timestamp"]
    whole = [n for n in numbers if about[n].kind == "integer"]
    for remarks in (
        _zones(block, moments) if moments else {},
        _codes(block, whole) if whole else {},
        _spikes(block, about, numbers, writings) if numbers else {},
        _nearly(block, texts) if texts else {},
        _alike(block, texts) if texts else {},
        _levels(block, shapes, columns),
    ):
        for name, sentence in remarks.items():
            doubts[name].append(sentence)
    values = _values(block, [c for c in columns if c.kind == "category"])
    columns = [_in_bands(column, values) for column in columns]
    return {
        column.name: Look(
            column=column,
            values=values.get(column.name, ()),
            remarks=tuple(doubts[column.name]),
            is_key=_is_key(block, column.name, shapes[column.name].n),
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
    return not shape.has("number", "date", "timestamp", "time", "boolean")


def _is_code(shape: Shape) -> bool:
    """Whether texts of digits are no numbers: they have leading zeros, or too many digits."""
    return shape.has("number") and (shape.has_leading_zero or shape.is_huge)


def _many(block: Block, name: str) -> int:
    """So many texts are too many for a list."""
    return FEW_TEXTS + block.of("distinct", name, "texts") - MEAN


def _is_key(block: Block, name: str, n: int) -> bool:
    """Whether so many distinct cells can name entities."""
    # 0.95: a key may have been entered twice. The other: people with many rows each.
    slack = max(block.of("key", name) - _SLACK, 0)
    return n > 1 and (n >= 0.95 * block.n_rows - slack or n > _many(block, name))


def _columns(
    block: Block,
    shapes: Mapping[str, Shape],
    nulls: Mapping[str, tuple[str, ...]],
    in_doubt: Mapping[str, Sequence[str]],
    labelled: Collection[str],
) -> tuple[list[Column], dict[str, list[str]]]:
    """What is detected of each column, and what is in doubt."""
    kinds: dict[str, tuple[ColumnKind, ValueType]] = {}
    doubts: dict[str, list[str]] = {}
    for name in block.names:
        kind, value_type, doubts[name] = _kind(block, name, shapes[name])
        if name in labelled and kind in ("integer", "real", "decimal", "category"):
            kind, doubts[name] = "category", []
        kinds[name] = kind, value_type
        if unsure := in_doubt.get(name):
            listed = ", ".join(f'"{text}"' for text in (*unsure, *nulls[name]))
            doubts[name].append(
                f"in doubt: a value looks like a null; if it is one, add nulls = [{listed}]"
            )
    continuous = {name: kind for name, (kind, _) in kinds.items() if kind in ("real", "decimal")}
    steps = detected_resolutions(block, continuous)
    for name, (step, written) in steps.items():
        if written is None or step.exponent > 0:
            kinds[name] = ("real", "real")
        if written not in (None, step):
            doubts[name].append(
                "coarser than the values are written, since hardly anybody shares one; "
                f"as written: resolution = {written}"
            )
        if step == Resolution() and not shapes[name].has("whole"):
            doubts[name].append(
                "in doubt: too few rows show decimals; say a finer resolution if it is public"
            )
    whole = {n: kind for n, (kind, _) in kinds.items() if kind in ("integer", *PERIODS)}
    for name, step in coarser_grids(block, whole).items():
        steps[name] = step, None
        doubts[name].append(
            "coarser than the values are written, since hardly anybody shares one; "
            "as written: without resolution"
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


def _labelled(block: Block, labels: Mapping[str, Mapping[str, str]]) -> set[str]:
    """Columns nearly all of whose values have a label."""
    found = set()
    text = value_sql(Column(name="cell", kind="text", value_type="text"), block.sql_type, "cell")
    for name in block.names:
        if not labels.get(name) or name in entity_columns(block.entities):
            continue
        has_label = f"{text} IN ({', '.join(map(literal, labels[name]))})"
        (held,) = holders(block, [has_label], block.places([name]))[name]
        if block.are_so(name, held, "label"):
            found.add(name)
    return found


def _with_na(block: Block, names: Sequence[str], written: Mapping[str, Sequence[str]]) -> set[str]:
    """Columns of texts in which NA is plainly a code: of a continent, or of a country."""
    found = set()
    for name in (name for name in names if "NA" in written[name]):
        enough = block.of("spelling", name, "code list")
        place = block.names.index(name)
        rows = block.fetch(f"SELECT cell FROM cells WHERE j = {place} AND n >= {enough}")
        codes = {str(cell) for (cell,) in rows} - set(NULLS)
        is_country = len(codes) >= 4 and codes <= _CODES_WITH_NA["countries"]
        is_country = is_country and not codes <= _CODES_WITH_NA["states"]
        if (len(codes) >= 3 and codes <= _CODES_WITH_NA["continents"]) or is_country:
            found.add(name)
    return found


def _about(block: Block, n: int, name: str, text: str) -> str:
    """How many entities hold a spelling of null, in steps of 50, 100, 200, 500, ...

    Each limit between two steps is noisy, for rounding alone would show one entity more where `n` is near a limit.
    """
    steps = [digit * 10**power for power in range(1, len(str(n)) + 1) for digit in (1, 2, 5)][2:]
    said = "a few"
    for lower, step in pairwise((20, *steps)):
        if n < (lower + step) // 2 - MEAN + block.of("spelling", name, f"{text} about {step}"):
            break
        said = f"about {step:,}"
    return said


def _spellings(block: Block) -> dict[str, dict[str, int]]:
    """By column: cells of the fixed list of spellings of null, with the entities that hold them."""
    found: dict[str, dict[str, int]] = {name: {} for name in block.names}
    if block.is_text:
        listed = ", ".join(map(literal, NULLS))
        for j, cell, n in block.fetch(f"SELECT j, cell, n FROM cells WHERE cell IN ({listed})"):
            found[block.names[j]][cell] = n
    return found


def _kind(block: Block, name: str, shape: Shape) -> tuple[ColumnKind, ValueType, list[str]]:
    """Kind, type of values, and what is in doubt."""
    cell_type = cell_class(block.sql_type)
    has_zeros = shape.has_leading_zero and cell_type == "text"
    is_code = shape.has("number") and (has_zeros or shape.is_huge)
    is_whole = shape.has("whole")
    if name in entity_columns(block.entities):
        return ("integer", "integer", []) if is_whole and not is_code else ("text", "text", [])
    if shape.is_empty and cell_type == "text":
        return "category", "text", ["in doubt: all cells are null, or nearly all"]
    if shape.has("boolean"):
        return "boolean", "boolean", []
    if shape.has("number") and not is_code:
        if shape.n_usual <= FEW_NUMBERS and shape.n_with_rare < block.of(
            "distinct", name, "numbers"
        ):
            doubt = 'in doubt: numbers, but few different ones; if they are amounts, not codes, say kind = "{}"'
            if is_whole:
                return "category", "integer", [doubt.format("integer")]
            return "category", "real", [doubt.format("real") + " and a resolution"]
        if is_whole:
            return "integer", "integer", []
        if cell_type == "decimal" or (cell_type == "text" and shape.has_fixed_digits):
            return "decimal", "decimal", []
        return "real", "real", []
    if shape.has("date"):
        return "date", "date", []
    if shape.has("timestamp"):
        return "timestamp", "timestamp", []
    if shape.has("time"):
        return "time", "time", [_TIMES]
    doubts = (
        ["digits with leading zeros, or too many for a number: codes, kept as text"]
        if is_code
        else []
    )
    is_list = shape.n_usual <= FEW_TEXTS and shape.n_with_rare < _many(block, name)
    if is_list or block.sql_type.startswith("ENUM"):
        return "category", "text", doubts
    return "text", "text", doubts


def _values(block: Block, columns: Sequence[Column]) -> dict[str, tuple[Any, ...]]:
    """Values of categories that enough entities hold, ascending; none if they are too many to list."""
    held_type = "VARCHAR" if cell_class(block.sql_type) == "text" else block.sql_type
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
            f"HAVING v IS NOT NULL AND max(n) >= {block.each_of('values')} "
            f"QUALIFY row_number() OVER (PARTITION BY j ORDER BY v) <= {MAX_VALUES + 1} ORDER BY j, v"
        ):
            values.setdefault(block.names[j], []).append(v)
    return {name: tuple(listed) for name, listed in values.items() if len(listed) <= MAX_VALUES}


def _levels(block: Block, shapes: Mapping[str, Shape], columns: Sequence[Column]) -> dict[str, str]:
    """Columns that nearly everybody fills with codes of a list whose levels could be declared."""
    wanted = [
        c.name
        for c in columns
        if c.kind in ("category", "text", "integer")
        and shapes[c.name].n_usual > FEW_CODES + block.of("distinct", c.name, "codes") - MEAN
    ]
    if not wanted:
        return {}
    lists = RULES["code_lists"]
    tests = [
        f"regexp_full_match(CAST(cell AS VARCHAR), {literal(one['pattern'])})" for one in lists
    ]
    held = holders(block, tests, block.places(wanted))
    out = {}
    for name in wanted:
        words = {*words_of(name)}
        for one, of_list in zip(lists, held[name], strict=True):
            is_named = not one["names"] or not words.isdisjoint(one["names"].split())
            if is_named and block.are_so(name, of_list, one["name"]):
                out[name] = (
                    f'looks like {one["name"]} codes: with kind = "text" and hierarchy = {one["levels"]} each level '
                    "is a column, too"
                )
                break
    return out


def _zones(block: Block, names: Sequence[str]) -> dict[str, str]:
    """Moments that say their zone: they are read as moments of UTC."""
    if block.sql_type not in ("VARCHAR", "TIMESTAMP WITH TIME ZONE"):
        return {}
    is_zoned = f"regexp_matches(cell, {literal(_ZONE)})" if block.is_text else "true"
    held = holders(block, [is_zoned], block.places(names))
    return {
        name: 'moments with a zone: shown in UTC; for the clocks of a place, in [source] sql = "SELECT * REPLACE '
        "(CAST(x AS TIMESTAMPTZ) AT TIME ZONE 'Europe/Vienna' AS x) FROM ...\" (the file's name without its ending)"
        for name in names
        if held[name][0][0] >= block.of("form", name, "zone")
    }


def _spikes(
    block: Block,
    columns: Mapping[str, Column],
    names: Sequence[str],
    writings: Mapping[str, Writing],
) -> dict[str, str]:
    """Numbers of the fixed list that stand apart from all others."""
    number = "TRY_CAST(cell AS DOUBLE)"
    listed = ", ".join(map(str, SPIKES))
    there = sorted(
        int(v)
        for (v,) in block.fetch(
            f"SELECT DISTINCT {number} FROM cells WHERE {block.places(names)} AND n >= {LEAST} "
            f"AND {number} IN ({listed})"
        )
    )
    if not there:
        return {}
    tests = [f"{number} = {spike}" for spike in there]
    for (
        spike
    ) in there:  # others lie where it would be one of many; negative ones are rare altogether
        width = max(spike // 10, 2)
        near = f"BETWEEN {spike - width} AND {spike + width}" if spike >= 0 else "< 0"
        tests.append(f"{number} NOT IN ({listed}) AND {number} {near}")
    held = holders(block, tests, block.places(names))
    out = {}
    for name in names:
        shown = [n for n, _ in held[name]]
        apart = [
            spike
            for spike, at, near_it in zip(there, shown, shown[len(there) :], strict=False)
            if at - MANY * near_it >= block.of("values", name, f"spike {spike}")
        ]
        if not apart:
            continue
        if block.is_text:
            spelled = _spelled(block, name, apart, writings.get(name))
            way = f"nulls = {toml(list(dict.fromkeys((*spelled, *columns[name].spellings))))}"
        else:
            cell, numbers = quoted(name), ", ".join(map(str, apart))
            way = (
                f"in [source] sql = 'SELECT * REPLACE (CASE WHEN {cell} NOT IN ({numbers}) THEN {cell} END AS {cell}) "
                "FROM ...' (the file's name without ending)"
            )
        out[name] = (
            f"in doubt: {', '.join(map(str, apart))} stand apart from the other numbers and may say "
            f'"not known"; if so, say {way}'
        )
    return out


def _spelled(block: Block, name: str, apart: Sequence[int], writing: Writing | None) -> list[str]:
    """How the file spells numbers, for nulls are compared to the spelling; -8 may be "-8.0" in one of its columns."""
    relation = f"(SELECT cell AS plain, cell, n FROM cells WHERE {block.places([name])})"
    if writing is not None:
        cell, people = quoted(name), people_sql([*map(who_sql, block.entities)])
        plain = f"coalesce({plain_sql(writing, 'real', cell)}, {cell})"
        relation = f"(SELECT {plain} AS plain, {cell} AS cell, {people} AS n FROM source_as_written GROUP BY ALL)"
    out = []
    for spike in apart:
        # The threshold of the spike itself: that it is there and how it is spelled are one decision.
        where = f"TRY_CAST(plain AS DOUBLE) = {spike} AND n >= {block.of('values', name, f'spike {spike}')}"
        out += _commonest(block, f"cell FROM {relation} WHERE {where}") or [str(spike)]
    return out


def _commonest(block: Block, cells: str) -> list[str]:
    """A few of some cells, given by SQL: those that most hold."""
    rows = block.fetch(f"SELECT {cells} ORDER BY n DESC, cell LIMIT {MOST_SHOWN}")
    return [str(cell) for (cell,) in rows]


def _codes(block: Block, names: Sequence[str]) -> dict[str, str]:
    """Whole numbers that may be codes: equally many digits, and few of all the numbers that lie between."""
    found = block.fetch(
        "SELECT j, count(*), min(v), max(v), min(length(t)), max(length(t)), count(*) FILTER (v % 5 <> 0) FROM ("
        "SELECT j, TRY_CAST(cell AS BIGINT) AS v, CAST(cell AS VARCHAR) AS t FROM cells "
        f"WHERE {block.places(names)} AND n >= {block.each_of('values', 'codes')}) WHERE v IS NOT NULL GROUP BY j"
    )
    out = {}
    for j, n, low, high, short, long, steps in found:
        name = block.names[j]
        is_named = any(word in name.casefold() for word in WORDS["codes"])
        if n < _FEWEST_CODES or short != long or short < 3:
            continue
        is_year = low >= 1850 and high <= 2100
        is_sparse = high - low > _SPREAD * n and steps > n / 2
        if not is_year and (is_named or is_sparse):
            out[name] = (
                f"in doubt: whole numbers of {short} digits that may be codes, not amounts; if so, say "
                'kind = "category" and type = "integer", or neighbours that have nothing to do with each other '
                "share ranges"
            )
    return out


_AS_KIND = {"numbers": 'kind = "integer" (or "real", with a resolution)', "dates": 'kind = "date"'}
_WAY_OUT = {
    "numbers": "take the signs off by sql in [source], such as \"SELECT * REPLACE (regexp_replace(x, '[^0-9.-]', '', "
    "'g') AS x) FROM ...\" (the file's name without its ending)",
    "dates": "date_format, where all are written alike",
}


def _nearly(block: Block, names: Sequence[str]) -> dict[str, str]:
    """Texts most of which are numbers or dates, and what the others are."""
    out: dict[str, str] = {}
    for what, forms in RULES["nearly"].items():
        each = [f"regexp_full_match(cell, {literal(pattern)})" for pattern in forms.values()]
        held = holders(block, [" OR ".join(each), *each], block.places(names))
        for name in names:
            (fitting, others), *by_form = held[name]
            slack = block.of("form", name, f"nearly {what}")
            if name in out or fitting < slack or fitting - MANY * others < slack:
                continue
            in_the_way = [
                form
                for form, (shown, _) in zip(forms, by_form, strict=True)
                if form and shown >= block.of("form", name, f"in the way {form}")
            ]
            words = _commonest(
                block,
                f"cell FROM cells WHERE {block.places([name])} AND NOT ({' OR '.join(each)}) "
                f"AND n >= {block.of('values', name)}",
            )
            parts, ways = list(in_the_way), ["say " + _AS_KIND[what]]
            if words:
                listed = ", ".join(f'"{word}"' for word in words)
                parts.append(f"words that many share ({listed})")
                ways.append(f'nulls = [{listed}, ""], if these mean "not known"')
            elif others >= slack:
                parts.append("other texts, each of few")
                ways.append(
                    "mend these texts in the source, or make them null by sql in [source] (TRY_CAST)"
                )
            if in_the_way:
                ways.append(_WAY_OUT[what])
            if parts:
                out[name] = (
                    f"nearly {what}; in the way: {'; '.join(parts)}. To read it so, {', and '.join(ways)}"
                )
    return out


def _alike(block: Block, names: Sequence[str]) -> dict[str, str]:
    """Texts that differ from one that more have by blanks at their ends or capital letters only."""
    block.fetch(
        "CREATE OR REPLACE TABLE alike AS SELECT j, cell, n, first_value(cell) OVER same AS other "
        f"FROM cells WHERE {block.places(names)} WINDOW same AS "
        "(PARTITION BY j, lower(trim(cell, ' \t\u00a0')) ORDER BY n DESC, cell) QUALIFY row_number() OVER same > 1"
    )
    held = holders(block, ["(j, cell) IN (SELECT (j, cell) FROM alike)"], block.places(names))
    out = {}
    for name in names:
        if held[name][0][0] < block.of("form", name, "alike"):
            continue
        usual = block.fetch(
            f"SELECT other, cell FROM alike WHERE {block.places([name])} "
            f"AND n >= {block.of('values', name)} ORDER BY n DESC, cell LIMIT {MOST_SHOWN}"
        )
        such = f" ({', '.join(f'{toml(a)} and {toml(b)}' for a, b in usual)})" if usual else ""
        out[name] = (
            f"in doubt: values that differ only by blanks at their ends or by capital letters{such} are counted apart; "
            "if they are the same, mend them in the source, or by sql in [source]: "
            '"SELECT * REPLACE (lower(trim(x)) AS x) FROM ..." (the file\'s name without its ending)'
        )
    return out
