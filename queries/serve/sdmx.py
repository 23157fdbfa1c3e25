"""SDMX REST, read-only: the released tables as dataflows, by the paths of SDMX 2.1 and 3.0.

Codes are those of a pack's code lists: values, bands and levels, and `_T` for the total. What a key leaves open gives
the values, which add up; totals and bands must be named. Structures, SDMX-CSV 2.0 and SDMX-JSON 2.0 are those of packs
(`queries.packs.formats.sdmx`); pysdmx turns them into SDMX-ML.
"""

from __future__ import annotations

import datetime
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from fastapi import FastAPI, Request, Response

from engine.errors import MissingPackage, NotAnswerable, QueryRefused
from queries.packs import (
    Dimension,
    PackTable,
    as_json,
    dimension_ids,
    sdmx_csv,
    sdmx_json,
    sdmx_structure,
)
from queries.release import Release
from queries.serve.cache import Reply
from queries.serve.cubes import Cube, Measure
from queries.serve.service import Service

PATH = "/api/sdmx"
_KINDS = {
    "dataflow": "dataflows",
    "datastructure": "dataStructures",
    "codelist": "codelists",
    "conceptscheme": "conceptSchemes",
}
"""Parts of a structure message by the resource that asks for them."""
_ANY = frozenset({"", "*", "all"})
_LATEST = _ANY | {"latest", "~", "+"}
_BASE = "application/vnd.sdmx."
_STRUCTURES = {
    "structure+json": f"{_BASE}structure+json;version=2.0.0",
    "structure+xml;version=3.0": f"{_BASE}structure+xml;version=3.0.0",
    "json": f"{_BASE}structure+json;version=2.0.0",
    "": f"{_BASE}structure+xml;version=2.1",
}
"""Formats of structures by what an Accept header has in it; the last is the default."""
_DATA = {
    "csv": f"{_BASE}data+csv;version=2.0.0",
    "json": f"{_BASE}data+json;version=2.0.0",
    "structurespecific": f"{_BASE}structurespecificdata+xml;version=2.1",
    "data+xml;version=3.0": f"{_BASE}data+xml;version=3.0.0",
    "": f"{_BASE}genericdata+xml;version=2.1",
}
"""The same for data."""
_CLASSES = {
    "dataflows": "Dataflow",
    "dataStructures": "DataStructure",
    "codelists": "Codelist",
    "conceptSchemes": "Concept",
}
_URN = re.compile(r"urn:sdmx:org\.sdmx\.infomodel\.\w+\.(\w+)=([^\"]*?\))")


def add_sdmx(app: FastAPI, server: Service) -> None:
    """Add the paths of SDMX REST."""
    sdmx = _Sdmx(server)

    @app.get(f"{PATH}/{{path:path}}", summary="SDMX REST 2.1 and 3.0: structures and data")
    async def asked(request: Request, path: str) -> Response:
        params = request.query_params
        accept = params.get("format") or request.headers.get("accept", "")
        limits = {k: v for k, v in params.items() if k.startswith("c[") and k.endswith("]")}
        references = params.get("references", "none")
        resource, *parts = [part.strip() for part in path.strip("/").split("/")]
        media = _format_of(accept, _DATA if resource == "data" else _STRUCTURES)
        if resource == "availability":  # as the dataflow with all that it refers to
            references = "all"
        if resource in ("structure", "availability"):
            resource, *parts = parts or [""]

        def make(release: Release) -> Reply:
            if path.startswith("data/"):
                return server.limited(sdmx.data(release, parts, limits, media))
            return server.limited(sdmx.structure(resource, parts, references != "none", media))

        return await server.answer(
            request, json.dumps(["sdmx", media, references, path, limits]), make
        )


def _format_of(accept: str, known: Mapping[str, str]) -> str:
    """The first format that an Accept header, or the parameter `format`, names."""
    text = accept.lower().replace(" ", "")
    return next(media for part, media in known.items() if part in text)


class _Sdmx:
    """The answers."""

    def __init__(self, server: Service) -> None:
        self._server = server

    @cached_property
    def _message(self) -> dict[str, Any]:
        """All structures of the release."""
        message: dict[str, Any] = json.loads(sdmx_structure(self._server.cubes.pack))
        return message

    def structure(self, kind: str, parts: Sequence[str], has_references: bool, media: str) -> Reply:
        """Structures of a kind, with those they refer to if these are wanted."""
        whole = self._message
        agency, name, version = (*parts, "", "", "")[:3]
        kinds = list(_KINDS) if kind in _ANY else [kind]
        if not {*kinds} <= {*_KINDS}:
            raise NotAnswerable(
                f"There is no resource {kind!r}; there are {', '.join(_KINDS)}, data"
            )
        found = {
            _KINDS[k]: [a for a in whole["data"][_KINDS[k]] if _is_named(a, agency, name, version)]
            for k in kinds
        }
        if not any(found.values()):
            raise NotAnswerable(f"There is no {kind} {agency}:{name}({version})")
        message = {
            **whole,
            "data": _with_references(found, whole["data"]) if has_references else found,
        }
        if "json" in media:
            return Reply(body=as_json(message, compact=True).encode(), media_type=media)
        return Reply(body=_as_ml(message, media), media_type=media)

    def data(
        self, release: Release, parts: Sequence[str], limits: Mapping[str, str], media: str
    ) -> Reply:
        """Figures for a key."""
        cube, key = self._flow(parts)
        cubes, pack = self._server.cubes, self._server.cubes.pack
        chosen, measures = _chosen(cube, key, limits)
        tables = cubes.figures(release, cube, chosen, measures, n_contents=len(measures))
        table = _stacked(cube, tables, measures)
        if "json" in media:
            return Reply(body=sdmx_json(table, pack).encode(), media_type=media)
        text = sdmx_csv(table, pack)
        if "csv" in media:
            return Reply(body=text.encode(), media_type=media)
        found = {"dataflows": [a for a in self._message["data"]["dataflows"] if a["id"] == cube.id]}
        structures = {**self._message, "data": _with_references(found, self._message["data"])}
        return Reply(body=_data_ml(structures, text, media), media_type=media)

    def _flow(self, parts: Sequence[str]) -> tuple[Cube, str]:
        """The dataflow and the key of a path: data/dataflow/AGENCY/ID/VERSION/KEY, or data/AGENCY,ID,VERSION/KEY."""
        if parts[:1] == ["dataflow"]:
            agency, name, version, key = (*parts[1:], "", "", "", "")[:4]
        else:
            flow, key = (*parts, "", "")[:2]
            given = flow.split(",")
            agency, name, version = (*given, "")[:3] if len(given) > 1 else ("", flow, "")
        cube = self._server.cubes.cube(name)
        (artefact,) = [a for a in self._message["data"]["dataflows"] if a["id"] == cube.id]
        if not _is_named(artefact, agency, name, version):
            raise NotAnswerable(f"There is no dataflow {agency}:{name}({version})")
        return cube, key


def _is_named(artefact: Mapping[str, Any], agency: str, name: str, version: str) -> bool:
    """Whether a request is for an artefact."""
    return (
        (agency.lower() in _ANY or artefact["agencyID"] in agency.split(","))
        and (name in _ANY or artefact["id"] in name.split(","))
        and (version in _LATEST or artefact["version"].startswith(version))
    )


def _with_references(
    found: Mapping[str, list[dict[str, Any]]], whole: Mapping[str, list[dict[str, Any]]]
) -> dict[str, list[dict[str, Any]]]:
    """Artefacts with all that they refer to, at any depth."""
    known = {
        (_CLASSES[kind], f"{a['agencyID']}:{a['id']}({a['version']})"): (kind, a)
        for kind, artefacts in whole.items()
        for a in artefacts
    }
    out: dict[str, list[dict[str, Any]]] = {kind: list(a) for kind, a in found.items()}
    pending = [a for artefacts in found.values() for a in artefacts]
    while pending:
        for reference in _URN.findall(json.dumps(pending.pop())):
            kind, artefact = known[reference]
            listed = out.setdefault(kind, [])
            if artefact not in listed:
                listed.append(artefact)
                pending.append(artefact)
    return out


def _as_ml(message: Mapping[str, Any], media: str) -> bytes:
    """A structure message as SDMX-ML."""
    structures = _pysdmx().read_sdmx(json.dumps(message), validate=False).structures
    return _written(structures, media)


def _data_ml(message: Mapping[str, Any], csv: str, media: str) -> bytes:
    """Figures in SDMX-CSV as SDMX-ML, with the structures of their dataflow."""
    pysdmx = _pysdmx()
    import pandas as pd
    from pysdmx.io.pd import PandasDataset
    from pysdmx.model import Schema

    found = pysdmx.read_sdmx(json.dumps(message), validate=False)
    (flow,), (structure,) = found.get_dataflows(), found.get_data_structure_definitions()
    schema = Schema(
        context="dataflow",
        agency=flow.agency if isinstance(flow.agency, str) else flow.agency.id,
        id=flow.id,
        version=flow.version,
        components=structure.components,
    )
    frame = pd.read_csv(io.StringIO(csv), dtype=str, keep_default_na=False)
    frame = frame.drop(columns=["STRUCTURE", "STRUCTURE_ID", "ACTION"])
    figures = PandasDataset(structure=schema, data=frame)
    return _written(figures, media)


def _written(what: Any, media: str) -> bytes:
    """Structures or figures as an SDMX-ML message; equal ones give equal bytes, as elsewhere."""
    from pysdmx.io.format import Format
    from pysdmx.model import Organisation
    from pysdmx.model.message import Header

    sender = Organisation(id="TABLEPACK")
    prepared = datetime.datetime(1980, 1, 1, tzinfo=datetime.UTC)  # required
    header = Header(id="tablepack", prepared=prepared, sender=sender)
    text = _pysdmx().write_sdmx(what, Format(media), prettyprint=False, header=header)
    return str(text).encode()


def _pysdmx() -> Any:
    """pysdmx, with what it needs for SDMX-ML."""
    try:
        import pysdmx.io.xml  # refuses if a package that it needs is missing
    except ImportError:
        raise MissingPackage("SDMX-ML needs pysdmx: pip install 'tablepack[sdmx]'") from None
    return pysdmx.io


def _chosen(
    cube: Cube, key: str, limits: Mapping[str, str]
) -> tuple[dict[str, list[int]], list[Measure]]:
    """Items by column and measures that a key, and limits such as c[SEX]=F,M, choose."""
    dimensions = cube.shell.dimensions
    names = dimension_ids(cube.shell)
    given: list[list[str]] = [[] for _ in names]
    if key not in _ANY:
        parts = key.split(".")
        if len(parts) != len(names):
            raise QueryRefused(
                f"key {key!r}: {cube.id} has {len(names)} dimensions, {'.'.join(names)}"
            )
        given = [[] if part in _ANY else part.split("+") for part in parts]
    for name, text in limits.items():
        if name[2:-1] not in names:
            raise QueryRefused(f"{name}: {cube.id} has the dimensions {', '.join(names)}")
        given[names.index(name[2:-1])] = text.removeprefix("eq:").replace("+", ",").split(",")
    chosen = [_places(d, n, codes) for d, n, codes in zip(dimensions, names, given, strict=True)]
    *columns, measured = chosen
    codes = {dimensions[-1].items[p].code for p in measured}
    measures = [m for m in cube.measures if m.code in codes]
    if not measures:
        raise NotAnswerable(
            f"{cube.id} has the measures {', '.join(m.code for m in cube.measures)}"
        )
    return dict(zip(cube.columns, columns, strict=True)), measures


def _places(dimension: Dimension, name: str, codes: Sequence[str]) -> list[int]:
    """Positions of codes; without any those of all values."""
    if not codes:
        return dimension.places("value", "blank")
    place = {item.key: i for i, item in enumerate(dimension.items)}
    unknown = next((code for code in codes if code not in place), None)
    if unknown is not None:
        raise QueryRefused(f"{name} has no code {unknown!r}")
    return sorted({place[code] for code in codes})


def _stacked(cube: Cube, tables: Sequence[PackTable], measures: Sequence[Measure]) -> PackTable:
    """One table of all measures, with these as its last dimension."""
    axis = cube.shell.dimensions[-1]
    place = {item.code: i for i, item in enumerate(axis.items)}
    index = [
        np.column_stack([t.index, np.full(len(t), place[m.code], dtype=np.int32)])
        for t, m in zip(tables, measures, strict=True)
    ]
    return replace(
        cube.shell,
        index=np.concatenate(index),
        value=np.concatenate([t.value for t in tables]),
        low=np.concatenate([t.low for t in tables]),
        high=np.concatenate([t.high for t in tables]),
        status=np.concatenate([t.status for t in tables]),
        is_whole=all(t.is_whole for t in tables),
    )
