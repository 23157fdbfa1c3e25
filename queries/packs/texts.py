"""Texts in several languages: those of the spec, or ours in English where it has none.

Takes texts as a pack.toml gives them; gives tuples of one string a language.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.errors import SpecError
from queries.packs.model import Texts
from queries.packs.spec import Text

STATUS_WORDS = {
    "reliable": "the noise is small against the figure",
    "low": "released, and next to nothing: within the noise",
    "unreliable": "the noise is a large share of the figure",
    "not released": "too few people, or nobody: which of the two is unknown; an interval, where given, says how many",
    "structural zero": "impossible by a declared rule",
}
WORDS = {
    "language": "",
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
    "at most": "at most",
    "release notes": "Notes of the release",
    "marks": "Marks",
    "no marks": "none",
    "unit": "Unit",
    "noise": "Every figure is an estimate that carries noise, to protect the people counted. Low and high are the "
    "ends of its 95 % noise interval.",
    "one table": "This worksheet contains one table.",
    "shorthand below": "This worksheet contains one table. Some cells hold shorthand, explained below.",
    "shorthand": "Shorthand of the tables:",
    "rounds to zero": "released, and rounds to zero",
    "no interval": "not available: the noise interval is not known",
    "either side": "95 % noise intervals reach at most so far to either side of a figure",
    "each interval": "Each figure's own interval is in",
    "left out": "Not in this workbook, too long for it; in tables/ as CSV and Parquet, and on the web pages",
} | {f"about {status}": text for status, text in STATUS_WORDS.items()}
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
    out = {word: texts(given.get(word, ""), languages, text) for word, text in WORDS.items()}
    names = given.get("language", "")
    known = names if isinstance(names, dict) else dict.fromkeys(languages[:1], names)
    out["language"] = tuple(known.get(code, "") or code for code in languages)
    return out


def status_word(status: str) -> str:
    """Return the key of the word for a status (`low` is also the end of an interval)."""
    return _STATUS_WORD.get(status, status)
