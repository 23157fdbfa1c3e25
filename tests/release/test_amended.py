"""Tables added to a release and taken out of it, also where `add` is killed: what a build of the other spec gives."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from fixtures.pipeline import (
    ACCEPTED,
    CENSUS,
    ROOT,
    make_census,
    make_frame,
    table_hashes,
    tablepack,
    write_spec,
)

import engine
from engine.api.reading import read
from engine.errors import DamagedRelease, PrivacyError, StoreError
from engine.release import build, building, sticky
from engine.release.folder import MeasurementFolder, folder_of_build
from engine.spec import ReleaseSpec, amended
from engine.store import earlier_release, manifest_path
from engine.store.manifest import file_hash

SINGLES = (("age",), ("sex",), ("region",))
SMALL = (*SINGLES, ("age", "sex"))
LARGE = (
    *SMALL,
    ("carer",),  # of no table before
    ("age", "region"),  # sorts before what was there
    ("age", "region", "sex"),  # one of whose pairs, region x sex, is not released
    ("age", "carer", "education", "sex"),  # wider than any before
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_census(tmp_path_factory.mktemp("amended"), people=1_000)


def made(folder, tables, name, *, columns=CENSUS, **more):
    """A spec and what a build of it gives."""
    more.setdefault("privacy", ACCEPTED)
    spec = read(write_spec(folder, folder / "people.parquet", columns, tables, **more))
    return spec, build(spec, folder / f"{name}.duckdb", force=True, jobs=1)


def content(path):
    """All that is in a release, table numbers aside: rows of every table, and the whole catalogue, sorted."""
    with duckdb.connect(str(path), read_only=True) as con:
        names = con.execute(
            "SELECT columns, physical FROM catalog.tables ORDER BY table_id"
        ).fetchall()
        rows = {
            tuple(columns): con.execute(f"SELECT * FROM tables.{physical}").fetchall()
            for columns, physical in names
        }
        catalog = {
            name: sorted(con.execute(f"SELECT * FROM catalog.{name}").fetchall(), key=repr)
            for name in ("release", "tables", "columns", "codes", "universes", "notes", "cells")
        }
        catalog["exposure"] = con.execute("SELECT * FROM catalog.exposure").fetchall()
        made_by = con.execute(
            "SELECT sql, comment FROM duckdb_views() WHERE NOT internal "
            "UNION ALL SELECT sql, comment FROM duckdb_tables() ORDER BY ALL"
        ).fetchall()
        comments = con.execute(
            "SELECT table_name, column_name, comment FROM duckdb_columns() WHERE NOT internal ORDER BY ALL"
        ).fetchall()
    return rows, catalog, made_by, comments


def check_same(one, other):
    for ours, theirs in zip(content(one), content(other), strict=True):
        assert ours == theirs


@pytest.mark.ci
def test_more_and_fewer_tables_are_what_builds_of_these_give(folder):
    small, path = made(folder, SMALL, "small")
    large, whole = made(folder, LARGE, "large")
    build(large, path, force=True, earlier=earlier_release(path), jobs=1)
    check_same(path, whole)
    assert engine.open(path).content_hash == engine.open(whole).content_hash
    build(small, path, force=True, earlier=earlier_release(path), jobs=1)
    # What earlier builds told counts for both.
    check_same(path, made(folder, SMALL, "again")[1])
    assert tablepack("doctor", path, cwd=folder).returncode == 0


def numbers_aside(path):
    """The same with tables called by their views, whatever their numbers are."""
    rows, catalog, made_by, comments = content(path)
    names = {physical: name for _, name, _, _, physical, *_ in catalog["tables"]}

    def named(text):
        text = re.sub(r"\bt_\d{4}\b", lambda found: names[found[0]], text or "")
        return re.sub(r"catalog\.cards, table \d+", "its card", text)

    catalog["tables"] = sorted(
        [(name, *row[:3], *row[5:]) for row in catalog["tables"] for name in [row[1]]], key=repr
    )
    catalog["tables"] = [(row[0], *row[2:]) for row in catalog["tables"]]
    catalog["cells"] = sorted((row[1:] for row in catalog["cells"]), key=repr)
    made_by = sorted((named(sql), named(comment)) for sql, comment in made_by)
    comments = sorted((named(table), column, comment) for table, column, comment in comments)
    return rows, catalog, made_by, comments


@pytest.mark.ci
def test_a_copy_grows_where_no_other_table_changes(folder):
    small, path = made(folder, (*SMALL, ("age", "region", "sex")), "grows")
    with duckdb.connect(str(path), read_only=True) as con:
        before = con.execute("SELECT name, physical FROM catalog.tables").fetchall()
    more = (("age", "region"), ("region", "sex"))
    large = amended(small, more=more)
    whole = build(large, folder / "grown.duckdb", jobs=1)

    build(large, path, force=True, earlier=earlier_release(path), jobs=1)
    for ours, theirs in zip(numbers_aside(path), numbers_aside(whole), strict=True):
        assert ours == theirs
    with duckdb.connect(str(path), read_only=True) as con:
        after = con.execute("SELECT name, physical FROM catalog.tables").fetchall()
    assert {*before} < {*after}
    with engine.open(path) as grown, engine.open(whole) as built:
        assert grown.content_hash == built.content_hash
        assert grown.tables == built.tables
    assert tablepack("doctor", path, cwd=folder).returncode == 0


@pytest.mark.ci
def test_only_what_is_new_is_fitted(folder, monkeypatch):
    spec, path = made(folder, SMALL, "once")
    sent, put = [], MeasurementFolder.put

    def watched(self, measurement):
        sent.append(measurement.columns)
        put(self, measurement)

    monkeypatch.setattr(MeasurementFolder, "put", watched)
    build(
        amended(spec, more=[["region", "sex"]]),
        path,
        force=True,
        earlier=earlier_release(path),
        jobs=1,
    )
    assert [columns for columns in sent if len(columns) > 1] == [("region", "sex")]


@pytest.mark.ci
def test_universes_copies_and_columns_that_tell_others(tmp_path):
    people = make_frame(1200).assign(KIND=lambda f: f["SEX"].map({"f": "x", "m": "y"}))
    people["WORK"] = people["INCOME"].where(people["AGE"] >= 15)
    people["BAND"] = people["AGE"] // 10
    people.to_parquet(tmp_path / "people.parquet")
    columns = {
        "ID": {"kind": "integer"},
        "SEX": {"kind": "category"},
        "KIND": {"kind": "category"},
        "AGE": {"kind": "integer", "determines": ["BAND"]},
        "BAND": {"kind": "integer"},
        "WORK": {"kind": "integer", "universe": {"column": "AGE", "min": 15}},
    }
    own = {"columns": columns, "entities": ("ID",)}
    small = (("SEX",), ("AGE",), ("AGE", "SEX"), ("BAND", "SEX"))
    large = (
        *small,
        ("KIND",),
        ("AGE", "KIND"),
        ("BAND", "KIND"),
        ("AGE", "BAND"),
        ("AGE", "WORK"),
        ("SEX", "WORK"),
    )
    less, path = made(tmp_path, small, "small", **own)
    more, whole = made(tmp_path, large, "large", **own)
    build(more, path, force=True, earlier=earlier_release(path), jobs=1)
    check_same(path, whole)
    build(less, path, force=True, earlier=earlier_release(path), jobs=1)
    check_same(path, made(tmp_path, small, "again", **own)[1])


OTHERWISE = [
    ({"vintage": "2022"}, "'2021'.*'2022'"),
    ({"key": "other.key"}, r"built with key [0-9a-f]{16}.* [0-9a-f]{16}"),
    ({"release": {"unit": "visits"}}, "spec has changed"),
    ({"columns": CENSUS | {"age": {"kind": "integer", "label": "Age"}}}, "spec has changed"),
]


@pytest.fixture(scope="module")
def recipe(folder):
    engine.new_key(folder / "other.key")
    (folder / "other.key").chmod(0o600)
    return made(folder, SMALL, "recipe")[1]


@pytest.mark.ci
@pytest.mark.parametrize(("how", "said"), OTHERWISE)
def test_releases_of_another_recipe_are_left_alone(folder, recipe, how, said):
    path, how = recipe, dict(how)
    columns = how.pop("columns", CENSUS)
    how = {**how, "privacy": ACCEPTED}
    spec = read(write_spec(folder, folder / "people.parquet", columns, LARGE, name="o.toml", **how))
    before = path.read_bytes()
    with pytest.raises(StoreError, match=said) as raised:
        build(spec, path, force=True, earlier=earlier_release(path), jobs=1)
    assert "tablepack build SPEC" in str(raised.value)
    assert path.read_bytes() == before
    assert not path.with_name(path.name + ".tmp").exists()


@pytest.mark.ci
def test_a_damaged_release_lends_nothing(folder):
    spec, path = made(folder, SMALL, "damaged")
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    with pytest.raises(DamagedRelease):
        build(
            amended(spec, more=[["region"]]),
            path,
            force=True,
            earlier=earlier_release(path),
            jobs=1,
        )


@pytest.mark.ci
def test_over_the_bound_it_is_refused_and_the_release_stays(folder, tmp_path):
    bound = {"refuse_at": 0.12, "warn_at": 0.1}
    shutil.copy(folder / "people.parquet", tmp_path)  # a key of its own: nothing was built before
    spec, path = made(tmp_path, SINGLES, "bound", privacy=bound)
    before = path.read_bytes()
    with pytest.raises(PrivacyError, match="more than its owner accepted"):
        engine.add(path, [["age", "region", "sex"], ["age", "education", "sex"]], spec=spec)
    assert path.read_bytes() == before
    assert not path.with_name(path.name + ".tmp").exists()


@pytest.mark.ci
def test_stopped_halfway_it_goes_on(folder, monkeypatch):
    spec, path = made(folder, SMALL, "stopped")
    before, larger = path.read_bytes(), amended(spec, more=[["age", "region", "sex"]])
    with monkeypatch.context() as patch:
        patch.setattr(
            "engine.release.sticky.charged",
            lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt),
        )
        with pytest.raises(KeyboardInterrupt):
            build(larger, path, force=True, earlier=earlier_release(path), jobs=1)
    assert path.read_bytes() == before
    left = folder_of_build(spec.key_path, path)
    assert (left / "3.age.region.sex.npz").exists()
    assert not (left / "manifest.json").exists()
    build(larger, path, force=True, earlier=earlier_release(path), jobs=1)
    assert not left.exists()
    check_same(path, build(larger, folder / "unstopped.duckdb", force=True, jobs=1))


@pytest.mark.ci
def test_a_forged_release_lends_nothing(folder):
    """Anybody can write a file with a fitting manifest; the journal beside the key knows what was built."""
    spec, path = made(folder, SMALL, "forged")
    with duckdb.connect(str(path)) as con:
        con.execute("UPDATE catalog.codes SET label = 'FORGED' WHERE column_name = 'sex'")
    raw = json.loads(manifest_path(path).read_text())
    raw["accepts"][0] |= {"size": path.stat().st_size, "sha256": file_hash(path)}
    manifest_path(path).write_text(json.dumps(raw))
    with pytest.raises(StoreError, match=r"forged\.duckdb.*journal"):
        engine.add(path, [["carer"]], spec=spec)


@pytest.mark.slow
def test_a_vintage_keeps_which_copy_stands_whatever_later_ones_have(tmp_path):
    """Before, a later vintage with another copy changed which column an earlier vintage's build measured."""
    rng = np.random.default_rng(4)
    people = pd.DataFrame({"Z": rng.integers(0, 6, 900), "M": rng.integers(0, 6, 900)})
    people["S"] = rng.integers(0, 2, 900)
    columns = {n: {"kind": "category", "type": "integer"} for n in ("A", "M", "S", "Z")}
    tables = [("A",), ("S",), ("A", "S"), ("S", "Z")]

    def vintage(name, frame, previous, out):
        frame.to_parquet(tmp_path / f"{name}.parquet")
        spec = read(
            write_spec(
                tmp_path,
                tmp_path / f"{name}.parquet",
                columns,
                tables,
                vintage=name,
                entities=(),
                privacy=ACCEPTED,
                release={"previous": previous} if previous else {},
                source={"identity": ["M", "S", "Z"]},
            )
        )
        return spec, build(spec, tmp_path / f"{out}.duckdb", jobs=1)

    vintage("v1", people.assign(A=people["Z"]), None, "v1")
    vintage("v2", people.assign(A=people["M"]), "v1", "v2")
    later = people.assign(A=people["Z"], Z=people["M"])
    vintage("v3", later, "v2", "v3")
    for name, frame, previous in (
        ("v1", people.assign(A=people["Z"]), None),
        ("v2", people.assign(A=people["M"]), "v1"),
    ):
        spec, again = vintage(name, frame, previous, f"{name}-again")
        assert table_hashes(again) == table_hashes(tmp_path / f"{name}.duckdb")
        engine.add(tmp_path / f"{name}.duckdb", [["M"]], spec=spec)


KILLED_SMALL = (("age",), ("sex",), ("region",), ("age", "sex"))
POINTS = (
    "after the charge",
    "the release is noted",
    "the release is in place",
)
CODE = "import sys; from test_amended import add_until; add_until(*sys.argv[1:])"
IMPORTED = [str(ROOT / "tests"), str(ROOT / "tests" / "release")]
pytestmark = pytest.mark.slow


class Stage:
    """A release, what it is to become, and what stands beside its key."""

    def __init__(self, folder: Path) -> None:
        self.folder = make_census(folder, people=1_000)
        text = write_spec(folder, folder / "people.parquet", CENSUS, KILLED_SMALL, privacy=ACCEPTED)
        self.small, self.path = read(text), folder / "r.duckdb"
        self.large = grown(self.small)
        # First: what it tells counts for all that come later.
        build(self.large, folder / "w.duckdb", jobs=1)
        self.whole = told_by(build(self.large, folder / "w.duckdb", force=True, jobs=1))
        self.old = told_by(build(self.small, self.path, jobs=1))
        self.kept = {path: path.read_bytes() for path in (self.path, manifest_path(self.path))}

    def begin_again(self) -> None:
        """All is as it was before the first kill, but for the ledger: what is charged is charged."""
        for path, data in self.kept.items():
            path.write_bytes(data)


def grown(small: ReleaseSpec) -> ReleaseSpec:
    """What the release is to become."""
    return amended(small, more=[["region", "sex"]])


def add(spec: ReleaseSpec, path: Path) -> Path:
    """Add what the spec has more than the release."""
    return build(spec, path, force=True, earlier=earlier_release(path), jobs=1)


def add_until(folder: str, point: str) -> None:
    """Run in a process of its own: add, and end at a point."""
    small = read(Path(folder) / "release.toml")
    stopping(point)
    add(grown(small), Path(folder) / "r.duckdb")


@pytest.fixture(scope="module")
def ready(tmp_path_factory):
    return Stage(tmp_path_factory.mktemp("adding"))


def told_by(path: Path) -> tuple[str, str]:
    """Content hash of a release, and the exposure that it states."""
    with engine.open(path) as release:
        return release.content_hash, repr(release.card("age").exposure)


def ended() -> None:
    """End as if killed, and the fit process, too: nothing is closed or written any more."""
    for line in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(line.read_text().rpartition(") ")[2].split()[1])
        except OSError:
            continue
        if parent == os.getpid():
            os.kill(int(line.parent.name), signal.SIGKILL)
            os.waitpid(int(line.parent.name), 0)
    os._exit(9)


def stopping(point: str) -> None:
    """Make this process end at a point of a build."""

    def after(call):
        def run(*args, **kwargs):
            call(*args, **kwargs)
            ended()

        return run

    where, name, how = {
        "after the charge": (sticky, "charged", after),
        "the release is noted": (building, "note_release", after),
        "the release is in place": (building, "place", after),
    }[point]
    setattr(where, name, how(getattr(where, name)))


@pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="needs /proc to find child processes"
)
@pytest.mark.parametrize("point", POINTS)
def test_add_is_killed(ready, point):
    is_new = point == POINTS[-1]
    ready.begin_again()
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(ready.folder), point],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *IMPORTED])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 9, done.stderr
    assert told_by(ready.path) == (ready.whole if is_new else ready.old)
    # Also what was just put in place: the journal had it before.
    add(ready.large, ready.path)
    assert told_by(ready.path) == ready.whole
    assert not ready.path.with_name("r.duckdb.tmp").exists()
