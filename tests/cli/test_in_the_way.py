"""Full disks, and files and folders that block the output: a message, an exit code, nothing half-written."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time

import pytest
from fixtures.pipeline import (
    COMMAND,
    environment,
    left_over,
    table_hashes,
    tablepack,
)
from fixtures.refused import check_refused, write_census_spec

import engine

# The disk.


@contextlib.contextmanager
def small_disk(folder, size, options=""):
    """A file system of this many kilobytes, if we may mount one."""
    folder.mkdir()
    mounted = shutil.which("mount") and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}k{options}", "none", str(folder)],
        capture_output=True,
    )
    if not mounted or mounted.returncode:
        pytest.skip(
            "no small file system can be mounted here; see the test with a limit on file sizes"
        )
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, census):
    """Hashes of the tables of a build in which nothing went wrong."""
    folder = tmp_path_factory.mktemp("undisturbed")
    spec = write_census_spec(folder, census)
    assert tablepack("build", spec, "-o", "r.duckdb", cwd=folder).returncode == 0
    return table_hashes(folder / "r.duckdb")


@pytest.mark.ci
@pytest.mark.parametrize(
    "kilobytes",
    [pytest.param(4, marks=pytest.mark.slow), 120, pytest.param(350, marks=pytest.mark.slow)],
)
def test_a_full_disk(tmp_path, census_spec, scratch, undisturbed, kilobytes):
    """At the beginning, while tables are written, and at the end; with more room the build resumes."""
    with small_disk(tmp_path / "disk", kilobytes) as disk:
        done = tablepack("build", census_spec, "-o", disk / "r.duckdb", cwd=tmp_path, tmp=scratch)
        assert done.returncode == 2, done.stderr
        assert "cannot be written" in done.stderr
        assert "Traceback" not in done.stderr
        assert not (disk / "r.duckdb").exists()
        subprocess.run(["mount", "-o", "remount,size=20000k", str(disk)], check=True)
        done = tablepack("build", census_spec, "-o", disk / "r.duckdb", cwd=tmp_path, tmp=scratch)
        assert done.returncode == 0, done.stderr
        assert not (disk / "r.duckdb.tmp").exists()
        assert table_hashes(disk / "r.duckdb") == undisturbed
    assert left_over(scratch) == []


@pytest.mark.slow
def test_a_source_processed_in_a_file_gives_the_same_tables(
    tmp_path, census_spec, scratch, undisturbed, monkeypatch
):
    monkeypatch.setattr("engine.source.opening.ON_DISK_BYTES", 0)
    done = tablepack("build", census_spec, "-o", "r.duckdb", cwd=tmp_path, tmp=scratch)
    assert done.returncode == 0, done.stderr
    assert table_hashes(tmp_path / "r.duckdb") == undisturbed
    assert left_over(scratch) == []


# Folders and files.


def test_a_folder_that_cannot_be_written(tmp_path, census_spec, scratch):
    """A path under a file: permission bits would not stop root."""
    (tmp_path / "file").write_text("")
    done = tablepack("build", census_spec, "-o", "file/r.duckdb", cwd=tmp_path, tmp=scratch)
    check_refused(done, tmp_path, scratch, said="folder does not exist")


@pytest.mark.slow
def test_a_build_is_refused_while_another_holds_its_staging(tmp_path, census_spec, scratch):
    running = subprocess.Popen(
        [*COMMAND, "build", str(census_spec), "-o", "r.duckdb"],
        cwd=tmp_path, env=environment(scratch), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    lock = tmp_path / "r.duckdb.tmp" / "lock"
    while not lock.exists() and running.poll() is None:
        time.sleep(0.005)
    os.kill(running.pid, signal.SIGSTOP)  # it keeps its lock
    try:
        done = tablepack("build", census_spec, "-o", "r.duckdb", cwd=tmp_path, tmp=scratch)
    finally:
        os.kill(running.pid, signal.SIGCONT)
        running.communicate(timeout=60)
    assert done.returncode == 2
    assert "another build" in done.stderr
    assert running.returncode == 0
    engine.open(tmp_path / "r.duckdb").close()
