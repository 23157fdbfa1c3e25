"""SDMX: a table's figures as SDMX-CSV 2.0, and the structures they refer to as one SDMX-JSON 2.0 message.

Takes a pack and its tables; returns text. The message has the hierarchical code lists, the concepts, and a data
structure and a dataflow for each table. Interval limits are attributes of an observation. Invariant: the message
defines every identifier used in a CSV file. We do not use pysdmx 1.21 here: its model has one language per
name, and its writer omits the parent of a code.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from engine.store import unused_name
from queries.packs.files import CSV, File, Format, as_json, number_texts, numbers_of, text_file
from queries.packs.model import FIGURES, STATUSES, Dimension, Pack, PackTable, Texts, half_width
from queries.packs.texts import status_word

OBS_STATUS = {
    "reliable": "A",
    "low": "N",
    "unreliable": "U",
    "not released": "O",
    "structural zero": "M",
}
"""Our statuses in the SDMX code list CL_OBS_STATUS: normal, not significant, low reliability, missing, cannot exist."""
_SCHEMA = (
    "https://raw.githubusercontent.com/sdmx-twg/sdmx-json/master/structure-message/tools/schemas/2.0.0/"
    "sdmx-json-structure-schema.json"
)
_DATA_SCHEMA = _SCHEMA.replace("structure", "data")
_STATUS_LIST = "CL_OBS_STATUS"
_FIXED = ("STRUCTURE", "STRUCTURE_ID", "ACTION")
_ATTRIBUTES = ("OBS_STATUS", "NOISE_LOW", "NOISE_HIGH", "NOISE_HALF_WIDTH")


def sdmx_csv(table: PackTable, pack: Pack) -> str:
    """Return a table as SDMX-CSV 2.0, codes as keys of the code lists."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*_FIXED, *dimension_ids(table), "OBS_VALUE", *_ATTRIBUTES])
    keys = [
        np.array([it.key for it in d.items], dtype=object)[table.index[:, j]]
        for j, d in enumerate(table.dimensions)
    ]
    statuses = np.array([OBS_STATUS[s] for s in STATUSES], dtype=object)[table.status]
    value, low, high = (number_texts(getattr(table, f), table.is_whole) for f in FIGURES)
    fixed = ("dataflow", _reference(pack, flow_id(table)), "I")
    half = number_texts(half_width(table), False)
    rows = zip(*keys, value, statuses, low, high, half, strict=True)
    writer.writerows((*fixed, *row) for row in rows)
    return out.getvalue()


def sdmx_json(table: PackTable, pack: Pack) -> str:
    """Return a table as SDMX-JSON 2.0: codes by their positions in lists, numbers as they are."""
    words = ("status", "low", "high", "half interval")
    attributes = [
        {**_item(pack, key, pack.words[word]), "relationship": {"observation": {}}}
        for key, word in zip(_ATTRIBUTES, words, strict=True)
    ]
    attributes[0]["values"] = [
        _item(pack, OBS_STATUS[s], pack.words[status_word(s)]) for s in STATUSES
    ]
    named = zip(dimension_ids(table), table.dimensions, table.used, strict=True)
    dimensions = [
        {
            **_item(pack, key, d.labels),
            "keyPosition": j,
            "values": [_item(pack, d.items[p].key, d.items[p].labels) for p in used],
        }
        for j, (key, d, used) in enumerate(named)
    ]
    at = [np.searchsorted(used, table.index[:, j]).tolist() for j, used in enumerate(table.used)]
    value, low, high = (numbers_of(getattr(table, f), table.is_whole) for f in FIGURES)
    half = numbers_of(half_width(table), False)
    rows = zip(value, table.status.tolist(), low, high, half, strict=True)
    observations = {
        ":".join(map(str, key)): list(row)
        for key, row in zip(zip(*at, strict=True), rows, strict=True)
    }
    flow = {"rel": "dataflow", "urn": _urn(pack, "datastructure.Dataflow", flow_id(table))}
    structure = {
        "name": table.titles[0],
        "dataSets": [0],
        "links": [flow],
        "dimensions": {"observation": dimensions},
        "measures": {"observation": [_item(pack, "OBS_VALUE", pack.words["value"])]},
        "attributes": {"observation": attributes},
    }
    figures = {
        "structure": 0,
        "action": "Information",
        "links": [flow],
        "observations": observations,
    }
    data = {"structures": [structure], "dataSets": [figures]}
    return as_json({"meta": _meta(pack, _DATA_SCHEMA), "data": data}, compact=True)


def version_of(text: str) -> str:
    """Return a version in SDMX notation: numbers with dots."""
    parts = re.findall("[0-9]+", text) or ["1"]
    return ".".join([*parts, "0", "0"][:3])


def sdmx_structure(pack: Pack) -> str:
    """Return the structure message of a pack (SDMX-JSON 2.0)."""
    dimensions = list(pack.dimensions.values())
    keys = [d.key for d in dimensions]
    lists = _distinct([f"CL_{key}" for key in keys], [_STATUS_LIST])
    concepts = _distinct(keys, [*_ATTRIBUTES, "OBS_VALUE"])
    ids = {
        d.name: pair for d, pair in zip(dimensions, zip(concepts, lists, strict=True), strict=True)
    }
    words = ("value", "status", "low", "high", "half interval")
    names = [
        *((concept, d.labels) for concept, d in zip(concepts, dimensions, strict=True)),
        *((n, pack.words[w]) for n, w in zip(("OBS_VALUE", *_ATTRIBUTES), words, strict=True)),
    ]
    scheme = {"concepts": [_item(pack, key, texts) | _self(pack, key) for key, texts in names]}
    statuses = [_item(pack, OBS_STATUS[s], pack.words[status_word(s)]) for s in STATUSES]
    data = {
        "codelists": [
            _artefact(pack, _STATUS_LIST, pack.words["status"]) | {"codes": statuses},
            *(_code_list(pack, d, ids[d.name][1]) for d in dimensions),
        ],
        "conceptSchemes": [_artefact(pack, "CONCEPTS", pack.titles) | scheme],
        "dataStructures": [_data_structure(pack, t, ids) for t in pack.tables],
        "dataflows": [
            _artefact(pack, flow_id(t), t.titles)
            | {"structure": _urn(pack, "datastructure.DataStructure", flow_id(t))}
            for t in pack.tables
        ],
    }
    return as_json({"meta": _meta(pack, _SCHEMA), "data": data}, compact=True)


def _meta(pack: Pack, schema: str) -> dict[str, Any]:
    """What a message says of itself."""
    day = pack.info.issued.isoformat() if pack.info.issued else "1980-01-01"
    return {
        "schema": schema,
        "id": "structure",
        "prepared": f"{day}T00:00:00Z",  # required by the format; two packs have the same bytes
        "sender": {"id": _agency(pack)},
        "contentLanguages": list(pack.languages),
    }


def flow_id(table: PackTable) -> str:
    """Return the identifier of a table's data structure and dataflow, unique as table ids are."""
    return table.id.replace(".", "@")


def dimension_ids(table: PackTable) -> list[str]:
    """Return unique identifiers of the dimensions, also different from those of SDMX itself."""
    return _distinct([d.key for d in table.dimensions], [*_FIXED, "OBS_VALUE", *_ATTRIBUTES])


def _distinct(names: list[str], taken: list[str]) -> list[str]:
    """Identifiers made unique, also among those taken."""
    out: list[str] = []
    for name in names:
        out.append(unused_name(name, [*taken, *out]))
    return out


def _agency(pack: Pack) -> str:
    publisher = pack.info.publisher or "TABLEPACK"
    name = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in publisher)
    return (name if name[:1].isalpha() else f"A{name}")[:40].upper()


def _reference(pack: Pack, identifier: str) -> str:
    return f"{_agency(pack)}:{identifier}({version_of(pack.info.version)})"


def _urn(pack: Pack, kind: str, identifier: str, item: str = "") -> str:
    """The URN of another part of the message."""
    return f"urn:sdmx:org.sdmx.infomodel.{kind}={_reference(pack, identifier)}{item}"


def _concept(pack: Pack, identifier: str) -> str:
    """The URN of a concept."""
    return _urn(pack, "conceptscheme.Concept", "CONCEPTS", f".{identifier}")


def _self(pack: Pack, concept: str) -> dict[str, Any]:
    """The link of a concept to itself, by which pysdmx knows it."""
    return {"links": [{"rel": "self", "urn": _concept(pack, concept)}]}


def _item(pack: Pack, identifier: str, texts: Texts) -> dict[str, Any]:
    """An identifier with its name in every language."""
    out: dict[str, Any] = {"id": identifier, "name": texts[0]}
    if len(texts) > 1:
        out["names"] = dict(zip(pack.languages, texts, strict=True))
    return out


def _artefact(pack: Pack, identifier: str, texts: Texts) -> dict[str, Any]:
    """A versioned artefact of an agency."""
    version = version_of(pack.info.version)
    return _item(pack, identifier, texts) | {"agencyID": _agency(pack), "version": version}


def _code_list(pack: Pack, dimension: Dimension, identifier: str) -> dict[str, Any]:
    """The code list of a dimension, with the parent of each code."""
    codes = []
    for item in dimension.items:
        code = _item(pack, item.key, item.labels)
        parent = {"parent": dimension.items[item.parent].key} if item.parent >= 0 else {}
        codes.append(code | parent)
    return _artefact(pack, identifier, dimension.labels) | {"codes": codes}


def _data_structure(
    pack: Pack, table: PackTable, ids: dict[str, tuple[str, str]]
) -> dict[str, Any]:
    """The columns of a table's SDMX-CSV file; `ids`: concept and code list by dimension."""

    def component(identifier: str, concept: str, code_list: str = "") -> dict[str, Any]:
        urn = _concept(pack, concept)
        values: dict[str, Any] = {"format": {"dataType": "Double"}}
        if code_list:
            values = {"enumeration": _urn(pack, "codelist.Codelist", code_list)}
        return {"id": identifier, "conceptIdentity": urn, "localRepresentation": values}

    dimensions = [
        component(key, *ids[d.name])
        for key, d in zip(dimension_ids(table), table.dimensions, strict=True)
    ]
    attributes = []
    for name in _ATTRIBUTES:
        is_status = name == "OBS_STATUS"
        attribute = component(name, name, _STATUS_LIST if is_status else "")
        usage = "mandatory" if is_status else "optional"
        attributes.append(
            {**attribute, "attributeRelationship": {"observation": {}}, "usage": usage}
        )
    measures = [component("OBS_VALUE", "OBS_VALUE")]
    components = {
        "dimensionList": {"id": "DimensionDescriptor", "dimensions": dimensions},
        "measureList": {"id": "MeasureDescriptor", "measures": measures},
        "attributeList": {"id": "AttributeDescriptor", "attributes": attributes},
    }
    return _artefact(pack, flow_id(table), table.titles) | {"dataStructureComponents": components}


def _files(pack: Pack) -> Iterator[File]:
    for t in pack.tables:
        make = partial(sdmx_csv, t, pack)
        yield text_file(f"sdmx/{t.id}.csv", make, media_type=CSV, table=t.id)
    yield text_file("sdmx/structure.json", partial(sdmx_structure, pack))


SDMX = Format(
    name="SDMX",
    path="sdmx/",
    about="SDMX-CSV 2.0; noise intervals as attributes NOISE_LOW, NOISE_HIGH and NOISE_HALF_WIDTH; structure.json: "
    "data structures and code lists (SDMX-JSON 2.0)",
    files=_files,
)
