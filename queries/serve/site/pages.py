"""The files of the pages: those of this package, and nothing else."""

from __future__ import annotations

from pathlib import Path

from queries.serve.cache import Reply

_MEDIA = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
}
"""Content type of each file; others are not served."""


def page_files() -> dict[str, Reply]:
    """Return the files by the path at which they are served."""
    out = {}
    for file in (Path(__file__).parents[1] / "web").iterdir():
        media_type = _MEDIA.get(Path(file.name).suffix)
        if media_type is not None:
            path = "/" if file.name == "index.html" else f"/{file.name}"
            out[path] = Reply(body=file.read_bytes(), media_type=media_type)
    return out
