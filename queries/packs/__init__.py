"""Packs: what is published from a release for people, in every format that they use.

Takes an open release and a pack.toml; gives a folder of tables, code lists, metadata, a workbook and a web site. One
metadata model (`queries.packs.model`), many small writers; `publish` is the main path.
"""

from __future__ import annotations

from queries.packs.pack_spec import PackSpec, pack_spec_from, read_pack_spec
from queries.packs.publishing import publish

__all__ = ["PackSpec", "pack_spec_from", "publish", "read_pack_spec"]
