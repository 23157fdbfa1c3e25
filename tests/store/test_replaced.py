"""A release that is replaced while open, by a forgery with the same content hash: nothing of the forgery gets out."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from fixtures.forged import _alter
from fixtures.tiny import tiny_release

from engine.errors import DamagedRelease, ReplacedRelease, StoreError, TooLarge
from engine.store import manifest_path, new_signing_key, sign_release
from engine.store.manifest import file_hash
from queries import export
from queries.release import open_release
from queries.sandbox import ProcessLimits, limited_processes

pytest.importorskip("cryptography")
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
    with limited_processes(path, limits=limits, n=1) as asked:
        replace(path)
        with pytest.raises(TooLarge):
            asked.sql("SELECT repeat('x', 2000000000)")
        with pytest.raises(ReplacedRelease, match=SAYS):
            asked.sql("SELECT DISTINCT label FROM catalog.codes")
