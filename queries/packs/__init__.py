"""Packs: what is published from a release for people, in every format that they use.

Takes an open release and a pack.toml; gives a folder of tables, code lists, metadata, a workbook and a web site. One
metadata model (`queries.packs.model`), many small writers; `publish` is the main path.
"""

from __future__ import annotations

from queries.packs.model import STATUSES, Pack
from queries.packs.pack_spec import PackSpec, pack_spec_from, read_pack_spec
from queries.packs.publishing import example_spec, preview, publish

__all__ = [
    "STATUSES",
    "Pack",
    "PackSpec",
    "example_spec",
    "pack_spec_from",
    "preview",
    "publish",
    "read_pack_spec",
]
