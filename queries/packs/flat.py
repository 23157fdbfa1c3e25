"""CSV and Parquet files of a pack, and its code lists: one row a combination of codes, numbers that are only numbers.

Takes a pack and one of its tables; gives files, and the fields that all metadata of them describe. Invariants: `value`,
`low` and `high` are numeric, words stand in `status` only. `value` is empty where nothing is released; `low` and `high`
then say how many it may hide (0 to some, "at most 5"), or are empty where that is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from engine.store_catalog import unused_name
from queries.packs.model import STATUSES, Dimension, Pack, PackTable, Texts

Role = Literal["code", "label", "value", "low", "high", "status"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Field:
    """One column of a CSV or Parquet file.

    Attributes
    ----------
    name : str
    role : str
    type_ : str
        string, integer or number.
    titles : Texts
    place : int
        Its dimension; -1: none.
    language : int
        Of a label: which language.
    """

    name: str
    role: Role
    type_: Literal["string", "integer", "number"]
    titles: Texts
    place: int = -1
    language: int = 0


def fields_of(table: PackTable, pack: Pack) -> list[Field]:
    """Return the columns of a table's files, in order; their names differ."""
    out: list[Field] = []
    taken = {d.name for d in table.dimensions}
    for j, d in enumerate(table.dimensions):
        out.append(Field(name=d.name, role="code", type_="string", titles=d.labels, place=j))
        for i, language in enumerate(pack.languages):
            if any(item.labels[i] != item.code for item in d.items):
                ending = "label" if len(pack.languages) == 1 else f"label_{language}"
                name = unused_name(f"{d.name}_{ending}", taken)
                taken.add(name)
                out.append(
                    Field(
                        name=name,
                        role="label",
                        type_="string",
                        titles=d.labels,
                        place=j,
                        language=i,
                    )
                )
    number: Literal["integer", "number"] = "integer" if table.is_whole else "number"
    figures: tuple[Role, ...] = ("value", "low", "high", "status")
    for role in figures:
        out.append(
            Field(
                name=unused_name(role, taken),
                role=role,
                type_="string" if role == "status" else number,
                titles=pack.words[role],
            )
        )
    return out


def arrow_table(table: PackTable, pack: Pack) -> Any:
    """Return a table as an Arrow table."""
    import pyarrow as pa

    names, columns = [], []
    for f in fields_of(table, pack):
        names.append(f.name)
        if f.role in ("code", "label"):
            d = table.dimensions[f.place]
            said = [it.code if f.role == "code" else it.labels[f.language] for it in d.items]
            columns.append(pa.array(said, pa.string()).take(pa.array(table.index[:, f.place])))
        elif f.role == "status":
            words = pa.array(list(STATUSES), pa.string())
            columns.append(words.take(pa.array(table.status)))
        else:
            columns.append(_numbers(getattr(table, f.role), table.is_whole))
    return pa.table(columns, names=names)


def _numbers(figures: Any, is_whole: bool) -> Any:
    """Figures as an Arrow array; what is not there is null. Others than whole ones get 10 significant digits."""
    import pyarrow as pa

    is_null = ~np.isfinite(figures)
    filled = np.where(is_null, 0, figures)
    if is_whole:
        return pa.array(np.rint(filled).astype(np.int64), mask=is_null)
    return pa.array(significant(filled), mask=is_null)


def significant(figures: Any, digits: int = 10) -> Any:
    """Return figures rounded to some significant digits: the rest is no information, and differs by platform."""
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.where(figures == 0, 0, np.floor(np.log10(np.abs(figures))))
    places = np.clip(digits - 1 - size, -15, 15).astype(np.int64)
    scale = 10.0 ** np.abs(places)
    return np.where(places >= 0, np.rint(figures * scale) / scale, np.rint(figures / scale) * scale)


def write_csv(arrow: Any, path: Path) -> None:
    """Write an Arrow table as CSV: UTF-8, comma, quotes where needed, an empty field where nothing is released."""
    import pyarrow.csv as pa_csv

    pa_csv.write_csv(arrow, path)


def write_parquet(arrow: Any, path: Path) -> None:
    """Write an Arrow table as Parquet."""
    import pyarrow.parquet as pa_parquet

    pa_parquet.write_table(arrow, path, compression="zstd")


def write_code_list(dimension: Dimension, pack: Pack, path: Path) -> None:
    """Write the code list of a dimension: code, SDMX key, labels, kind, the code it is part of."""
    import pyarrow as pa

    items = dimension.items
    columns: dict[str, Sequence[Any]] = {"code": [it.code for it in items]}
    for i, language in enumerate(pack.languages):
        columns[label_name(pack, language)] = [it.labels[i] for it in items]
    columns["kind"] = [it.kind for it in items]
    columns["parent"] = [items[it.parent].code if it.parent >= 0 else None for it in items]
    columns["sdmx_key"] = [it.key for it in items]
    write_csv(pa.table({k: pa.array(list(v), pa.string()) for k, v in columns.items()}), path)


def label_name(pack: Pack, language: str) -> str:
    """Name of the column of labels in a code list."""
    return "label" if len(pack.languages) == 1 else f"label_{language}"


def write_quality(pack: Pack, path: Path) -> None:
    """Write one row a table: where its figures are from, how noisy, how many of each status."""
    import pyarrow as pa

    rows: dict[str, list[Any]] = {}
    for t in pack.tables:
        card = pack.cards.get(t.answered)
        told = {
            "table": t.id,
            "title": t.titles[0],
            "columns": ", ".join(d.name for d in t.dimensions),
            "answered_by": ", ".join(t.answered),
            "rows": len(t),
            "listed": "measured combinations only" if t.is_listed else "all combinations",
            "noise_sd": None if card is None else card.noise_sd,
            "suppressed_share": None if card is None else card.suppressed_share,
            "rounding_gap": None if card is None else card.rounding_gap,
        }
        counts = np.bincount(t.status, minlength=len(STATUSES)).tolist()
        told |= {s.replace(" ", "_"): n for s, n in zip(STATUSES, counts, strict=True)}
        for name, value in told.items():
            rows.setdefault(name, []).append(value)
    write_csv(pa.table(rows), path)
