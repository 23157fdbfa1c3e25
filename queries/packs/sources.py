"""Sources of a pack: an open release with its catalogue, and the pack spec."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import duckdb

from engine.errors import SpecError
from queries.packs.model import Texts
from queries.packs.spec import PackSpec
from queries.packs.texts import pack_words
from queries.release import Release
from queries.sql import near_names


@dataclass(frozen=True, kw_only=True, slots=True)
class Sources:
    """An open release and a pack spec."""

    release: Release
    con: duckdb.DuckDBPyConnection  # Connected to the release
    spec: PackSpec
    words: dict[str, Texts]  # Words of the pages, in each language

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages of the pack, the main one first."""
        return tuple(self.spec.pack.languages)

    def label(self, column: str) -> str:
        """Return the release's label of a column, or its name."""
        return self.release.labels[column]

    def check_columns(self, names: Iterable[str]) -> None:
        """Refuse names that are not columns of the release, with similar ones."""
        problems = []
        for name in dict.fromkeys(names):
            if name not in self.release.columns:
                near = ", ".join(near_names(name, tuple(self.release.columns))) or "none"
                problems.append(f"pack spec: the release has no column {name!r}. Near: {near}")
        if problems:
            raise SpecError(problems)


@contextlib.contextmanager
def open_sources(release: Release, spec: PackSpec) -> Iterator[Sources]:
    """Open the sources of a pack, with a connection to the release; checks that the file is still the one opened."""
    with release.reopened() as con:
        words = pack_words(spec.words, spec.pack.languages)
        yield Sources(release=release, con=con, spec=spec, words=words)
