"""What the rows of a release are called, and whom it protects: words for one and for many, by language.

Takes what a spec says, or nothing; gives a `Unit`. A row may be a person, a stay or a visit: only custodians know.
Invariant: rows are called people only where that is declared, or each row is one entity whose column says so.
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
"""Letters of a word for a row."""
_PEOPLE = frozenset({"person", "persons", "people", "pers", "personen", "personne", "persona"})
_PARTS = re.compile(r"[^A-Za-z]+|(?<=[a-z])(?=[A-Z])")
_IRREGULAR = {"people": "person", "children": "child", "men": "man", "women": "woman"}
_SHAPE = (
    'wants a word for many, such as "stays", or a section with one and many, such as { one = "stay", many = "stays" }, '
    "and by language, such as de = { ... }"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Words:
    """One of something, and many, in one language."""

    one: str
    many: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """What one of something is called."""

    words: Mapping[str, Words]  # By code of the language; "en" is always there

    @property
    def one(self) -> str:
        """The word for one, in English."""
        return self.words[DEFAULT_LANGUAGE].one

    @property
    def many(self) -> str:
        """The word for many, in English."""
        return self.words[DEFAULT_LANGUAGE].many

    def counted(self, n: int) -> str:
        """Return a number with its word, such as "1 stay" or "1,204 stays"."""
        return f"{n:,} {self.one if n == 1 else self.many}"

    def as_dict(self) -> dict[str, dict[str, str]]:
        """Plain values by language, for JSON."""
        return {code: {"one": w.one, "many": w.many} for code, w in self.words.items()}

    def to_json(self) -> str:
        """The words as JSON with sorted keys."""
        return json.dumps(self.as_dict(), sort_keys=True, ensure_ascii=False)


def unit_of(one: str, many: str) -> Unit:
    """Return a unit in English."""
    return Unit(words={DEFAULT_LANGUAGE: Words(one=one, many=many)})


ROWS, ENTITIES = unit_of("row", "rows"), unit_of("entity", "entities")
PEOPLE = unit_of("person", "people")


def declared_unit(raw: Any, place: str, problems: list[str]) -> Unit | None:
    """Return what a spec says of it; None where it says nothing, or what is wrong.

    raw: A word for many, or a mapping with `one` and `many`, or with such mappings by language.
    """
    if raw is None:
        return None
    given = {"many": raw} if isinstance(raw, str) else raw
    if not isinstance(given, Mapping):
        problems.append(f"{place}: {_SHAPE}")
        return None
    plain = {key: value for key, value in given.items() if key in ("one", "many")}
    others = {key: value for key, value in given.items() if key not in plain}
    by_language = ({DEFAULT_LANGUAGE: plain} if plain else {}) | others
    words = {}
    for code, value in by_language.items():
        found = _words_of(value) if isinstance(code, str) and LANGUAGE.fullmatch(code) else None
        if found is None:
            problems.append(f"{place}{'' if value is plain else f'.{code}'}: {_SHAPE}")
            return None
        words[code] = found
    if DEFAULT_LANGUAGE not in words:
        problems.append(f"{place}: wants English words too (one, many), which cards and notes use")
        return None
    return Unit(words=words)


def _words_of(raw: Any) -> Words | None:
    """The words of one language; one is guessed from many in the regular way where it is not said."""
    raw = {"many": raw} if isinstance(raw, str) else raw
    if not isinstance(raw, dict) or not {"many"} <= set(raw) <= {"one", "many"}:
        return None
    if not all(_is_word(value) for value in raw.values()):
        return None
    return Words(one=raw.get("one") or _singular(raw["many"]), many=raw["many"])


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value.strip()) <= MOST_WORD and value.isprintable()


def _singular(many: str) -> str:
    """One of many, by the rules of English; a word that follows none stands for one, too."""
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
    """Return what rows and entities are called, with a word for what is not declared.

    count: What the release counts: "rows", or "entities", and then these are what its rows are.
    each: A column in each value of which an entity counts: then rows are pairs of both, and a sum of them is
        no number of entities.
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
    """What an entity in one value of a column is called."""
    return Unit(
        words={code: _pair_words(code, words.one, each) for code, words in entity.words.items()}
    )


def _pair_words(language: str, one: str, each: str) -> Words:
    """The words of one language: the longest that are no longer than words may be."""
    if language.split("-")[0] not in (DEFAULT_LANGUAGE, "de"):
        said = f"{one} × {each}"
        return Words(one=said, many=said) if _is_word(said) else Words(one="×", many="×")
    is_german = language.split("-")[0] == "de"
    names = ("Paar", "Paare", "aus", "und") if is_german else ("pair", "pairs", "of", "and")
    single, several, of, joined = names
    told = f" {of} {one} {joined} {each}"
    rest = told if _is_word(several + told) else ""
    return Words(one=single + rest, many=several + rest)


def _parts(name: str) -> list[str]:
    return [part.lower() for part in _PARTS.split(name) if part]


def unit_from_json(text: str) -> Unit:
    """Read back what `Unit.to_json` wrote."""
    problems: list[str] = []
    try:
        raw = json.loads(text)
    except (RecursionError, TypeError):
        raise ValueError("not words") from None
    if not isinstance(raw, dict) or {"one", "many"} & set(raw):
        raise ValueError("not words")
    unit = declared_unit(raw, "", problems)
    if unit is None:
        raise ValueError("not words")
    return unit
