"""Build, open and plan releases from Python.

import engine
release = engine.build("release.toml", out="r.duckdb")
release = engine.build(frame, tables=[["AGE", "SEX"]], key="my.key", out="r.duckdb")
release.sql("SELECT SEX, count(*) FROM data GROUP BY SEX")
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from engine import key_files, release
from engine.api.built import BuiltRelease
from engine.api.reading import read
from engine.errors import SpecError
from engine.outputs import check_new_key
from engine.progress import Progress
from engine.schema import Column
from engine.source import begin_charges, begin_ledger
from engine.source.detection import make_spec
from engine.spec import ReleaseSpec, did_you_mean
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
    entities: str | Iterable[str | Iterable[str]] | None = None,
    vintage: str = "1",
    previous: str | None = None,
    title: str = "",
    unit: str | Mapping[str, Any] | None = None,
    weight: str | None = None,
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
        A spec or the path of one (.toml); or a source (the path of a file, or a frame), which needs `tables` and `key`.
    out : str or Path, optional
        File to write; by default named after the spec or source, or release.duckdb.
    tables : iterable of iterable of str, or int, optional
        For a source: column sets, or a number: every combination of this many columns.
    key : str or Path, optional
        For a source: key file; make one with `new_key`.
    columns : iterable or mapping of Column, optional
        For a source: declared columns; the others are detected.
    entities : str, or iterable of str or of lists of str, optional
        For a source: column, or columns that identify the protected entities, each one kind of them; a list in the
        list is one kind that its columns identify together, as in [["household", "person_no"]]. []: each row is one.
        Required if a column looks like an identifier.
    vintage, previous, title : str
        For a source: as in section `[release]` of a spec.
    unit : str or mapping, optional
        For a source: what a row is, as in `[release]`: "stays", or {"one": "stay", "many": "stays", "de": {...}}.
    weight : str, optional
        For a source: column of survey weights, as in `[release]`.
    reviewed : bool
        For a source: you have checked the detected settings; `publish_pack` requires this, or `accept_detected`.
    privacy : str or mapping
        For a source: name of a profile, or section `[privacy]` of a spec, such as `{"accept_risk": "agreed with ..."}`.
    max_rows : int, optional
        For a source: most rows of one entity that count in any figure, as in `[privacy]`; by default detected.
    dp : mapping, optional
        For a source: section `[dp]` of a spec; the release is then built in mode dp.
    jobs : int
        Tables fitted at once, while others are measured.
    force : bool
        Replace an existing release once the new one is complete; a signature of the old one is removed.
    progress : callable, optional
        Called with the stage, the work done and the total.

    Returns
    -------
    Release
        The open release.

    Raises
    ------
    SpecError, DataError, PrivacyError, StoreError
    """
    spec, frame = resolve(
        what,
        tables=tables,
        key=key,
        columns=columns,
        entities=entities,
        vintage=vintage,
        previous=previous,
        title=title,
        unit=unit,
        weight=weight,
        reviewed=reviewed,
        privacy=privacy,
        max_rows=max_rows,
        dp=dp,
    )
    path = default_output(what) if out is None else Path(out)
    release.build(spec, path, frame=frame, jobs=jobs, force=force, progress=progress)
    is_file = isinstance(what, str | Path) and Path(what).suffix == ".toml"
    return BuiltRelease.of(path, Path(what) if is_file else spec, frame)


def measure_release(
    what: SpecOrFrame,
    folder: str | Path,
    *,
    force: bool = False,
    progress: Progress | None = None,
    **of_source: Any,
) -> Path:
    """Measure a release into a folder, from which `fit_release` makes it, here or elsewhere.

    The folder holds noisy counts and how to fit them: no rows, no true counts, no key. What the release tells is
    charged as by `build`, which does both. After an interruption, the same call resumes where it stopped.

    Parameters
    ----------
    what : ReleaseSpec, str, Path, DataFrame or Arrow table
        As in `build`.
    folder : str or Path
        Folder to write, readable only by its owner.
    force : bool
        Replace a measurement that is there.
    progress : callable, optional
        As in `build`.
    **of_source
        Parameters of `build` that describe a source.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    SpecError, DataError, PrivacyError, StoreError
    """
    spec, frame = resolve(what, **of_source)
    return release.measure(spec, Path(folder), frame=frame, force=force, progress=progress)


def fit_release(
    folder: str | Path,
    *,
    out: str | Path,
    jobs: int = 2,
    force: bool = False,
    progress: Progress | None = None,
) -> Release:
    """Make a release of a measurement folder, and open it. Needs neither the data nor the key.

    Parameters
    ----------
    folder : str or Path
        What `measure_release` wrote.
    out : str or Path
        File to write.
    jobs, force, progress
        As in `build`.

    Returns
    -------
    Release
        The open release, with the content hash of one that `build` makes.

    Raises
    ------
    StoreError
        The folder is not whole, or was changed; or the file cannot be written.
    """
    path = release.fit(Path(folder), Path(out), jobs=jobs, force=force, progress=progress)
    return open_release(path)


def default_output(what: SpecOrFrame) -> Path:
    """Default path of a release: next to its spec or source, under the same name."""
    if isinstance(what, str | Path) and "*" not in str(what):
        named = Path(what).with_suffix(".duckdb")
        return named if named != Path(what) else Path("release.duckdb")
    return Path("release.duckdb")


def plan(
    what: SpecOrFrame,
    *,
    further: bool = False,
    accuracy: str | None = None,
    progress: Progress | None = None,
    **of_source: Any,
) -> release.Plan | release.PlanDP:
    """Predict what a build would release and disclose, and what it would cost; nothing is written.

    Parameters
    ----------
    what, progress
        As in `build`.
    further : bool
        Also say what each pair of columns that is not listed would reveal. Mode sticky only.
    accuracy : str, optional
        Columns of a table and by how many rows 95 of 100 of its cells may be off, as "region, sex: +-50": also say
        which epsilon this needs. Mode dp only.
    **of_source
        Parameters of `build` that describe a source.

    Returns
    -------
    Plan or PlanDP
        Of mode dp: no data are read for it.

    Raises
    ------
    SpecError, DataError
    """
    spec, frame = resolve(what, **of_source)
    if spec.mode == "dp":
        return release.plan_dp(spec, accuracy=accuracy)
    if accuracy is not None:
        raise SpecError("accuracy: asks for an epsilon, which mode sticky does not have")
    return release.plan(spec, frame=frame, further=further, progress=progress)


def estimate(
    what: SpecOrFrame, *, progress: Progress | None = None, **of_source: Any
) -> release.Estimate:
    """Estimate what a build would cost from one table in ten, which is faster than `plan`. Mode sticky only.

    Parameters
    ----------
    what, progress, **of_source
        As in `plan`.

    Returns
    -------
    Estimate

    Raises
    ------
    SpecError, DataError
    """
    spec, frame = resolve(what, **of_source)
    if spec.mode == "dp":
        raise SpecError("mode dp: use plan, which does not read the data")
    return release.estimate(spec, frame=frame, progress=progress)


def open(path: str | Path) -> Release:
    """Open a release file.

    Parameters
    ----------
    path : str or Path
        Release file, with its manifest next to it.

    Returns
    -------
    Release

    Raises
    ------
    DamagedRelease
        The file does not match its manifest.
    """
    return open_release(path)


def new_key(path: str | Path) -> str:
    """Make a key file, readable only by its owner, and its ledgers.

    Parameters
    ----------
    path : str or Path
        File to write; an existing key is never replaced.

    Returns
    -------
    str
        Public id of the key, which reveals nothing about it.

    Raises
    ------
    StoreError
    """
    check_new_key(path)
    key_id = key_files.new_key(Path(path))
    begin_charges(Path(path))
    begin_ledger(Path(path))
    return key_id


def resolve(what: SpecOrFrame, **of_source: Any) -> tuple[ReleaseSpec, Any]:
    """The spec, and the source if it is a frame."""
    if isinstance(of_source.get("entities"), str):
        of_source["entities"] = [of_source["entities"]]
    is_spec = isinstance(what, ReleaseSpec)
    if is_spec or (isinstance(what, str | Path) and Path(what).suffix == ".toml"):
        doubled = [
            n
            for n in ("tables", "key", "columns", "entities", "max_rows", "dp", "unit", "weight")
            if of_source.get(n) is not None
        ]
        if doubled:
            raise SpecError(f"{', '.join(doubled)}: set by the spec; change it there")
        return what if is_spec else read(Path(what)), None
    missing = [name for name in ("tables", "key") if of_source.get(name) is None]
    if missing:
        raise SpecError(
            f"building from a source needs {' and '.join(missing)}; or give the path of a spec (.toml)"
        )
    known = set(inspect.signature(make_spec).parameters) - {"what", "check_key", "problems"}
    for name in of_source.keys() - known:
        raise TypeError(f"{name!r} is no parameter of a source{did_you_mean(name, known)}")
    settings = {name: value for name, value in of_source.items() if value is not None}
    spec = make_spec(what, **settings)
    return spec, None if isinstance(what, str | Path) else what
