"""tablepack: small synthetic tables from confidential microdata.

The main path, one module per step:

    spec       what to release, from where, about whom           engine.spec.reading
    opening    read the source, identify entities, pin it        engine.source.opening
    measure    snapped ranges, sticky noise (sees real rows)     engine.measure.sticky
    -------    a folder of files: no real rows beyond it         engine.release.folder
    fit        lock every table to the narrower ones             engine.fit.locking
    sample     whole numbers, values of released leaves          engine.fit.supports, engine.fit.whole
    store      one DuckDB file that explains itself              engine.store.staging
    query      SQL over the released tables                      queries.sql.session

In mode dp the path is engine.release.dp: engine.measure.dp.margins measures, engine.fit.joint fits and samples.
`engine.build(...)` runs all steps and returns a `Release`; `engine.evaluate` compares it with the data,
`engine.compare` compares both modes; `engine.tabulate` gives figures with intervals, `engine.publish_pack` writes them
for publication. Importing this package loads nothing: public names are resolved when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.api.amend import add, drop
    from engine.api.audit import audit, card
    from engine.api.build import build, fit_release, measure_release, new_key, open, plan
    from engine.api.choose import choose
    from engine.api.compare import compare
    from engine.api.draft import draft, remove_drafts, synthesize
    from engine.api.evaluate import attack, evaluate
    from engine.api.publish import publish_pack
    from engine.errors import (
        BudgetError,
        DamagedRelease,
        DataError,
        InternalError,
        NotAnswerable,
        PrivacyError,
        QueryRefused,
        SpecError,
        StoreError,
        TablepackError,
    )
    from engine.schema import Column
    from engine.version import __version__
    from queries.intervals.tabulation import tabulate
    from queries.release import Release

__all__ = [
    "BudgetError",
    "Column",
    "DamagedRelease",
    "DataError",
    "InternalError",
    "NotAnswerable",
    "PrivacyError",
    "QueryRefused",
    "Release",
    "SpecError",
    "StoreError",
    "TablepackError",
    "__version__",
    "add",
    "attack",
    "audit",
    "build",
    "card",
    "choose",
    "compare",
    "draft",
    "drop",
    "estimate",
    "evaluate",
    "fit_release",
    "measure_release",
    "new_key",
    "open",
    "plan",
    "publish_pack",
    "remove_drafts",
    "synthesize",
    "tabulate",
]
_OF_BUILD = ("build", "estimate", "fit_release", "measure_release", "new_key", "open", "plan")
_HOMES = dict.fromkeys(_OF_BUILD, "engine.api.build") | {
    "Column": "engine.schema",
    "Release": "queries.release",
    "__version__": "engine.version",
    "add": "engine.api.amend",
    "attack": "engine.api.evaluate",
    "audit": "engine.api.audit",
    "card": "engine.api.audit",
    "choose": "engine.api.choose",
    "compare": "engine.api.compare",
    "draft": "engine.api.draft",
    "drop": "engine.api.amend",
    "evaluate": "engine.api.evaluate",
    "publish_pack": "engine.api.publish",
    "remove_drafts": "engine.api.draft",
    "synthesize": "engine.api.draft",
    "tabulate": "queries.intervals.tabulation",
}


def __getattr__(name: str) -> Any:
    """Resolve a public name when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module 'engine' has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "engine.errors")), name)


def __dir__() -> list[str]:
    return sorted(__all__)
