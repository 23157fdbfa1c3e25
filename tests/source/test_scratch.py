from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb
import pytest

from engine.errors import StoreError
from engine.source import memory_connection, scratch_directory
from engine.source.scratch import confidential_connection

REPO = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def base(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"tablepack-{os.getuid()}"


def test_directory_is_ours_alone_and_gone_afterwards(base):
    with scratch_directory() as scratch:
        assert scratch.parent == base
        assert scratch.stat().st_mode & 0o777 == 0o700
        assert base.stat().st_mode & 0o777 == 0o700
        (scratch / "rows").write_text("x")
    assert not scratch.exists()


def test_it_is_gone_after_an_error():
    with pytest.raises(ZeroDivisionError), scratch_directory() as scratch:
        raise ZeroDivisionError
    assert not scratch.exists()


def test_left_overs_of_a_killed_process_are_swept(base):
    code = (
        "import sys, time\nfrom engine.source.scratch import scratch_directory\n"
        "with scratch_directory() as s:\n"
        "    (s / 'rows').write_text('CANARY')\n    print(s, flush=True)\n    time.sleep(60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(base.parent), "PYTHONPATH": str(REPO)},
    )
    left = Path(process.stdout.readline().strip())
    with scratch_directory():
        assert (left / "rows").exists(), "a live process keeps its directory"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert (left / "rows").exists()
    with scratch_directory():
        assert not left.exists()


def test_a_directory_without_a_lock_is_swept_and_files_are_left_alone(base):
    base.mkdir(mode=0o700)
    (base / "half-made").mkdir()
    (base / "note").write_text("")
    with scratch_directory():
        assert not (base / "half-made").exists()
    assert (base / "note").exists()


def test_a_base_that_others_can_open_is_refused(base):
    base.mkdir(mode=0o700)
    base.chmod(0o755)
    with pytest.raises(StoreError, match="others can open it"), scratch_directory():
        pass


def test_a_base_that_is_a_link_is_refused(base, tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    base.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="not a directory"), scratch_directory():
        pass


def test_a_base_of_another_user_is_refused(base, monkeypatch):
    base.mkdir(mode=0o700)
    other = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: other)
    base.rename(base.parent / f"tablepack-{other}")
    with pytest.raises(StoreError, match="belongs to another user"), scratch_directory():
        pass


def test_the_connection_loads_nothing_and_reads_no_variables():
    with scratch_directory() as scratch:
        con = confidential_connection(scratch, threads=1, memory_limit="300MB")
        settings = dict(
            con.execute(
                "SELECT name, value FROM duckdb_settings() WHERE name IN ('threads', 'TimeZone', "
                "'autoload_known_extensions', 'autoinstall_known_extensions', "
                "'python_enable_replacements', 'temp_directory', 'enable_progress_bar')"
            ).fetchall()
        )
        con.close()
        assert settings == {
            "threads": "1",
            "TimeZone": "UTC",
            "autoload_known_extensions": "false",
            "autoinstall_known_extensions": "false",
            "python_enable_replacements": "false",
            "temp_directory": str(scratch / "spill"),
            "enable_progress_bar": "false",
        }


@pytest.mark.ci
def test_rows_on_disk_stay_in_the_scratch_directory_and_are_not_readable_there():
    with scratch_directory() as scratch:
        con = confidential_connection(scratch, on_disk=True, memory_limit="80MB", threads=2)
        con.execute(
            "CREATE TABLE rows AS SELECT 'CANARY' || i AS v, hash(i) AS h FROM range(2000000) t(i)"
        )
        con.execute("CHECKPOINT scratch")
        con.execute("CREATE TEMP TABLE sorted AS SELECT v, h, hash(h) AS g FROM rows ORDER BY h")
        files = [p for p in scratch.rglob("*") if p.is_file()]
        assert any(p.parent.name == "spill" for p in files)
        found = sum(p.read_bytes().count(b"CANARY") for p in files)
        can_encrypt = con.execute("SELECT current_setting('temp_file_encryption')").fetchone()
        cipher = con.execute(
            "SELECT cipher FROM duckdb_databases() WHERE database_name = 'scratch'"
        ).fetchone()
        con.close()
    if can_encrypt == (True,):
        assert found == 0
        assert cipher == ("CTR",)  # twice as fast as the default


def test_a_connection_in_memory_fails_rather_than_spill(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with memory_connection() as con:
        con.execute("SET memory_limit = '40MB'; SET threads = 1")
        with pytest.raises(duckdb.OutOfMemoryException):
            con.execute("SELECT * FROM range(30_000_000) t(i) ORDER BY hash(i)").fetchnumpy()
    assert list(tmp_path.rglob("*")) == []
