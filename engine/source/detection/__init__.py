"""CONFIDENTIAL. Detection: what a spec must say of a source that nobody has described yet.

Takes an opened source.
Gives column declarations marked as detected, and the text of a spec (`tablepack init`).
May import the engine's root, `engine.spec`, `engine.source`.
"""

from __future__ import annotations

from engine.source.detection.detect import detect_source, make_spec
from engine.source.detection.spec_text import Detection, key_name, spec_text

__all__ = ["Detection", "detect_source", "key_name", "make_spec", "spec_text"]
