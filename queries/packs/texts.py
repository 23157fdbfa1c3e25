"""The words of a pack: texts in every language, numbers with the signs of a language, notes on a table's accuracy.

Texts come from pack.toml, else from `templates/words.toml`. Readers of tables see plain sentences only; details of how
a table was made are on its card, in the release.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.errors import SpecError
from engine.guarantee import Guarantee
from queries.packs.model import NOT_RELEASED, STATUSES, Pack, PackTable, Texts
from queries.packs.spec import Text

_BY_LANGUAGE: dict[str, dict[str, str]] = tomllib.loads(
    (Path(__file__).parent / "templates" / "words.toml").read_text(encoding="utf-8")
)
WORDS = _BY_LANGUAGE["en"]
"""Words of pages, README, workbook and labels in English; `[words]` of a pack.toml replaces them, by language."""
STATUS_WORDS = {status: WORDS[f"about {status}"] for status in STATUSES}
"""What each status means."""
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
    out: dict[str, dict[str, str]] = {word: {} for word in WORDS}
    for code in languages:
        for word, translated in _BY_LANGUAGE.get(code.partition("-")[0].lower(), {}).items():
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
    return {code: words for code, words in _BY_LANGUAGE.items() if code != "en"}


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
