"""Finished replies as HTTP responses: their tag, their file name, and 304 where the client already has them."""

from __future__ import annotations

import hashlib

from fastapi import Request, Response

from queries.serve import downloads
from queries.serve.cache import Reply
from queries.serve.guard import client_of

BELOW = "tablepack.below"
"""What the front page adds to the scope of a request: where the release that it is for begins."""


def root_of(request: Request) -> str:
    """Return the address at which the release is served, without a slash at its end."""
    return f"{str(request.base_url).rstrip('/')}{request.scope.get(BELOW, '')}"


def client_name(request: Request) -> str:
    """Return the client that limits are counted for."""
    return client_of("?" if request.client is None else request.client.host)


def response_of(request: Request, reply: Reply, name: str = "", format: str = "json") -> Response:
    """Return a reply, or 304 if the client already has it."""
    tag = '"' + hashlib.blake2b(reply.body, digest_size=12).hexdigest() + '"'
    headers = {"etag": tag, "cache-control": "private, no-cache"}
    if format != "json":
        file = f"{name}.{downloads.ENDINGS[format]}"
        headers["content-disposition"] = f'attachment; filename="{file}"'
    if reply.formulas:
        headers["csv-formulas"] = reply.formulas
    known = request.headers.get("if-none-match", "").split(",")
    if {part.strip().removeprefix("W/") for part in known} & {tag, "*"}:
        return Response(status_code=304, headers=headers)
    return Response(reply.body, media_type=reply.media_type, headers=headers)
