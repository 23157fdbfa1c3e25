"""PxWebApi 2, read-only: the released tables as PX tables, for the clients of statistical offices.

Variables are the columns, contents the measures with half of their noise interval and their status as a number. A
variable that is not selected is added up. Bands and levels of a hierarchy are codelists.
"""

from __future__ import annotations

import fnmatch
import html
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import FastAPI, Query, Request, Response
from pydantic import AliasChoices, BaseModel, Field, ValidationError

from engine.errors import NotAnswerable, QueryRefused
from engine.schema import FloatArray
from engine.store import unused_name
from engine.texts import html_table
from queries.packs import (
    STATUSES,
    Content,
    Contents,
    Dimension,
    PackTable,
    Texts,
    as_json,
    dataset,
    half_width,
    numbers_of,
    pcaxis,
    status_word,
)
from queries.release import Release
from queries.serve.cache import Reply
from queries.serve.cubes import Cube, Measure
from queries.serve.question import mistakes
from queries.serve.responses import root_of
from queries.serve.service import Service, json_reply
from queries.serve.tabulate import MAX_CELLS

PATH = "/api/px/v2"
_VERSION = "2.0.0"
_FORMATS = ("json-stat2", "csv", "px", "xlsx", "html", "parquet")
_MEDIA = {
    "px": "text/x-pcaxis; charset=utf-8",
    "html": "text/html; charset=utf-8",
}
_SHOWN = ("UseTexts", "UseCodes", "UseCodesAndTexts")
_MOST_PATTERNS = 60
"""Most patterns and expressions in a selection of one variable; single codes are not limited."""
_MOST_PAGE = 10_000
_EXPRESSION = re.compile(r"(top|bottom|range|from|to)\((.*)\)", re.IGNORECASE | re.DOTALL)
Name = Annotated[str, Field(max_length=300)]
Lang = Annotated[str, Query(max_length=20)]


class _Chosen(BaseModel):
    """What is selected of a variable."""

    variable: Name = Field(alias="variableCode")
    codes: Annotated[list[Name], Field(max_length=MAX_CELLS)] = Field([], alias="valueCodes")
    codelist: Name | None = Field(None, validation_alias=AliasChoices("codelist", "codeList"))
    output: Literal["aggregated", "single"] = Field("aggregated", alias="outputValues")


class _Selection(BaseModel):
    """The body of a request for data."""

    selection: Annotated[list[_Chosen], Field(max_length=30)] = []


@dataclass(frozen=True, kw_only=True, slots=True)
class _Asked:
    """What every request has: the language, by its place, and where links begin."""

    language: int
    code: str
    root: str

    def link(self, rel: str, path: str) -> dict[str, str]:
        """Return a link."""
        return {"rel": rel, "hreflang": self.code, "href": f"{self.root}{path}?lang={self.code}"}


def add_px(app: FastAPI, server: Service) -> None:
    """Add the paths of PxWebApi 2."""
    px = _Px(server)

    async def answered(
        request: Request, lang: str, what: str, make: Any, format: str = ""
    ) -> Response:
        root = f"{root_of(request)}{PATH}"

        def made(release: Release) -> Reply:
            return server.limited(make(_asked(px, lang, root), release))

        key = json.dumps(["px", what, format, lang, root])
        ending = format if format not in ("json-stat2", "html") else ""
        return await server.answer(request, key, made, name="table", format=ending or "json")

    @app.get(f"{PATH}/config", summary="PxWebApi 2: settings")
    async def config(request: Request, lang: Lang = "") -> Response:
        return await answered(request, lang, "config", lambda *_: px.config())

    @app.get(f"{PATH}/navigation", summary="PxWebApi 2: the folder of all tables")
    @app.get(f"{PATH}/navigation/{{id}}", include_in_schema=False)
    async def navigation(request: Request, id: str = "", lang: Lang = "") -> Response:
        return await answered(request, lang, f"at {id}", lambda asked, _: px.folder(asked, id))

    @app.get(f"{PATH}/tables", summary="PxWebApi 2: all tables, or those that a search finds")
    async def tables(
        request: Request,
        query: Annotated[str, Query(max_length=300)] = "",
        pageNumber: Annotated[int, Query(ge=1)] = 1,
        pageSize: Annotated[int, Query(ge=1, le=_MOST_PAGE)] = 100,
        lang: Lang = "",
    ) -> Response:
        what = f"tables {pageNumber} {pageSize} {query}"
        return await answered(
            request, lang, what, lambda asked, _: px.listed(asked, query, pageNumber, pageSize)
        )

    @app.get(f"{PATH}/tables/{{id}}", summary="PxWebApi 2: one table")
    async def table(request: Request, id: str, lang: Lang = "") -> Response:
        return await answered(request, lang, f"table {id}", lambda asked, _: px.about(asked, id))

    @app.get(f"{PATH}/tables/{{id}}/metadata", summary="PxWebApi 2: variables and codes of a table")
    async def metadata(
        request: Request,
        id: str,
        outputFormat: str = "json-stat2",
        lang: Lang = "",
    ) -> Response:
        if outputFormat != "json-stat2":
            raise QueryRefused(f"outputFormat {outputFormat!r}: metadata comes as json-stat2")
        return await answered(
            request, lang, f"metadata {id}", lambda asked, _: px.metadata(asked, id)
        )

    @app.get(f"{PATH}/codelists/{{id}}", summary="PxWebApi 2: bands or a level of a variable")
    async def codelist(request: Request, id: str, lang: Lang = "") -> Response:
        return await answered(
            request, lang, f"codelist {id}", lambda asked, _: px.codelist(asked, id)
        )

    async def data(request: Request, id: str, selected: _Selection) -> Response:
        given = {k.lower(): v for k, v in request.query_params.items()}
        format = given.get("outputformat", _FORMATS[0])
        params = tuple(filter(None, given.get("outputformatparams", "").split(",")))
        shown = next((p for p in params if p in _SHOWN), _SHOWN[0])
        if format not in _FORMATS or {*params} - {*_SHOWN}:
            raise QueryRefused(
                f"outputFormat {format!r} with {', '.join(params) or 'no parameters'}: allowed are "
                f"{', '.join(_FORMATS)}, with {', '.join(_SHOWN)}"
            )
        what = f"data {id} {shown} {selected.model_dump_json()}"
        return await answered(
            request,
            given.get("lang", ""),
            what,
            lambda asked, release: px.data(asked, release, id, selected, format, shown),
            format,
        )

    @app.get(f"{PATH}/tables/{{id}}/data", summary="PxWebApi 2: figures of a table")
    async def data_link(request: Request, id: str) -> Response:
        return await data(request, id, _from_link(request.query_params.multi_items()))

    @app.post(f"{PATH}/tables/{{id}}/data", summary="The same, with the selection as JSON")
    async def data_body(request: Request, id: str) -> Response:
        try:
            selected = _Selection.model_validate_json(await request.body() or b"{}")
        except ValidationError as error:
            raise QueryRefused(mistakes(error.errors(), ("selection",))) from None
        return await data(request, id, selected)


def _asked(px: _Px, lang: str, root: str) -> _Asked:
    languages = px.languages
    code = lang or languages[0]
    if code not in languages:
        raise QueryRefused(f"lang {lang!r}: there are {', '.join(languages)}")
    return _Asked(language=languages.index(code), code=code, root=root)


def _from_link(pairs: Iterable[tuple[str, str]]) -> _Selection:
    """The selection in a URL: valueCodes[sex]=F,M&codelist[age]=agg_age."""
    names = {"valuecodes": "valueCodes", "codelist": "codelist", "outputvalues": "outputValues"}
    chosen: dict[str, dict[str, Any]] = {}
    for name, text in pairs:
        head, _, rest = name.partition("[")
        if head.lower() in names and rest.endswith("]"):
            value = _listed(text) if head.lower() == "valuecodes" else text
            variable = rest[:-1]
            chosen.setdefault(variable, {"variableCode": variable})[names[head.lower()]] = value
    try:
        return _Selection.model_validate({"selection": list(chosen.values())})
    except ValidationError as error:
        raise QueryRefused(mistakes(error.errors(), names.values())) from None


def _listed(text: str) -> list[str]:
    """Codes of a URL, separated by commas outside brackets; a code with a comma stands in [ ]."""
    parts: list[list[str]] = [[]]
    depth = 0
    for character in text:
        depth += (character in "([") - (character in ")]")
        if character == "," and depth <= 0:
            parts.append([])
        else:
            parts[-1].append(character)
    codes = ["".join(part) for part in parts]
    return [c[1:-1] if c.startswith("[") and c.endswith("]") else c for c in codes if c]


class _Px:
    """The answers."""

    def __init__(self, server: Service) -> None:
        self._server = server

    @property
    def languages(self) -> tuple[str, ...]:
        """Codes of the languages, the default first."""
        return self._server.cubes.pack.languages

    def config(self) -> Reply:
        """Settings; the limit on calls is that of requests at once."""
        limits, pack = self._server.limits, self._server.cubes.pack
        names = zip(pack.languages, pack.words["language"], strict=True)
        return json_reply(
            {
                "apiVersion": _VERSION,
                "languages": [{"id": code, "label": label} for code, label in names],
                "defaultLanguage": pack.languages[0],
                "maxDataCells": MAX_CELLS,
                "maxCallsPerTimeWindow": limits.at_once_each,
                "timeWindow": 1,
                "license": pack.info.licence,
                "sourceReferences": [
                    {"language": code, "text": self._server.source} for code in pack.languages
                ],
                "defaultMetadataFormat": "json-stat2",
                "defaultDataFormat": _FORMATS[0],
                "dataFormats": list(_FORMATS),
                "features": [],
            }
        )

    def folder(self, asked: _Asked, name: str) -> Reply:
        """The only folder."""
        if name not in ("", "root"):
            raise NotAnswerable(f"There is no folder {name!r}; all tables are in the root")
        cubes = self._server.cubes
        return json_reply(
            {
                "language": asked.code,
                "id": "root",
                "label": cubes.pack.titles[asked.language],
                "folderContents": [self._entry(asked, cube) for cube in cubes.cubes.values()],
                "links": [asked.link("self", "/navigation")],
            }
        )

    def listed(self, asked: _Asked, query: str, number: int, size: int) -> Reply:
        """A page of the tables whose titles or variables have all words of a search."""
        words = query.casefold().split()
        entries = [self._entry(asked, cube) for cube in self._server.cubes.cubes.values()]

        def is_found(entry: Mapping[str, Any]) -> bool:
            text = " ".join([entry["id"], entry["label"], *entry["variableNames"]]).casefold()
            return all(word in text for word in words)

        found = [entry for entry in entries if is_found(entry)]
        page = {
            "pageNumber": number,
            "pageSize": size,
            "totalElements": len(found),
            "totalPages": max(1, math.ceil(len(found) / size)),
            "links": [],
        }
        part = found[(number - 1) * size : number * size]
        links = [asked.link("self", "/tables")]
        return json_reply({"language": asked.code, "tables": part, "page": page, "links": links})

    def about(self, asked: _Asked, name: str) -> Reply:
        """One table as it is listed."""
        cube = self._server.cubes.cube(name)
        return json_reply({"language": asked.code, **self._entry(asked, cube)})

    def _entry(self, asked: _Asked, cube: Cube) -> dict[str, Any]:
        """A table in a list."""
        pack, vintage = self._server.cubes.pack, self._server.release.vintage
        labels = [pack.dimensions[c].labels[asked.language] for c in cube.columns]
        return {
            "type": "Table",
            "id": cube.id,
            "label": cube.shell.titles[asked.language],
            "description": "",
            "sortCode": cube.id,
            "updated": None,
            "firstPeriod": vintage,
            "lastPeriod": vintage,
            "category": "public",
            "variableNames": [pack.words["contents"][asked.language], *labels],
            "discontinued": False,
            "paths": [[{"id": "root", "label": pack.titles[asked.language]}]],
            "links": [
                asked.link("self", f"/tables/{cube.id}"),
                asked.link("metadata", f"/tables/{cube.id}/metadata"),
                asked.link("data", f"/tables/{cube.id}/data"),
            ],
        }

    def metadata(self, asked: _Asked, name: str) -> Reply:
        """Variables and codes of a table, without figures."""
        cubes = self._server.cubes
        cube = cubes.cube(name)
        mine = [cubes.pack.dimensions[c] for c in cube.columns]
        places = [d.places("value", "blank") for d in mine]
        # Each position once and then again, so that every column of the index shows all of its positions.
        longest = max(map(len, places), default=0)
        index = np.array([np.resize(p, longest) for p in places], dtype=np.int32).T
        table = replace(cube.shell, dimensions=tuple(mine), index=index)
        table = replace(
            table,
            footnotes=tuple((note,) * len(self.languages) for note in cubes.pack.reader_notes),
        )
        contents = self._contents(cube, [table] * len(cube.measures), cube.measures)
        return self._jsonstat(asked, cube, table, contents)

    def codelist(self, asked: _Asked, name: str) -> Reply:
        """Groups with the codes in each."""
        for dimension in self._server.cubes.pack.dimensions.values():
            for listed, places in _codelists(dimension):
                if listed == name:
                    items = dimension.items
                    values = [
                        {
                            "code": items[p].code,
                            "label": items[p].labels[asked.language],
                            "valueMap": [items[m].code for m in items[p].members],
                        }
                        for p in places
                    ]
                    about = _about_codelist(asked, dimension, name)
                    return json_reply({"language": asked.code, **about, "values": values})
        raise NotAnswerable(f"There is no codelist {name!r}")

    def data(
        self,
        asked: _Asked,
        release: Release,
        name: str,
        selected: _Selection,
        format: str,
        shown: str,
    ) -> Reply:
        """Figures in a format."""
        cubes, server = self._server.cubes, self._server
        cube = cubes.cube(name)
        chosen, codes = self._selected(cube, selected)
        measures = [m for m in cube.measures if {*_codes(m)} & {*codes}]
        tables = cubes.figures(release, cube, chosen, measures, n_contents=len(codes))
        contents = self._contents(cube, tables, measures)
        contents = replace(contents, items=tuple(c for c in contents.items if c.code in codes))
        if format == "json-stat2":
            return self._jsonstat(asked, cube, tables[0], contents)
        if format == "px":
            text = pcaxis(tables[0], cubes.pack, contents)
            return Reply(body=text.encode(), media_type=_MEDIA[format])
        names, rows = _flat(tables[0], contents, asked.language, shown)
        if format == "html":
            title = html.escape(tables[0].titles[asked.language])
            text = html_table(names, rows, above=f"<h1>{title}</h1>", below=[tables[0].words])
            head = f'<!DOCTYPE html><html lang="{asked.code}"><meta charset="utf-8"><title>{title}</title>'
            return Reply(body=f"{head}{text}</html>".encode(), media_type=_MEDIA[format])
        return server.file(format, names, rows, [("Accuracy", tables[0].words)])

    def _selected(
        self, cube: Cube, selected: _Selection
    ) -> tuple[dict[str, Sequence[int]], tuple[str, ...]]:
        """Chosen items by column, and codes of the contents; without a selection all, as far as they fit."""
        dimensions = self._server.cubes.pack.dimensions
        axis, all_codes = self._axis(cube), tuple(c for m in cube.measures for c in _codes(m))
        if not selected.selection:
            every: dict[str, Sequence[int]] = {
                c: dimensions[c].places("value", "blank") for c in cube.columns
            }
            while math.prod([len(all_codes), *map(len, every.values())]) > MAX_CELLS:
                del every[max(every, key=lambda c: len(every[c]))]
            return every, all_codes
        chosen: dict[str, Sequence[int]] = {}
        codes = all_codes
        for one in selected.selection:
            if one.variable in chosen:
                raise QueryRefused(f"{one.variable}: is selected twice")
            if one.variable == axis:
                codes = tuple(_matching(one, all_codes)) or all_codes
            elif one.variable not in cube.columns:
                raise QueryRefused(
                    f"{one.variable!r} is no variable of {cube.id}; it has {', '.join([axis, *cube.columns])}"
                )
            elif one.codes:
                chosen[one.variable] = _places(one, dimensions[one.variable])
        return {c: chosen[c] for c in cube.columns if c in chosen}, codes

    def _axis(self, cube: Cube) -> str:
        """Code of the variable that holds the contents."""
        return unused_name("ContentsCode", cube.columns)

    def _contents(
        self, cube: Cube, tables: Sequence[PackTable], measures: Sequence[Measure]
    ) -> Contents:
        """Each measure with half of its interval and its status as a number."""
        pack, axis = self._server.cubes.pack, cube.shell.dimensions[-1]
        labels = {item.code: item.labels for item in axis.items}
        items = []
        for measure, table in zip(measures, tables, strict=True):
            about, codes = labels[measure.code], _codes(measure)
            half, status = (_joined(about, pack.words[w]) for w in ("half interval", "status"))
            shown: tuple[tuple[Texts, FloatArray, bool, int], ...] = (
                (about, table.value, table.is_whole, table.decimals),
                (half, half_width(table), False, max(table.decimals, 1)),
                (status, table.status.astype(np.float64) + 1, True, 0),
            )
            items += [
                Content(
                    code=code,
                    labels=texts,
                    units=table.units,
                    figures=figures,
                    status=table.status,
                    is_whole=is_whole,
                    decimals=decimals,
                )
                for code, (texts, figures, is_whole, decimals) in zip(codes, shown, strict=True)
            ]
        return Contents(name=self._axis(cube), labels=pack.words["contents"], items=tuple(items))

    def _jsonstat(self, asked: _Asked, cube: Cube, table: PackTable, contents: Contents) -> Reply:
        """A table as JSON-stat 2, with what PxWebApi adds to it."""
        pack = self._server.cubes.pack
        out = dataset(table, pack, asked.language, contents)
        for name, about in out["dimension"].items():
            category = about["category"]
            category["index"] = {code: i for i, code in enumerate(category["index"])}
            dimension = None if name == contents.name else pack.dimensions[name]
            lists = (
                []
                if dimension is None
                else [_about_codelist(asked, dimension, one) for one, _ in _codelists(dimension)]
            )
            about["extension"] = {
                "elimination": dimension is not None,
                "show": "value",
                "codeLists": lists,
            }
        out["source"] = self._server.source
        units = out["dimension"][contents.name]["category"]["unit"]
        for unit in units.values():
            unit["base"] = unit.pop("label")
        out["status"] = {str(i): s for i, s in enumerate(out["status"]) if s != STATUSES[0]}
        words = pack.words_in(asked.language)
        numbers = "; ".join(f"{i} = {words[status_word(s)]}" for i, s in enumerate(STATUSES, 1))
        out["note"] = [*filter(None, out["note"]), f"{words['status']}: {numbers}"]
        out["extension"]["px"] = {
            "tableid": cube.id,
            "matrix": cube.id,
            "decimals": max(c.decimals for c in contents.items),
            "language": asked.code,
        }
        return Reply(body=as_json(out, compact=True).encode())


def _codes(measure: Measure) -> tuple[str, str, str]:
    """Contents codes of a measure: the figure, half of its interval, its status."""
    return measure.code, f"{measure.code}_halfwidth", f"{measure.code}_status"


def _joined(a: Sequence[str], b: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{x}: {y}" for x, y in zip(a, b, strict=True))


def _codelists(dimension: Dimension) -> Iterator[tuple[str, list[int]]]:
    """Identifiers of the codelists of a variable, with the groups in each: those that are equally deep."""
    by_depth: dict[int, list[int]] = {}
    depth: dict[int, int] = {-1: -1}
    for place, item in enumerate(dimension.items):
        depth[place] = depth[item.parent] + 1
        if item.kind == "group":
            by_depth.setdefault(depth[place], []).append(place)
    for level, places in by_depth.items():
        yield f"agg_{dimension.key}" + (f"_{level + 1}" if level else ""), places


def _about_codelist(asked: _Asked, dimension: Dimension, name: str) -> dict[str, Any]:
    links = [asked.link("metadata", f"/codelists/{name}")]
    label = dimension.labels[asked.language]
    return {"id": name, "label": label, "type": "Aggregation", "links": links}


def _places(one: _Chosen, dimension: Dimension) -> list[int]:
    """Positions of the selected codes."""
    items, places = dimension.items, dimension.places("value", "blank")
    if one.codelist:
        lists = dict(_codelists(dimension))
        if one.codelist not in lists:
            raise QueryRefused(
                f"{one.codelist!r} is no codelist of {dimension.name}; it has {', '.join(lists) or 'none'}"
            )
        places = lists[one.codelist]
    place = {items[p].code: p for p in places}
    found = [place[code] for code in _matching(one, tuple(place))]
    if one.codelist and one.output == "single":
        found = [m for p in found for m in items[p].members]
    return sorted(set(found))


def _matching(one: _Chosen, codes: Sequence[str]) -> list[str]:
    """The codes that a selection names, by themselves, by a pattern, or by an expression such as top(3)."""
    place = {code: i for i, code in enumerate(codes)}
    out: dict[str, None] = {}
    n_patterns = 0
    for text in one.codes:
        if text in place:
            out[text] = None
            continue
        n_patterns += 1
        if n_patterns > _MOST_PATTERNS:
            raise QueryRefused(f"{one.variable}: at most {_MOST_PATTERNS} patterns can be selected")
        found = _by_pattern(text, codes, place)
        if not found:
            raise QueryRefused(f"{one.variable} has no value {text!r}")
        out |= dict.fromkeys(found)
    return list(out)


def _by_pattern(text: str, codes: Sequence[str], place: Mapping[str, int]) -> Sequence[str]:
    """The codes of a pattern with * and ?, or of an expression; none if it is neither."""
    if text == "*":
        return codes
    expression = _EXPRESSION.fullmatch(text)
    if expression is None:
        if not {*text} & {"*", "?"}:
            return ()
        return fnmatch.filter(codes, text.replace("[", "[[]"))
    what, given = expression[1].lower(), [part.strip() for part in expression[2].split(",")]
    if what in ("top", "bottom"):
        if not 1 <= len(given) <= 2 or not all(re.fullmatch(r"[0-9]{1,9}", g) for g in given):
            return ()
        n, skipped = int(given[0]), int(given[1]) if len(given) == 2 else 0
        ordered = codes if what == "top" else codes[::-1]
        return ordered[skipped : skipped + n]
    if len(given) != (2 if what == "range" else 1) or not {*given} <= {*place}:
        return ()
    ends = [place[g] for g in given]
    first = 0 if what == "to" else ends[0]
    last = len(codes) - 1 if what == "from" else ends[-1]
    return codes[first : last + 1]


def _flat(
    table: PackTable, contents: Contents, language: int, shown: str
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """A row for each combination of codes, with a column for each of the contents."""

    def said(code: str, label: str) -> str:
        both = {"UseTexts": label, "UseCodes": code}
        return both.get(shown, code if code == label else f"{code} {label}")

    names: list[str] = []
    for code, label in [
        *((d.name, d.labels[language]) for d in table.dimensions),
        *((c.code, c.labels[language]) for c in contents.items),
    ]:
        names.append(unused_name(said(code, label), names))
    columns: list[list[Any]] = []
    for j, d in enumerate(table.dimensions):
        texts = [said(item.code, item.labels[language]) for item in d.items]
        columns.append([texts[p] for p in table.index[:, j].tolist()])
    columns += [numbers_of(c.figures, c.is_whole) for c in contents.items]
    return names, list(zip(*columns, strict=True))
