"""A release over HTTP: a small JSON API and the table builder in the browser.

Read-only; every answer has a size limit and is cached by query. Page and API share one origin, and nothing is fetched
from elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from engine.errors import StoreError, TablepackError
from queries.release import Release, open_release
from queries.requests import LONGEST_NAME, LONGEST_REASON
from queries.sandbox import LimitedProcesses, ProcessLimits, shared_out
from queries.serve import downloads, openapi
from queries.serve import sql as statement
from queries.serve.about import definition_of
from queries.serve.cache import Reply
from queries.serve.errors import as_json, status_of
from queries.serve.guard import Guard
from queries.serve.lanes import Busy
from queries.serve.limits import Limits
from queries.serve.pages import in_language, page_files
from queries.serve.px import PATH as PX
from queries.serve.px import add_px
from queries.serve.question import Question, mistakes, question_of
from queries.serve.responses import client_name, response_of
from queries.serve.sdmx import add_sdmx
from queries.serve.service import Format, Service, json_reply, values_json
from queries.serve.tabulate import plan
from queries.serve.values import variable_of

LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})
"""Host names that a server without a token answers to."""
_UNSAVED = "Requests cannot be saved at the moment; please tell the operator of this server"
T = TypeVar("T")
_END_S = 1.0
"""Seconds that statements get to finish when the server stops."""
SqlFormat = Literal["json", "csv", "parquet", "xlsx"]
Sort = Annotated[
    str,
    Query(
        pattern=r"^((up|down)\.(\d{1,5}|all))?$",
        description="Row order of a workbook: down.0 (by the first column, largest first) or up.all.",
    ),
]


class Statement(BaseModel):
    """A SQL statement and the requested page of its rows.

    `intervals` adds noise intervals and statuses; `answer` identifies the result that an earlier page belongs to.
    """

    model_config = ConfigDict(extra="forbid")

    sql: Annotated[str, Field(min_length=1, max_length=50_000)]
    page: int = 1
    size: int = 100
    format: SqlFormat = "json"
    intervals: bool = False
    answer: Annotated[str, Field(max_length=100)] | None = None


class RequestedTable(BaseModel):
    """A request for a table that is not released: its columns, its purpose, and who asks."""

    model_config = ConfigDict(extra="forbid")

    columns: Annotated[list[str], Field(min_length=1, max_length=20)]
    reason: Annotated[str, Field(min_length=1, max_length=LONGEST_REASON)]
    who: Annotated[str, Field(max_length=LONGEST_NAME)] = ""


_BODIES: dict[str, type[BaseModel]] = {"/api/query": Statement, "/api/requests": RequestedTable}
"""Models of request bodies by path; all other paths take a `Question`."""


def app_of(
    release: str | Path | Release,
    *,
    token: str | None = None,
    limits: Limits | None = None,
    hosts: frozenset[str] = LOCAL_HOSTS,
    trust: str | Path | None = None,
    formulas: downloads.Formulas = "quote",
    siblings: Sequence[Mapping[str, str]] = (),
    takes_requests: bool = False,
) -> Guard:
    """Return the application that serves a release.

    token: Required with every request for data.
    trust: Open the release only if this public key signed it.
    formulas: "quote" puts an apostrophe before CSV text that a spreadsheet would run as a formula; "keep" leaves
        it unchanged.
    siblings: Place and title of all releases on the same server, possibly including this one.
    takes_requests: Users may request tables that are not released; requests are saved in a file next to the release.
    """
    limits = limits or Limits()
    share = shared_out(limits.memory, limits.places)
    allowed = ProcessLimits(
        seconds=limits.timeout_s,
        rows=limits.max_rows + 1,
        memory_mb=share,
        process_mb=max(2 * share, 512),
    )
    with (
        ExitStack() as resources
    ):  # closed if anything below fails, otherwise when the server stops
        if isinstance(release, Release):
            opened = release
        else:
            opened = resources.enter_context(
                open_release(release, timeout_s=limits.timeout_s, memory=limits.memory, trust=trust)
            )
        statements = LimitedProcesses(
            opened.path,
            limits=allowed,
            n=limits.places,
            record=opened.record,
            verify=opened.verify,
        )
        resources.callback(statements.close, _END_S)
        service = Service(
            opened,
            limits,
            statements,
            formulas=formulas,
            siblings=siblings,
            takes_requests=takes_requests,
        )
        resources.callback(service.close)
        on_stop = ExitStack()
        app = _application(service, on_stop)
        on_stop.push(resources.pop_all())
    return Guard(app, limits=limits, token=token, hosts=hosts, stop=service.close)


def _application(server: Service, resources: ExitStack) -> FastAPI:
    """The application; it closes its resources when the server stops."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        server.draw_ahead()
        try:
            yield
        finally:
            await asyncio.to_thread(resources.close)  # may wait for statements

    app = FastAPI(
        title=f"tablepack: {server.release.title}",
        version=server.release.engine_version,
        description="Tables of a synthetic release with noise intervals. Read-only.",
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    add_errors(app)
    _add_facts(app, server)
    _add_definitions(app, server)
    _add_tabulation(app, server)
    _add_statements(app, server)
    _add_requests(app, server)
    add_px(app, server)
    add_sdmx(app, server)
    _add_page(app)
    openapi.without_422(app.openapi())
    return app


def _add_facts(app: FastAPI, server: Service) -> None:
    """Variables, values, tables, and query plans."""

    @app.get("/api/variables", summary="The release and its variables, with labels and values")
    async def variables(request: Request) -> Response:
        return await server.answer(request, "variables", lambda _: json_reply(server.about()))

    @app.get("/api/values", summary="Released values of one variable, in pages")
    async def values(
        request: Request,
        column: str,
        start: Annotated[int, Query(ge=0)] = 0,
        size: Annotated[int, Query(ge=1, le=1000)] = 300,
    ) -> Response:
        variable = variable_of(server.variables, column)
        found = {"column": column, "n_values": len(variable.values)}
        return response_of(
            request, json_reply({**found, "values": values_json(variable, start, size)})
        )

    @app.get("/api/tables", summary="All released tables")
    async def tables(request: Request) -> Response:
        return await server.answer(request, "tables", server.tables)

    @app.get(
        "/api/plan",
        summary="Which table answers a query, and which variables can be added",
        openapi_extra={"parameters": openapi.parameters()},
        responses=openapi.answers("plan"),
    )
    async def planned(request: Request) -> Response:
        question = question_of(request.query_params.multi_items())
        return await server.answer(
            request,
            f"plan {question.link()}",
            lambda release: json_reply(plan(release, server.variables, question)),
        )


def _add_definitions(app: FastAPI, server: Service) -> None:
    """Definitions of variables, and maps."""

    @app.get(
        "/api/definition",
        summary="Definition, source, contact and population of a variable",
    )
    async def definition(request: Request, column: str) -> Response:
        def make(release: Release) -> Reply:
            return json_reply(definition_of(release, server.variables, server.beside, column))

        return await server.answer(request, f"definition {column}", make)

    @app.get("/api/map", summary="Outlines of a variable's areas, if the release has a map")
    async def outlines(request: Request, column: str) -> Response:
        return response_of(request, server.outlines(column))


def _add_tabulation(app: FastAPI, server: Service) -> None:
    """Cross tables."""

    async def table(
        request: Request, question: Question, format: Format, layout: tuple[str, bool] = ("", True)
    ) -> Response:
        return await server.answer(
            request,
            f"tabulate {format} {layout} {question.link()}",
            lambda release: server.table(release, question, format, layout),
            name="table",
            format=format,
        )

    shape = openapi.answers("table")

    @app.get(
        "/api/tabulate",
        summary="A table with noise intervals; the URL is the saved query",
        openapi_extra={"parameters": openapi.parameters()},
        responses=shape,
    )
    async def tabulate_link(
        request: Request, format: Format = "json", sort: Sort = "", intervals: bool = True
    ) -> Response:
        given = request.query_params.multi_items()
        pairs = [(k, v) for k, v in given if k not in ("format", "sort", "intervals")]
        return await table(request, question_of(pairs), format, (sort, intervals))

    @app.post("/api/tabulate", summary="The same as a JSON request", responses=shape)
    async def tabulate_body(
        request: Request, question: Question, format: Format = "json"
    ) -> Response:
        return await table(request, question, format)


def _add_statements(app: FastAPI, server: Service) -> None:
    """Results of SQL statements, in pages or as files."""

    async def rows(request: Request, query: Statement) -> Response:
        def page(reply: Reply) -> Reply:
            return Reply(body=statement.page_of(reply, query.page, query.size, query.answer))

        return await server.answer_sql(
            request, query.sql, query.format, page, intervals=query.intervals
        )

    shape = openapi.answers("page")

    @app.get("/api/query", summary="One read-only SQL statement, in pages", responses=shape)
    async def query_link(request: Request, query: Annotated[Statement, Query()]) -> Response:
        return await rows(request, query)

    @app.post("/api/query", summary="The same as a JSON request", responses=shape)
    async def query_body(request: Request, query: Statement) -> Response:
        return await rows(request, query)


def _add_requests(app: FastAPI, server: Service) -> None:
    """Requests for tables that are not released, if the server accepts them."""
    if not server.takes_requests:
        return

    async def kept(do: Callable[..., T], *given: Any) -> T:
        try:
            return await asyncio.to_thread(do, *given)
        except StoreError:  # details of the file are not for users
            raise HTTPException(503, _UNSAVED) from None

    @app.get("/api/requests", summary="Requested tables and the state of each request")
    async def asked(request: Request) -> Response:
        return response_of(request, json_reply({"requests": await kept(server.table_requests)}))

    @app.post("/api/requests", status_code=201, summary="Request a table that is not released")
    async def ask(request: Request, wanted: RequestedTable) -> Response:
        left = await kept(
            server.request_table, client_name(request), wanted.columns, wanted.reason, wanted.who
        )
        return JSONResponse({"number": left.number, "columns": list(left.columns)}, 201)


def _add_page(app: FastAPI) -> None:
    """The table builder: the page files of this package, nothing else."""
    for path, replies in page_files().items():
        if path.startswith("/front."):
            continue

        def page(request: Request, replies: Mapping[str, Reply] = replies) -> Response:
            reply, headers = in_language(replies, *language_preference(request))
            response = response_of(request, reply)
            response.headers.update(headers)
            return response

        app.add_route(path, page, methods=["GET", "HEAD"], include_in_schema=False)


def language_preference(request: Request) -> tuple[str, str]:
    """The language in the URL, and those the browser prefers."""
    return request.query_params.get("lang", ""), request.headers.get("accept-language", "")


def add_errors(app: FastAPI) -> None:
    """Report every error as JSON."""

    @app.exception_handler(TablepackError)
    async def ours(request: Request, error: TablepackError) -> Response:
        return _refused(request, as_json(error), status_of(error))

    @app.exception_handler(RequestValidationError)
    async def malformed(request: Request, error: RequestValidationError) -> Response:
        body = _BODIES.get(request.url.path, Question)
        message = mistakes(error.errors(), body.model_fields)
        return _refused(request, {"error": "BadRequest", "message": message}, 400)

    @app.exception_handler(Exception)
    async def unexpected(_: Request, error: Exception) -> Response:
        return JSONResponse(as_json(error), 500)

    @app.exception_handler(Busy)
    async def busy(_: Request, error: Busy) -> Response:
        body = {"error": "Busy", "message": str(error)}
        return JSONResponse(body, 503, headers={"retry-after": str(error.retry_s)})

    @app.exception_handler(HTTPException)
    async def http(_: Request, error: HTTPException) -> Response:
        body = {"error": "BadRequest", "message": str(error.detail)}
        return JSONResponse(body, error.status_code, headers=error.headers)


def _refused(request: Request, body: dict[str, Any], status: int) -> Response:
    """An error as JSON; clients of PxWebApi read it as RFC 7807 has it."""
    if not request.scope["path"].startswith(PX):
        return JSONResponse(body, status)
    problem = {"title": body["error"], "status": status, "detail": body["message"]}
    return JSONResponse({**body, **problem}, status, media_type="application/problem+json")
