"""Outputs never replace keys, ledgers, releases, specs or sources, nor what appears meanwhile or lies behind a link."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import stat
import subprocess
import threading

import pandas as pd
import pytest
from fixtures.pipeline import (
    ACCEPTED,
    COMMAND,
    KEY,
    content_of,
    environment,
    tablepack,
    write_spec,
)
from fixtures.release import build_release

import engine
from engine.api.reading import read
from engine.errors import StoreError
from engine.measure.dp.ledger import ledger_path, measured_folder
from engine.outputs import (
    RESERVED,
    check_folder,
    check_output,
    kind_of,
    output_file,
    output_folder,
    write_output,
)
from engine.release import build
from engine.source.charges import charges_path
from engine.source.journal import journal_path
from engine.store import manifest_path

ASK = "SELECT sex, count(*) AS n FROM data GROUP BY sex"
COLUMNS = {"AGE": {"kind": "integer"}, "SEX": {"kind": "category"}}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with one file of each kind: source, spec, key, journal, ledgers, release, manifest, pack spec."""
    folder = tmp_path_factory.mktemp("made")
    people = [{"AGE": 20 + i % 5, "SEX": "fm"[i % 2]} for i in range(400)]
    pd.DataFrame(people).to_csv(folder / "people.csv", index=False)
    spec = write_spec(
        folder, "people.csv", COLUMNS, [("AGE",), ("AGE", "SEX")], entities=(), privacy=ACCEPTED
    )
    build(read(spec), folder / "r.duckdb", jobs=1)
    ledger = {"format": 1, "entries": [], "digest": "0"}
    ledger_path(folder / "my.key").write_text(json.dumps(ledger))
    (folder / "pack.toml").write_text('[pack]\ntitle = "x"\n')
    (folder / "tls.pem").write_text("-----BEGIN PRIVATE KEY-----\nx\n")
    return folder


@pytest.fixture
def folder(made, tmp_path):
    shutil.copytree(made, tmp_path / "f")
    return tmp_path / "f"


NEEDED = (
    *("my.key", "my.key.journal", "my.key.exposure.json", "my.key.ledger.json"),
    *("r.duckdb", "r.duckdb.manifest.json", "people.csv", "release.toml", "pack.toml", "tls.pem"),
)


def test_names_that_are_reserved_are_those_in_use(made):
    key = made / "my.key"
    paths = (journal_path(key), charges_path(key), ledger_path(key), measured_folder(key))
    for path in (*paths, manifest_path(made / "r.duckdb")):
        assert path.name.endswith(tuple(RESERVED)), path


def relative(path):
    return os.path.join("..", path.parent.name, ".", path.name)


def linked(path):
    link = path.with_name("link.csv")
    link.symlink_to(path)
    return link


def hard_linked(path):
    link = path.with_name("hard.csv")
    os.link(path, link)
    return link


def copied(path):
    return shutil.copy(path, path.with_name("copy.csv"))


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n == "my.key" else pytest.mark.slow) for n in NEEDED],
)
def test_protected_files_are_never_replaced(folder, name):
    """By no command, not even with --force."""
    before = content_of(folder)
    for words in (
        ("sql", "r.duckdb", ASK, "-o", name, "--format", "csv", "--force"),
        ("build", "release.toml", "-o", name),
        ("init", "people.csv", "-o", name),
        ("key", "new", name),
        ("simulate", name, "--people", 1000),
        ("export", "r.duckdb", name),
        ("publish", "r.duckdb", name),
    ):
        done = tablepack(*words, cwd=folder)
        assert done.returncode == 2, (words, done.stderr)
        assert done.stderr.startswith("error: ")
    assert content_of(folder) == before


@pytest.mark.parametrize("way", [relative, linked, hard_linked, copied])
@pytest.mark.parametrize("name", NEEDED)
def test_protected_files_are_recognised_under_any_name(folder, name, way):
    """By their content; a source looks like any other file, so a copy of it is not protected."""
    if (name, way) == ("people.csv", copied):
        return
    given = way(folder / name)
    before = content_of(folder)
    with contextlib.chdir(folder), pytest.raises(StoreError, match=r"never replaced|ending in"):
        write_output(given, "x", force=True)
    assert content_of(folder) == before


def test_a_source_of_a_spec_is_known_by_it(folder, monkeypatch):
    source = folder / "people.csv"
    with pytest.raises(StoreError, match=r"is the source of .*release\.toml"):
        write_output(source, "x", force=True)
    away = folder.parent / "people.csv"
    shutil.move(source, away)
    (folder / "release.toml").write_text('[source]\npath = "../p*.csv"\n')
    write_output(folder.parent / "other.csv", "x", force=True)
    monkeypatch.chdir(folder)
    with pytest.raises(StoreError, match="is the source"):
        write_output(away, "x", force=True)


def test_inputs_are_never_outputs(folder):
    shutil.move(folder / "people.csv", folder / "people.json")
    (folder / "release.toml").unlink()
    before = content_of(folder)
    for words in (
        ("init", "people.json", "-o", "people.json", "--force"),
        ("evaluate", "people.json", "--data", "people.json", "-o", "people.html", "--force"),
        ("attack", "people.json", "--data", "people.json", "-o", "people.html", "--force"),
        ("sql", "r.duckdb", ASK, "--with", "a=people.json", "-o", "people.json", "--force"),
    ):
        done = tablepack(*words, cwd=folder)
        assert done.returncode == 2, (words, done.stderr)
        assert "people.json" in done.stderr, words
    assert content_of(folder) == before


def test_other_files_are_replaced_only_with_force(folder):
    evaluate = ("evaluate", "r.duckdb", "--data", "people.csv", "-o", "report.html")
    for name, words in (
        ("a.csv", ("sql", "r.duckdb", ASK, "-o", "a.csv")),
        ("a.parquet", ("sql", "r.duckdb", ASK, "-o", "a.parquet")),
        ("report.html", evaluate),
        ("report.json", evaluate),
    ):
        (folder / "report.html").unlink(missing_ok=True)
        (folder / name).write_text("ten years of work")
        done = tablepack(*words, cwd=folder)
        assert done.returncode == 2, words
        assert f"{name}: exists" in done.stderr
        assert "--force" in done.stderr
        assert (folder / name).read_text() == "ten years of work"
        if words != evaluate:
            assert tablepack(*words, "--force", cwd=folder).returncode == 0, words
            assert (folder / name).read_bytes()[:9] != b"ten years"
        assert not list(folder.glob(".*.part"))


def test_reserved_names_are_refused_before_anything_is_there(tmp_path):
    for name in (
        "k.journal",
        "K.EXPOSURE.JSON",
        "k.ledger.json.lock",
        "r.manifest.json",
        "r.wal",
    ):
        with pytest.raises(StoreError, match="ending in"):
            check_output(tmp_path / name, force=True)
    (tmp_path / "k.measured").mkdir()
    with pytest.raises(StoreError, match="measured counts"):
        check_output(tmp_path / "k.measured" / "a.csv")
    with pytest.raises(StoreError, match="measured counts"):
        check_folder(tmp_path / "new.measured")


def test_a_build_replaces_its_release_only_with_force(folder):
    words = ("build", "release.toml", "-o", "r.duckdb")
    before = content_of(folder)
    done = tablepack(*words, cwd=folder)
    assert done.returncode == 2
    assert "r.duckdb: is already a release" in done.stderr
    assert "--force" in done.stderr
    assert content_of(folder) == before
    with pytest.raises(StoreError, match="force=True"):
        engine.build(folder / "release.toml", out=folder / "r.duckdb")


def test_a_release_is_not_built_over_a_link_or_a_strange_manifest(folder):
    (folder / "current.duckdb").symlink_to(folder / "r.duckdb")
    (folder / "new.duckdb.manifest.json").write_text("my shopping list")
    for name, said in (("current.duckdb", "link"), ("new.duckdb", "is not a manifest")):
        done = tablepack("build", "release.toml", "-o", name, "--force", cwd=folder)
        assert done.returncode == 2
        assert said in done.stderr


def test_no_key_is_made_if_ledgers_of_an_older_one_exist(folder):
    (folder / "my.key").unlink()
    before = content_of(folder)
    done = tablepack("key", "new", "my.key", cwd=folder)
    assert done.returncode == 2
    assert "my.key.journal" in done.stderr
    assert content_of(folder) == before


def test_pipes_are_written_directly(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    write_output(pipe, "through")
    reader.join(10)
    assert got == ["through"]
    write_output("/dev/null", "away")


@pytest.mark.parametrize(
    "words",
    [
        "-o /dev/fd/3 3< my.key",
        pytest.param("-o link --force 1<> my.key 3>&1", marks=pytest.mark.slow),
        pytest.param("-o /dev/../dev/fd/3 --force 3<> my.key", marks=pytest.mark.slow),
        pytest.param("-o /proc/self/fd/3 --force 3>> my.key", marks=pytest.mark.slow),
    ],
)
def test_a_descriptor_is_the_file_behind_it(folder, words):
    (folder / "link").symlink_to("/dev/fd/3")
    before = content_of(folder)
    done = shell(f"sql r.duckdb '{ASK}' --format csv {words}", folder)
    assert done.returncode == 2, done.stderr
    assert "is a key" in done.stderr
    assert content_of(folder) == before


def shell(words, folder):
    """Run a command line with what the shell opens for it."""
    return subprocess.run(
        f"{shlex.join(COMMAND)} {words}",
        shell=True, cwd=folder, env=environment(), capture_output=True, text=True,
    )  # fmt: skip


@pytest.mark.ci
def test_standard_output_is_appended(folder):
    ask = f"sql r.duckdb '{ASK}' --format csv"
    (folder / "all.csv").write_text("old")
    done = shell(f"{ask} -o /dev/stdout >> all.csv", folder)
    assert done.returncode == 0, done.stderr
    assert (folder / "all.csv").read_text().startswith("oldSEX,n")


def test_folders_and_odd_paths(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    for path, said in (
        (tmp_path, "is a directory"),
        (tmp_path / "no" / "a", "folder does not exist"),
        (tmp_path / "file" / "a", "folder does not exist|Not a directory"),
        (tmp_path / ("n" * 300), "name too long"),
        ("a\0b", "null character"),
    ):
        with pytest.raises(StoreError, match=f"(?i){said}"):
            write_output(path, "x")
    with pytest.raises(StoreError, match="not an empty directory"):
        check_folder(tmp_path / "file")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with output_folder(".") as part:
        (part / "a").touch()
    assert (tmp_path / "here" / "a").exists()


def test_ordinary_files_are_not_protected(tmp_path):
    texts = {
        "a.csv": "a,b\n1,2\n", "b.json": '{"rows": []}', "c.json": "[" * 6000, "d.txt": "x" * 32,
        "e.html": "<html>", "f.json": '{"a":' * 6000, "g.txt": "[release]\nthis is no TOML", "empty": "",
    }  # fmt: skip
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        assert kind_of(tmp_path / name) == "", name
        check_output(tmp_path / name, force=True)
    (tmp_path / "cut.json").write_text('{"format": 1, "digest": "0", "charges": [')
    assert kind_of(tmp_path / "cut.json")


def test_a_release_without_its_manifest_is_still_protected(tmp_path):
    build_release(tmp_path / "r.duckdb")
    manifest_path(tmp_path / "r.duckdb").unlink()
    with pytest.raises(StoreError, match="never replaced"):
        check_output(tmp_path / "r.duckdb", force=True)


def test_what_appears_meanwhile_stays(tmp_path):
    out = tmp_path / "a.csv"
    with pytest.raises(StoreError, match="exists"), output_file(out) as part:  # noqa: PT012
        part.write_text("mine")
        out.write_text("theirs")
    assert out.read_text() == "theirs"
    (tmp_path / "k").write_bytes(KEY)
    with pytest.raises(StoreError, match="is a key"), output_file(out, force=True) as part:  # noqa: PT012
        part.write_text("mine")
        (tmp_path / "k").replace(out)
    assert out.read_bytes() == KEY
    assert list(tmp_path.iterdir()) == [out]


def test_a_file_that_appears_at_the_last_moment_stays(tmp_path, monkeypatch):
    """Between the last check and the renaming."""
    out = tmp_path / "a.csv"
    monkeypatch.setattr("engine.outputs._sync", lambda part: None)
    calls = []

    def check(path, **_):
        calls.append(path)
        if len(calls) == 2:
            out.write_text("theirs")

    monkeypatch.setattr("engine.outputs.check_output", check)
    with pytest.raises(StoreError, match="appeared"):
        write_output(out, "mine")
    assert out.read_text() == "theirs"


def test_a_name_is_taken_once_without_hard_links_too(tmp_path, monkeypatch):
    """As on some network and memory-card file systems."""
    out = tmp_path / "a.csv"

    def link(part, there):
        raise PermissionError("no hard links here")

    monkeypatch.setattr("engine.outputs.os.link", link)
    write_output(out, "mine")
    assert out.read_text() == "mine"
    out.unlink()

    def appearing(part, there):
        out.write_text("theirs")
        raise PermissionError("no hard links here")

    monkeypatch.setattr("engine.outputs.os.link", appearing)
    with pytest.raises(StoreError, match="appeared"):
        write_output(out, "mine")
    assert out.read_text() == "theirs"
    assert list(tmp_path.iterdir()) == [out]


def test_a_replaced_temporary_file_is_not_renamed(tmp_path):
    """Somebody with access to the folder puts a link in its place: the key behind it keeps its mode and single name."""
    out, key = tmp_path / "a.csv", tmp_path / "my.key"
    key.write_bytes(KEY)
    key.chmod(0o600)
    for put in (lambda part: part.symlink_to(key), lambda part: os.link(key, part)):
        with pytest.raises(StoreError, match="replaced meanwhile"), output_file(out) as part:  # noqa: PT012
            part.write_text("mine")
            part.unlink()
            put(part)
        assert sorted(p.name for p in tmp_path.iterdir()) == ["my.key"]
        assert (key.read_bytes(), stat.S_IMODE(key.stat().st_mode)) == (KEY, 0o600)


def test_a_dangling_link_is_not_followed(tmp_path):
    """In a shared folder it would let others decide which file of the user is created."""
    (tmp_path / "out.csv").symlink_to(tmp_path / "elsewhere.csv")
    for force in (False, True):
        with pytest.raises(StoreError, match=r"is a link to .*elsewhere\.csv"):
            write_output(tmp_path / "out.csv", "mine", force=force)
    assert not (tmp_path / "elsewhere.csv").exists()


def test_a_link_of_another_user_is_not_followed(tmp_path, monkeypatch):
    (tmp_path / "elsewhere.csv").write_text("x")
    (tmp_path / "out.csv").symlink_to(tmp_path / "elsewhere.csv")
    write_output(tmp_path / "out.csv", "mine", force=True)
    own = os.geteuid()
    os.lchown(tmp_path / "out.csv", own if own else 12345, -1)
    if own:  # only root can change the owner: otherwise pretend to be another user
        monkeypatch.setattr("engine.outputs.os.geteuid", lambda: own + 1)
    with pytest.raises(StoreError, match="another user"):
        write_output(tmp_path / "out.csv", "theirs", force=True)
    assert (tmp_path / "elsewhere.csv").read_text() == "mine"


def test_modes_are_never_wider_than_before(tmp_path):
    out = tmp_path / "a.txt"
    write_output(out, "x")
    umask = os.umask(0o022)
    os.umask(umask)
    assert stat.S_IMODE(out.stat().st_mode) == 0o666 & ~umask
    out.chmod(0o600)
    write_output(out, "y", force=True)
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    out.chmod(0o644)
    write_output(out, "z", force=True, private=True)
    assert stat.S_IMODE(out.stat().st_mode) == 0o600


def test_a_failure_leaves_what_was_there(tmp_path):
    out = tmp_path / "a.txt"
    out.write_text("old")
    with pytest.raises(StoreError, match="No space left"), output_file(out, force=True) as part:  # noqa: PT012
        part.write_text("half")
        raise OSError(28, "No space left on device")
    assert out.read_text() == "old"
    with pytest.raises(StoreError, match="No space left"), output_folder(tmp_path / "d") as part:  # noqa: PT012
        (part / "half").touch()
        raise OSError(28, "No space left on device")
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]
