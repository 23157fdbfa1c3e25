"""Full disks, and files and folders that block the output: a message, an exit code, nothing half-written."""

from __future__ import annotations

import contextlib
import shutil
import subprocess

import pytest
from fixtures.pipeline import (
    left_over,
    table_hashes,
    tablepack,
)
from fixtures.refused import write_census_spec

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


# Folders and files.
