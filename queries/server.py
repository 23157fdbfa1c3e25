"""A release over HTTP: a small JSON API and the table builder in the browser.

Takes a release; gives an ASGI application. Reads only; every answer is bounded, and kept by question. The page and the
API are one origin, nothing is fetched from elsewhere.
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
from queries import api_document as document
from queries import api_downloads as downloads
from queries import api_sql
from queries.api_cache import Kept
from queries.api_errors import status_of, told
from queries.api_guard import App, Guard, Limits
from queries.api_question import Question, mistakes, question_of
from queries.api_service import Form, Service, json_kept, values_json
from queries.api_tabulate import plan
from queries.api_values import variable
from queries.limited import limited_processes
from queries.sandbox import ProcessLimits, shared_out
from queries.session import Release, open_release

LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})
"""Names under which a server without a token may be asked."""
_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""Content type of each kind of file of the page; others are not served."""
SqlForm = Literal["json", "csv", "parquet", "xlsx"]


class Statement(BaseModel):
    """A statement to answer, and which page of its rows.

    `intervals` adds how sure its figures are; `answer` is what an earlier page said it is of.
    """

    model_config = ConfigDict(extra="forbid")

    sql: Annotated[str, Field(min_length=1, max_length=50_000)]
    page: int = 1
    size: int = 100
    format: SqlForm = "json"
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
    limits : Limits or None
    hosts : frozenset of str
        Names it answers to where it has no token.
    timeout_s : float
        Seconds after which a statement is stopped.
    memory : str
        Memory that all statements share.

    Raises
    ------
    StoreError, DamagedRelease
        As `queries.session.open_release`; or the memory is no size, or too little.
    """
    limits = limits or Limits()
    share = shared_out(memory, limits.workers)
    allowed = ProcessLimits(
        seconds=timeout_s, rows=limits.rows + 1, memory_mb=share, process_mb=max(2 * share, 512)
    )
    with ExitStack() as held:  # let go where anything below fails, and else when the server stops
        if isinstance(release, Release):
            opened = release
        else:
            opened = held.enter_context(open_release(release, timeout_s=timeout_s, memory=memory))
        statements = held.enter_context(
            limited_processes(opened.path, limits=allowed, n=limits.workers)
        )
        letting_go = ExitStack()
        app = _application(Service(opened, limits, statements), letting_go)
        letting_go.push(held.pop_all())
    return Guard(app, limits=limits, token=token, hosts=hosts)


def _application(server: Service, held: ExitStack) -> FastAPI:
    """The application itself; lets go of what is held when the server stops."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        with held:
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
    """What is there to ask about."""

    @app.get("/api/variables", summary="The release and its variables, with labels and values")
    async def variables(request: Request) -> Response:
        return _sent(request, await server.kept("variables", lambda: json_kept(server.about())))

    @app.get("/api/values", summary="Released values of one variable, in pages")
    async def values(
        request: Request,
        column: str,
        start: Annotated[int, Query(ge=0)] = 0,
        size: Annotated[int, Query(ge=1, le=1000)] = 300,
    ) -> Response:
        about = variable(server.variables, column)
        said = {
            "column": column,
            "n_values": len(about.values),
            "values": values_json(about, start, size),
        }
        return _sent(request, json_kept(said))

    @app.get("/api/tables", summary="All released tables")
    async def tables(request: Request) -> Response:
        return _sent(
            request, await server.kept("tables", lambda: json_kept({"tables": server.tables()}))
        )

    @app.get(
        "/api/plan",
        summary="What a question would be answered from, and what can be added to it",
        openapi_extra={"parameters": document.parameters()},
        responses=document.answers("plan"),
    )
    async def planned(request: Request) -> Response:
        asked = question_of(request.query_params.multi_items())
        made = lambda: json_kept(plan(server.release, server.variables, asked))  # noqa: E731
        return _sent(request, await server.kept(f"plan {asked.link()}", made))


def _add_questions(app: FastAPI, server: Service) -> None:
    """Tables and statements."""

    async def tabulated(request: Request, asked: Question, form: Form) -> Response:
        question = f"tabulate {form} {asked.link()}"
        kept = await server.kept(question, lambda: server.tabulated(asked, form))
        return _sent(request, kept, "table", form)

    shape = document.answers("table")

    @app.get(
        "/api/tabulate",
        summary="A table with noise intervals; its address is the saved query",
        openapi_extra={"parameters": document.parameters()},
        responses=shape,
    )
    async def tabulate_link(request: Request, format: Form = "json") -> Response:
        pairs = [(k, v) for k, v in request.query_params.multi_items() if k != "format"]
        return await tabulated(request, question_of(pairs), format)

    @app.post("/api/tabulate", summary="The same, asked as JSON", responses=shape)
    async def tabulate_body(request: Request, asked: Question, format: Form = "json") -> Response:
        return await tabulated(request, asked, format)

    async def queried(request: Request, asked: Statement) -> Response:
        question = f"{asked.intervals:d} {asked.sql}"
        kept = await server.kept(
            f"sql {question}", lambda: server.sql(asked.sql, intervals=asked.intervals)
        )
        if asked.format == "json":
            return _sent(
                request, Kept(body=api_sql.page_of(kept, asked.page, asked.size, asked.answer))
            )
        made = await server.kept(
            f"file {asked.format} {question}", lambda: server.sql_file(kept, asked.format)
        )
        return _sent(request, made, "answer", asked.format)

    page = document.answers("page")

    @app.get("/api/query", summary="One SELECT-like statement, in pages", responses=page)
    async def query_link(request: Request, asked: Annotated[Statement, Query()]) -> Response:
        return await queried(request, asked)

    @app.post("/api/query", summary="The same, asked as JSON", responses=page)
    async def query_body(request: Request, asked: Statement) -> Response:
        return await queried(request, asked)


def _add_page(app: FastAPI) -> None:
    """The table builder: a few files of this package, and nothing else."""
    for file in (files("queries") / "web").iterdir():
        kind = _KINDS.get(Path(file.name).suffix)
        if kind is None:
            continue
        path = "/" if file.name == "index.html" else f"/{file.name}"
        kept = Kept(body=file.read_bytes(), media_type=kind)

        def page(request: Request, kept: Kept = kept) -> Response:
            return _sent(request, kept)

        app.add_route(path, page, methods=["GET", "HEAD"], include_in_schema=False)


def _add_errors(app: FastAPI) -> None:
    """Every error as JSON."""

    @app.exception_handler(TablepackError)
    async def ours(_: Request, error: TablepackError) -> Response:
        return JSONResponse(told(error), status_of(error))

    @app.exception_handler(RequestValidationError)
    async def malformed(request: Request, error: RequestValidationError) -> Response:
        allowed = Statement.model_fields if request.url.path == "/api/query" else ()
        said = {"error": "BadRequest", "message": mistakes(error.errors(), allowed)}
        return JSONResponse(said, 400)

    @app.exception_handler(Exception)
    async def unexpected(_: Request, error: Exception) -> Response:
        return JSONResponse(told(error), 500)

    @app.exception_handler(HTTPException)
    async def http(_: Request, error: HTTPException) -> Response:
        name = "Busy" if error.status_code == 503 else "BadRequest"
        said = {"error": name, "message": str(error.detail)}
        return JSONResponse(said, error.status_code, headers=error.headers)


def _sent(request: Request, kept: Kept, name: str = "", form: str = "json") -> Response:
    """Send an answer, or only say that the one the asker has still holds."""
    tag = '"' + hashlib.blake2b(kept.body, digest_size=12).hexdigest() + '"'
    headers = {"etag": tag, "cache-control": "private, no-cache"}
    if form != "json":
        headers["content-disposition"] = f'attachment; filename="{name}.{downloads.ENDINGS[form]}"'
    asked = request.headers.get("if-none-match", "")
    held = {part.strip().removeprefix("W/") for part in asked.split(",")}
    if held & {tag, "*"}:
        return Response(status_code=304, headers=headers)
    return Response(kept.body, media_type=kept.media_type, headers=headers)
