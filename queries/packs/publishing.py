"""From a release to a pack in a folder: assemble the model, let every writer write, sum up, give the folder its name.

Takes an open release, a target folder and a pack spec; gives the files written. Invariants: the target is there
whole or not at all; two packs of the same release and spec have the same bytes; nothing is read but the release and
the documents that the spec includes.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb

import engine.manifest
from engine.errors import SpecError, StoreError
from queries.packs.assemble import assemble
from queries.packs.flat import arrow_table, write_code_list, write_csv, write_parquet, write_quality
from queries.packs.interchange import jsonstat
from queries.packs.metadata import code_list_path, csvw, data_package, dcat
from queries.packs.model import Pack, PackTable
from queries.packs.naming import FileRecord, ending, new_folder, record_of
from queries.packs.pack_spec import PackSpec
from queries.packs.pcaxis import pcaxis
from queries.packs.readme import markdown, page
from queries.packs.sdmx import sdmx_csv, sdmx_structure
from queries.packs.site import TEMPLATES, write_site
from queries.packs.workbook import write_workbook
from queries.session import Release

Progress = Callable[[str, int, int], None]
SUMS = "SHA256SUMS"


def publish(
    release: Release,
    directory: str | os.PathLike[str],
    spec: PackSpec | None = None,
    *,
    base: Path | None = None,
    unprotected: bool = False,
    progress: Progress | None = None,
    warn: Callable[[str], None] | None = None,
) -> list[Path]:
    """Write the pack of a release.

    Parameters
    ----------
    release : Release
    directory : path-like
        Empty or absent; made where it is absent, with its parents.
    spec : PackSpec, optional
        By default every table of at most three columns becomes a long table of counts.
    base : Path, optional
        Folder that the documents of `include` are relative to.
    unprotected : bool
        Publish a release of mode dp that guarantees nothing.
    progress : callable, optional
        Called with a stage, the number done and of all.
    warn : callable, optional
        Called with each thing that a publisher should look at.

    Returns
    -------
    list of Path
        All files, sorted.

    Raises
    ------
    SpecError
        The spec does not fit the release.
    PrivacyError
        The release guarantees nothing.
    StoreError
        The folder is not empty or cannot be written, a package is missing, or the release was replaced since it was
        opened. Nothing is left half-written.
    """
    spec = PackSpec() if spec is None else spec
    report = progress or _silent
    _check_packages()
    documents = _documents(spec, base or Path())
    with _connected(release) as con, new_folder(Path(directory)) as folder:
        pack = _assembled(release, con, spec, unprotected=unprotected, report=report)
        for warning in pack.warnings:
            (warn or _ignore)(warning)
        _write(pack, release, documents, folder, report)
        paths = sorted(p.relative_to(folder) for p in folder.rglob("*") if p.is_file())
    return [Path(directory) / path for path in paths]


def preview(
    release: Release,
    spec: PackSpec | None = None,
    *,
    unprotected: bool = False,
    progress: Progress | None = None,
) -> Pack:
    """Return what a pack would hold, and write nothing; parameters and errors as for `publish`."""
    with _connected(release) as con:
        return _assembled(
            release, con, spec or PackSpec(), unprotected=unprotected, report=progress or _silent
        )


@contextlib.contextmanager
def _connected(release: Release) -> Iterator[duckdb.DuckDBPyConnection]:
    """Lend a connection on the release, which is still the one that was opened."""
    con, record = engine.manifest.open_release(release.path)
    try:
        if record.content_hash != release.content_hash:
            raise StoreError(f"{release.path}: was replaced since it was opened; open it again")
        con.execute(f"USE {engine.manifest.ATTACHED}")
        yield con
    finally:
        con.close()


def _assembled(
    release: Release,
    con: duckdb.DuckDBPyConnection,
    spec: PackSpec,
    *,
    unprotected: bool,
    report: Progress,
) -> Pack:
    return assemble(
        release,
        con,
        spec,
        unprotected=unprotected,
        progress=lambda done, total: report("tabulating", done, total),
    )


def example_spec() -> str:
    """Return a commented pack.toml that has every key."""
    return (TEMPLATES / "pack.toml").read_text(encoding="utf-8")


def _ignore(warning: str) -> None:
    """Tell nobody."""


def _silent(stage: str, done: int, total: int) -> None:
    """Report nothing."""


def _check_packages() -> None:
    """Refuse before anything is made where a package is missing."""
    for name in ("pyarrow", "gptables", "jinja2"):
        if importlib.util.find_spec(name) is None:
            raise StoreError(f"a pack needs {name}: pip install 'tablepack[pack]'")


def _documents(spec: PackSpec, base: Path) -> list[Path]:
    """Further documents of the pack."""
    out = [base / name for name in spec.pack.include]
    missing = [p for p in out if not p.is_file()]
    if missing:
        raise SpecError(f"pack.include: there is no file {missing[0]}")
    if len({p.name.lower() for p in out}) < len(out):
        raise SpecError("pack.include: two documents have the same name")
    return out


def _write(
    pack: Pack, release: Release, documents: list[Path], folder: Path, report: Progress
) -> None:
    """Write all files of a pack into a folder."""
    for name in ("tables", "codelists", "sdmx", "jsonstat", "px"):
        (folder / name).mkdir()
    for dimension in pack.dimensions.values():
        write_code_list(dimension, pack, folder / code_list_path(dimension))
    for done, table in enumerate(pack.tables, 1):
        _write_table(table, pack, folder)
        report("writing tables", done, len(pack.tables))
    for name in ("jsonstat", "px"):
        if not any((folder / name).iterdir()):
            (folder / name).rmdir()
    _text(folder / "sdmx/structure.json", sdmx_structure(pack))
    write_quality(pack, folder / "quality.csv")
    report("writing the workbook", 0, len(pack.languages))
    for i, language in enumerate(pack.languages):
        write_workbook(pack, folder / f"pack{ending(language, i)}.xlsx", i)
        report("writing the workbook", i + 1, len(pack.languages))
    _copy(pack, release, documents, folder)
    write_site(
        pack,
        folder,
        lambda t: table_files(t, pack),
        lambda done, total: report("writing pages", done, total),
    )
    files = _records(folder)
    _text(folder / "datapackage.json", data_package(pack, files))
    _text(folder / "catalog.jsonld", dcat(pack, files))
    listed = sorted([*_names(folder), "README.md", "README.html"])
    _text(folder / "README.md", markdown(pack, listed))
    _text(folder / "README.html", page(pack, listed))
    late = ("datapackage.json", "catalog.jsonld", "README.md", "README.html")
    files |= {name: record_of(folder / name) for name in late}
    sums = "".join(f"{files[name].sha256}  {name}\n" for name in sorted(files))
    _text(folder / SUMS, sums)


def table_files(table: PackTable, pack: Pack) -> list[str]:
    """Return the files of a table, as paths inside the pack; a language's own ending is `~LANGUAGE`."""
    out = [f"tables/{table.id}.csv", f"tables/{table.id}.parquet"]
    out += [f"tables/{table.id}.csv-metadata.json", f"sdmx/{table.id}.csv"]
    if table.is_cube and not table.is_listed:
        out.append(f"px/{table.id}.px")
        languages = enumerate(pack.languages)
        out += [f"jsonstat/{table.id}{ending(language, i)}.json" for i, language in languages]
    return out


def _write_table(table: PackTable, pack: Pack, folder: Path) -> None:
    """Write the files of one table, the pages apart."""
    arrow = arrow_table(table, pack)
    write_csv(arrow, folder / f"tables/{table.id}.csv")
    write_parquet(arrow, folder / f"tables/{table.id}.parquet")
    _text(folder / f"tables/{table.id}.csv-metadata.json", csvw(table, pack))
    _text(folder / f"sdmx/{table.id}.csv", sdmx_csv(table, pack))
    if table.is_cube and not table.is_listed:
        _text(folder / f"px/{table.id}.px", pcaxis(table, pack))
        for i, language in enumerate(pack.languages):
            name = f"{table.id}{ending(language, i)}.json"
            _text(folder / "jsonstat" / name, jsonstat(table, pack, i))


def _text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")


def _copy(pack: Pack, release: Release, documents: list[Path], folder: Path) -> None:
    """Copy the release with its manifest, if it is to be handed out, and further documents."""
    if pack.release["file"]:
        manifest = engine.manifest.manifest_path(release.path)
        shutil.copyfile(release.path, folder / release.path.name)
        shutil.copyfile(manifest, folder / manifest.name)
    if documents:
        (folder / "documents").mkdir()
    for path in documents:
        shutil.copyfile(path, folder / "documents" / path.name)


def _names(folder: Path) -> list[str]:
    """Files of a folder, as paths inside it, sorted."""
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def _records(folder: Path) -> dict[str, FileRecord]:
    return {name: record_of(folder / name) for name in _names(folder)}
