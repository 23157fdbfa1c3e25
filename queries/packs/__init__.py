"""Packs: publications of a release for the public, in many formats from one model of the metadata.

Takes an open release and a `PackSpec` (pack.toml).
Returns a folder of files (`publish`), or the model alone (`preview`). `queries.serve` makes single tables of the
    model (`chosen_table`) and renders them as a pack would.
May import `engine.errors`, `engine.schema`, `engine.store`, `queries.sql`, `queries.intervals`,
    `queries.release`.
"""

from __future__ import annotations

from queries.packs.assembly import pack_of
from queries.packs.bands import Axis, axis_of
from queries.packs.dimensions import dimension_of
from queries.packs.files import File, Format, as_json, numbers_of, text_file
from queries.packs.formats.jsonstat import dataset
from queries.packs.formats.pcaxis import pcaxis
from queries.packs.formats.sdmx import dimension_ids, sdmx_csv, sdmx_json, sdmx_structure
from queries.packs.model import (
    STATUSES,
    Content,
    Contents,
    Dimension,
    Item,
    Pack,
    PackTable,
    Texts,
    half_width,
    sorted_figures,
)
from queries.packs.publication import example_spec, files_by_format, preview, publish
from queries.packs.sources import Sources
from queries.packs.spec import ColumnSpec, PackInfo, PackSpec, pack_spec_from, read_pack_spec
from queries.packs.tables import chosen_slices, chosen_table
from queries.packs.texts import status_word, translations

__all__ = [
    "STATUSES",
    "Axis",
    "ColumnSpec",
    "Content",
    "Contents",
    "Dimension",
    "File",
    "Format",
    "Item",
    "Pack",
    "PackInfo",
    "PackSpec",
    "PackTable",
    "Sources",
    "Texts",
    "as_json",
    "axis_of",
    "chosen_slices",
    "chosen_table",
    "dataset",
    "dimension_ids",
    "dimension_of",
    "example_spec",
    "files_by_format",
    "half_width",
    "numbers_of",
    "pack_of",
    "pack_spec_from",
    "pcaxis",
    "preview",
    "publish",
    "read_pack_spec",
    "sdmx_csv",
    "sdmx_json",
    "sdmx_structure",
    "sorted_figures",
    "status_word",
    "text_file",
    "translations",
]
