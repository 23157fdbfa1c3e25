"""Packs: publications of a release for the public, in many formats from one model of the metadata.

Takes an open release and a `PackSpec` (pack.toml).
Returns a folder of files (`publish`), or the model alone (`preview`). `queries.serve` makes single tables of the
    model (`chosen_table`) and renders them as a pack would.
May import `engine.errors`, `engine.schema`, `engine.store`, `queries.sql`, `queries.intervals`,
    `queries.release`.
"""

from __future__ import annotations

from queries.packs.model import STATUSES, Pack
from queries.packs.publication import example_spec, files_by_format, preview, publish
from queries.packs.spec import PackSpec, pack_spec_from, read_pack_spec

__all__ = [
    "STATUSES",
    "Pack",
    "PackSpec",
    "example_spec",
    "files_by_format",
    "pack_spec_from",
    "preview",
    "publish",
    "read_pack_spec",
]
