"""Texts in several languages: what a spec says, or what we say in English where it says nothing.

Takes texts as a pack.toml gives them; gives tuples of one string a language.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.errors import SpecError
from queries.packs.model import Texts
from queries.packs.pack_spec import Text

WORDS = {
    "total": "Total",
    "blank": "(blank)",
    "empty": "(empty text)",
    "by": "by",
    "mean": "Mean of",
    "sum": "Sum of",
    "median": "Median of",
    "quantile": "Quantile of",
    "figure": "Figure",
    "value": "Value",
    "low": "Noise interval, low",
    "high": "Noise interval, high",
    "interval": "95 % noise interval",
    "status": "Status",
    "reliable": "reliable",
    "low figure": "low",
    "unreliable": "unreliable",
    "not released": "not released",
    "structural zero": "structural zero",
    "percent": "%",
    "tables": "Tables",
    "search": "Search the tables",
    "contents": "Contents",
    "notes": "Notes",
    "files": "Files",
    "chart": "Chart",
    "rows shown": "rows shown of",
    "how sure": "How sure is this",
    "back": "All tables",
    "nothing found": "No table matches.",
    "skip": "Skip to the table",
}
"""Words of pages and labels; `[words]` of a pack.toml gives them in other languages."""
_STATUS_WORD = {"low": "low figure"}


def texts(given: Text, languages: Sequence[str], default: str = "") -> Texts:
    """Return one string a language; one that lacks takes the first there is."""
    if isinstance(given, str):
        return tuple(given or default for _ in languages)
    known = [given[lang] for lang in languages if lang in given] or [*given.values(), default]
    return tuple(given.get(lang, known[0]) for lang in languages)


def pack_words(given: Mapping[str, Text], languages: Sequence[str]) -> dict[str, Texts]:
    """Return the words of the pages.

    Raises
    ------
    SpecError
        The spec gives a word that no page has.
    """
    unknown = sorted(set(given) - set(WORDS))
    if unknown:
        raise SpecError(f"words: {unknown[0]!r} is not used; used are {', '.join(WORDS)}")
    return {word: texts(given.get(word, ""), languages, text) for word, text in WORDS.items()}


def status_word(status: str) -> str:
    """Return the key of the word for a status (`low` is also the end of an interval)."""
    return _STATUS_WORD.get(status, status)
