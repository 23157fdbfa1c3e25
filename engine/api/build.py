"""The Python face of the main job: build, open and plan releases.

import engine
release = engine.build("release.toml", out="r.duckdb")
release = engine.build(frame, tables=[["AGE", "SEX"]], key="my.key", out="r.duckdb")
release.sql("SELECT SEX, count(*) FROM data GROUP BY SEX")
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from engine import keys, release
from engine.api.built import BuiltRelease
from engine.api.reading import read
from engine.errors import SpecError
from engine.outputs import check_new_key
from engine.progress import Progress
from engine.schema import Column
from engine.source import begin_charges
from engine.source.detection import make_spec
from engine.spec import ReleaseSpec
from queries.release import Release, open_release

SpecOrFrame = Any
"""A ReleaseSpec, the path of a spec (.toml), the path of a source, or a pandas or Arrow table."""


def build(
    what: SpecOrFrame,
    *,
    out: str | Path | None = None,
    tables: Iterable[Iterable[str]] | int | None = None,
    key: str | Path | None = None,
    columns: Mapping[str, Column] | Iterable[Column] | None = None,
    entities: Iterable[str] | None = None,
    vintage: str = "1",
    previous: str | None = None,
    title: str = "",
    unit: str | Mapping[str, Any] | None = None,
    reviewed: bool = False,
    privacy: str | Mapping[str, Any] = "standard",
    max_rows: int | None = None,
    dp: Mapping[str, Any] | None = None,
    jobs: int = 2,
    force: bool = False,
    progress: Progress | None = None,
) -> Release:
    """Build a release and open it.

    Parameters
    ----------
    what : ReleaseSpec, str, Path, DataFrame or Arrow table
        A spec or the path of one (.toml); or a source: then `tables` and `key` are needed.
    out : str or Path, optional
        File to write; by default named after the spec, or release.duckdb.
    tables : iterable of iterable of str, or int, optional
        Column sets, for a source; or a width: every set of so many columns.
    key : str or Path, optional
        Key file, for a source; make one with `new_key`.
    columns : iterable or mapping of Column, optional
        Declared columns of a source; the others are detected.
    entities : iterable of str, optional
        Columns that name the protected entities; []: each row is one. Must be said where a column looks like an
        identifier.
    vintage, previous, title : str
        As in a spec.
    unit : str or mapping, optional
        What a row is, as in `[release]`: "stays", or {"one": "stay", "many": "stays", "de": {...}}.
    reviewed : bool
        Whoever builds has looked at what was detected; without, `publish` wants to be told.
    privacy : str or mapping
        Name of a profile, or the section `[privacy]` of a spec, such as `{"accept_risk": "agreed with ..."}`.
    max_rows : int, optional
        Rows of one entity that count in any figure, as in `[privacy]`; detected where nobody says it.
    dp : mapping, optional
        As the section `[dp]` of a spec: the release is built in mode dp.
    jobs : int
        1: measure and fit take turns; more: they work at the same time.
    force : bool
        Replace a release that is there; the old one serves until the new one is whole. Its signature is removed.

    Raises
    ------
    SpecError, DataError, PrivacyError, StoreError
    """
    spec, frame = _resolve(
        what,
        tables=tables,
        key=key,
        columns=columns,
        entities=entities,
        vintage=vintage,
        previous=previous,
        title=title,
        unit=unit,
        reviewed=reviewed,
        privacy=privacy,
        max_rows=max_rows,
        dp=dp,
    )
    path = default_output(what) if out is None else Path(out)
    release.build(spec, path, frame=frame, jobs=jobs, force=force, progress=progress)
    is_file = isinstance(what, str | Path) and Path(what).suffix == ".toml"
    return BuiltRelease.of(path, Path(what) if is_file else spec, frame)


def default_output(what: SpecOrFrame) -> Path:
    """Where a release goes if nobody says: beside its spec or source, under its name."""
    if isinstance(what, str | Path) and "*" not in str(what):
        named = Path(what).with_suffix(".duckdb")
        return named if named != Path(what) else Path("release.duckdb")
    return Path("release.duckdb")


def plan(
    what: SpecOrFrame, *, progress: Progress | None = None, **of_source: Any
) -> release.Plan | release.PlanDP:
    """Say what a build would hold; parameters as in `build`. In mode dp no data is read."""
    spec, frame = _resolve(what, **of_source)
    if spec.mode == "dp":
        return release.plan_dp(spec)
    return release.plan(spec, frame=frame, progress=progress)


def estimate(
    what: SpecOrFrame, *, progress: Progress | None = None, **of_source: Any
) -> release.Estimate:
    """Say what a build would cost, from one table in ten; parameters as in `build`. Mode sticky only."""
    spec, frame = _resolve(what, **of_source)
    if spec.mode == "dp":
        raise SpecError("mode dp is planned without reading the data: plan says what it costs")
    return release.estimate(spec, frame=frame, progress=progress)


def open(path: str | Path) -> Release:
    """Open a release file.

    Raises
    ------
    DamagedRelease
        If the file is not what its manifest says.
    """
    return open_release(path)


def new_key(path: str | Path) -> str:
    """Make a key file of mode 0600, begin the ledger of what it gives away, and return the key's public id."""
    check_new_key(path)
    key_id = keys.new_key(Path(path))
    begin_charges(Path(path))
    return key_id


def _resolve(what: SpecOrFrame, **of_source: Any) -> tuple[ReleaseSpec, Any]:
    """The spec, and the frame if the source is one."""
    is_spec = isinstance(what, ReleaseSpec)
    if is_spec or (isinstance(what, str | Path) and Path(what).suffix == ".toml"):
        doubled = [
            n
            for n in ("tables", "key", "columns", "entities", "max_rows", "dp", "unit")
            if of_source.get(n) is not None
        ]
        if doubled:
            raise SpecError(f"{', '.join(doubled)}: the spec says it already; change it there")
        return what if is_spec else read(Path(what)), None
    missing = [name for name in ("tables", "key") if of_source.get(name) is None]
    if missing:
        raise SpecError(
            f"building from a source needs {' and '.join(missing)}; or give the path of a spec (.toml)"
        )
    settings = {name: value for name, value in of_source.items() if value is not None}
    spec = make_spec(what, **settings)
    return spec, None if isinstance(what, str | Path) else what
