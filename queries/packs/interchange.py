"""Figures in the formats of statistical offices: SDMX-CSV 2.0, JSON-stat 2.0 and PC-Axis.

Takes a pack and one of its tables; gives texts. JSON-stat and PC-Axis need a full cube, which listed tables are not.
Interval ends travel with the figures: as attributes in SDMX, elsewhere as a dimension of three codes (value, low,
high).
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.schema import FloatArray
from engine.store_catalog import unused_name
from queries.packs.flat import STATUS_WORDS, significant
from queries.packs.metadata import as_json
from queries.packs.model import STATUSES, Pack, PackTable

OBS_STATUS = {
    "reliable": "A",
    "low": "N",
    "unreliable": "U",
    "not released": "O",
    "structural zero": "M",
}
"""Our statuses in the SDMX code list CL_OBS_STATUS: normal, not significant, low reliability, missing, cannot exist."""
FIGURES = ("value", "low", "high")


def sdmx_csv(table: PackTable, pack: Pack) -> str:
    """Return a table as SDMX-CSV 2.0, codes as keys of the code lists."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    fixed = ["STRUCTURE", "STRUCTURE_ID", "ACTION"]
    names = _dimension_keys(table)
    ends = ["OBS_VALUE", "OBS_STATUS", "NOISE_LOW", "NOISE_HIGH"]
    writer.writerow([*fixed, *names, *ends])
    structure = f"{_agency(pack)}:{_identifier(table.id)}({_version(pack.info.version)})"
    keys = [
        np.array([it.key for it in d.items], dtype=object)[table.index[:, j]]
        for j, d in enumerate(table.dimensions)
    ]
    statuses = np.array([OBS_STATUS[s] for s in STATUSES], dtype=object)[table.status]
    value, low, high = (_texts(getattr(table, f), table.is_whole) for f in FIGURES)
    n = len(table)
    writer.writerows(
        zip(
            *(["dataflow"] * n, [structure] * n, ["I"] * n),
            *keys,
            *(value, statuses, low, high),
            strict=True,
        )
    )
    return out.getvalue()


def _texts(figures: FloatArray, is_whole: bool) -> list[str]:
    """Figures as text; empty where there is none."""
    is_known = np.isfinite(figures)
    shown = np.where(is_known, figures, 0)
    listed: list[Any] = (
        np.rint(shown).astype(np.int64) if is_whole else significant(shown)
    ).tolist()
    return [_plain_number(v) if k else "" for v, k in zip(listed, is_known.tolist(), strict=True)]


def _plain_number(number: float) -> str:
    """A number without an exponent: PC-Axis has none."""
    if isinstance(number, int):
        return str(number)
    return str(np.format_float_positional(number, trim="0"))


def _dimension_keys(table: PackTable) -> list[str]:
    """Identifiers of the dimensions that differ, also from those of SDMX itself."""
    taken = [
        "STRUCTURE",
        "STRUCTURE_ID",
        "ACTION",
        "OBS_VALUE",
        "OBS_STATUS",
        "NOISE_LOW",
        "NOISE_HIGH",
    ]
    out: list[str] = []
    for d in table.dimensions:
        out.append(unused_name(d.key, [*taken, *out]))
    return out


def _identifier(text: str) -> str:
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in text)
    return kept if kept[:1].isalpha() else f"A{kept}"


def _agency(pack: Pack) -> str:
    return _identifier(pack.info.publisher or "TABLEPACK")[:40].upper()


def _version(text: str) -> str:
    """A version as SDMX writes it: numbers with dots."""
    parts = re.findall("[0-9]+", text) or ["1"]
    return ".".join([*parts, "0"][:2] if len(parts) < 2 else parts[:3])


def _cube(table: PackTable) -> tuple[FloatArray, list[str]]:
    """Values, lows and highs with the figure as last axis, flat; and statuses, once a figure."""
    stacked = np.stack([table.value, table.low, table.high], axis=1).ravel()
    status = [STATUSES[s] for s in table.status.tolist()]
    return stacked, status


def jsonstat(table: PackTable, pack: Pack, language: int) -> str:
    """Return a table as JSON-stat 2.0, labels in one language.

    Parameters
    ----------
    table : PackTable
        A full cube.
    pack : Pack
    language : int
        Place among the pack's languages.
    """
    figure = unused_name("figure", [d.name for d in table.dimensions])
    dimension: dict[str, Any] = {}
    for d, used in zip(table.dimensions, table.used, strict=True):
        items = [d.items[i] for i in used]
        category: dict[str, Any] = {
            "index": [it.code for it in items],
            "label": {it.code: it.labels[language] for it in items},
        }
        child = _children(d, used.tolist())
        if child:
            category["child"] = child
        dimension[d.name] = {"label": d.labels[language], "category": category}
    labels = {f: pack.words[f][language] for f in FIGURES}
    unit = {f: {"label": table.units[language]} for f in FIGURES}
    category = {"index": list(FIGURES), "label": labels, "unit": unit}
    dimension[figure] = {"label": pack.words["figure"][language], "category": category}
    stacked, status = _cube(table)
    is_known = np.isfinite(stacked)
    shown = np.where(is_known, stacked, 0)
    listed = (np.rint(shown).astype(np.int64) if table.is_whole else significant(shown)).tolist()
    out: dict[str, Any] = {
        "version": "2.0",
        "class": "dataset",
        "label": table.titles[language],
        "source": pack.info.publisher or pack.release["title"],
        "id": [*(d.name for d in table.dimensions), figure],
        "size": [*table.shape, len(FIGURES)],
        "role": {"metric": [figure]},
        "dimension": dimension,
        "value": [v if k else None for v, k in zip(listed, is_known.tolist(), strict=True)],
        "status": [s for s in status for _ in FIGURES],
        "note": [table.words, *(note[language] for note in table.footnotes)],
        "extension": {"status": STATUS_WORDS},
    }
    if pack.info.issued:
        out["updated"] = pack.info.issued.isoformat()
    return as_json(out, compact=True)


def _children(dimension: Any, used: Sequence[int]) -> dict[str, list[str]]:
    """Codes that hold others, with those."""
    shown = {int(i) for i in used}
    out: dict[str, list[str]] = {}
    for i in sorted(shown):
        item = dimension.items[i]
        if item.parent in shown:
            out.setdefault(dimension.items[item.parent].code, []).append(item.code)
    return out


def pcaxis(table: PackTable, pack: Pack, language: int) -> str:
    """Return a table as a PC-Axis file (.px, UTF-8), labels in one language; parameters as for `jsonstat`."""
    words = pack.words
    names = _differing([d.labels[language] for d in table.dimensions])
    figure = unused_name(_plain(words["figure"][language]), names)
    heading = [names[j] for j in table.heading] + [figure]
    matrix = "".join(c for c in table.id if c.isalnum())[:20]
    title = table.titles[language]
    lines = [
        'CHARSET="ANSI";',
        'AXIS-VERSION="2013";',
        'CODEPAGE="utf-8";',
        f"LANGUAGE={_q(pack.languages[language])};",
    ]
    if pack.info.issued:
        lines.append(f'CREATION-DATE="{pack.info.issued:%Y%m%d} 00:00";')
    lines += [
        f"DECIMALS={0 if table.is_whole else 6};",
        f"SHOWDECIMALS={table.decimals};",
        f"MATRIX={_q(matrix)};",
        f"SUBJECT-CODE={_q(matrix[:8])};",
        f"SUBJECT-AREA={_q(pack.titles[language])};",
        f"CONTENTS={_q(title)};",
        f"TITLE={_q(title)};",
        "DESCRIPTIONDEFAULT=YES;",
        f"UNITS={_q(table.units[language])};",
        f"STUB={_list([names[j] for j in table.stub])};",
        f"HEADING={_list(heading)};",
    ]
    for j, (d, used) in enumerate(zip(table.dimensions, table.used, strict=True)):
        items = [d.items[i] for i in used]
        lines.append(
            f"VALUES({_q(names[j])})={_list(_differing([it.labels[language] for it in items]))};"
        )
        lines.append(f"CODES({_q(names[j])})={_list(_differing([it.code for it in items]))};")
    lines.append(
        f"VALUES({_q(figure)})={_list(_differing([words[f][language] for f in FIGURES]))};"
    )
    lines.append(f"CODES({_q(figure)})={_list(FIGURES)};")
    lines.append(f"SOURCE={_q(pack.info.publisher or pack.release['title'])};")
    if pack.info.contact or pack.info.email:
        told = " ".join(t for t in (pack.info.contact, pack.info.email) if t)
        lines.append(f"CONTACT={_q(told)};")
    notes = [table.words, *(note[language] for note in table.footnotes)]
    lines.append(f"NOTE={_q(' '.join(notes))};")
    lines.append(f"DATANOTE={_q('.. = ' + words['not released'][language])};")
    return "\n".join([*lines, "DATA=", *_px_rows(table), ";"]) + "\n"


def _differing(texts: Sequence[str]) -> list[str]:
    """Texts as a .px file holds them, made to differ: two may be the same without what it cannot hold."""
    out: list[str] = []
    taken: set[str] = set()
    for text in texts:
        told = _plain(text)
        while told in taken:
            told += "_"
        taken.add(told)
        out.append(told)
    return out


def _px_rows(table: PackTable) -> list[str]:
    """Data lines; `..` where nothing is released, `-` where nothing can be."""
    impossible = STATUSES.index("structural zero")
    columns = [_texts(getattr(table, f), table.is_whole) for f in FIGURES]
    out = []
    for *figures, status in zip(*columns, table.status.tolist(), strict=True):
        if status == impossible:
            out.append('"-" "-" "-"')
        else:
            out.append(" ".join(f or '".."' for f in figures))
    return out


def _plain(text: str) -> str:
    """Text without what a .px file cannot hold in a string."""
    return " ".join(text.replace('"', "'").replace(";", ",").split())


def _q(text: str) -> str:
    return f'"{_plain(text)}"'


def _list(texts: Sequence[str]) -> str:
    """Quoted texts with commas, a few a line."""
    quoted = [_q(t) for t in texts]
    lines = [",".join(quoted[i : i + 8]) for i in range(0, len(quoted), 8)]
    return ",\n".join(lines)
