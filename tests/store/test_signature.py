"""Signatures: who made a release, checked against a public key; also where it is replaced while open."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import sys
from pathlib import Path

import pytest
from fixtures.forged import _alter
from fixtures.release import build_release
from fixtures.tiny import tiny_release
from typer.testing import CliRunner

from engine.cli.app import app
from engine.errors import (
    DamagedRelease,
    ReplacedRelease,
    SpecError,
    StoreError,
    TooLarge,
    UntrustedRelease,
)
from engine.store import (
    manifest_path,
    new_signing_key,
    read_signature,
    said_of,
    sign_release,
    signature_path,
    verify_signature,
)
from engine.store.manifest import file_hash
from queries import export
from queries.release import open_release
from queries.sandbox import LimitedProcesses, ProcessLimits

pytest.importorskip("cryptography")


@pytest.fixture(scope="module", autouse=True)
def one_batch():
    """All tables are written together, however slow the machine is: so a release built again has the same bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("engine.store.staging.BATCH_S", 1e9)
        yield


@pytest.fixture(scope="module")
def office(tmp_path_factory):
    """A folder with an office's keys, those of another one, and a release that the office signed."""
    folder = tmp_path_factory.mktemp("office")
    for name in ("office", "other"):
        new_signing_key(folder / f"{name}.pem")
    sign_release(build_release(folder / "r.duckdb"), folder / "office.pem")
    return folder


@pytest.fixture
def release(office, tmp_path):
    """A copy of the signed release, to be altered."""
    for name in ("r.duckdb", "r.duckdb.manifest.json", "r.duckdb.sig"):
        shutil.copy(office / name, tmp_path)
    return tmp_path / "r.duckdb"


def run(*words):
    done = CliRunner().invoke(app, [str(w) for w in words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


def test_keys_are_made_once(tmp_path):
    public, fingerprint = new_signing_key(tmp_path / "k.pem")
    assert stat.S_IMODE((tmp_path / "k.pem").stat().st_mode) == 0o600
    assert public == tmp_path / "k.pub"
    assert fingerprint.startswith("SHA256:")
    before = (tmp_path / "k.pem").read_bytes(), public.read_bytes()
    for path in (tmp_path / "k.pem", tmp_path / "k.other"):
        with pytest.raises(StoreError, match="never overwritten"):
            new_signing_key(path)
    public.unlink()
    with pytest.raises(StoreError, match=r"k\.pem exists; a key is never overwritten"):
        new_signing_key(tmp_path / "k.pem")
    with pytest.raises(SpecError, match=r"l\.pub"):
        new_signing_key(tmp_path / "l.pub")
    with pytest.raises(StoreError, match="cannot write"):
        new_signing_key(tmp_path / "none" / "k.pem")
    assert (tmp_path / "k.pem").read_bytes() == before[0]


def test_a_signed_release_is_verified_and_opened(office, release):
    record, signature = verify_signature(release, office / "office.pub")
    assert signature.is_checked
    with open_release(release, trust=office / "office.pub") as opened:
        assert opened.signature == signature
        assert opened.content_hash == record.content_hash
    with open_release(release) as opened:
        assert opened.signature.fingerprint == signature.fingerprint
        assert not opened.signature.is_checked


@pytest.mark.parametrize("field", ["vintage", "key_id", "engine_version"])
def test_the_signature_covers_the_manifest(office, release, field):
    raw = json.loads(manifest_path(release).read_text())
    raw["accepts"][0][field] += "x"
    manifest_path(release).write_text(json.dumps(raw))
    with pytest.raises(UntrustedRelease, match="its signature"):
        verify_signature(release, office / "office.pub")


@pytest.mark.parametrize(("field", "other"), [("content_hash", "0" * 32), ("tables", {})])
def test_the_signature_covers_the_content_hashes(office, release, field, other):
    raw = json.loads(manifest_path(release).read_text())
    raw["accepts"][0][field] = other
    manifest_path(release).write_text(json.dumps(raw))
    with pytest.raises(UntrustedRelease, match="its signature"):
        verify_signature(release, office / "office.pub")


def test_the_signature_covers_every_byte(office, release):
    """Also where a forger writes the hash of the changed file into the manifest."""
    data = bytearray(release.read_bytes())
    data[-1] ^= 1
    release.write_bytes(data)
    raw = json.loads(manifest_path(release).read_text())
    raw["accepts"][0]["sha256"] = hashlib.sha256(data).hexdigest()
    manifest_path(release).write_text(json.dumps(raw))
    with pytest.raises(UntrustedRelease, match="its signature"):
        verify_signature(release, office / "office.pub")


def test_what_is_not_signed_by_the_trusted_key_is_refused(office, release):
    with pytest.raises(UntrustedRelease, match=r"is signed by SHA256:.*, not by SHA256:") as error:
        open_release(release, trust=office / "other.pub")
    assert error.value.exit_code == 6
    other = tiny_release(release.with_name("s.duckdb"), seed=1)
    shutil.copy(signature_path(release), signature_path(other))
    with pytest.raises(UntrustedRelease, match="its signature"):
        open_release(other, trust=office / "office.pub")
    signature_path(release).unlink()
    with pytest.raises(UntrustedRelease, match="is not signed"):
        open_release(release, trust=office / "office.pub")
    with open_release(release) as opened:
        assert opened.signature is None
        assert said_of(opened.signature) == "not signed"


def test_a_trusted_release_is_read_whole(office, release, monkeypatch):
    """Also one that is so large that its size is enough otherwise."""
    monkeypatch.setattr("engine.store.manifest.SMALL_RELEASE", 1000)
    data = bytearray(release.read_bytes())
    data[-1] ^= 1
    release.write_bytes(data)
    with pytest.raises(DamagedRelease, match="its bytes"):
        open_release(release, trust=office / "office.pub")


INVALID = (
    "",
    "[]",
    "{}",
    "[" * 9000,
    "x" * 20000,
    '{"format_version": 2, "algorithm": "Ed25519", "public_key": "", "signature": ""}',
    '{"format_version": 1, "algorithm": "none", "public_key": "", "signature": ""}',
    '{"format_version": 1, "algorithm": "Ed25519", "public_key": "AA==", "signature": "AA=="}',
    '{"format_version": 1, "algorithm": "Ed25519", "public_key": "A", "signature": "AA=="}',
    '{"format_version": 1, "algorithm": "Ed25519", "public_key": 7, "signature": "AA=="}',
    '{"format_version": NaN}',
)


def test_an_invalid_signature(release):
    for text in INVALID:
        signature_path(release).write_text(text)
        with pytest.raises(DamagedRelease, match=r"r\.duckdb\.sig"):
            read_signature(release)
    with pytest.raises(DamagedRelease, match=r"r\.duckdb\.sig"):
        open_release(release)


def test_files_that_are_no_keys(office, release, tmp_path):
    with pytest.raises(SpecError, match="public Ed25519 key"):
        open_release(release, trust=office / "office.pem")
    with pytest.raises(SpecError, match="cannot be read"):
        open_release(release, trust=tmp_path / "none.pub")
    loose = tmp_path / "loose.pem"
    shutil.copyfile(office / "office.pem", loose)
    loose.chmod(0o644)
    with pytest.raises(SpecError, match="chmod 600"):
        sign_release(release, loose)
    loose.write_text("no key")
    loose.chmod(0o600)
    with pytest.raises(SpecError, match="private Ed25519 key"):
        sign_release(release, loose)


def test_the_public_key_does_not_sign(office, release, tmp_path):
    with pytest.raises(SpecError, match=r"office\.pub: is the public key.*office\.pem$"):
        sign_release(release, office / "office.pub")
    alone = shutil.copy(office / "office.pub", tmp_path / "alone.pub")
    with pytest.raises(SpecError, match="is the public key"):
        sign_release(release, alone)


def test_another_office_does_not_sign_over_it(office, release):
    before = signature_path(release).read_bytes()
    with pytest.raises(StoreError, match="is the signature of SHA256:"):
        sign_release(release, office / "other.pem")
    assert signature_path(release).read_bytes() == before
    sign_release(release, office / "office.pem")
    assert signature_path(release).read_bytes() == before  # Ed25519 draws nothing


def test_a_damaged_release_is_not_signed(office, release):
    signature_path(release).unlink()
    release.write_bytes(release.read_bytes()[:-1])
    with pytest.raises(DamagedRelease):
        sign_release(release, office / "office.pem")
    assert not signature_path(release).exists()


def test_a_build_takes_the_old_signature_away(release):
    build_release(release)
    assert signature_path(release).exists()  # the same bytes
    build_release(release, seed=4)
    assert not signature_path(release).exists()


@pytest.mark.ci
def test_commands(office, tmp_path):
    release = tiny_release(tmp_path / "r.duckdb")
    assert "fingerprint SHA256:" in run("sign", "--new", tmp_path / "k.pem")
    assert "not signed" in run("show", release)
    assert "signed by SHA256:" in run("sign", release, "--key", tmp_path / "k.pem")
    assert "SHA256:" in run("verify", release, "--with", tmp_path / "k.pub")
    assert "not verified" in run("show", release)
    assert "(verified)" in run("show", release, "--trust", tmp_path / "k.pub")
    said = json.loads(run("show", release, "--json", "--trust", tmp_path / "k.pub"))
    assert said["signed_by"].startswith("SHA256:")
    assert said["signature_checked"]
    trust = ("--trust", office / "office.pub")
    for words in (
        ("show", release),
        ("sql", release, "SELECT 1"),
        ("export", release, tmp_path / "csv"),
        ("publish", release, tmp_path / "pack"),
        ("publish", release, "--dry-run"),
    ):
        with pytest.raises(UntrustedRelease):
            run(*words, *trust)
    with pytest.raises(SpecError, match="give --new FILE"):
        run("sign", release)


@pytest.mark.slow
def test_a_pack_carries_the_signature(office, release, tmp_path):
    spec = tmp_path / "pack.toml"
    spec.write_text("[pack]\nrelease_file = true\n")
    run("publish", release, tmp_path / "pack", "--spec", spec, "--trust", office / "office.pub")
    assert verify_signature(tmp_path / "pack" / "r.duckdb", office / "office.pub")[1].is_checked


FORGED = "UPDATE catalog.codes SET label = 'FORGED'"
SAYS = "was replaced since it was opened"


@pytest.fixture
def signed(tmp_path):
    """A signed release and the public key."""
    public, _ = new_signing_key(tmp_path / "office.pem")
    path = tiny_release(tmp_path / "r.duckdb")
    sign_release(path, tmp_path / "office.pem")
    return path, public


def replace(path: Path, **lies) -> None:
    """Put a forgery in a release's place whose manifest repeats its content hash."""
    part = path.with_name("forged.duckdb")
    shutil.copyfile(path, part)
    _alter(part, FORGED, hashes=False)
    raw = json.loads(manifest_path(path).read_text())
    raw["accepts"][0] |= {"size": part.stat().st_size, "sha256": file_hash(part), **lies}
    os.replace(part, path)
    manifest_path(path).write_text(json.dumps(raw))


@pytest.mark.parametrize("is_trusted", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_it_is_not_exported(signed, tmp_path, is_trusted):
    path, public = signed
    with open_release(path, trust=public if is_trusted else None) as opened:
        replace(path)
        with pytest.raises(StoreError, match=SAYS):
            export(opened, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_large_one_that_is_trusted_is_read_whole_again(signed, tmp_path, monkeypatch):
    """Its manifest repeats the signed SHA-256, so that only its bytes tell."""
    path, public = signed
    monkeypatch.setattr("engine.store.manifest.SMALL_RELEASE", 1000)
    with open_release(path, trust=public) as opened:
        data = bytearray(path.read_bytes())
        at = data.index(b"label")
        data[at : at + 5] = b"LABEL"
        path.write_bytes(data)
        with pytest.raises(DamagedRelease, match="its bytes"):
            export(opened, tmp_path / "out")


@pytest.fixture
def packages():
    for name in ("pyarrow", "xlsxwriter", "jinja2"):
        pytest.importorskip(name)


@pytest.mark.usefixtures("packages")
def test_it_is_not_published(signed, tmp_path):
    from queries.packs import publish

    path, public = signed
    with open_release(path, trust=public) as opened:
        replace(path)
        with pytest.raises(StoreError, match=SAYS):
            publish(opened, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.ci
@pytest.mark.usefixtures("packages")
def test_it_is_not_copied_into_a_pack(signed, tmp_path):
    """Replaced after the pack's own connection was opened."""
    from queries.packs import PackSpec, publish

    path, public = signed
    done = []

    def late(stage, n, total):
        if not done:
            replace(path)
        done.append(stage)

    with open_release(path, trust=public) as opened, pytest.raises(StoreError, match=SAYS):
        publish(
            opened,
            tmp_path / "out",
            PackSpec.model_validate({"pack": {"release_file": True}}),
            progress=late,
        )
    assert not (tmp_path / "out").exists()


LINUX = pytest.mark.skipif(sys.platform != "linux", reason="processes are limited on Linux")


@pytest.mark.ci
@LINUX
def test_no_new_process_answers_from_it(signed):
    path, _ = signed
    limits = ProcessLimits(process_mb=256)
    with LimitedProcesses(path, limits=limits, n=1) as asked:
        replace(path)
        with pytest.raises(TooLarge):
            asked.sql("SELECT repeat('x', 2000000000)")
        with pytest.raises(ReplacedRelease, match=SAYS):
            asked.sql("SELECT DISTINCT label FROM catalog.codes")
