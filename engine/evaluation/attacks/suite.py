"""All attacks, in the order of reports. What an attack draws is fixed by the seed and its own name."""

from __future__ import annotations

from typing import Any

from engine.evaluation.attacks.protocol import Held
from engine.evaluation.data.aligned import generator
from engine.evaluation.findings import ENTRIES, Finding
from engine.progress import Progress

ATTACKS = tuple(name for name, entry in ENTRIES.items() if entry.kind == "attack")
STRONG_ATTACKS = tuple(name for name, entry in ENTRIES.items() if entry.kind == "strong attack")


def attack_one(name: str, held: Held, options: Any, *, seed: int) -> Finding:
    """Run one attack; `options` is the study's `risks` or, for a strong one, its `attacks`."""
    found: Finding = ENTRIES[name].function()(held, options, generator(seed, name))
    return found


def attack_all(
    held: Held,
    options: Any,
    *,
    seed: int,
    names: tuple[str, ...] = ATTACKS,
    progress: Progress | None = None,
) -> dict[str, Finding]:
    """Run attacks, by default the quick ones."""
    found = {}
    for done, name in enumerate(names):
        if progress is not None:
            progress(name, done, len(names))
        found[name] = attack_one(name, held, options, seed=seed)
    return found
