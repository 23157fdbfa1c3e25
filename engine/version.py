"""Version of the engine.

The version is part of every card. Bump it, with an entry in CHANGELOG.md, whenever released numbers change.
"""

from __future__ import annotations

ENGINE_VERSION = "0.4.0.dev0"
__version__ = ENGINE_VERSION
