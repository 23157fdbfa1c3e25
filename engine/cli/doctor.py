"""The commands `tablepack doctor`, `sign` and `verify`: is all whole, and whose release is it?

Each check gives one finding; the worst one decides the exit code.
"""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from engine.cli.console import AsJson, ReleasePath, notes, out, print_json
from engine.errors import SpecError, TablepackError
from engine.schema import UInt64Array
from engine.source import left_rows, scratch_directory
from engine.sticky_prf import siphash
from engine.store import (
    check_release,
    new_signing_key,
    said_of,
    sign_release,
    signature_path,
    verify_signature,
)

_KNOWN_ANSWER = 0x3F2ACC7F57C29BDB
"""SipHash-2-4 of the bytes 0..15 under the key 0..15, from the authors' reference vectors."""
commands = typer.Typer(rich_markup_mode="markdown")


@commands.command("doctor", epilog="Example: `tablepack doctor census.duckdb`")
def doctor_command(
    release: Annotated[
        Path | None, typer.Argument(help="Release to check to the last byte.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check the installation, and a release: every byte against its manifest, every row against its content hash."""
    findings = examine(release)
    if as_json:
        print_json([{"check": f.check, "ok": f.ok, "detail": f.detail} for f in findings])
    else:
        for f in findings:
            out().print(f"{'ok  ' if f.ok else 'BAD '} {f.check}: {f.detail}", markup=False)
    worst = max((f.exit_code for f in findings), default=0)
    if worst:
        raise typer.Exit(worst)


@commands.command(
    "sign",
    epilog="Examples: `tablepack sign --new office.pem`; `tablepack sign census.duckdb --key office.pem`",
)
def sign_command(
    release: Annotated[
        Path | None, typer.Argument(help="Release to sign.", metavar="RELEASE")
    ] = None,
    key: Annotated[Path | None, typer.Option("--key", help="Private key (PEM).")] = None,
    new: Annotated[
        Path | None,
        typer.Option(
            "--new", help="Make a key pair: this file, and one beside it that ends in .pub."
        ),
    ] = None,
) -> None:
    """Sign a release with an office's key; the signature lies beside it. Or make the key pair."""
    if (new is None) == (release is None) or (release is None) != (key is None):
        raise SpecError("give --new FILE to make a key pair, or RELEASE and --key FILE to sign")
    if new is not None:
        public, fingerprint = new_signing_key(new)
        notes().print(
            f"wrote {new} (mode 0600; keep it secret) and {public}, fingerprint {fingerprint}. Publish both the public "
            "key and the fingerprint where readers trust it is yours.",
            soft_wrap=True,
            markup=False,
        )
    elif release is not None and key is not None:
        signature = sign_release(release, key)
        notes().print(
            f"wrote {signature_path(release)}, signed by {signature.fingerprint}",
            soft_wrap=True,
            markup=False,
        )


@commands.command("verify", epilog="Example: `tablepack verify census.duckdb --with office.pub`")
def verify_command(
    release: ReleasePath,
    trust: Annotated[
        Path,
        typer.Option(
            "--with", help="Public key (PEM).", envvar="TABLEPACK_TRUST", show_envvar=True
        ),
    ],
) -> None:
    """Check every byte of a release, and that an office's key signed it."""
    record, signature = verify_signature(release, trust)
    out().print(
        f"{release}: {said_of(signature)}; content hash {record.content_hash}, vintage {record.vintage}",
        soft_wrap=True,
        markup=False,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One check."""

    check: str
    ok: bool
    detail: str
    exit_code: int = 0  # 0 where all is well


def examine(release: Path | None) -> list[Finding]:
    """Run all checks; of a release too, where one is given."""
    findings = [_versions(), _draws(), _scratch()]
    if release is not None:
        findings.append(_release(release))
        findings += _left(release)
    return findings


def _versions() -> Finding:
    """Name what is installed."""
    versions = [f"Python {platform.python_version()}"]
    for name in ("tablepack", "numpy", "duckdb", "pandas"):
        try:
            versions.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            versions.append(f"{name} (not installed as a package)")
    detail = ", ".join(versions)
    ok = sys.version_info >= (3, 11)
    return Finding(check="versions", ok=ok, detail=detail, exit_code=0 if ok else 2)


def _draws() -> Finding:
    """Check a draw against the reference, since every released number hangs on it."""
    words: list[UInt64Array] = []
    for first in (0, 8):
        words.append(np.frombuffer(bytes(range(first, first + 8)), dtype="<u8").astype(np.uint64))
    ok = int(siphash(bytes(range(16)), words)[0]) == _KNOWN_ANSWER
    detail = (
        "keyed draws give the reference's bits" if ok else "keyed draws differ from the reference"
    )
    return Finding(check="draws", ok=ok, detail=detail, exit_code=0 if ok else 1)


def _scratch() -> Finding:
    """Check that confidential scratch space can be made (and sweep what a killed run left)."""
    try:
        with scratch_directory() as place:
            return Finding(check="scratch", ok=True, detail=f"{place.parent} is ours alone")
    except TablepackError as error:
        return Finding(check="scratch", ok=False, detail=str(error), exit_code=error.exit_code)


def _left(release: Path) -> list[Finding]:
    """Say what a build that was stopped left beside its release; nothing where there is nothing."""
    try:
        told = left_rows(release)
    except TablepackError as error:
        return [Finding(check="rows", ok=False, detail=str(error), exit_code=error.exit_code)]
    return [] if told is None else [Finding(check="rows", ok=True, detail=told)]


def _left_out(columns: tuple[str, ...]) -> str:
    """What of the content hash could not be made anew."""
    if not columns:
        return ", and so is every row"
    return (
        f"; rows of tables with {', '.join(columns)} are checked by the file's hash only, for these have values "
        "that no row shows"
    )


def _release(path: Path) -> Finding:
    """Check every byte of a release against its manifest, and every row against its content hash."""
    try:
        record, unknown = check_release(path)
    except TablepackError as error:
        return Finding(check="release", ok=False, detail=str(error), exit_code=error.exit_code)
    return Finding(
        check="release",
        ok=True,
        detail=f"{path} is what its manifest says, content hash {record.content_hash}{_left_out(unknown)}",
    )
