"""CONFIDENTIAL. Detection: what a spec must say of a source that nobody has described yet.

Takes an opened source.
Gives column declarations marked as detected, and the text of a spec (`tablepack init`).
May import the engine's root, `engine.spec`, `engine.source`.
"""

from __future__ import annotations

from engine.source.detection.detect import detect_source, source_of
from engine.source.detection.determined import Table, copies, encoded_table
from engine.source.detection.made_spec import SourceSettings, make_spec
from engine.source.detection.names import asked_first
from engine.source.detection.spec_text import Detection, key_name, spec_text
from engine.source.detection.thresholds import keyed_thresholds

__all__ = [
    "Detection",
    "SourceSettings",
    "Table",
    "asked_first",
    "copies",
    "detect_source",
    "encoded_table",
    "key_name",
    "keyed_thresholds",
    "make_spec",
    "source_of",
    "spec_text",
]
