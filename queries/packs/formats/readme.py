"""The README of a pack, as Markdown and HTML: contents, citation, meaning of the noise.

Takes a pack and the names of its files; returns text. Every date and figure in it comes from the model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from engine.texts import shown
from queries.packs.formats import formats
from queries.packs.formats.site import environment
from queries.packs.formats.workbook import sheet_tables
from queries.packs.model import Pack
from queries.packs.texts import STATUS_WORDS, direction_of, guarantee_notes, number_text

_MARKS = re.compile(r"[\\`*\[\]<>!|~]|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;)")
_LINE_START = re.compile(r"^(\s*)([#+=-])(?=\s|$|[#+=-])")
_OTHER_FILES = ("documents/", "datapackage.json", "catalog.jsonld", "SHA256SUMS")


def citation(pack: Pack, language: int = 0) -> str:
    """Return how to cite the pack."""
    info, words = pack.info, pack.words_in(language)
    year = f" ({info.issued.year})" if info.issued else ""
    return words["cite"].format(
        f"{info.publisher or words['no publisher']}{year}",
        pack.titles[language],
        info.version,
        pack.release["vintage"],
        pack.release["content_hash"],
        info.identifier,
    )


def blocks(
    pack: Pack, paths: Sequence[str], language: int = 0
) -> list[tuple[str, list[str], bool]]:
    """Return the README's sections: heading, lines, and whether the lines are a list."""
    words = pack.words_in(language)
    notes = [n[language] for n in pack.footnotes] + _notes(pack, language, words)
    sections = [
        ("", _about(pack, len(paths) + 1, language, words), False),
        (words["how to cite"], [citation(pack, language)], False),
        (words["what noise means"], _noise(pack, words), True),
        (words["files"], _files(pack, paths, words), True),
        (words["notes"], notes, True),
    ]
    limits = _limits(pack, words)
    return [*sections, (words["limits"], limits, True)] if limits else sections


def _about(pack: Pack, n_files: int, language: int, words: dict[str, str]) -> list[str]:
    """Description, licence and contact."""
    info = pack.info
    n_tables = number_text(len(pack.tables), 0, words)
    about = [t for t in (pack.descriptions[language],) if t]
    about.append(words["so many"].format(n_tables, number_text(n_files, 0, words)))
    if info.licence:
        about.append(words["licensed as"].format(f"{info.licence} {info.licence_url}".strip()))
    if info.contact or info.email:
        contact = " ".join(t for t in (info.contact, info.email) if t)
        about.append(f"{words['whom to ask']}: {contact}")
    return about


def _noise(pack: Pack, words: dict[str, str]) -> list[str]:
    """Meaning of noise, intervals and statuses."""
    return [
        words["noise is fixed" if pack.has_noise else "not for the public"],
        words["ends mean"],
        words["empty means"],
        *(f"{words['status']} {status}: {words[f'about {status}']}." for status in STATUS_WORDS),
    ]


def _files(pack: Pack, paths: Sequence[str], words: dict[str, str]) -> list[str]:
    """Descriptions of the files."""
    written = {f.path: words.get(f"file {f.path}") or f.about for f in formats()}
    known = {"index.html": words["file index.html"], **written}
    known |= {name: words[f"file {name}"] for name in _OTHER_FILES}
    there = (*paths, "SHA256SUMS")
    files = [
        f"{name}: {text}" for name, text in known.items() if any(p.startswith(name) for p in there)
    ]
    release = pack.release["file"]
    return [*files, words["file release"].format(release, release)] if release else files


def _notes(pack: Pack, language: int, words: dict[str, str]) -> list[str]:
    """The release's own notes, which are in English; what it guarantees, in the language of the page."""
    notes = list(pack.notes if pack.release["file"] else pack.reader_notes)
    code = pack.languages[language].lower()
    if code.startswith("en") or not notes:
        return notes
    held = pack.guarantee
    if held is None or not held.is_protected:
        return [words["in english"], *notes]
    said = held.sentences()
    others = [note for note in notes if note not in said]
    return [*guarantee_notes(held, words), words["in english"], *others]


def _limits(pack: Pack, words: dict[str, str]) -> list[str]:
    """What is missing from the pack, and why."""
    listed = [t.id for t in pack.tables if t.is_listed]
    outside = [t.id for t in sheet_tables(pack)[1]]
    limits = (("listed tables", listed), ("tables outside", outside))
    return [
        words[word].format(number_text(len(names), 0, words), _some(names, words))
        for word, names in limits
        if names
    ]


def _some(names: Sequence[str], words: dict[str, str]) -> str:
    first = ", ".join(names[:10])
    n_more = number_text(len(names) - 10, 0, words)
    return words["and more"].format(first, n_more) if len(names) > 10 else first


def markdown(pack: Pack, paths: Sequence[str], language: int = 0) -> str:
    """Return the README as Markdown."""
    out = [f"# {_escaped(pack.titles[language])}", ""]
    for head, lines, is_list in blocks(pack, paths, language):
        escaped = [_escaped(line) for line in lines]
        out += [f"## {head}", ""] if head else []
        out += [f"- {line}" for line in escaped] if is_list else ["\n\n".join(escaped)]
        out.append("")
    return "\n".join(out)


def _escaped(line: str) -> str:
    """Return a line that Markdown shows literally: without HTML, links, images, headings or code."""
    text = shown(" ".join(line.splitlines()))
    return _LINE_START.sub(r"\1\\\2", _MARKS.sub(r"\\\g<0>", text))


def page(pack: Pack, paths: Sequence[str], language: int = 0) -> str:
    """Return the README as a web page."""
    template = environment().get_template("readme.html.j2")
    text: str = template.render(
        title=pack.titles[language],
        code=pack.languages[language],
        direction=direction_of(pack.languages[language]),
        up="../" if language else "",
        tables=pack.words["tables"][language],
        blocks=blocks(pack, paths, language),
    )
    return text + "\n"
