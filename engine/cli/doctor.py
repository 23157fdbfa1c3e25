"""The commands `tablepack doctor`, `sign` and `verify`: integrity and signatures.

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

from engine.cli.console import (
    AsJson,
    ReleasePath,
    out,
    print_json,
    print_line,
    print_note,
)
from engine.errors import SpecError, TablepackError
from engine.release.folder import remove_left
from engine.schema import UInt64Array
from engine.source import scratch_directory
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
    release: Annotated[Path | None, typer.Argument(help="Release to check, byte by byte.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check the installation and a release: every byte against its manifest, every row against its content hash."""
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
            "--new",
            help="Create a key pair: this file, and the public key in a file ending in .pub.",
        ),
    ] = None,
) -> None:
    """Sign a release with an organisation's private key, or create a key pair. The signature is a separate file."""
    if (new is None) == (release is None) or (release is None) != (key is None):
        raise SpecError("give --new FILE to create a key pair, or RELEASE and --key FILE to sign")
    if new is not None:
        public, fingerprint = new_signing_key(new)
        print_note(
            f"wrote {new} (mode 0600; keep it secret) and {public}, fingerprint {fingerprint}. Publish the public key "
            "and the fingerprint through a channel that readers trust."
        )
    elif release is not None and key is not None:
        signature = sign_release(release, key)
        print_note(f"wrote {signature_path(release)}, signed by {signature.fingerprint}")


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
    """Check every byte of a release and its signature by an organisation's key."""
    record, signature = verify_signature(release, trust)
    print_line(
        f"{release}: {said_of(signature)}; content hash {record.content_hash}, vintage {record.vintage}"
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """The result of one check."""

    check: str
    ok: bool
    detail: str
    exit_code: int = 0  # 0 if ok


def examine(release: Path | None) -> list[Finding]:
    """Run all checks, including those of a release if one is given."""
    findings = [_versions(), _draws(), _scratch()]
    if release is not None:
        findings.append(_release(release))
    return findings + _leftovers(release)


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
    """Check a keyed draw against its reference, since every released number depends on it."""
    words: list[UInt64Array] = []
    for first in (0, 8):
        words.append(np.frombuffer(bytes(range(first, first + 8)), dtype="<u8").astype(np.uint64))
    ok = int(siphash(bytes(range(16)), words)[0]) == _KNOWN_ANSWER
    detail = "keyed draws match the reference" if ok else "keyed draws differ from the reference"
    return Finding(check="draws", ok=ok, detail=detail, exit_code=0 if ok else 1)


def _scratch() -> Finding:
    """Check that a confidential scratch folder can be created, and remove what killed runs left behind."""
    try:
        with scratch_directory() as place:
            return Finding(
                check="scratch", ok=True, detail=f"only this user can read {place.parent}"
            )
    except TablepackError as error:
        return Finding(check="scratch", ok=False, detail=str(error), exit_code=error.exit_code)


def _leftovers(release: Path | None) -> list[Finding]:
    """Remove the measurement folders that killed builds left beside a release, or here, if any."""
    removed = remove_left(Path() if release is None else release.parent)
    return [
        Finding(check="measurements", ok=True, detail=f"removed {folder}, left by a killed build")
        for folder in removed
    ]


def _row_check(columns: tuple[str, ...]) -> str:
    """How rows were checked: against the content hash, except where it cannot be recomputed."""
    if not columns:
        return "; every row matches it"
    return (
        f"; rows of tables with {', '.join(columns)} were checked by the hash of the file only, because these columns "
        "have values that occur in no row"
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
        detail=f"{path} matches its manifest, content hash {record.content_hash}{_row_check(unknown)}",
    )
