"""CSV and Parquet files of a pack, CSVW metadata for each CSV, and code lists.

One row per combination of codes. Invariants: `value`, `low` and `high` are numeric, only `status` has words. `value` is
empty where nothing is released; `low` and `high` then show how large it can be (0 to "at most 5"), or are empty where
that is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from engine.store import unused_name
from queries.packs.files import CSV, File, Format, as_json, rounded, text_file
from queries.packs.model import STATUSES, Dimension, Pack, PackTable, Texts
from queries.packs.texts import STATUS_WORDS
from queries.sql import file_stem

PARQUET = "application/vnd.apache.parquet"
Role = Literal["code", "label", "value", "low", "high", "status"]
_HIDDEN = "Where nothing is released, low and high show how large the figure can be (0 to high); empty: unknown."
_ABOUT = {
    "code": "Code; see the code list of the column.",
    "label": "Label of the preceding code.",
    "value": "The figure; empty where nothing is released.",
    "low": f"Lower limit of the 95 % noise interval. {_HIDDEN}",
    "high": f"Upper limit of the 95 % noise interval. {_HIDDEN}",
    "status": "; ".join(f"{status}: {text}" for status, text in STATUS_WORDS.items()),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Field:
    """One column of a CSV or Parquet file."""

    name: str
    role: Role
    type_: Literal["string", "integer", "number"]
    titles: Texts
    place: int = -1  # Its dimension; -1: none
    language: int = 0  # Of a label: position of its language

    @property
    def about(self) -> str:
        """Description of the column."""
        return _ABOUT[self.role]


def fields_of(table: PackTable, pack: Pack) -> list[Field]:
    """Return the columns of a table's files, in order, with unique names."""
    out: list[Field] = []
    taken = {d.name for d in table.dimensions}
    for j, d in enumerate(table.dimensions):
        out.append(Field(name=d.name, role="code", type_="string", titles=d.labels, place=j))
        for i, language in enumerate(pack.languages):
            if any(item.labels[i] != item.code for item in d.items):
                name = unused_name(f"{d.name}_{label_name(pack, language)}", taken)
                taken.add(name)
                label = Field(name=name, role="label", type_="string", titles=d.labels, place=j)
                out.append(replace(label, language=i))
    number: Literal["integer", "number"] = "integer" if table.is_whole else "number"
    roles: tuple[Role, ...] = ("value", "low", "high", "status")
    for role in roles:
        type_ = "string" if role == "status" else number
        name = unused_name(role, taken)
        out.append(Field(name=name, role=role, type_=type_, titles=pack.words[role]))
    return out


def arrow_table(table: PackTable, pack: Pack) -> Any:
    """Return a table as an Arrow table."""
    import pyarrow as pa

    columns = {}
    for f in fields_of(table, pack):
        if f.role in ("code", "label"):
            items = table.dimensions[f.place].items
            texts = [it.code if f.role == "code" else it.labels[f.language] for it in items]
            columns[f.name] = pa.array(texts, pa.string()).take(pa.array(table.index[:, f.place]))
        elif f.role == "status":
            statuses = pa.array(list(STATUSES), pa.string())
            columns[f.name] = statuses.take(pa.array(table.status))
        else:
            numbers, is_known = rounded(getattr(table, f.role), table.is_whole)
            columns[f.name] = pa.array(numbers, mask=~is_known)
    return pa.table(columns)


def _write_csv(columns: Any, path: Path) -> None:
    """Write an Arrow table as CSV: UTF-8, commas, quoted strings, an empty field where nothing is released."""
    import pyarrow.csv as pa_csv

    pa_csv.write_csv(columns, path)


def _write_table_csv(table: PackTable, pack: Pack, path: Path) -> None:
    _write_csv(arrow_table(table, pack), path)


def _write_parquet(table: PackTable, pack: Pack, path: Path) -> None:
    import pyarrow.parquet as pa_parquet

    pa_parquet.write_table(arrow_table(table, pack), path, compression="zstd")


def _write_code_list(dimension: Dimension, pack: Pack, path: Path) -> None:
    """Write the code list of a dimension: code, labels, kind, the code it is part of, SDMX key."""
    import pyarrow as pa

    items = dimension.items
    columns: dict[str, list[str | None]] = {"code": [it.code for it in items]}
    for i, language in enumerate(pack.languages):
        columns[label_name(pack, language)] = [it.labels[i] for it in items]
    columns["kind"] = [it.kind for it in items]
    columns["parent"] = [items[it.parent].code if it.parent >= 0 else None for it in items]
    columns["sdmx_key"] = [it.key for it in items]
    _write_csv(pa.table({k: pa.array(v, pa.string()) for k, v in columns.items()}), path)


def label_name(pack: Pack, language: str) -> str:
    """Name of the column of labels in a code list."""
    return "label" if len(pack.languages) == 1 else f"label_{language}"


def code_list_path(dimension: Dimension) -> str:
    """Path of a code list in the pack."""
    return f"codelists/{file_stem([dimension.name])}.csv"


def _write_quality(pack: Pack, path: Path) -> None:
    """Write one row per table: source of its figures, amount of noise, number of figures by status."""
    import pyarrow as pa

    rows = []
    for t in pack.tables:
        card = pack.cards.get(t.answered)
        row: dict[str, Any] = {
            "table": t.id,
            "title": t.titles[0],
            "columns": ", ".join(d.name for d in t.dimensions),
            "answered_by": ", ".join(t.answered),
            "rows": len(t),
            "listed": "measured combinations only" if t.is_listed else "all combinations",
            "noise_sd": None if card is None or card.wide else card.noise_sd,
            "suppressed_share": None if card is None else card.suppressed_share,
            "rounding_gap": None if card is None else card.rounding_gap,
        }
        rows.append(row | {s.replace(" ", "_"): n for s, n in t.n_by_status.items()})
    _write_csv(pa.Table.from_pylist(rows), path)


def csvw(table: PackTable, pack: Pack) -> str:
    """Return the CSVW metadata of a table's CSV file (CSV on the Web, W3C)."""
    info, columns = pack.info, []
    for f in fields_of(table, pack):
        column: dict[str, Any] = {
            "name": _variable(f.name),
            "titles": f.name,
            "dc:title": by_language(f.titles, pack),
            "dc:description": f.about,
            "datatype": f.type_,
        }
        if f.role == "status":
            column["datatype"] = {"base": "string", "format": "|".join(STATUSES)}
        if f.role in ("code", "status"):
            column["required"] = True
        columns.append(column)
    keys = [_variable(d.name) for d in table.dimensions]
    origin = {
        "dc:publisher": info.publisher,
        "dc:license": info.licence_url or info.licence,
        "dc:issued": info.issued.isoformat() if info.issued else "",
    }
    out: dict[str, Any] = {
        "@context": ["http://www.w3.org/ns/csvw", {"@language": pack.languages[0]}],
        "url": f"{table.id}.csv",
        "dc:identifier": f"{info.identifier}/{table.id}",
        "dc:title": by_language(table.titles, pack),
        "dc:description": table.words,
        "dialect": {"header": True, "encoding": "utf-8"},
        "tableSchema": {"columns": columns, "primaryKey": keys},
    }
    return as_json(out | {name: text for name, text in origin.items() if text})


def by_language(texts: Texts, pack: Pack) -> Any:
    """Return a text, or texts by language, as JSON-LD has them."""
    if len(pack.languages) == 1:
        return texts[0]
    return [{"@value": t, "@language": lang} for lang, t in zip(pack.languages, texts, strict=True)]


def _variable(name: str) -> str:
    """A CSVW column name: percent-encoded where required; names that begin with _ are reserved."""
    encoded = quote(name, safe="").replace("-", "%2D").replace("~", "%7E")
    return f"%5F{encoded[1:]}" if encoded.startswith("_") else encoded


def _table_files(pack: Pack) -> Iterator[File]:
    for t in pack.tables:
        stem = f"tables/{t.id}"
        csv, parquet = partial(_write_table_csv, t, pack), partial(_write_parquet, t, pack)
        yield File(path=f"{stem}.csv", write=csv, media_type=CSV, table=t.id)
        yield File(path=f"{stem}.parquet", write=parquet, media_type=PARQUET, table=t.id)
        yield text_file(f"{stem}.csv-metadata.json", partial(csvw, t, pack), table=t.id)


def _code_list_files(pack: Pack) -> Iterator[File]:
    for d in pack.dimensions.values():
        yield File(path=code_list_path(d), write=partial(_write_code_list, d, pack))


def _quality_files(pack: Pack) -> Iterator[File]:
    yield File(path="quality.csv", write=partial(_write_quality, pack))


TABLES = Format(
    name="CSV and Parquet",
    path="tables/",
    about="every table as CSV and Parquet, with CSVW metadata for each CSV. pandas reads codes such as None and NA as "
    'missing values; use read_csv(..., keep_default_na=False, na_values=[""])',
    files=_table_files,
    packages=("pyarrow",),
)
CODE_LISTS = Format(
    name="code lists",
    path="codelists/",
    about="meaning and hierarchy of the codes",
    files=_code_list_files,
    packages=("pyarrow",),
)
QUALITY = Format(
    name="quality",
    path="quality.csv",
    about="per table: the released table it comes from, amount of noise, number of figures by status",
    files=_quality_files,
    packages=("pyarrow",),
)
