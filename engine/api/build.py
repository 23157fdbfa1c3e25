"""Build, open and plan releases from Python.

import engine
release = engine.build("release.toml", out="r.duckdb")
release = engine.build(frame, tables=[["AGE", "SEX"]], key="my.key", out="r.duckdb")
release.sql("SELECT SEX, count(*) FROM data GROUP BY SEX")
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from engine import key_files, release
from engine.api.reading import read
from engine.errors import SpecError
from engine.outputs import check_new_key
from engine.progress import Progress
from engine.source import begin_charges, begin_ledger
from engine.source.detection import SourceSettings, make_spec
from engine.spec import ReleaseSpec, did_you_mean

if TYPE_CHECKING:
    from queries.release import Release

Function = TypeVar("Function", bound=Callable[..., Any])
SpecOrFrame = Any
"""A ReleaseSpec, the path of a spec (.toml), the path of a source, or a pandas or Arrow table."""


def with_settings(function: Function) -> Function:
    """Show the `SourceSettings` of a function by name, in its docstring and signature."""
    plain, types = inspect.signature(function), SourceSettings.__annotations__
    own = [one for one in plain.parameters.values() if one.kind is not one.VAR_KEYWORD]
    kind = inspect.Parameter.KEYWORD_ONLY
    more = [
        inspect.Parameter(n, kind, default=None, annotation=t.__forward_arg__)
        for n, t in types.items()
    ]
    function.__signature__ = plain.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
    settings = inspect.cleandoc(SourceSettings.__doc__ or "").partition("----------\n")[2]
    doc = inspect.cleandoc(function.__doc__ or "")
    function.__doc__ = doc.replace("**source\n    Settings of a source.", settings)
    return function


@with_settings
def build(
    what: SpecOrFrame,
    *,
    out: str | Path | None = None,
    jobs: int = 2,
    force: bool = False,
    progress: Progress | None = None,
    **source: Unpack[SourceSettings],
) -> Release:
    """Build a release and open it.

    Parameters
    ----------
    what : ReleaseSpec, str, Path, DataFrame or Arrow table
        Spec (TOML).

        Or a `ReleaseSpec`; or a source (the path of a file, or a frame), which needs `tables` and `key`.
    out : str or Path, optional
        Release file to write; by default named after the spec.

        Or after the source; else release.duckdb.
    jobs : int
        Tables fitted at the same time, while others are measured.
    force : bool
        Replace an existing release once the new one is complete. Its signature is removed: sign it again.
    progress : callable, optional
        Called with the stage, the work done and the total.
    **source
        Settings of a source.

    Returns
    -------
    Release
        The open release.

    Raises
    ------
    SpecError, DataError, PrivacyError, StoreError
    """
    from engine.api.built import BuiltRelease

    spec, frame = resolve(what, source)
    path = default_output(what) if out is None else Path(out)
    release.build(spec, path, frame=frame, jobs=jobs, force=force, progress=progress)
    is_file = isinstance(what, str | Path) and Path(what).suffix == ".toml"
    return BuiltRelease.of(path, Path(what) if is_file else spec, frame)


@with_settings
def measure_release(
    what: SpecOrFrame,
    folder: str | Path,
    *,
    force: bool = False,
    progress: Progress | None = None,
    **source: Unpack[SourceSettings],
) -> Path:
    """Measure a release into a folder, from which `fit_release` makes it, here or elsewhere.

    The folder holds noisy counts and how to fit them: no rows, no true counts, no key. What the release tells is
    charged as by `build`, which does both. After an interruption, the same call resumes where it stopped.

    Parameters
    ----------
    what : ReleaseSpec, str, Path, DataFrame or Arrow table
        As in `build`.
    folder : str or Path
        Measurement folder to write.

        Only its owner can read it.
    force : bool
        Replace a measurement that is there.
    progress : callable, optional
        As in `build`.
    **source
        Settings of a source.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    SpecError, DataError, PrivacyError, StoreError
    """
    spec, frame = resolve(what, source)
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
        Folder of tablepack measure.

        Or of `measure_release`.
    out : str or Path
        Release file to write.
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
    from queries.release import open_release

    path = release.fit(Path(folder), Path(out), jobs=jobs, force=force, progress=progress)
    return open_release(path)


def default_output(what: SpecOrFrame) -> Path:
    """Default path of a release: next to its spec or source, under the same name."""
    if isinstance(what, str | Path) and "*" not in str(what):
        named = Path(what).with_suffix(".duckdb")
        return named if named != Path(what) else Path("release.duckdb")
    return Path("release.duckdb")


@with_settings
def plan(
    what: SpecOrFrame,
    *,
    further: bool = False,
    accuracy: str | None = None,
    progress: Progress | None = None,
    **source: Unpack[SourceSettings],
) -> release.Plan | release.PlanDP:
    """Predict what a build would release and disclose, and what it would cost; nothing is written.

    Parameters
    ----------
    what, progress
        As in `build`.
    further : bool
        Also show what each usual table that is not in the spec would reveal: pairs of columns, and age or place by sex
        with each other column.

        Mode sticky only.
    accuracy : str, optional
        Mode dp: say which epsilon an accuracy needs, such as "region, sex: +-50" (95 of 100 cells off by at most 50).
    **source
        Settings of a source.

    Returns
    -------
    Plan or PlanDP
        Of mode dp: no data are read for it.

    Raises
    ------
    SpecError, DataError
    """
    spec, frame = resolve(what, source)
    if spec.mode == "dp":
        return release.plan_dp(spec, accuracy=accuracy)
    if accuracy is not None:
        raise SpecError("accuracy: asks for an epsilon, which mode sticky does not have")
    return release.plan(spec, frame=frame, further=further, progress=progress)


@with_settings
def estimate(
    what: SpecOrFrame, *, progress: Progress | None = None, **source: Unpack[SourceSettings]
) -> release.Estimate:
    """Estimate what a build would cost from one table in ten, which is faster than `plan`. Mode sticky only.

    Parameters
    ----------
    what, progress
        As in `build`.
    **source
        Settings of a source.

    Returns
    -------
    Estimate

    Raises
    ------
    SpecError, DataError
    """
    spec, frame = resolve(what, source)
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
    from queries.release import open_release

    return open_release(path)


def new_key(path: str | Path) -> str:
    """Make a key file, readable only by its owner, and its ledgers.

    Parameters
    ----------
    path : str or Path
        Key file to create; it must not exist.

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


def resolve(what: SpecOrFrame, source: SourceSettings) -> tuple[ReleaseSpec, Any]:
    """The spec, and the source if it is a frame."""
    known = SourceSettings.__annotations__
    for name in source.keys() - known.keys():
        raise TypeError(f"{name!r} is no parameter of a source{did_you_mean(name, known)}")
    said = [name for name, value in source.items() if value is not None]
    if isinstance(what, ReleaseSpec) or (
        isinstance(what, str | Path) and Path(what).suffix == ".toml"
    ):
        if said:
            raise SpecError(f"{', '.join(said)}: set by the spec; change it there")
        return what if isinstance(what, ReleaseSpec) else read(Path(what)), None
    if missing := [name for name in ("tables", "key") if name not in said]:
        raise SpecError(
            f"building from a source needs {' and '.join(missing)}; or give the path of a spec (.toml)"
        )
    return make_spec(what, **source), None if isinstance(what, str | Path) else what
