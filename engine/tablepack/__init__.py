"""tablepack: small synthetic tables from confidential microdata.

import tablepack as tp

release = tp.synthesize(frame, entities="person_id")  # to try it: a throw-away key, not for publication
release["age", "sex"].df()                            # a released table, one row per synthetic person
release.sql("SELECT sex, avg(age) FROM data GROUP BY sex", intervals=True).df()

tp.new_key("my.key")                                  # for publication: a key that you keep
tp.plan(frame, tables=2, key="my.key", entities="person_id")
release = tp.build(frame, tables=2, key="my.key", entities="person_id", out="census.duckdb")

try         synthesize (a frame), draft (a spec, a file or a frame), remove_drafts
release     new_key, plan, estimate, build (of a frame, a file or a spec), add, drop,
            choose, Column, open; measure_release and fit_release, the two steps of build
query       Release: [...], .sql, .tabulate, .tables, .columns, .values, .card; tabulate
check       evaluate, attack, audit, card, compare
publish     publish_pack
errors      TablepackError, and its subclasses SpecError, DataError, PrivacyError, BudgetError, StoreError,
            DamagedRelease, QueryRefused, NotAnswerable, InternalError

The same on the command line: tablepack --help.

All names come from `engine`, and are loaded when they are first used; pyproject.toml installs this folder as the
package `tablepack`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import engine

if TYPE_CHECKING:
    from engine import (  # noqa: F401  # re-exported: they are in engine.__all__
        BudgetError,
        Column,
        DamagedRelease,
        DataError,
        InternalError,
        NotAnswerable,
        PrivacyError,
        QueryRefused,
        Release,
        SpecError,
        StoreError,
        TablepackError,
        __version__,
        add,
        attack,
        audit,
        build,
        card,
        choose,
        compare,
        draft,
        drop,
        estimate,
        evaluate,
        new_key,
        open,
        plan,
        publish_pack,
        remove_drafts,
        synthesize,
        tabulate,
    )

__all__: list[str] = []
__all__ += engine.__all__


def __getattr__(name: str) -> Any:
    """Resolve a public name when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module 'tablepack' has no attribute {name!r}")
    return getattr(engine, name)


def __dir__() -> list[str]:
    return sorted(__all__)
