"""Texts in several languages: those of the spec, or ours where it has none (English, and what `words.toml` has).

Takes texts as a pack.toml gives them; gives tuples of one string a language.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from engine.errors import SpecError
from queries.packs.model import Texts
from queries.packs.spec import Text

STATUS_WORDS = {
    "reliable": "the noise is small against the figure",
    "low": "released, and next to nothing: within the noise",
    "unreliable": "the noise is a large share of the figure",
    "not released": "too few to show, or none: which of the two is unknown; an interval, where given, says how many",
    "structural zero": "impossible by a declared rule",
}
WORDS = {
    "language": "",
    "group sign": ",",
    "decimal sign": ".",
    "under": "under {}",
    "to under": "{} to under {}",
    "and over": "{} and over",
    "before": "before {}",
    "and after": "{} and after",
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
    "noise": "Every figure is an estimate that carries noise, to protect those counted. Low and high are the "
    "ends of its 95 % noise interval.",
    "one table": "This worksheet contains one table.",
    "shorthand below": "This worksheet contains one table. Some cells hold shorthand, explained below.",
    "shorthand": "Shorthand of the tables:",
    "rounds to zero": "released, and rounds to zero",
    "no interval": "not available: the noise interval is not known",
    "either bound": "{}: {}",
    "left out": "Not in this workbook, too long for it; in tables/ as CSV and Parquet, and on the web pages",
    "interval means": "Without the noise, 95 of 100 figures would lie inside their interval. It says nothing of "
    "errors in the source.",
    "no noise": "Figures carry no noise, and nothing is guaranteed.",
    "listed means": "There are too many combinations to list all: only those that were measured are listed, and "
    "nothing is known of the others.",
    "noise of": "Each count carries noise with a standard deviation of {}. Who asks again gets the same figure.",
    "filled means": "{} % of all that is counted lies in groups too small to show; it was filled in without looking at "
    "the data.",
    "gap means": "Sums of this table and figures of other tables differ by at most {}.",
    "totals mean": "Totals count what is not released, too: the parts shown may add up to less.",
    "unreviewed means": "Some settings of this release were detected in the data and reviewed by nobody; it was "
    "published all the same. The README names them.",
    "bounded means": "Of all rows that belong to one of those protected, {} at most are counted.",
    "accepted means": "The publisher accepted a risk: {}",
    "epsilon means": "The release is differentially private with epsilon {}.",
    "modelled means": "These combinations were not measured, but modelled from narrower tables: how far they are off "
    "is not known.",
    "not converged": "The model does not meet all that was measured exactly.",
    "uniform means": "Nothing was measured of {}: all values are taken to be equally frequent.",
    "exchanged means": "Before anything was counted, some records exchanged their values ({}), rare ones first; the "
    "interval says nothing of that.",
    "published by": "Published by {}.",
    "published on": "Published on {}.",
    "licensed as": "Licence: {}.",
    "release of": "Release {}, vintage {}, content hash {}.",
    "ask the publisher": "See the publisher's site.",
    "introduction": "Introductory information",
    "about the data": "About these data",
    "whom to ask": "Contact",
    "note reference": "Note reference",
    "note text": "Note text",
    "how to cite": "How to cite",
    "cite": "{}: {}. Version {}, vintage {}, release {}. {}",
    "no publisher": "Unnamed publisher",
    "so many": "{} tables in {} files.",
    "what noise means": "What noise means",
    "noise is fixed": "Every figure carries noise, to protect those counted. It is fixed: the same figure is the same "
    "in every file.",
    "not for the public": "Figures carry no noise, and nothing is guaranteed: this is no pack for the public.",
    "ends mean": "low and high are the ends of the 95 % noise interval: without the noise, 95 of 100 figures would lie "
    "inside. It says nothing of sampling or of errors in the source.",
    "empty means": "Where nothing is released, value is empty, and low and high say how much it may be, where that is "
    "known.",
    "file index.html": "the tables as web pages, with charts; works offline",
    "file documents/": "further documents",
    "file datapackage.json": "Frictionless Data Package of all CSV files",
    "file catalog.jsonld": "DCAT catalogue",
    "file SHA256SUMS": "checksums; check with: sha256sum -c SHA256SUMS",
    "file release": "{}: the release itself, a DuckDB file that answers any SQL (tablepack sql {} ...); open it only "
    "if you trust its origin",
    "in english": "What follows is what the release says of itself, in English.",
    "limits": "Limits",
    "listed tables": "{} tables have too many combinations to list them all: only those that were measured are listed, "
    "and there is no JSON-stat and no PC-Axis file: {}.",
    "tables outside": "{} tables are not in the workbook: {}.",
    "and more": "{} and {} more",
} | {f"about {status}": text for status, text in STATUS_WORDS.items()}
_FORMATS = ("tables/", "codelists/", "quality.csv", "pack.xlsx", "sdmx/", "jsonstat/", "px/")
WORDS |= {f"file {path}": "" for path in _FORMATS}  # in English a format says itself what it is
"""Words of pages, README and labels; `[words]` of a pack.toml gives them in other languages."""
SIGNS = {sign: WORDS[sign] for sign in ("group sign", "decimal sign")}
"""Signs of numbers in English."""
_STATUS_WORD = {"low": "low figure"}


def texts(given: Text, languages: Sequence[str], default: str = "") -> Texts:
    """Return one string a language; one that lacks takes the first there is."""
    if isinstance(given, str):
        return tuple(given or default for _ in languages)
    known = [given[lang] for lang in languages if lang in given] or [*given.values(), default]
    return tuple(given.get(lang, known[0]) for lang in languages)


def pack_words(given: Mapping[str, Text], languages: Sequence[str]) -> dict[str, Texts]:
    """Return the words of the pages."""
    unknown = sorted(set(given) - set(WORDS))
    if unknown:
        raise SpecError(f"words: {unknown[0]!r} is not used; used are {', '.join(WORDS)}")
    ours = _words_of(languages)
    out = {}
    for word, text in WORDS.items():
        told = given.get(word, "")
        by_language = {code: told for code in languages} if isinstance(told, str) and told else told
        known = ours.get(word, {}) | (by_language or {})
        out[word] = tuple(known.get(code, text) for code in languages)
    names = given.get("language", "")
    own = names if isinstance(names, dict) else dict.fromkeys(languages[:1], names)
    out["language"] = tuple(
        own.get(code, "") or ours["language"].get(code, code) for code in languages
    )
    return out


def _words_of(languages: Sequence[str]) -> dict[str, dict[str, str]]:
    """The words that we have in languages, by word and language; of `de-AT` those of `de`."""
    told = tomllib.loads((Path(__file__).parent / "templates" / "words.toml").read_text("utf-8"))
    told["en"] = {"language": "English"}
    out: dict[str, dict[str, str]] = {"language": {}}
    for code in languages:
        for word, text in told.get(code.partition("-")[0].lower(), {}).items():
            out.setdefault(word, {})[code] = text
    return out


def status_word(status: str) -> str:
    """Return the key of the word for a status (`low` is also the end of an interval)."""
    return _STATUS_WORD.get(status, status)


def number_text(figure: float, decimals: int, words: Mapping[str, str]) -> str:
    """Return a number with the signs of a language."""
    text = f"{figure:,.{decimals}f}"
    signs = {",": words["group sign"], ".": words["decimal sign"]}
    return "".join(signs.get(sign, sign) for sign in text)
