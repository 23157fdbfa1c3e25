"""Metadata of a pack's files: CSVW beside each CSV, a Frictionless data package, a DCAT catalogue (JSON-LD).

Takes a pack and its files; gives JSON texts, keys in a fixed order. No date but what the pack's spec says.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from engine.store_catalog import unused_name
from queries.exports import file_stem
from queries.packs.flat import Field, fields_of, label_name
from queries.packs.model import STATUSES, Dimension, Pack, PackTable
from queries.packs.naming import FileRecord
from queries.packs.words import STATUS_WORDS

_HIDDEN = "Where nothing is released, low and high say how much it may be all the same (0 to high); empty: not known."
MEDIA = {
    ".csv": "text/csv",
    ".parquet": "application/vnd.apache.parquet",
    ".json": "application/json",
    ".px": "text/x-pcaxis",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".html": "text/html",
    ".duckdb": "application/vnd.duckdb",
}


def as_json(what: object, *, compact: bool = False) -> str:
    """Return JSON for a file, with a line break at its end."""
    separators, indent = ((",", ":"), None) if compact else ((",", ": "), 1)
    text = json.dumps(
        what, ensure_ascii=False, indent=indent, separators=separators, allow_nan=False
    )
    return text + "\n"


def describe(field: Field) -> str:
    """What a column of a table's files holds."""
    return {
        "code": "Code; see the code list of the column.",
        "label": "Label of the code before it.",
        "value": "The figure; empty where nothing is released.",
        "low": f"Lower end of the 95 % noise interval. {_HIDDEN}",
        "high": f"Upper end of the 95 % noise interval. {_HIDDEN}",
        "status": "; ".join(f"{s}: {text}" for s, text in STATUS_WORDS.items()),
    }[field.role]


def csvw(table: PackTable, pack: Pack) -> str:
    """Return the CSVW metadata of a table's CSV file (CSV on the Web, W3C)."""
    info, columns = pack.info, []
    for f in fields_of(table, pack):
        titles: Any = f.name
        column: dict[str, Any] = {
            "name": _variable(f.name),
            "titles": titles,
            "dc:title": _by_language(f.titles, pack),
            "dc:description": describe(f),
            "datatype": f.type_,
        }
        if f.role == "status":
            column["datatype"] = {"base": "string", "format": "|".join(STATUSES)}
        if f.role in ("code", "status"):
            column["required"] = True
        columns.append(column)
    keys = [_variable(d.name) for d in table.dimensions]
    out: dict[str, Any] = {
        "@context": ["http://www.w3.org/ns/csvw", {"@language": pack.languages[0]}],
        "url": f"{table.id}.csv",
        "dc:identifier": f"{info.identifier}/{table.id}",
        "dc:title": _by_language(table.titles, pack),
        "dc:description": table.words,
        "dialect": {"header": True, "encoding": "utf-8"},
        "tableSchema": {"columns": columns, "primaryKey": keys},
    }
    out |= _who(pack, "dc:")
    return as_json(out)


def _who(pack: Pack, prefix: str) -> dict[str, Any]:
    """Publisher, licence and date, where they are said."""
    info = pack.info
    told = {
        "publisher": info.publisher,
        "license": info.licence_url or info.licence,
        "issued": info.issued.isoformat() if info.issued else "",
    }
    return {f"{prefix}{k}": v for k, v in told.items() if v}


def _variable(name: str) -> str:
    """A CSVW column name: percent-encoded where it must be."""
    told = quote(name, safe="").replace("-", "%2D").replace("~", "%7E")
    return (
        f"%5F{told[1:]}" if told.startswith("_") else told
    )  # names that begin with _ are CSVW's own


def _by_language(texts: tuple[str, ...], pack: Pack) -> Any:
    """A text, or texts by language."""
    if len(pack.languages) == 1:
        return texts[0]
    return [{"@value": t, "@language": lang} for lang, t in zip(pack.languages, texts, strict=True)]


def data_package(pack: Pack, files: Mapping[str, FileRecord]) -> str:
    """Return datapackage.json (Frictionless Data): every CSV with its schema, size and hash.

    Parameters
    ----------
    pack : Pack
    files : mapping of str to FileRecord
        By path inside the pack.
    """
    info = pack.info
    resources = [_code_resource(d, pack, files) for d in pack.dimensions.values()]
    taken = [r["name"] for r in resources]
    for t in pack.tables:
        resources.append(_table_resource(t, pack, files, unused_name(_slug(t.id), taken)))
        taken.append(resources[-1]["name"])
    out: dict[str, Any] = {
        "name": _slug(pack.titles[0]),
        "id": info.identifier,
        "title": pack.titles[0],
        "description": pack.descriptions[0] or "Tables with noise; see README.md.",
        "version": info.version,
        "profile": "tabular-data-package",
    }
    if info.issued:
        out["created"] = f"{info.issued.isoformat()}T00:00:00Z"
    if info.licence:
        licence = {"name": _slug(info.licence, upper=True), "title": info.licence}
        out["licenses"] = [licence | ({"path": info.licence_url} if info.licence_url else {})]
    if info.publisher:
        out["contributors"] = [{"title": info.publisher, "role": "publisher"}]
    if info.keywords:
        out["keywords"] = info.keywords
    return as_json(out | {"resources": resources})


def _resource(
    name: str, path: str, title: str, files: Mapping[str, FileRecord], schema: Any
) -> dict[str, Any]:
    """One CSV file of a data package."""
    record = files[path]
    return {
        "name": name,
        "path": path,
        "title": title,
        "profile": "tabular-data-resource",
        "format": "csv",
        "mediatype": "text/csv",
        "encoding": "utf-8",
        "bytes": record.size,
        "hash": f"sha256:{record.sha256}",
        "schema": schema,
    }


def _table_resource(
    table: PackTable, pack: Pack, files: Mapping[str, FileRecord], resource: str
) -> dict[str, Any]:
    fields, foreign = [], []
    for f in fields_of(table, pack):
        told: dict[str, Any] = {
            "name": f.name,
            "title": f.titles[0],
            "type": f.type_,
            "description": describe(f),
        }
        if f.role == "status":
            told["constraints"] = {"required": True, "enum": list(STATUSES)}
        elif f.role == "code":
            told["constraints"] = {"required": True}
            name = code_list_name(pack, table.dimensions[f.place])
            foreign.append({"fields": f.name, "reference": {"resource": name, "fields": "code"}})
        fields.append(told)
    schema = {
        "fields": fields,
        "missingValues": [""],
        "primaryKey": [d.name for d in table.dimensions],
        "foreignKeys": foreign,
    }
    path = f"tables/{table.id}.csv"
    return _resource(resource, path, table.titles[0], files, schema)


def _code_resource(
    dimension: Dimension, pack: Pack, files: Mapping[str, FileRecord]
) -> dict[str, Any]:
    name = code_list_name(pack, dimension)
    texts = ["code", *(label_name(pack, lang) for lang in pack.languages)]
    fields = [{"name": n, "type": "string"} for n in (*texts, "kind", "parent", "sdmx_key")]
    schema = {"fields": fields, "missingValues": [""], "primaryKey": ["code"]}
    path = code_list_path(dimension)
    return _resource(name, path, f"Codes of {dimension.labels[0]}", files, schema)


def code_list_name(pack: Pack, dimension: Dimension) -> str:
    """Name of a code list in the data package; one a dimension."""
    return f"codes-{list(pack.dimensions).index(dimension.name) + 1:03d}-{_slug(dimension.name)}"


def code_list_path(dimension: Dimension) -> str:
    """Where a code list stands in the pack."""
    return f"codelists/{file_stem([dimension.name])}.csv"


def _slug(text: str, *, upper: bool = False) -> str:
    """A name that data packages allow: ASCII letters, digits, dots, dashes."""
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in text)
    kept = "-".join(part for part in kept.split("-") if part) or "pack"
    return kept if upper else kept.lower()


def dcat(pack: Pack, files: Mapping[str, FileRecord]) -> str:
    """Return the DCAT catalogue as JSON-LD: a dataset a table, a distribution a file of it."""
    base = pack.info.identifier.rstrip("/")
    context = {
        "dcat": "http://www.w3.org/ns/dcat#",
        "dct": "http://purl.org/dc/terms/",
        "foaf": "http://xmlns.com/foaf/0.1/",
        "spdx": "http://spdx.org/rdf/terms#",
        "vcard": "http://www.w3.org/2006/vcard/ns#",
        "xsd": "http://www.w3.org/2001/XMLSchema#",
    }
    by_table: dict[str, list[str]] = {}
    for path in files:
        folder, _, name = path.rpartition("/")
        if folder in ("tables", "sdmx", "jsonstat", "px") and not name.endswith("-metadata.json"):
            by_table.setdefault(name.split("~")[0].rpartition(".")[0], []).append(path)
    datasets = [
        {
            "@id": f"{base}/{t.id}",
            "@type": "dcat:Dataset",
            "dct:identifier": t.id,
            "dct:title": _by_language(t.titles, pack),
            "dct:description": t.words,
            "dcat:distribution": [
                _distribution(path, base, files[path]) for path in by_table.get(t.id, [])
            ],
        }
        | _dcat_who(pack)
        for t in pack.tables
    ]
    catalogue = {
        "@context": context,
        "@id": base,
        "@type": "dcat:Catalog",
        "dct:title": _by_language(pack.titles, pack),
        "dct:description": pack.descriptions[0] or pack.titles[0],
        "dct:language": list(pack.languages),
        "dcat:dataset": datasets,
    }
    return as_json(catalogue | _dcat_who(pack))


def _dcat_who(pack: Pack) -> dict[str, Any]:
    """Publisher, licence, contact, keywords and date of a dataset."""
    info = pack.info
    out: dict[str, Any] = {}
    if info.publisher:
        who: dict[str, Any] = {"@type": "foaf:Agent", "foaf:name": info.publisher}
        out["dct:publisher"] = who | ({"@id": info.publisher_url} if info.publisher_url else {})
    if info.licence_url:
        out["dct:license"] = {"@id": info.licence_url}
    if info.email:
        out["dcat:contactPoint"] = {
            "@type": "vcard:Organization",
            "vcard:fn": info.contact or info.publisher or info.email,
            "vcard:hasEmail": {"@id": f"mailto:{info.email}"},
        }
    if info.keywords:
        out["dcat:keyword"] = info.keywords
    if info.issued:
        out["dct:issued"] = {"@value": info.issued.isoformat(), "@type": "xsd:date"}
    return out


def _distribution(path: str, base: str, record: FileRecord) -> dict[str, Any]:
    ending = "." + path.rpartition(".")[2]
    return {
        "@id": f"{base}/{path}",
        "@type": "dcat:Distribution",
        "dcat:downloadURL": {"@id": f"{base}/{path}"},
        "dcat:mediaType": MEDIA[ending],
        "dcat:byteSize": {"@value": str(record.size), "@type": "xsd:nonNegativeInteger"},
        "spdx:checksum": {
            "spdx:algorithm": {"@id": "spdx:checksumAlgorithm_sha256"},
            "spdx:checksumValue": record.sha256,
        },
    }
