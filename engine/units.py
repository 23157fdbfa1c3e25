"""What the rows and the protected entities of a release are called: singular and plural, by language.

Takes what a spec declares, or nothing; gives a `Unit`. A row may be a person, a stay or a visit: only the custodian
knows. Invariant: rows are called people only if that is declared, or if each row is one entity and the name of the
entity column says so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

DEFAULT_LANGUAGE = "en"
LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]+)*")
MOST_WORD = 60
"""Characters of a name for rows or entities."""
_PEOPLE = frozenset({"person", "persons", "people", "pers", "personen", "personne", "persona"})
_PARTS = re.compile(r"[^A-Za-z]+|(?<=[a-z])(?=[A-Z])")
_IRREGULAR = {"people": "person", "children": "child", "men": "man", "women": "woman"}
EXPECTED_WORDS = 'a plural, such as "stays", or { one = "stay", many = "stays" }; other languages by code: de = { ... }'
"""What the keys `unit` and `entity` of a spec hold."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Words:
    """Singular and plural in one language."""

    one: str
    many: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """What rows, or entities, are called."""

    words: Mapping[str, Words]  # By language code; "en" is always there

    @property
    def one(self) -> str:
        """The English singular."""
        return self.words[DEFAULT_LANGUAGE].one

    @property
    def many(self) -> str:
        """The English plural."""
        return self.words[DEFAULT_LANGUAGE].many

    def counted(self, n: int) -> str:
        """A number with its unit, such as "1 stay" or "1,204 stays"."""
        return f"{n:,} {self.one if n == 1 else self.many}"

    def as_dict(self) -> dict[str, dict[str, str]]:
        """Plain values by language, for JSON."""
        return {code: {"one": w.one, "many": w.many} for code, w in self.words.items()}

    def to_json(self) -> str:
        """The words as JSON with sorted keys."""
        return json.dumps(self.as_dict(), sort_keys=True, ensure_ascii=False)


def unit_of(one: str, many: str) -> Unit:
    """A unit in English only."""
    return Unit(words={DEFAULT_LANGUAGE: Words(one=one, many=many)})


ROWS, ENTITIES = unit_of("row", "rows"), unit_of("entity", "entities")
PEOPLE = unit_of("person", "people")


def declared_unit(raw: Any, place: str, problems: list[str]) -> Unit | None:
    """The unit that a spec declares; None if it declares none, or an invalid one, which is added to `problems`.

    raw: A plural, or a mapping with `one` and `many`, or of such mappings by language.
    """
    if raw is None:
        return None
    given = {"many": raw} if isinstance(raw, str) else raw
    if not isinstance(given, Mapping):
        problems.append(f"{place}: must be {EXPECTED_WORDS}")
        return None
    plain = {key: value for key, value in given.items() if key in ("one", "many")}
    others = {key: value for key, value in given.items() if key not in plain}
    by_language = ({DEFAULT_LANGUAGE: plain} if plain else {}) | others
    words = {}
    for code, value in by_language.items():
        found = _words_of(value) if isinstance(code, str) and LANGUAGE.fullmatch(code) else None
        if found is None:
            problems.append(
                f"{place}{'' if value is plain else f'.{code}'}: must be {EXPECTED_WORDS}"
            )
            return None
        words[code] = found
    if DEFAULT_LANGUAGE not in words:
        problems.append(f"{place}: English words (one, many) are needed too, for cards and notes")
        return None
    return Unit(words=words)


def _words_of(raw: Any) -> Words | None:
    """The words of one language; a missing singular is derived from the plural."""
    raw = {"many": raw} if isinstance(raw, str) else raw
    if not isinstance(raw, dict) or not {"many"} <= set(raw) <= {"one", "many"}:
        return None
    if not all(_is_word(value) for value in raw.values()):
        return None
    return Words(one=raw.get("one") or _singular(raw["many"]), many=raw["many"])


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value.strip()) <= MOST_WORD and value.isprintable()


def _singular(many: str) -> str:
    """The singular by the rules of English; a word that follows none of them is its own singular."""
    if many.lower() in _IRREGULAR:
        return _IRREGULAR[many.lower()]
    for ending, one in (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("xes", "x"), ("s", "")):
        if many.endswith(ending) and len(many) > len(ending) + 1:
            return many[: -len(ending)] + one
    return many


def units_for(
    unit: Unit | None,
    entity: Unit | None,
    count: str = "rows",
    each: str | None = None,
    *,
    entities: Sequence[str],
    is_row_each: bool,
) -> tuple[Unit, Unit]:
    """What rows and entities are called, with defaults for what is not declared.

    count: What the release counts: "rows", or "entities", which are then what its rows are.
    each: Column within each value of which an entity counts once: rows are then pairs of both, and a sum of them is
        not a number of entities.
    """
    if entity is None and any(_PEOPLE & set(_parts(name)) for name in entities):
        entity = PEOPLE
    if count == "entities":
        protected = entity or ENTITIES
        return (protected if each is None else _pairs(protected, each)), protected
    is_row_each |= not entities
    if is_row_each:
        return unit or entity or ROWS, entity or unit or ENTITIES
    return unit or ROWS, entity or ENTITIES


def _pairs(entity: Unit, each: str) -> Unit:
    """What pairs of an entity and a value of a column are called."""
    return Unit(
        words={code: _pair_words(code, words.one, each) for code, words in entity.words.items()}
    )


def _pair_words(language: str, one: str, each: str) -> Words:
    """The words of one language, shortened if they would be longer than words may be."""
    if language.split("-")[0] not in (DEFAULT_LANGUAGE, "de"):
        pair = f"{one} × {each}"
        return Words(one=pair, many=pair) if _is_word(pair) else Words(one="×", many="×")
    is_german = language.split("-")[0] == "de"
    names = ("Paar", "Paare", "aus", "und") if is_german else ("pair", "pairs", "of", "and")
    pair, pairs, of, joined = names
    both = f" {of} {one} {joined} {each}"
    rest = both if _is_word(pairs + both) else ""
    return Words(one=pair + rest, many=pairs + rest)


def _parts(name: str) -> list[str]:
    return [part.lower() for part in _PARTS.split(name) if part]


def unit_from_json(text: str) -> Unit:
    """Read back what `Unit.to_json` wrote."""
    problems: list[str] = []
    try:
        raw = json.loads(text)
    except (RecursionError, TypeError):
        raise ValueError("not a unit") from None
    if not isinstance(raw, dict) or {"one", "many"} & set(raw):
        raise ValueError("not a unit")
    unit = declared_unit(raw, "", problems)
    if unit is None:
        raise ValueError("not a unit")
    return unit
