"""From a release to a pack in a folder: assemble the model, write every format, then metadata, README and checksums.

Invariants: the target is complete or absent; two packs of the same release and spec have the same bytes; only the
release and the documents that the spec includes are read.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import engine.store.manifest
from engine.errors import SpecError, StoreError
from engine.outputs import check_folder, output_folder
from engine.store import signature_path
from queries.packs.assembly import assemble
from queries.packs.files import File, record_of, write_text
from queries.packs.formats import formats
from queries.packs.formats.metadata import data_package, dcat
from queries.packs.formats.readme import markdown, page
from queries.packs.formats.site import TEMPLATES, write_site
from queries.packs.model import Pack
from queries.packs.sources import Sources
from queries.packs.spec import PackSpec
from queries.release import Release

Progress = Callable[[str, int, int], None]


def publish(
    release: Release,
    directory: str | os.PathLike[str],
    spec: PackSpec | None = None,
    *,
    base: Path | None = None,
    unprotected: bool = False,
    accept_detected: bool = False,
    progress: Progress | None = None,
    warn: Callable[[str], None] | None = None,
) -> list[Path]:
    """Write the pack of a release; return all files, sorted.

    spec: By default every table of at most three columns becomes a long table of counts.
    accept_detected: Publish settings detected in the data without review; the pack says so.
    """
    spec = PackSpec() if spec is None else spec
    report = progress or _silent
    _check_packages()
    check_folder(directory)
    documents = _documents(spec, base or Path())
    with output_folder(directory) as folder:
        pack = preview(
            release,
            spec,
            unprotected=unprotected,
            accept_detected=accept_detected,
            progress=report,
        )
        for warning in pack.warnings:
            if warn is not None:
                warn(warning)
        _write(pack, release, documents, folder, report)
        return [Path(directory) / name for name in _names(folder)]


def preview(
    release: Release,
    spec: PackSpec | None = None,
    *,
    unprotected: bool = False,
    accept_detected: bool = False,
    progress: Progress | None = None,
) -> Pack:
    """Return the pack as a model and write nothing; parameters and errors as for `publish`."""
    release.reopened().close()  # it is still the file that was opened
    report = progress or _silent
    return assemble(
        Sources(release=release, spec=spec or PackSpec()),
        unprotected=unprotected,
        accept_detected=accept_detected,
        progress=lambda done, n: report("tabulating", done, n),
    )


def files_by_format(pack: Pack) -> dict[str, list[str]]:
    """Return the paths of a pack's files with figures and codes, by the name of their format."""
    return {f.name: [file.path for file in f.files(pack)] for f in formats()}


def example_spec() -> str:
    """Return a commented pack.toml with every key."""
    return (TEMPLATES / "pack.toml").read_text(encoding="utf-8")


def _silent(stage: str, done: int, total: int) -> None:
    """Report nothing."""


def _check_packages() -> None:
    """Fail before anything is written if a package is missing."""
    needed = ["jinja2", *(name for one in formats() for name in one.packages)]
    for name in dict.fromkeys(needed):
        if importlib.util.find_spec(name) is None:
            raise StoreError(f"packs require {name}: pip install 'tablepack[pack]'")


def _documents(spec: PackSpec, base: Path) -> list[Path]:
    """Documents that the spec includes."""
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
    """Write all files of a pack into a folder: every format, then site, metadata, README and checksums."""
    files: list[File] = []
    for chosen in formats():
        mine = list(chosen.files(pack))
        for done, file in enumerate(mine, 1):
            path = folder / file.path
            path.parent.mkdir(exist_ok=True)
            file.write(path)
            report(f"writing {chosen.name}", done, len(mine))
        files += mine
    _copy(pack, release, documents, folder)
    write_site(pack, folder, files, lambda done, n: report("writing pages", done, n))
    records = {name: record_of(folder / name) for name in _names(folder)}
    write_text(folder / "datapackage.json", data_package(pack, records))
    write_text(folder / "catalog.jsonld", dcat(pack, files, records))
    homes = ["", *(f"{code}/" for code in pack.languages[1:])]
    readmes = [f"{home}README.{ending}" for home in homes for ending in ("md", "html")]
    names = sorted([*_names(folder), *readmes])
    for language, home in enumerate(homes):
        write_text(folder / home / "README.md", markdown(pack, names, language))
        write_text(folder / home / "README.html", page(pack, names, language))
    sums = [f"{record_of(folder / name).sha256}  {name}\n" for name in names]
    write_text(folder / "SHA256SUMS", "".join(sums))


def _copy(pack: Pack, release: Release, documents: list[Path], folder: Path) -> None:
    """Copy the release with its manifest and signature, if the pack includes it, and further documents."""
    if pack.release["file"]:
        manifest = engine.store.manifest.manifest_path(release.path)
        shutil.copyfile(release.path, folder / release.path.name)
        shutil.copyfile(manifest, folder / manifest.name)
        if release.signature is not None:
            signature = signature_path(release.path)
            shutil.copyfile(signature, folder / signature.name)
        copied = engine.store.manifest.verify_release(folder / release.path.name, verify="hash")
        if copied != release.record:
            raise StoreError(f"{release.path}: was replaced since it was opened; open it again")
    if documents:
        (folder / "documents").mkdir()
    for path in documents:
        shutil.copyfile(path, folder / "documents" / path.name)


def _names(folder: Path) -> list[str]:
    """Files of a folder, as sorted relative paths."""
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
