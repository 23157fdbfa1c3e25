"""A release over HTTP: a small JSON API and the table builder in the browser.

Takes a release; gives an ASGI application. Reads only; every answer is bounded, and cached by question. The page and
the API are one origin, nothing is fetched from elsewhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from engine.errors import TablepackError
from queries.release import Release, open_release
from queries.sandbox import ProcessLimits, limited_processes, shared_out
from queries.serve import document, downloads
from queries.serve import sql as statement
from queries.serve.cache import Reply
from queries.serve.errors import as_json, status_of
from queries.serve.guard import App, Guard, Limits
from queries.serve.question import Question, mistakes, question_of
from queries.serve.service import Format, Service, json_reply, values_json
from queries.serve.tabulate import plan
from queries.serve.values import variable_of

LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})
"""Names under which a server without a token may be asked."""
_MEDIA = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""Content type of each file of the page; others are not served."""
SqlFormat = Literal["json", "csv", "parquet", "xlsx"]


class Statement(BaseModel):
    """A statement to answer, and which page of its rows.

    `intervals` adds noise intervals and statuses; `answer` names the answer that an earlier page was of.
    """

    model_config = ConfigDict(extra="forbid")

    sql: Annotated[str, Field(min_length=1, max_length=50_000)]
    page: int = 1
    size: int = 100
    format: SqlFormat = "json"
    intervals: bool = False
    answer: Annotated[str, Field(max_length=100)] | None = None


def app_of(
    release: str | Path | Release,
    *,
    token: str | None = None,
    limits: Limits | None = None,
    hosts: frozenset[str] = LOCAL_HOSTS,
    timeout_s: float = 10.0,
    memory: str = "1GB",
) -> App:
    """Return the application that serves a release.

    Parameters
    ----------
    release : path or Release
        A path is opened, and closed when the server stops.
    token : str or None
        What every request for data must bring.
    hosts : frozenset of str
        Names it answers to where it has no token.
    timeout_s : float
        Seconds after which a statement is stopped.
    memory : str
        Memory that all statements share.

    Raises
    ------
    StoreError, DamagedRelease
        As `queries.release.open_release`; or the memory is no size, or too little.
    """
    limits = limits or Limits()
    share = shared_out(memory, limits.workers)
    allowed = ProcessLimits(
        seconds=timeout_s, rows=limits.rows + 1, memory_mb=share, process_mb=max(2 * share, 512)
    )
    with (
        ExitStack() as resources
    ):  # closed where anything below fails, and else when the server stops
        if isinstance(release, Release):
            opened = release
        else:
            opened = resources.enter_context(
                open_release(release, timeout_s=timeout_s, memory=memory)
            )
        statements = resources.enter_context(
            limited_processes(opened.path, limits=allowed, n=limits.workers)
        )
        on_stop = ExitStack()
        app = _application(Service(opened, limits, statements), on_stop)
        on_stop.push(resources.pop_all())
    return Guard(app, limits=limits, token=token, hosts=hosts)


def _application(server: Service, resources: ExitStack) -> FastAPI:
    """The application itself; closes its resources when the server stops."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        with resources:
            yield

    app = FastAPI(
        title=f"tablepack: {server.release.title}",
        version=server.release.engine_version,
        description="Tables of a synthetic release, with noise intervals. Read only.",
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    _add_errors(app)
    _add_facts(app, server)
    _add_questions(app, server)
    _add_page(app)
    document.without_422(app.openapi())
    return app


def _add_facts(app: FastAPI, server: Service) -> None:
    """Variables, values, tables, and the plan of a question."""

    @app.get("/api/variables", summary="The release and its variables, with labels and values")
    async def variables(request: Request) -> Response:
        reply = await server.reply("variables", lambda: json_reply(server.about()))
        return _response(request, reply)

    @app.get("/api/values", summary="Released values of one variable, in pages")
    async def values(
        request: Request,
        column: str,
        start: Annotated[int, Query(ge=0)] = 0,
        size: Annotated[int, Query(ge=1, le=1000)] = 300,
    ) -> Response:
        variable = variable_of(server.variables, column)
        values = values_json(variable, start, size)
        n_values = len(variable.values)
        return _response(
            request, json_reply({"column": column, "n_values": n_values, "values": values})
        )

    @app.get("/api/tables", summary="All released tables")
    async def tables(request: Request) -> Response:
        reply = await server.reply("tables", lambda: json_reply({"tables": server.tables()}))
        return _response(request, reply)

    @app.get(
        "/api/plan",
        summary="What a question would be answered from, and what can be added to it",
        openapi_extra={"parameters": document.parameters()},
        responses=document.answers("plan"),
    )
    async def planned(request: Request) -> Response:
        question = question_of(request.query_params.multi_items())
        reply = await server.reply(
            f"plan {question.link()}",
            lambda: json_reply(plan(server.release, server.variables, question)),
        )
        return _response(request, reply)


def _add_questions(app: FastAPI, server: Service) -> None:
    """Tables and statements."""

    async def table(request: Request, question: Question, format: Format) -> Response:
        reply = await server.reply(
            f"tabulate {format} {question.link()}", lambda: server.table(question, format)
        )
        return _response(request, reply, "table", format)

    shape = document.answers("table")

    @app.get(
        "/api/tabulate",
        summary="A table with noise intervals; its address is the saved query",
        openapi_extra={"parameters": document.parameters()},
        responses=shape,
    )
    async def tabulate_link(request: Request, format: Format = "json") -> Response:
        pairs = [(k, v) for k, v in request.query_params.multi_items() if k != "format"]
        return await table(request, question_of(pairs), format)

    @app.post("/api/tabulate", summary="The same, asked as JSON", responses=shape)
    async def tabulate_body(
        request: Request, question: Question, format: Format = "json"
    ) -> Response:
        return await table(request, question, format)

    async def rows(request: Request, query: Statement) -> Response:
        text, intervals, format = query.sql, query.intervals, query.format
        key = f"{intervals:d} {text}"
        answer = await server.reply(f"sql {key}", lambda: server.sql(text, intervals=intervals))
        if format == "json":
            body = statement.page_of(answer, query.page, query.size, query.answer)
            return _response(request, Reply(body=body))
        file = await server.reply(f"file {format} {key}", lambda: server.sql_file(answer, format))
        return _response(request, file, "answer", format)

    page = document.answers("page")

    @app.get("/api/query", summary="One SELECT-like statement, in pages", responses=page)
    async def query_link(request: Request, query: Annotated[Statement, Query()]) -> Response:
        return await rows(request, query)

    @app.post("/api/query", summary="The same, asked as JSON", responses=page)
    async def query_body(request: Request, query: Statement) -> Response:
        return await rows(request, query)


def _add_page(app: FastAPI) -> None:
    """The table builder: a few files of this package, and nothing else."""
    for file in (files("queries.serve") / "web").iterdir():
        media_type = _MEDIA.get(Path(file.name).suffix)
        if media_type is None:
            continue
        path = "/" if file.name == "index.html" else f"/{file.name}"
        reply = Reply(body=file.read_bytes(), media_type=media_type)

        def page(request: Request, reply: Reply = reply) -> Response:
            return _response(request, reply)

        app.add_route(path, page, methods=["GET", "HEAD"], include_in_schema=False)


def _add_errors(app: FastAPI) -> None:
    """Every error as JSON."""

    @app.exception_handler(TablepackError)
    async def ours(_: Request, error: TablepackError) -> Response:
        return JSONResponse(as_json(error), status_of(error))

    @app.exception_handler(RequestValidationError)
    async def malformed(request: Request, error: RequestValidationError) -> Response:
        allowed = Statement.model_fields if request.url.path == "/api/query" else ()
        message = mistakes(error.errors(), allowed)
        return JSONResponse({"error": "BadRequest", "message": message}, 400)

    @app.exception_handler(Exception)
    async def unexpected(_: Request, error: Exception) -> Response:
        return JSONResponse(as_json(error), 500)

    @app.exception_handler(HTTPException)
    async def http(_: Request, error: HTTPException) -> Response:
        name = "Busy" if error.status_code == 503 else "BadRequest"
        body = {"error": name, "message": str(error.detail)}
        return JSONResponse(body, error.status_code, headers=error.headers)


def _response(request: Request, reply: Reply, name: str = "", format: str = "json") -> Response:
    """A reply; or only that the one which the client has still holds."""
    tag = '"' + hashlib.blake2b(reply.body, digest_size=12).hexdigest() + '"'
    headers = {"etag": tag, "cache-control": "private, no-cache"}
    if format != "json":
        file = f"{name}.{downloads.ENDINGS[format]}"
        headers["content-disposition"] = f'attachment; filename="{file}"'
    known = request.headers.get("if-none-match", "").split(",")
    if {part.strip().removeprefix("W/") for part in known} & {tag, "*"}:
        return Response(status_code=304, headers=headers)
    return Response(reply.body, media_type=reply.media_type, headers=headers)
