"""CONFIDENTIAL. Who is protected: keyed tokens of entities, digests of what the source holds, a sketch of its entities.

Takes the table of encoded rows.
Gives one with tokens beside the rows; digests by which a vintage is pinned; and the sketch that vintages share.
May import the engine's root, its neighbours in `engine.source`.
"""

from __future__ import annotations

from engine.source.entities.contents import PRIME, column_shapes, source_fingerprints
from engine.source.entities.sketch import sketch_of
from engine.source.entities.tokens import (
    CHUNK_ROWS,
    ROWS_WITH_TOKENS,
    SKETCHED,
    EntityColumn,
    add_tokens,
    codes_as_words,
    row_lanes,
    words_of_values,
)

__all__ = [
    "CHUNK_ROWS",
    "PRIME",
    "ROWS_WITH_TOKENS",
    "SKETCHED",
    "EntityColumn",
    "add_tokens",
    "codes_as_words",
    "column_shapes",
    "row_lanes",
    "sketch_of",
    "source_fingerprints",
    "words_of_values",
]
