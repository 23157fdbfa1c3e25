"""The static site of a pack: a page a table, a list of all with a search box, in every language. No outside request.

Takes a pack; gives HTML files, one style sheet and one script. Works without the script, from the keyboard, on a phone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from queries.packs.files import File, in_language
from queries.packs.formats.chart import chart
from queries.packs.formats.worksheets import is_across
from queries.packs.model import STATUSES, Pack, PackTable
from queries.packs.sentences import sentences_of
from queries.packs.texts import SIGNS, number_text, status_word

TEMPLATES = Path(__file__).parents[1] / "templates"
MAX_ROWS = 200
"""Rows of a page's table; the files hold all."""


def write_site(
    pack: Pack,
    folder: Path,
    files: Sequence[File],
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write the site into a folder: `index.html`, `LANGUAGE/index.html` for further languages, and a page a table."""
    env = _environment()
    for name in ("site.css", "site.js"):
        (folder / name).write_text((TEMPLATES / name).read_text("utf-8"), encoding="utf-8")
    done, n_all = 0, len(pack.tables) * len(pack.languages)
    for language in range(len(pack.languages)):
        for _ in _write_language(pack, folder, files, env, language):
            done += 1
            if progress is not None:
                progress(done, n_all)


def _write_language(
    pack: Pack,
    folder: Path,
    files: Sequence[File],
    env: Any,
    language: int,
) -> Iterator[None]:
    """Write the pages of one language, one a step."""
    page, index = env.get_template("table.html.j2"), env.get_template("index.html.j2")
    code, names = pack.languages[language], pack.words["language"]
    home, up = (folder / code, "../") if language else (folder, "")
    (home / "pages").mkdir(parents=True)
    workbook = f"{in_language('pack', code, language)}.xlsx"
    words = {word: told[language] for word, told in pack.words.items()}
    shared = {
        "pack": pack,
        "lang": code,
        "language": language,
        "w": words,
        "statuses": STATUSES,
        "foreign": not code.lower().startswith("en"),  # what the release itself says is in English
        "workbook": workbook if (folder / workbook).exists() else "",
    }
    homes = [(c, names[i], f"{c}/" if i else "") for i, c in enumerate(pack.languages)]
    others = [(c, name, f"{up}{at}index.html") for c, name, at in homes]
    text = index.render(**shared, up=up, others=others)
    (home / "index.html").write_text(text, encoding="utf-8")
    for table in pack.tables:
        text = page.render(
            **shared,
            up=f"{up}../",
            t=table,
            display=_display(table, pack, language),
            svg=chart(table, language, words),
            sentences=sentences_of(table, pack, language),
            files=[f.path for f in files if f.table == table.id],
            others=[(c, name, f"{up}../{at}pages/{table.id}.html") for c, name, at in homes],
        )
        (home / "pages" / f"{table.id}.html").write_text(text, encoding="utf-8")
        yield


def _environment() -> Any:
    """Jinja with our templates; everything is escaped."""
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


def _display(table: PackTable, pack: Pack, language: int) -> dict[str, Any]:
    """What a page's table displays: heads, rows of (heads of the row, cells), and how many there are."""
    crossed = is_across(table)
    down = table.stub if crossed else tuple(range(len(table.dimensions)))
    width = int(np.prod([table.shape[j] for j in table.heading], dtype=np.int64)) if crossed else 1
    n = len(table) // width
    heads = [table.dimensions[j].labels[language] for j in down]
    across = [
        ", ".join(table.dimensions[j].items[p].labels[language] for j, p in _of(table, k))
        for k in range(width if crossed else 0)
    ]
    rows, depths = [], {j: table.depths(j) for j in down}
    for first in range(0, min(n, MAX_ROWS) * width, width):
        at = [(j, int(table.index[first, j])) for j in down]
        items = [(table.dimensions[j].items[p], depths[j][p]) for j, p in at]
        labels = [(item.labels[language], depth, item.kind) for item, depth in items]
        cells = [_cell(table, row, pack, language) for row in range(first, first + width)]
        rows.append((labels, cells))
    return {
        "heads": heads,
        "across": across,
        "rows": rows,
        "n": n,
        "n_rows": len(rows),
        "shown": [
            number_text(k, 0, {s: pack.words[s][language] for s in SIGNS}) for k in (len(rows), n)
        ],
        "statuses": [s for s, n in table.n_by_status.items() if n and s != "reliable"],
    }


def _of(table: PackTable, row: int) -> list[tuple[int, int]]:
    """Heading dimensions of a row of the first block, with their places."""
    return [(j, int(table.index[row, j])) for j in table.heading]


def _cell(table: PackTable, row: int, pack: Pack, language: int) -> dict[str, str]:
    """A figure as a page displays it: the number, its interval, its status in words and as a class."""
    status = STATUSES[table.status[row]]
    word = pack.words[status_word(status)][language]
    low, high = table.low[row], table.high[row]
    signs = {sign: pack.words[sign][language] for sign in SIGNS}

    def told(figure: float) -> str:
        return number_text(figure, table.decimals, signs)

    between = _between(told(low), told(high), low == high) if np.isfinite(low + high) else ""
    if status == "not released" and between:
        between = f"{pack.words['at most'][language]} {told(high)}"
    value = table.value[row]
    if status == "structural zero":  # a sign, not three lines of nothing
        return {"text": "–", "interval": "", "status": word, "class": "structural-zero"}
    return {
        "text": told(value) if np.isfinite(value) else "",
        "interval": between,
        "status": word,
        "class": status.replace(" ", "-"),
    }


def _between(low: str, high: str, is_point: bool) -> str:
    """An interval; one that is narrower than the digits shown has an end only, an exact figure has none."""
    if low != high:
        return f"{low} – {high}"
    return "" if is_point else f"≈ {low}"
