"""tablepack: small synthetic tables from confidential microdata, as many as analysts need.

The main path, each step a module:

    spec       what to release, from where, about whom           engine.spec
    opening    read the source, name its entities, pin it        engine.opening
    measure    snapped ranges, sticky noise (sees real rows)     engine.measure
    -------    the wall: a process boundary                      engine.fit_process
    fit        lock every table to the narrower ones             engine.locking
    sample     whole numbers, values of released leaves          engine.alphabet, engine.rounding
    store      one DuckDB file that explains itself              engine.store
    query      SQL over the released tables                      queries.session

In mode dp engine.release_dp is the path: engine.marginals measures, engine.joint fits and samples. `engine.build(...)`
runs it all and gives a `Release`; `engine.evaluate` holds it against the data, `engine.compare` both modes against each
other; `engine.tabulate` says how sure figures are, `engine.publish_pack` hands them out. Importing this package loads
nothing: public names are resolved when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.api import build, new_key, open, plan
    from engine.api_compare import compare
    from engine.api_evaluate import evaluate
    from engine.api_publish import publish_pack
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
    from queries.uncertainty import tabulate

__all__ = [
    "BudgetError",
    "DamagedRelease",
    "DataError",
    "InternalError",
    "NotAnswerable",
    "PrivacyError",
    "QueryRefused",
    "SpecError",
    "StoreError",
    "TablepackError",
    "build",
    "compare",
    "evaluate",
    "new_key",
    "open",
    "plan",
    "publish_pack",
    "tabulate",
]
_HOMES = {name: "engine.api" for name in ("build", "new_key", "open", "plan")} | {
    "compare": "engine.api_compare",
    "evaluate": "engine.api_evaluate",
    "publish_pack": "engine.api_publish",
    "tabulate": "queries.uncertainty",
}


def __getattr__(name: str) -> Any:
    """Resolve a public name when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module 'engine' has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "engine.errors")), name)


def __dir__() -> list[str]:
    return sorted(__all__)
