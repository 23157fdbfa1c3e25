"""PUBLIC. The release file: its tables, catalogue, cards and manifest; staged, then put in place in one step.

Takes fitted tables and cards, and what the release says of itself.
Gives one DuckDB file that explains itself, with a manifest beside it; readers open it by that manifest.
May import the engine's root.
"""

from __future__ import annotations

from engine.store.card import GeneratorCard, exposure_sentences
from engine.store.card_dp import promises
from engine.store.catalogue import KIND_WORDS, count_names, physical_name, table_name, unused_name
from engine.store.decode import as_text, grid_value
from engine.store.manifest import ATTACHED, manifest_path, open_release, verify_release
from engine.store.staging import Staging
from engine.store.target import check_target, removed_if_refused, writing

__all__ = [
    "ATTACHED",
    "KIND_WORDS",
    "GeneratorCard",
    "Staging",
    "as_text",
    "check_target",
    "count_names",
    "exposure_sentences",
    "grid_value",
    "manifest_path",
    "open_release",
    "physical_name",
    "promises",
    "removed_if_refused",
    "table_name",
    "unused_name",
    "verify_release",
    "writing",
]
