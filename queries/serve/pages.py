"""The files of the pages, and each page in every language of `web/words.toml`."""

from __future__ import annotations

import html
import json
import re
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path

from queries.serve.cache import Reply

DEFAULT_LANGUAGE = "en"
_MEDIA = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
}
"""Content type of each file; others are not served."""
_FOLDER = Path(__file__).parent / "web"
_TEXT = re.compile(r'(?<=>)[^<>]+(?=<)|(?<=aria-label=")[^"]*')
"""Texts of a page: between tags, and in aria-label."""
Words = Mapping[str, Mapping[str, str]]


def page_words() -> Words:
    """Translations by language and English text."""
    words: Words = tomllib.loads((_FOLDER / "words.toml").read_text("utf-8"))
    return words


def page_files() -> dict[str, Mapping[str, Reply]]:
    """Return the files by path and language; only HTML pages have more than one language."""
    out: dict[str, Mapping[str, Reply]] = {}
    words = page_words()
    for file in sorted(_FOLDER.iterdir()):
        media_type = _MEDIA.get(file.suffix)
        if media_type is None:
            continue
        path = "/" if file.name == "index.html" else f"/{file.name}"
        codes = (DEFAULT_LANGUAGE, *words) if file.suffix == ".html" else ()
        text = file.read_bytes()
        out[path] = {
            code: Reply(body=_page(text.decode(), code, words).encode(), media_type=media_type)
            for code in codes
        } or {DEFAULT_LANGUAGE: Reply(body=text, media_type=media_type)}
    for code, own in words.items():
        body = json.dumps({k: v for k, v in own.items() if k != v}, ensure_ascii=False).encode()
        out[f"/words.{code}.json"] = {code: Reply(body=body, media_type=_MEDIA[".json"])}
    return out


def in_language(
    replies: Mapping[str, Reply], asked: str, accepted: str
) -> tuple[Reply, dict[str, str]]:
    """The reply in the reader's language with its headers; see `language_of`."""
    if len(replies) == 1:
        return next(iter(replies.values())), {}
    code = language_of(asked, accepted, replies)
    return replies[code], {"content-language": code, "vary": "accept-language"}


def language_of(asked: str, accepted: str, known: Collection[str]) -> str:
    """The requested language if available, else the first available one that the browser prefers, else English."""
    for code in (asked, *_preferred(accepted)):
        plain = code.strip().lower().partition("-")[0]
        if plain in known:
            return plain
    return DEFAULT_LANGUAGE


def _preferred(accepted: str) -> list[str]:
    """Languages of a header by weight; equal weights in their order."""
    found = []
    for part in accepted[:1000].split(","):
        code, _, weight = part.partition(";")
        try:
            q = float(weight.strip().removeprefix("q=")) if weight.strip() else 1.0
        except ValueError:
            continue
        if q > 0:
            found.append((q, code))
    return [code for _, code in sorted(found, key=lambda one: -one[0])]


def _page(text: str, code: str, words: Words) -> str:
    """A page in one language, with links to the others."""
    own = words.get(code, {})

    def translated(match: re.Match[str]) -> str:
        plain = html.unescape(match[0])
        known = plain.strip()
        return html.escape(plain.replace(known, own.get(known, known)), quote=True)

    begun, at, rest = text.partition("<body>")
    title = re.sub(r"(?<=<title>)[^<]*", translated, begun)
    page = (
        title.replace('<html lang="en">', f'<html lang="{code}">')
        + at
        + _TEXT.sub(translated, rest)
    )
    return page.replace("<!-- languages -->", _switch(code, words))


def _switch(code: str, words: Words) -> str:
    """Links to the page in each language, under its own name."""
    names = {DEFAULT_LANGUAGE: "English"} | {c: own["language"] for c, own in words.items()}
    here = ' aria-current="true"'
    links = "".join(
        f'<a href="?lang={c}" lang="{c}" hreflang="{c}"{here if c == code else ""}>{html.escape(name)}</a>'
        for c, name in names.items()
    )
    label = html.escape(words.get(code, {}).get("Language", "Language"))
    return f'<nav class="languages" aria-label="{label}">{links}</nav>'
