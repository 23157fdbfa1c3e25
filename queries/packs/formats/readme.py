"""The README of a pack, as Markdown and as HTML: what is in it, how to cite it, what noise means.

Takes a pack and the names of its files; gives text. Every sentence is read off the model: no date or figure of its
own.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from engine.texts import shown
from queries.packs.formats import FORMATS
from queries.packs.formats.workbook import sheet_tables
from queries.packs.model import Pack
from queries.packs.texts import STATUS_WORDS

_MARKS = re.compile(r"[\\`*\[\]<>!|~]|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;)")
_LINE_START = re.compile(r"^(\s*)([#+=-])(?=\s|$|[#+=-])")
_PAGES = ("index.html", "the tables as web pages, with charts; works offline")
_DESCRIPTIONS = (
    ("documents/", "further documents"),
    ("datapackage.json", "Frictionless Data Package of all CSV files"),
    ("catalog.jsonld", "DCAT catalogue"),
    ("SHA256SUMS", "checksums; check with: sha256sum -c SHA256SUMS"),
)


def citation(pack: Pack) -> str:
    """Return how to cite the pack."""
    info = pack.info
    year = f" ({info.issued.year})" if info.issued else ""
    who = info.publisher or "Unnamed publisher"
    return (
        f"{who}{year}: {pack.titles[0]}. Version {info.version}, vintage {pack.release['vintage']}, "
        f"release {pack.release['content_hash']}. {info.identifier}"
    )


def blocks(pack: Pack, paths: Sequence[str]) -> list[tuple[str, list[str], bool]]:
    """Return the README's sections: heading, lines, and whether the lines are a list."""
    info = pack.info
    about = [t for t in (pack.descriptions[0],) if t]
    about.append(f"{len(pack.tables):,} tables in {len(paths) + 1:,} files.")
    if info.licence:
        about.append(f"Licence: {info.licence} {info.licence_url}".strip())
    if info.contact or info.email:
        about.append(f"Contact: {' '.join(t for t in (info.contact, info.email) if t)}")
    release = pack.release["file"]
    known = (_PAGES, *((f.path, f.about) for f in FORMATS), *_DESCRIPTIONS)
    files = [
        f"{name}: {text}"
        for name, text in known
        if any(p.startswith(name) for p in (*paths, "SHA256SUMS"))
    ]
    if release:
        files.append(
            f"{release}: the release itself, a DuckDB file that answers any SQL (tablepack sql {release} ...); "
            f"open it only if you trust its origin"
        )
    noise = [
        "Figures carry no noise, and nothing is guaranteed: this is no pack for the public."
        if not pack.has_noise
        else "Every figure carries noise, to protect those counted. It is fixed: the same figure is the same in "
        "every file.",
        "low and high are the ends of the 95 % noise interval: without the noise, 95 of 100 figures would lie inside. "
        "It says nothing of sampling or of errors in the source.",
        "Where nothing is released, value is empty, and low and high say how much it may be, where that is known.",
        *(f"Status {status}: {text}." for status, text in STATUS_WORDS.items()),
    ]
    notes = pack.notes if release else pack.reader_notes
    sections = [
        ("", about, False),
        ("How to cite", [citation(pack)], False),
        ("What noise means", noise, True),
        ("Files", files, True),
        ("Notes", [*(n[0] for n in pack.footnotes), *notes], True),
    ]
    limits = _limits(pack)
    return [*sections, ("Limits", limits, True)] if limits else sections


def _limits(pack: Pack) -> list[str]:
    """What the pack does not hold, and why."""
    out = []
    listed = [t.id for t in pack.tables if t.is_listed]
    outside = sheet_tables(pack)[1]
    if listed:
        out.append(
            f"{len(listed):,} tables have too many combinations to list them all: only those that were measured are "
            f"listed, and there is no JSON-stat and no PC-Axis file: {_some(listed)}."
        )
    if outside:
        out.append(
            f"{len(outside):,} tables are not in the workbook: {_some([t.id for t in outside])}."
        )
    return out


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (f" and {len(names) - 10:,} more" if len(names) > 10 else "")


def markdown(pack: Pack, paths: Sequence[str]) -> str:
    """Return the README as Markdown."""
    out = [f"# {_escaped(pack.titles[0])}", ""]
    for head, lines, is_list in blocks(pack, paths):
        told = [_escaped(line) for line in lines]
        out += [f"## {head}", ""] if head else []
        out += [f"- {line}" for line in told] if is_list else ["\n\n".join(told)]
        out.append("")
    return "\n".join(out)


def _escaped(line: str) -> str:
    """Return a line that Markdown shows as it is: no HTML, link, picture, heading or code in it."""
    text = shown(" ".join(line.splitlines()))
    return _LINE_START.sub(r"\1\\\2", _MARKS.sub(r"\\\g<0>", text))


def page(pack: Pack, paths: Sequence[str]) -> str:
    """Return the README as a web page."""
    title = html.escape(pack.titles[0])
    out = [
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<title>{title}</title>\n<link rel="stylesheet" href="site.css">\n</head>\n<body>\n<main>',
        f'<p><a href="index.html">{html.escape(pack.words["tables"][0])}</a></p>\n<h1>{title}</h1>',
    ]
    for head, lines, is_list in blocks(pack, paths):
        out += [f"<h2>{html.escape(head)}</h2>"] if head else []
        if is_list:
            out += ["<ul>", *(f"<li>{html.escape(line)}</li>" for line in lines), "</ul>"]
        else:
            out += [f"<p>{html.escape(line)}</p>" for line in lines]
    return "\n".join([*out, "</main>\n</body>\n</html>"]) + "\n"
