"""Remarks about what cells look like: spikes that may say "not known", numbers that may be codes, text that is nearly
numbers or dates.

Takes a block of columns and its table `cells`; gives sentences for people. Invariant: a sentence depends on numbers of
entities and noisy thresholds; it shows no values but those of a fixed list, and those that enough entities hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from engine.schema import NUMBER_KINDS, Column, Writing, entity_columns, literal, quoted
from engine.source.detection.holders import Block, by_place, holders, who_sql
from engine.source.detection.spec_text import toml
from engine.source.detection.thresholds import LEAST, Thresholds
from engine.source.encoding import plain_sql

MANY = 4
"""What is nearly so has so many times as many entities as what is not."""
MOST_SHOWN = 5
SPIKES = (
    *(
        -1,
        -2,
        -3,
        -6,
        -7,
        -8,
        -9,
        -66,
        -77,
        -88,
        -96,
        -97,
        -98,
        -99,
        -666,
        -777,
        -888,
        -997,
        -998,
        -999,
        -9999,
    ),
    *(77, 88, 97, 98, 99, 777, 888, 997, 998, 999, 7777, 8888, 9997, 9998, 9999, 99999, 999999),
)
"""Numbers that questionnaires and registers write for what is not known."""
_NUMBER = r"[+-]?[0-9][0-9.,'\x{2019} \x{a0}]*"
_MONEY = r"(€|\$|£|¥|EUR|USD|CHF|GBP|PLN|SEK|DKK|NOK)"
_NEARLY_NUMBERS = {
    "": _NUMBER,
    "percent signs": rf"{_NUMBER} ?%",
    "signs of currencies": rf"{_MONEY} ?{_NUMBER}|{_NUMBER} ?{_MONEY}",
    "signs such as < and >": rf"[<>≤≥~] ?{_NUMBER}",
    "units behind the numbers": rf"{_NUMBER}[a-zA-Zµ°²³/]+[0-9]?",
    "stars or brackets": rf"[(\[]?{_NUMBER}[)\]*]+",
}
_NEARLY_DATES = {
    "": r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([T ].*)?",
    "dates written in another way": r"[0-9]{1,4}[-./ ] ?([0-9]{1,2}|[A-Za-zä]{3,9})\.?[-./ ] ?[0-9]{1,4}([T ].*)?",
}
_CODE_NAMES = (
    *(
        "plz",
        "zip",
        "postcode",
        "postal",
        "code",
        "icd",
        "isco",
        "nace",
        "nuts",
        "gemeinde",
        "municipality",
    ),
    *(
        "schluessel",
        "schlüssel",
        "kennziffer",
        "fips",
        "puma",
        "occupation",
        "beruf",
        "branche",
        "industry",
    ),
)
_ZONE = "[0-9][+-][0-9]{2}(:?[0-9]{2})?$"
_FEWEST_CODES, _SPREAD = 15, 5


def remarks_on(
    block: Block,
    columns: Iterable[Column],
    thresholds: Thresholds,
    writings: Mapping[str, Writing],
) -> dict[str, list[str]]:
    """Say what is remarkable about the cells of columns.

    writings: Of columns that `source` shows plainly and `source_as_written` as the file has them.
    """
    out: dict[str, list[str]] = {}
    by_name = {c.name: c for c in columns if c.name not in entity_columns(block.entities)}
    numbers = [n for n, c in by_name.items() if c.value_type in NUMBER_KINDS]
    whole = [n for n in numbers if by_name[n].kind == "integer"]
    texts = [n for n, c in by_name.items() if c.value_type == "text"]
    moments = [n for n, c in by_name.items() if c.value_type == "timestamp"]
    found = [_zones(block, moments, thresholds), _codes(block, whole, thresholds)]
    found.append(_spikes(block, by_name, numbers, thresholds, writings))
    if block.sql_type == "VARCHAR":
        found.append(_nearly(block, texts, thresholds))
        found.append(_alike(block, texts, thresholds))
    for remarks in found:
        for name, sentence in remarks.items():
            out.setdefault(name, []).append(sentence)
    return out


def _zones(block: Block, names: Sequence[str], thresholds: Thresholds) -> dict[str, str]:
    """Moments that say their zone: they are read as moments of UTC."""
    if not names or block.sql_type not in ("VARCHAR", "TIMESTAMP WITH TIME ZONE"):
        return {}
    is_zoned = "true"
    if block.sql_type == "VARCHAR":
        is_zoned = f"regexp_matches(cell, {literal(_ZONE)})"
    held = holders(block, [is_zoned], block.places(names))
    return {
        name: 'moments with a zone: shown in UTC; for the clocks of a place, in [source] sql = "SELECT * REPLACE '
        "(CAST(x AS TIMESTAMPTZ) AT TIME ZONE 'Europe/Vienna' AS x) FROM ...\" (the file's name without its ending)"
        for name in names
        if held[name][0][0] >= thresholds.of("form", name, "zone")
    }


def _spikes(
    block: Block,
    columns: Mapping[str, Column],
    names: Sequence[str],
    thresholds: Thresholds,
    writings: Mapping[str, Writing],
) -> dict[str, str]:
    """Numbers of the fixed list that stand apart from all others."""
    if not names:
        return {}
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
    tests += [f"{number} NOT IN ({listed}) AND {_near(number, spike)}" for spike in there]
    held = holders(block, tests, block.places(names))
    out = {}
    for name in names:
        shown = [n for n, _ in held[name]]
        apart = [
            spike
            for spike, at, near in zip(there, shown, shown[len(there) :], strict=False)
            if at - MANY * near >= thresholds.of("values", name, f"spike {spike}")
        ]
        if apart:
            way = _as_null(block, columns[name], apart, thresholds, writings.get(name))
            out[name] = (
                f"in doubt: {', '.join(map(str, apart))} stand apart from the other numbers and may say "
                f'"not known"; if so, say {way}'
            )
    return out


def _near(number: str, spike: int) -> str:
    """SQL: a number lies where a spike would be one of many; negative ones are rare altogether."""
    if spike < 0:
        return f"{number} < 0"
    return f"{number} BETWEEN {spike - max(spike // 10, 2)} AND {spike + max(spike // 10, 2)}"


def _as_null(
    block: Block,
    column: Column,
    apart: Sequence[int],
    thresholds: Thresholds,
    writing: Writing | None,
) -> str:
    """What to write so that numbers are null."""
    if block.sql_type == "VARCHAR":
        spelled = _spelled(block, column.name, apart, thresholds, writing)
        return f"nulls = {toml(list(dict.fromkeys((*spelled, *column.spellings))))}"
    listed = ", ".join(map(str, apart))
    name = column.name.replace('"', '""')
    cell = f'CASE WHEN "{name}" NOT IN ({listed}) THEN "{name}" END'
    return f"in [source] sql = 'SELECT * REPLACE ({cell} AS \"{name}\") FROM ...' (the file's name without ending)"


def _spelled(
    block: Block,
    name: str,
    apart: Sequence[int],
    thresholds: Thresholds,
    writing: Writing | None,
) -> list[str]:
    """How the file spells numbers, for nulls are compared to the spelling; -8 may be "-8.0" in one of its columns."""
    relation = f"(SELECT cell AS plain, cell, n FROM cells WHERE {block.places([name])})"
    if writing is not None:
        counts = [f"count(DISTINCT {who_sql(entity)})" for entity in block.entities] or ["count(*)"]
        n = counts[0] if len(counts) == 1 else f"least({', '.join(counts)})"
        cell = quoted(name)
        plain = f"coalesce({plain_sql(writing, 'real', cell)}, {cell})"
        relation = f"(SELECT {plain} AS plain, {cell} AS cell, {n} AS n FROM source_as_written GROUP BY ALL)"
    out = []
    for spike in apart:
        # The threshold of the spike itself: that it is there and how it is spelled are one decision.
        rows = block.fetch(
            f"SELECT cell FROM {relation} WHERE TRY_CAST(plain AS DOUBLE) = {spike} "
            f"AND n >= {thresholds.of('values', name, f'spike {spike}')} "
            f"ORDER BY n DESC, cell LIMIT {MOST_SHOWN}"
        )
        out += [str(cell) for (cell,) in rows] or [str(spike)]
    return out


def _codes(block: Block, names: Sequence[str], thresholds: Thresholds) -> dict[str, str]:
    """Whole numbers that may be codes: equally many digits, and few of all the numbers that lie between."""
    if not names:
        return {}
    usual = by_place(thresholds.of("values", name, "codes") for name in block.names)
    found = block.fetch(
        "SELECT j, count(*), min(v), max(v), min(length(t)), max(length(t)), count(*) FILTER (v % 5 <> 0) FROM ("
        "SELECT j, TRY_CAST(cell AS BIGINT) AS v, CAST(cell AS VARCHAR) AS t FROM cells "
        f"WHERE {block.places(names)} AND n >= {usual}) WHERE v IS NOT NULL GROUP BY j"
    )
    out = {}
    for j, n, low, high, short, long, steps in found:
        name = block.names[j]
        is_named = any(word in name.casefold() for word in _CODE_NAMES)
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


def _nearly(block: Block, names: Sequence[str], thresholds: Thresholds) -> dict[str, str]:
    """Texts most of which are numbers or dates, and what the others are."""
    if not names:
        return {}
    out: dict[str, str] = {}
    for what, forms in (("numbers", _NEARLY_NUMBERS), ("dates", _NEARLY_DATES)):
        each = [f"regexp_full_match(cell, {literal(pattern)})" for pattern in forms.values()]
        held = holders(block, [" OR ".join(each), *each], block.places(names))
        for name in names:
            (fitting, others), *by_form = held[name]
            slack = thresholds.of("form", name, f"nearly {what}")
            if name in out or fitting < slack or fitting - MANY * others < slack:
                continue
            in_the_way = [
                form
                for form, (shown, _) in zip(forms, by_form, strict=True)
                if form and shown >= thresholds.of("form", name, f"in the way {form}")
            ]
            words = _usual_others(block, name, " OR ".join(each), thresholds)
            if sentence := _sentence(what, in_the_way, words, has_rest=others >= slack):
                out[name] = sentence
    return out


def _alike(block: Block, names: Sequence[str], thresholds: Thresholds) -> dict[str, str]:
    """Texts that differ from one that more have by blanks at their ends or capital letters only."""
    if not names:
        return {}
    block.fetch(
        "CREATE OR REPLACE TABLE alike AS SELECT j, cell, n, first_value(cell) OVER same AS other "
        f"FROM cells WHERE {block.places(names)} WINDOW same AS "
        "(PARTITION BY j, lower(trim(cell, ' \t\u00a0')) ORDER BY n DESC, cell) QUALIFY row_number() OVER same > 1"
    )
    held = holders(block, ["(j, cell) IN (SELECT (j, cell) FROM alike)"], block.places(names))
    out = {}
    for name in names:
        ((shown, _),) = held[name]
        if shown < thresholds.of("form", name, "alike"):
            continue
        usual = block.fetch(
            f"SELECT other, cell FROM alike WHERE {block.places([name])} "
            f"AND n >= {thresholds.of('values', name)} ORDER BY n DESC, cell LIMIT {MOST_SHOWN}"
        )
        such = f" ({', '.join(f'{toml(a)} and {toml(b)}' for a, b in usual)})" if usual else ""
        out[name] = (
            f"in doubt: values that differ only by blanks at their ends or by capital letters{such} are counted apart; "
            "if they are the same, mend them in the source, or by sql in [source]: "
            '"SELECT * REPLACE (lower(trim(x)) AS x) FROM ..." (the file\'s name without its ending)'
        )
    return out


def _usual_others(block: Block, name: str, fits: str, thresholds: Thresholds) -> list[str]:
    """Texts of another form that enough entities hold."""
    rows = block.fetch(
        f"SELECT cell FROM cells WHERE {block.places([name])} AND NOT ({fits}) "
        f"AND n >= {thresholds.of('values', name)} ORDER BY n DESC, cell LIMIT {MOST_SHOWN}"
    )
    return [str(cell) for (cell,) in rows]


def _sentence(what: str, in_the_way: Sequence[str], words: Sequence[str], *, has_rest: bool) -> str:
    """What stands in the way, and what to do."""
    kind = (
        'kind = "integer" (or "real", with a resolution)' if what == "numbers" else 'kind = "date"'
    )
    parts, ways = list(in_the_way), [f"say {kind}"]
    if words:
        listed = ", ".join(f'"{word}"' for word in words)
        parts.append(f"words that many share ({listed})")
        ways.append(f'nulls = [{listed}, ""], if these mean "not known"')
    elif has_rest:
        parts.append("other texts, each of few")
        ways.append(
            "mend these texts in the source, or make them null by sql in [source] (TRY_CAST)"
        )
    if in_the_way:
        ways.append(
            "take the signs off by sql in [source], such as \"SELECT * REPLACE (regexp_replace(x, '[^0-9.-]', '', 'g') "
            "AS x) FROM ...\" (the file's name without its ending)"
            if what == "numbers"
            else "date_format, where all are written alike"
        )
    if not parts:
        return ""
    return f"nearly {what}; in the way: {'; '.join(parts)}. To read it so, {', and '.join(ways)}"
