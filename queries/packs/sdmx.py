"""SDMX: a table's figures as SDMX-CSV 2.0, and the structures they refer to as one SDMX-JSON 2.0 message.

Takes a pack and its tables; gives texts. The message holds the code lists (with what is part of what), the concepts,
and a data structure and a dataflow for each table. Interval ends are attributes of an observation. Invariant: every
identifier that a CSV file names stands in the message.
"""

from __future__ import annotations

import csv
import io
import re
from typing import Any

import numpy as np

from engine.store_catalog import unused_name
from queries.packs.interchange import FIGURES, number_texts
from queries.packs.metadata import as_json
from queries.packs.model import STATUSES, Pack, PackTable, Texts
from queries.packs.words import status_word

OBS_STATUS = {
    "reliable": "A",
    "low": "N",
    "unreliable": "U",
    "not released": "O",
    "structural zero": "M",
}
"""Our statuses in the SDMX code list CL_OBS_STATUS: normal, not significant, low reliability, missing, cannot exist."""
_URN = "urn:sdmx:org.sdmx.infomodel"
_SCHEMA = (
    "https://raw.githubusercontent.com/sdmx-twg/sdmx-json/master/structure-message/tools/schemas/2.0.0/"
    "sdmx-json-structure-schema.json"
)
_STATUS_LIST = "CL_OBS_STATUS"
_ATTRIBUTES = ("OBS_STATUS", "NOISE_LOW", "NOISE_HIGH")


def sdmx_csv(table: PackTable, pack: Pack) -> str:
    """Return a table as SDMX-CSV 2.0, codes as keys of the code lists."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    fixed = ["STRUCTURE", "STRUCTURE_ID", "ACTION"]
    names = _dimension_keys(table)
    ends = ["OBS_VALUE", "OBS_STATUS", "NOISE_LOW", "NOISE_HIGH"]
    writer.writerow([*fixed, *names, *ends])
    structure = f"{_reference(pack, _flow(table))}"
    keys = [
        np.array([it.key for it in d.items], dtype=object)[table.index[:, j]]
        for j, d in enumerate(table.dimensions)
    ]
    statuses = np.array([OBS_STATUS[s] for s in STATUSES], dtype=object)[table.status]
    value, low, high = (number_texts(getattr(table, f), table.is_whole) for f in FIGURES)
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


def _flow(table: PackTable) -> str:
    """Identifier of a table's data structure and dataflow; ids of tables differ, so these do."""
    return table.id.replace(".", "@")


def _reference(pack: Pack, identifier: str) -> str:
    return f"{_agency(pack)}:{identifier}({_version(pack.info.version)})"


def _identifier(text: str) -> str:
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in text)
    return kept if kept[:1].isalpha() else f"A{kept}"


def _agency(pack: Pack) -> str:
    return _identifier(pack.info.publisher or "TABLEPACK")[:40].upper()


def _version(text: str) -> str:
    """A version as SDMX writes it: numbers with dots."""
    parts = re.findall("[0-9]+", text) or ["1"]
    return ".".join([*parts, "0", "0"][:3])


def sdmx_structure(pack: Pack) -> str:
    """Return the structure message of a pack (SDMX-JSON 2.0)."""
    lists = _named_once([d.key for d in pack.dimensions.values()], "CL_", [_STATUS_LIST])
    concepts = _named_once(
        [d.key for d in pack.dimensions.values()], "", [*_ATTRIBUTES, "OBS_VALUE"]
    )
    names = list(pack.dimensions)
    list_of = dict(zip(names, lists, strict=True))
    concept_of = dict(zip(names, concepts, strict=True))
    about = {
        "OBS_VALUE": pack.words["value"],
        "OBS_STATUS": pack.words["status"],
        "NOISE_LOW": pack.words["low"],
        "NOISE_HIGH": pack.words["high"],
    }
    told = [(concept_of[n], d.labels) for n, d in pack.dimensions.items()]
    scheme = [_item(pack, key, texts) for key, texts in (*told, *about.items())]
    data = {
        "codelists": [_status_list(pack), *_code_lists(pack, list_of)],
        "conceptSchemes": [_artefact(pack, "CONCEPTS", pack.titles) | {"concepts": scheme}],
        "dataStructures": [_data_structure(pack, t, list_of, concept_of) for t in pack.tables],
        "dataflows": [
            _artefact(pack, _flow(t), t.titles)
            | {"structure": f"{_URN}.datastructure.DataStructure={_reference(pack, _flow(t))}"}
            for t in pack.tables
        ],
    }
    day = pack.info.issued.isoformat() if pack.info.issued else "1980-01-01"
    meta = {
        "schema": _SCHEMA,
        "id": "structure",
        "prepared": f"{day}T00:00:00Z",  # asked for by the format; two packs have the same bytes
        "sender": {"id": _agency(pack)},
        "contentLanguages": list(pack.languages),
    }
    return as_json({"meta": meta, "data": data}, compact=True)


def _named_once(keys: list[str], start: str, taken: list[str]) -> list[str]:
    out: list[str] = []
    for key in keys:
        out.append(unused_name(f"{start}{key}", [*taken, *out]))
    return out


def _item(pack: Pack, identifier: str, texts: Texts) -> dict[str, Any]:
    """An identifier with its name, in every language."""
    out: dict[str, Any] = {"id": identifier, "name": texts[0]}
    if len(texts) > 1:
        out["names"] = dict(zip(pack.languages, texts, strict=True))
    return out


def _artefact(pack: Pack, identifier: str, texts: Texts) -> dict[str, Any]:
    """What is maintained by an agency, in a version."""
    return _item(pack, identifier, texts) | {
        "agencyID": _agency(pack),
        "version": _version(pack.info.version),
    }


def _status_list(pack: Pack) -> dict[str, Any]:
    codes = [_item(pack, OBS_STATUS[s], pack.words[status_word(s)]) for s in STATUSES]
    return _artefact(pack, _STATUS_LIST, pack.words["status"]) | {"codes": codes}


def _code_lists(pack: Pack, list_of: dict[str, str]) -> list[dict[str, Any]]:
    """The code lists of all dimensions, with what each code is part of."""
    out = []
    for name, dimension in pack.dimensions.items():
        codes = []
        for item in dimension.items:
            code = _item(pack, item.key, item.labels)
            if item.parent >= 0:
                code["parent"] = dimension.items[item.parent].key
            codes.append(code)
        out.append(_artefact(pack, list_of[name], dimension.labels) | {"codes": codes})
    return out


def _data_structure(
    pack: Pack, table: PackTable, list_of: dict[str, str], concept_of: dict[str, str]
) -> dict[str, Any]:
    """What the columns of a table's SDMX-CSV file are."""

    def component(identifier: str, concept: str, **more: Any) -> dict[str, Any]:
        urn = f"{_URN}.conceptscheme.Concept={_reference(pack, 'CONCEPTS')}.{concept}"
        return {"id": identifier, "conceptIdentity": urn} | more

    def coded(code_list: str) -> dict[str, Any]:
        return {"enumeration": f"{_URN}.codelist.Codelist={_reference(pack, code_list)}"}

    number = {"format": {"dataType": "Double"}}
    dimensions = [
        component(key, concept_of[d.name], localRepresentation=coded(list_of[d.name]))
        for key, d in zip(_dimension_keys(table), table.dimensions, strict=True)
    ]
    attributes = [
        component(
            name,
            name,
            attributeRelationship={"observation": {}},
            usage="mandatory" if name == "OBS_STATUS" else "optional",
            localRepresentation=coded(_STATUS_LIST) if name == "OBS_STATUS" else number,
        )
        for name in _ATTRIBUTES
    ]
    return _artefact(pack, _flow(table), table.titles) | {
        "dataStructureComponents": {
            "dimensionList": {"id": "DimensionDescriptor", "dimensions": dimensions},
            "measureList": {
                "id": "MeasureDescriptor",
                "measures": [component("OBS_VALUE", "OBS_VALUE", localRepresentation=number)],
            },
            "attributeList": {"id": "AttributeDescriptor", "attributes": attributes},
        }
    }
