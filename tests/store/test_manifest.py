"""Manifests and content hashes: a file that is not the one its manifest describes is refused."""

from __future__ import annotations

import dataclasses
import json
import random
import shutil

import duckdb
import numpy as np
import pytest
from fixtures.release import AGE, SUPPORTS, TOWN, build_release, make_support, make_table
from fixtures.tiny import tiny_release
from hypothesis import given, settings
from hypothesis import strategies as st

import engine.store.manifest
from engine.errors import DamagedRelease, StoreError
from engine.store import manifest_path, open_release, verify_release
from engine.store.manifest import (
    FORMAT_VERSION,
    Manifest,
    content_hash,
    file_hash,
    read_manifest,
    release_hash,
    support_hash,
    values_hash,
    write_manifest,
)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return tiny_release(tmp_path_factory.mktemp("manifest") / "r.duckdb")


@pytest.fixture
def release(built, tmp_path):
    """A copy to damage."""
    path = tmp_path / "r.duckdb"
    shutil.copy(built, path)
    shutil.copy(manifest_path(built), manifest_path(path))
    return path


def refused(path, why, *, verify="size"):
    with pytest.raises(DamagedRelease, match=why) as error:
        open_release(path, verify=verify)
    assert error.value.exit_code == 6


def test_opens_by_manifest(release):
    con, record = open_release(release, verify="hash")
    assert con.execute("SELECT content_hash FROM catalog.release").fetchone() == (
        record.content_hash,
    )
    assert con.execute('SELECT count(*) FROM "AGE.SEX"').fetchone() == (24,)
    with pytest.raises(duckdb.Error, match="read-only"):
        con.execute("DELETE FROM catalog.notes")
    con.close()
    assert (record.size, record.sha256) == (release.stat().st_size, file_hash(release))
    assert (record.key_id, record.vintage, record.engine_version) == (
        "00112233aabbccdd", "2026-1", "0.1.0"
    )  # fmt: skip


def test_missing_file_and_manifest(release):
    with pytest.raises(StoreError, match="no such release") as error:
        open_release(release.with_name("none.duckdb"))
    assert error.value.exit_code == 2
    saved = release.read_bytes()
    release.unlink()
    refused(release, "cannot be read")
    release.write_bytes(saved)
    manifest_path(release).unlink()
    refused(release, "manifest r.duckdb.manifest.json is missing")


def test_a_file_that_is_no_manifest(release):
    for text in (
        "",
        "{}",
        "[]",
        "null",
        f'{{"format_version": {FORMAT_VERSION}, "accepts": [{{}}]}}',
        "\xff",
    ):
        manifest_path(release).write_bytes(text.encode("latin-1"))
        refused(release, "cannot be read")


def test_another_format_version(release):
    raw = json.loads(manifest_path(release).read_text())
    for other, remedy in ((FORMAT_VERSION - 1, "tablepack build SPEC"), (99, "a newer version")):
        raw["format_version"] = other
        manifest_path(release).write_text(json.dumps(raw))
        refused(release, f"format {other}, .* {FORMAT_VERSION}; .*{remedy}")


def test_a_release_of_the_old_format_is_replaced_by_a_build(release):
    path = manifest_path(release)
    old = path.read_text().replace(f'"format_version": {FORMAT_VERSION}', '"format_version": 1')
    path.write_text(old)
    refused(release, "format 1")
    verify_release(build_release(release))


def test_stale_log(release):
    release.with_name("r.duckdb.wal").write_bytes(b"")
    refused(release, "write-ahead log")


def test_not_duckdb(release):
    release.write_bytes(b"x" * release.stat().st_size)
    refused(release, "not a DuckDB file")
    release.write_bytes(b"")
    refused(release, "not a DuckDB file")


def test_cut_or_lengthened(release):
    whole = release.read_bytes()
    for cut in (20, 4096, len(whole) // 2, len(whole) - 1):
        release.write_bytes(whole[:cut])
        refused(release, "size")
    release.write_bytes(whole + b"\0")
    refused(release, "size")


def test_every_flipped_bit_is_refused(release):
    whole = release.read_bytes()
    rng = random.Random(5)
    for _ in range(50):
        place = rng.randrange(len(whole) * 8)
        data = bytearray(whole)
        data[place // 8] ^= 1 << place % 8
        release.write_bytes(data)
        refused(release, "bytes" if not 64 <= place < 96 else "DuckDB")
    release.write_bytes(whole)
    open_release(release)[0].close()


def test_swapped_file(release, tmp_path):
    other = tiny_release(tmp_path / "other.duckdb", seed=1)
    shutil.copy(other, release)
    refused(release, "bytes|size")


def test_large_releases_are_hashed_on_demand(release, monkeypatch):
    monkeypatch.setattr(engine.store.manifest, "SMALL_RELEASE", 1000)
    data = bytearray(release.read_bytes())
    data[-1] ^= 1
    release.write_bytes(data)
    verify_release(release)
    refused(release, "bytes", verify="hash")


def test_two_accepted_files_are_told_apart(release, tmp_path):
    (old,) = read_manifest(release).accepts
    new = dataclasses.replace(old, sha256="0" * 64, content_hash="f" * 32)
    both = Manifest(format_version=FORMAT_VERSION, accepts=(new, old))
    write_manifest(release, both, scratch=tmp_path)
    assert verify_release(release) == old
    assert not (tmp_path / "manifest.part").exists()


def test_database_that_is_no_release_or_another(release, tmp_path, monkeypatch):
    (record,) = read_manifest(release).accepts
    lying = dataclasses.replace(record, content_hash="0" * 32)
    write_manifest(
        release, Manifest(format_version=FORMAT_VERSION, accepts=(lying,)), scratch=tmp_path
    )
    refused(release, "described by its manifest")

    plain = tmp_path / "plain.duckdb"
    duckdb.connect(str(plain)).close()
    size, digest = plain.stat().st_size, file_hash(plain)
    fitting = dataclasses.replace(record, size=size, sha256=digest)
    write_manifest(
        plain, Manifest(format_version=FORMAT_VERSION, accepts=(fitting,)), scratch=tmp_path
    )
    refused(plain, "schema 'catalog' is missing")


def test_content_hash_known_answer():
    """Canonical bytes: a change here is a new release format."""
    assert content_hash(make_table(("AGE", "TOWN")), SUPPORTS) == KNOWN_TABLE
    assert support_hash(SUPPORTS["TOWN"]) == KNOWN_SUPPORT
    assert release_hash({"a": "1", "b": "2"}, {"c": "3"}) == KNOWN_RELEASE


KNOWN_TABLE = "1b7ff949c1a836f6fad69a77b9ccc8d0"
KNOWN_SUPPORT = "b260caec01c40bade78cb2a497cd2ac5"
KNOWN_RELEASE = "6952de193f5f07a52a711a5a0144accc"


def test_content_hash_follows_values_not_codes():
    """An support with more values in front moves the codes; the table is the same."""
    table = make_table(("AGE",))
    wider = make_support(AGE, [(0, 0), (1, -9), (2, 7), (2, 40), (2, 41)])
    moved = dataclasses.replace(table, codes=table.codes + (table.codes > 0).astype(np.int32))
    assert content_hash(moved, {"AGE": wider}) == content_hash(table, SUPPORTS)
    assert content_hash(table, {"AGE": wider}) != content_hash(table, SUPPORTS)


@pytest.mark.parametrize(
    "change",
    [
        lambda t: dataclasses.replace(t, n=t.n + (np.arange(len(t.n)) == 2)),
        lambda t: dataclasses.replace(t, codes=t.codes[::-1]),
        lambda t: dataclasses.replace(t, columns=("AGE", "SEX")),
        lambda t: dataclasses.replace(t, codes=t.codes[1:], n=t.n[1:]),
    ],
)
def test_content_hash_sees_every_change(change):
    table = make_table(("AGE", "TOWN"))
    supports = {**SUPPORTS, "SEX": SUPPORTS["TOWN"]}
    assert content_hash(change(table), supports) != content_hash(table, supports)


def test_diagnostics_do_not_change_a_content_hash():
    table = make_table(("AGE", "TOWN"))
    noted = dataclasses.replace(table, gap=1, rake_cycles=9, rake_error=0.5)
    assert content_hash(noted, SUPPORTS) == content_hash(table, SUPPORTS)
    lists = {name: values_hash(a) for name, a in SUPPORTS.items()}
    assert content_hash(table, SUPPORTS, lists=lists) == content_hash(table, SUPPORTS)


@settings(max_examples=30)
@given(st.lists(st.text(max_size=3), max_size=4), st.lists(st.text(max_size=3), max_size=4))
def test_lists_of_values_do_not_run_together(a, b):
    one = make_support(TOWN, [(0, 0)], values=tuple(a))
    two = make_support(TOWN, [(0, 0)], values=tuple(b))
    assert (values_hash(one) == values_hash(two)) == (a == b)
