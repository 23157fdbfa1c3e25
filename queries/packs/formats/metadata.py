"""Metadata of a pack's files: a Frictionless data package and a DCAT catalogue (JSON-LD).

Takes a pack and its files; returns JSON with keys in a fixed order. The only date is that of the pack's spec.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.store import unused_name
from engine.texts import slug
from queries.packs.files import File, FileRecord, as_json
from queries.packs.formats.flat import by_language, code_list_path, fields_of, label_name
from queries.packs.model import STATUSES, Dimension, Pack, PackTable


def data_package(pack: Pack, files: Mapping[str, FileRecord]) -> str:
    """Return datapackage.json (Frictionless Data): every CSV with its schema, size and hash."""
    info = pack.info
    resources = [_code_resource(d, pack, files) for d in pack.dimensions.values()]
    taken = [r["name"] for r in resources]
    for t in pack.tables:
        resources.append(_table_resource(t, pack, files, unused_name(t.id.lower(), taken)))
        taken.append(resources[-1]["name"])
    out: dict[str, Any] = {
        "name": slug(pack.titles[0], "pack").lower(),
        "id": info.identifier,
        "title": pack.titles[0],
        "description": pack.descriptions[0] or "Statistical tables with noise; see README.md.",
        "version": info.version,
        "profile": "tabular-data-package",
    }
    if info.issued:
        out["created"] = f"{info.issued.isoformat()}T00:00:00Z"
    if info.licence:
        licence = {"name": slug(info.licence, "licence"), "title": info.licence}
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
        field: dict[str, Any] = {
            "name": f.name,
            "title": f.titles[0],
            "type": f.type_,
            "description": f.about,
        }
        if f.role == "status":
            field["constraints"] = {"required": True, "enum": list(STATUSES)}
        elif f.role == "code":
            field["constraints"] = {"required": True}
            name = code_list_name(pack, table.dimensions[f.place])
            foreign.append({"fields": f.name, "reference": {"resource": name, "fields": "code"}})
        fields.append(field)
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
    """Name of a dimension's code list in the data package."""
    return f"codes-{list(pack.dimensions).index(dimension.name) + 1:03d}-{slug(dimension.name, 'column').lower()}"


def dcat(pack: Pack, files: Sequence[File], records: Mapping[str, FileRecord]) -> str:
    """Return the DCAT catalogue as JSON-LD: a dataset per table, a distribution per file of it."""
    base = pack.info.identifier.rstrip("/")
    context = {
        "dcat": "http://www.w3.org/ns/dcat#",
        "dct": "http://purl.org/dc/terms/",
        "foaf": "http://xmlns.com/foaf/0.1/",
        "spdx": "http://spdx.org/rdf/terms#",
        "vcard": "http://www.w3.org/2006/vcard/ns#",
        "xsd": "http://www.w3.org/2001/XMLSchema#",
    }
    datasets = [
        {
            "@id": f"{base}/{t.id}",
            "@type": "dcat:Dataset",
            "dct:identifier": t.id,
            "dct:title": by_language(t.titles, pack),
            "dct:description": t.words,
            "dcat:distribution": [
                _distribution(f, base, records[f.path])
                for f in files
                if f.table == t.id and f.media_type
            ],
        }
        | _dcat_origin(pack)
        for t in pack.tables
    ]
    catalogue = {
        "@context": context,
        "@id": base,
        "@type": "dcat:Catalog",
        "dct:title": by_language(pack.titles, pack),
        "dct:description": pack.descriptions[0] or pack.titles[0],
        "dct:language": list(pack.languages),
        "dcat:dataset": datasets,
    }
    return as_json(catalogue | _dcat_origin(pack))


def _dcat_origin(pack: Pack) -> dict[str, Any]:
    """Publisher, licence, contact, keywords and date of a dataset."""
    info = pack.info
    out: dict[str, Any] = {}
    if info.publisher:
        agent: dict[str, Any] = {"@type": "foaf:Agent", "foaf:name": info.publisher}
        out["dct:publisher"] = agent | ({"@id": info.publisher_url} if info.publisher_url else {})
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


def _distribution(file: File, base: str, record: FileRecord) -> dict[str, Any]:
    return {
        "@id": f"{base}/{file.path}",
        "@type": "dcat:Distribution",
        "dcat:downloadURL": {"@id": f"{base}/{file.path}"},
        "dcat:mediaType": file.media_type,
        "dcat:byteSize": {"@value": str(record.size), "@type": "xsd:nonNegativeInteger"},
        "spdx:checksum": {
            "spdx:algorithm": {"@id": "spdx:checksumAlgorithm_sha256"},
            "spdx:checksumValue": record.sha256,
        },
    }
