"""PUBLIC. The release file: its tables, catalogue, cards and manifest; staged, then put in place in one step.

Takes fitted tables, their cards and the header of the release.
Gives one self-describing DuckDB file with a manifest next to it, by which readers open it.
May import the engine's root.
"""

from __future__ import annotations

from engine.store.card import (
    UNREVIEWED,
    GeneratorCard,
    clipped_words,
    exposure_sentences,
    range_words,
    swap_of_table,
    swap_sentences,
    words_of,
)
from engine.store.catalogue import (
    ANCESTOR_WORD,
    HIDDEN_WORDS,
    KIND_WORDS,
    count_names,
    kind_of,
    physical_name,
    table_name,
    unused_name,
)
from engine.store.decode import Carrier, as_text, carrier, decode_values, grid_value, prefix_mark
from engine.store.manifest import ATTACHED, ReleaseRecord, manifest_path, verify_release
from engine.store.opening import (
    DRAFT_TITLE,
    check_release,
    locked_connection,
    open_release,
    sign_release,
    verify_signature,
)
from engine.store.signature import (
    Signature,
    new_signing_key,
    read_signature,
    said_of,
    signature_path,
)
from engine.store.staging import (
    EarlierRelease,
    Staging,
    check_shared,
    check_target,
    earlier_release,
    place,
    remove_sets,
    removed_if_refused,
    set_note,
    set_path,
    writing,
)

__all__ = [
    "ANCESTOR_WORD",
    "ATTACHED",
    "DRAFT_TITLE",
    "HIDDEN_WORDS",
    "KIND_WORDS",
    "UNREVIEWED",
    "Carrier",
    "EarlierRelease",
    "GeneratorCard",
    "ReleaseRecord",
    "Signature",
    "Staging",
    "as_text",
    "carrier",
    "check_release",
    "check_shared",
    "check_target",
    "clipped_words",
    "count_names",
    "decode_values",
    "earlier_release",
    "exposure_sentences",
    "grid_value",
    "kind_of",
    "locked_connection",
    "manifest_path",
    "new_signing_key",
    "open_release",
    "physical_name",
    "place",
    "prefix_mark",
    "range_words",
    "read_signature",
    "remove_sets",
    "removed_if_refused",
    "said_of",
    "set_note",
    "set_path",
    "sign_release",
    "signature_path",
    "swap_of_table",
    "swap_sentences",
    "table_name",
    "unused_name",
    "verify_release",
    "verify_signature",
    "words_of",
    "writing",
]
