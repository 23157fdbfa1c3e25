"""The static site of a pack: a page per table and a searchable list of them, in every language.

Takes a pack; writes HTML files, one style sheet and one script, and no request leaves the folder. Works without the
script, with the keyboard, on a phone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from queries.packs.files import File, in_language
from queries.packs.formats.chart import chart
from queries.packs.formats.workbook import is_across
from queries.packs.model import STATUSES, Pack, PackTable
from queries.packs.texts import SIGNS, accuracy_notes, direction_of, number_text, status_word

TEMPLATES = Path(__file__).parents[1] / "templates"
MAX_ROWS = 200
"""Most rows of a page's table; the files have all."""


def write_site(
    pack: Pack,
    folder: Path,
    files: Sequence[File],
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write the site into a folder: `index.html` (other languages: `LANGUAGE/index.html`) and a page per table."""
    env = environment()
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
    """Write the pages of one language, one per step."""
    page, index = env.get_template("table.html.j2"), env.get_template("index.html.j2")
    code, names = pack.languages[language], pack.words["language"]
    home, up = (folder / code, "../") if language else (folder, "")
    (home / "pages").mkdir(parents=True)
    workbook = f"{in_language('pack', code, language)}.xlsx"
    words = pack.words_in(language)
    shared = {
        "pack": pack,
        "lang": code,
        "direction": direction_of(code),
        "language": language,
        "w": words,
        "statuses": STATUSES,
        "foreign": not code.lower().startswith("en"),  # the release's own notes are in English
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
            accuracy=accuracy_notes(table, pack, language),
            files=[f.path for f in files if f.table == table.id],
            others=[(c, name, f"{up}../{at}pages/{table.id}.html") for c, name, at in homes],
        )
        (home / "pages" / f"{table.id}.html").write_text(text, encoding="utf-8")
        yield


def environment() -> Any:
    """Return Jinja with our templates and autoescaping."""
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


def _display(table: PackTable, pack: Pack, language: int) -> dict[str, Any]:
    """A page's table: column heads, rows of (labels, cells), and numbers of rows."""
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
    """Heading dimensions of a row of the first block, with their positions."""
    return [(j, int(table.index[row, j])) for j in table.heading]


def _cell(table: PackTable, row: int, pack: Pack, language: int) -> dict[str, str]:
    """A figure on a page: the number, its interval, its status as text and as a CSS class."""
    status = STATUSES[table.status[row]]
    word = pack.words[status_word(status)][language]
    low, high = table.low[row], table.high[row]
    signs = {sign: pack.words[sign][language] for sign in SIGNS}

    def text_of(figure: float) -> str:
        return number_text(figure, table.decimals, signs)

    between = _between(text_of(low), text_of(high), low == high) if np.isfinite(low + high) else ""
    if status == "not released" and between:
        between = f"{pack.words['at most'][language]} {text_of(high)}"
    value = table.value[row]
    if status == "structural zero":  # a sign instead of three empty lines
        return {"text": "–", "interval": "", "status": word, "class": "structural-zero"}
    return {
        "text": text_of(value) if np.isfinite(value) else "",
        "interval": between,
        "status": word,
        "class": status.replace(" ", "-"),
    }


def _between(low: str, high: str, is_point: bool) -> str:
    """An interval; one narrower than the decimals shown has a single limit, an exact figure has none."""
    if low != high:
        return f"{low} – {high}"
    return "" if is_point else f"≈ {low}"
