"""`import tablepack as tp`: the public names of `engine` under the distribution's name, each loaded when first used.

Takes names of `engine`; pyproject.toml installs this folder as the package `tablepack`.
Gives what `engine` gives.
May import `engine`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import engine

if TYPE_CHECKING:
    from engine import (  # noqa: F401  # re-exported: they are in engine.__all__
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
        __version__,
        attack,
        build,
        compare,
        evaluate,
        new_key,
        open,
        plan,
        publish_pack,
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
