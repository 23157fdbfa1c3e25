"""Sources of a pack: an open release with its catalogue, and the pack spec."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from engine.errors import SpecError
from queries.packs.model import Texts
from queries.packs.spec import PackSpec
from queries.packs.texts import pack_words
from queries.release import Release
from queries.sql import near_names


@dataclass(frozen=True, kw_only=True)
class Sources:
    """An open release and a pack spec."""

    release: Release
    spec: PackSpec

    @cached_property
    def words(self) -> dict[str, Texts]:
        """Words of the pages, in each language."""
        return pack_words(self.spec.words, self.spec.pack.languages)

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages of the pack, the main one first."""
        return tuple(self.spec.pack.languages)

    def rows(self, statement: str, *values: Any) -> list[Any]:
        """Return rows of the release's catalogue."""
        with self.release.cursor() as con:
            return con.execute(statement, values).fetchall()

    def check_columns(self, names: Iterable[str]) -> None:
        """Refuse names that are not columns of the release, with similar ones."""
        problems = []
        for name in dict.fromkeys(names):
            if name not in self.release.columns:
                near = ", ".join(near_names(name, tuple(self.release.columns))) or "none"
                problems.append(f"pack spec: the release has no column {name!r}. Near: {near}")
        if problems:
            raise SpecError(problems)
