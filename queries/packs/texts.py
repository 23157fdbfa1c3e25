"""The words of a pack: texts in every language, numbers with the signs of a language, notes on a table's accuracy.

Texts come from pack.toml, else from here (English) or from `templates/words.toml` (other languages). Readers of tables
see plain sentences only; details of how a table was made are on its card, in the release.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.errors import SpecError
from engine.guarantee import Guarantee
from queries.packs.model import NOT_RELEASED, Pack, PackTable, Texts
from queries.packs.spec import Text

STATUS_WORDS = {
    "reliable": "the noise is small compared with the figure",
    "low": "close to zero, within the noise",
    "unreliable": "the noise is large compared with the figure",
    "not released": "too few to show, or none; we do not say which. An interval, where given, shows how many at most",
    "structural zero": "impossible under a declared rule",
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
    "outside": "does not apply",
    "outside or blank": "does not apply, or blank",
    "empty": "(empty text)",
    "by": "by",
    "mean": "Mean of",
    "sum": "Sum of",
    "weighted": "Weighted number of",
    "median": "Median of",
    "quantile": "Quantile of",
    "figure": "Figure",
    "value": "Value",
    "low": "Noise interval, low",
    "high": "Noise interval, high",
    "interval": "95 % noise interval",
    "half interval": "half of the 95 % noise interval",
    "number of": "Number of {}",
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
    "rows shown": "rows shown, out of",
    "how sure": "How accurate are these figures?",
    "back": "All tables",
    "nothing found": "No table matches.",
    "skip": "Skip to the table",
    "at most": "at most",
    "release notes": "Notes on the release",
    "marks": "Marks",
    "no marks": "none",
    "unit": "Unit",
    "noise": "Figures are estimates: they include random noise that protects confidentiality, unless declared public. "
    "Low and high are the limits of the 95 % noise interval.",
    "one table": "This worksheet contains one table.",
    "shorthand below": "This worksheet contains one table. Some cells contain shorthand, explained below.",
    "shorthand": "Shorthand used in the tables:",
    "rounds to zero": "released, but rounds to zero",
    "no interval": "not available: the noise interval is unknown",
    "either bound": "{}: {}",
    "left out": "Too long for this workbook; see tables/ (CSV and Parquet) or the web pages",
    "interval means": "95 of 100 noise intervals contain the figure without noise. They do not cover errors in the "
    "source.",
    "no noise": "Figures include no noise, and there is no privacy guarantee.",
    "listed means": "There are too many combinations to list: only those that were measured are shown, and nothing is "
    "known about the others.",
    "noise of": "Each count includes noise with a standard deviation of {}. The noise is fixed: repeating a query "
    "returns the same figure.",
    "filled means": "{} % of records fall in groups too small to show. They were imputed without looking at the data, "
    "so relationships between variables are weaker.",
    "gap means": "Sums over this table may differ from figures in other tables by up to {}.",
    "totals mean": "Totals include what is not released, so the parts shown may add up to less.",
    "unreviewed means": "Some settings of this release were detected in the data and published without review. The "
    "README lists them.",
    "bounded means": "Rows counted per {}: at most {}. Further ones are left out, so counts can be too low; the noise "
    "interval does not cover this.",
    "accepted means": "The publisher accepted this risk: {}",
    "epsilon means": "The release is differentially private with {} for each protected unit ({}): whether all rows of "
    "one unit are included or not changes the probability of any outcome by a factor of at most e to the power of "
    "epsilon, plus delta, if there is one.",
    "number means": "The release is differentially private with {} for each protected unit ({}): whether its rows or "
    "those of another unit are included changes the probability of any outcome by a factor of at most e to the power "
    "of epsilon, plus delta, if there is one. The number of rows is exact and not protected.",
    "declared means": "The publisher declares that one protected unit changes the rows of at most {} of them; this was "
    "not verified.",
    "nameless means": "Records without an identifier count as protected units of their own; a unit with several of "
    "them is not protected as a whole.",
    "weak means": "An epsilon or delta of this size protects little.",
    "together means": "With everything measured with the same key in this mode: {}.",
    "earlier mean": "What was released with the same key before its ledger was begun is not known, and not included.",
    "public means": "Taken as public: the possible values and groups of all variables, and combinations declared "
    "impossible.",
    "others mean": "Other releases of the same units are not differentially private; epsilon does not cover them.",
    "modelled means": "These combinations were not measured but modelled from narrower tables; the error of the model "
    "is unknown.",
    "not converged": "The model does not reproduce all measurements exactly.",
    "uniform means": "Nothing was measured for {}: all values are assumed to be equally frequent.",
    "exchanged means": "Before counting, some records swapped their values ({}), rare records first; the noise "
    "interval does not cover this.",
    "published by": "Published by {}.",
    "published on": "Published on {}.",
    "licensed as": "Licence: {}.",
    "release of": "Release {}, vintage {}, content hash {}.",
    "ask the publisher": "See the publisher's website.",
    "introduction": "Introductory information",
    "about the data": "About these data",
    "whom to ask": "Contact",
    "note reference": "Note reference",
    "note text": "Note text",
    "description": "Table description",
    "how to cite": "How to cite",
    "cite": "{}: {}. Version {}, vintage {}, release {}. {}",
    "no publisher": "Unnamed publisher",
    "so many": "Tables: {}. Files: {}.",
    "what noise means": "Noise and intervals",
    "noise is fixed": "Figures include random noise that protects confidentiality, unless declared public. The noise "
    "is fixed: a figure has the same value in every file.",
    "not for the public": "Figures include no noise, and there is no privacy guarantee: this pack is not for "
    "publication.",
    "ends mean": "low and high are the limits of the 95 % noise interval: 95 of 100 such intervals contain the figure "
    "without noise. They do not cover sampling or errors in the source.",
    "empty means": "Where nothing is released, value is empty; low and high then show how large it can be, where that "
    "is known.",
    "file index.html": "the tables as web pages, with charts; works offline",
    "file documents/": "further documents",
    "file datapackage.json": "Frictionless Data Package of all CSV files",
    "file catalog.jsonld": "DCAT catalogue",
    "file SHA256SUMS": "checksums; check with: sha256sum -c SHA256SUMS",
    "file release": "{}: the release itself, a DuckDB file that answers SQL queries (tablepack sql {} ...); open it "
    "only if you trust its source",
    "in english": "The release's own notes follow, in English.",
    "limits": "Limitations",
    "listed tables": "Tables with too many combinations to list: {} ({}). They show measured combinations only, and "
    "have no JSON-stat or PC-Axis file.",
    "tables outside": "Tables not in the workbook: {} ({}).",
    "and more": "{} and {} more",
} | {f"about {status}": text for status, text in STATUS_WORDS.items()}
_FORMATS = ("tables/", "codelists/", "quality.csv", "pack.xlsx", "sdmx/", "jsonstat/", "px/")
WORDS |= {f"file {path}": "" for path in _FORMATS}  # in English a format describes itself
"""Words of pages, README, workbook and labels in English; `[words]` of a pack.toml replaces them, by language."""
SIGNS = {sign: WORDS[sign] for sign in ("group sign", "decimal sign")}
"""Signs of numbers in English."""
_RIGHT_TO_LEFT = frozenset({"ar", "ckb", "dv", "fa", "he", "ps", "sd", "ug", "ur", "yi"})
_STATUS_WORD = {"low": "low figure"}
_MIN_SHARE = 0.01
"""Share of imputed rows from which readers see a note."""


def direction_of(language: str) -> str:
    """Return the direction of a language's writing, as HTML names it."""
    return "rtl" if language.lower().split("-")[0] in _RIGHT_TO_LEFT else "ltr"


def texts(given: Text, languages: Sequence[str], default: str = "") -> Texts:
    """Return one string per language; a missing language takes the first one given."""
    if isinstance(given, str):
        return tuple(given or default for _ in languages)
    known = [given[lang] for lang in languages if lang in given] or [*given.values(), default]
    return tuple(given.get(lang, known[0]) for lang in languages)


def pack_words(given: Mapping[str, Text], languages: Sequence[str]) -> dict[str, Texts]:
    """Return the words of the pages."""
    unknown = sorted(set(given) - set(WORDS))
    if unknown:
        raise SpecError(f"words: {unknown[0]!r} is not used; used are {', '.join(WORDS)}")
    known = _known_words(given, languages)
    out = {
        word: tuple(known[word].get(code, text) for code in languages)
        for word, text in WORDS.items()
    }
    out["language"] = tuple(known["language"].get(code) or code for code in languages)
    return out


def missing_words(given: Mapping[str, Text], language: str) -> list[str]:
    """Return the words that a language lacks, so that its pages show them in English."""
    known = _known_words(given, [language])
    is_english = language.partition("-")[0].lower() == "en"
    return [] if is_english else [word for word in WORDS if language not in known[word]]


def _known_words(given: Mapping[str, Text], languages: Sequence[str]) -> dict[str, dict[str, str]]:
    """Words by language: those of the spec before ours; `de-AT` takes ours of `de`.

    A plain string is for all languages, except the language's own name: that is the first language's.
    """
    ours = translations() | {"en": {"language": "English"}}
    out: dict[str, dict[str, str]] = {word: {} for word in WORDS}
    for code in languages:
        for word, translated in ours.get(code.partition("-")[0].lower(), {}).items():
            out[word][code] = translated
    for word, text in given.items():
        if not isinstance(text, str):
            out[word] |= text
        elif text:
            codes = languages[:1] if word == "language" else languages
            out[word] |= dict.fromkeys(codes, text)
    return out


def translations() -> dict[str, dict[str, str]]:
    """Return the languages that we have words for, other than English; each has all of them."""
    path = Path(__file__).parent / "templates" / "words.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def status_word(status: str) -> str:
    """Return the key of the word for a status (`low` is also the end of an interval)."""
    return _STATUS_WORD.get(status, status)


def number_text(figure: float, decimals: int, words: Mapping[str, str]) -> str:
    """Return a number with the signs of a language."""
    text = f"{figure:,.{decimals}f}"
    signs = {",": words["group sign"], ".": words["decimal sign"]}
    return "".join(signs.get(sign, sign) for sign in text)


def accuracy_notes(table: PackTable, pack: Pack, language: int) -> list[str]:
    """Return what readers should know about the accuracy of a table's figures, a sentence or two each."""
    words = pack.words_in(language)
    card = pack.cards.get(table.answered)
    out = [words["interval means"]] if pack.has_noise else [words["no noise"]]
    if pack.is_unreviewed:
        out.append(words["unreviewed means"])
    if table.is_listed:
        out.append(words["listed means"])
    if _hides_parts(table):
        out.append(words["totals mean"])
    if card is None:
        return out
    out += _of_dp(card.dp, words) if card.dp else _of_sticky(card, words)
    if card.swap:
        labels = [
            pack.dimensions[name].labels[language] if name in pack.dimensions else name
            for name in card.swap["columns"]
        ]
        out.append(words["exchanged means"].format(", ".join(labels)))
    return out


def _hides_parts(table: PackTable) -> bool:
    """Whether totals or subtotals are shown next to parts that are not released."""
    if not (table.status == NOT_RELEASED).any() or table.measure not in ("count", "sum"):
        return False
    return any(
        dimension.items[place].kind in ("total", "group")
        for j, dimension in enumerate(table.dimensions)
        for place in set(table.index[:, j].tolist())
    )


def _of_sticky(card: Any, words: Mapping[str, str]) -> Iterator[str]:
    """Noise and imputation in a table of mode sticky."""
    if card.wide:
        yield words["modelled means"]
    else:
        yield words["noise of"].format(number_text(card.noise_sd, 1, words))
    if card.suppressed_share >= _MIN_SHARE and not card.wide:
        yield words["filled means"].format(number_text(100 * card.suppressed_share, 0, words))
    if card.rounding_gap:
        yield words["gap means"].format(number_text(card.rounding_gap, 0, words))
    if card.scale > 1:
        yield words["bounded means"].format(card.words["entity"], number_text(card.scale, 0, words))
    if card.exposure.get("accept_risk"):
        yield words["accepted means"].format(card.exposure["accept_risk"])


def guarantee_notes(held: Guarantee, words: Mapping[str, str]) -> Iterator[str]:
    """What a release of mode dp guarantees, in a language of a pack."""
    for word, about in held.points():
        yield words[word].format(*about)


def _of_dp(dp: Mapping[str, Any], words: Mapping[str, str]) -> Iterator[str]:
    """Guarantee and model of a table of mode dp."""
    yield from guarantee_notes(Guarantee.of(dp), words)
    if not dp["covered"]:
        yield words["modelled means"]
    if not dp["converged"]:
        yield words["not converged"]
    if dp["uniform"]:
        yield words["uniform means"].format(", ".join(dp["uniform"]))
