"""What may not change a release: row order, column order, other tables, jobs, CPU features, hash seeds, the format of
the source. And what must: the key."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from fixtures.pipeline import ACCEPTED, CENSUS, TWELVE, process, table_hashes, tablepack, write_spec
from numpy._core import _multiarray_umath as umath

import engine
from engine.api.reading import read
from engine.release import build

NO_ENTITY = {name: c for name, c in CENSUS.items() if name != "person_id"}
TWO_ENTITIES = CENSUS | {"household_id": {"kind": "integer"}}
CASES = {
    "one entity column": (CENSUS, ("person_id",)),
    "two kinds, one of two columns": (
        TWO_ENTITIES,
        (("household_id", "person_id"), "household_id"),
    ),
    "no entity column": (NO_ENTITY, ()),
}


def spec_in(folder: Path, path: object, columns, entities, tables=TWELVE, **more) -> Path:
    """A spec in a folder of its own: its journal has seen nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    bound = {"max_rows": 8} if len(entities) > 1 else {}  # households have several rows
    privacy = ACCEPTED | bound
    return write_spec(folder, path, columns, tables, entities=entities, privacy=privacy, **more)


def hashes_of(folder: Path, path: object, columns, entities, *, jobs=2, **more):
    """Table hashes of a build in this process."""
    spec = spec_in(folder, path, columns, entities, **more)
    build(read(spec), folder / "r.duckdb", jobs=jobs)
    return table_hashes(folder / "r.duckdb")


@pytest.fixture(
    scope="module",
    params=[pytest.param(c, marks=[pytest.mark.slow] * (c == "one entity column")) for c in CASES],
)
def case(request, census, tmp_path_factory):
    """Columns, entities and the hashes of the plain build from Parquet, with two jobs."""
    columns, entities = CASES[request.param]
    folder = tmp_path_factory.mktemp("plain")
    plain = hashes_of(folder, census / "people.parquet", columns, entities)
    assert len(plain) == len(TWELVE)
    assert len(set(plain.values())) == len(TWELVE)
    return columns, entities, plain


def shuffled_table(census: Path, target: Path) -> Path:
    """The people in a table of a DuckDB file, rows and columns in another order."""
    frame = pq.read_table(census / "people.parquet")
    rng = np.random.default_rng(1)
    mixed = frame.take(rng.permutation(frame.num_rows)).select(
        rng.permutation(frame.column_names).tolist()
    )
    with duckdb.connect(str(target)) as con:
        con.register("mixed", mixed)
        con.execute("CREATE TABLE people AS FROM mixed")
    return target


@pytest.mark.ci
def test_csv_with_one_job_gives_what_parquet_with_two_gives(case, census, tmp_path):
    columns, entities, plain = case
    assert hashes_of(tmp_path, census / "people.csv", columns, entities, jobs=1) == plain


@pytest.mark.ci
def test_row_order_column_order_and_more_tables_change_nothing(case, census, tmp_path):
    """All at once, from a DuckDB table; the columns of every table in another order too."""
    columns, entities, plain = case
    source = shuffled_table(census, tmp_path / "people.duckdb")
    backwards = dict(reversed(columns.items()))
    more = [("income", "age"), ("sex", "carer"), ("sex", "birth_country", "age")]
    asked = [*more, *(tuple(reversed(t)) for t in reversed(TWELVE))]
    found = hashes_of(tmp_path, source, backwards, entities, tables=asked)
    assert {t: found[t] for t in plain} == plain
    assert len(found) == len(asked)


def in_a_frame(path: Path, columns, form: str):
    """The people in memory."""
    if form == "arrow":
        return pq.read_table(path).select(list(columns))
    backend = {"dtype_backend": "pyarrow"} if form == "pandas of Arrow types" else {}
    return pd.read_parquet(path, **backend)[list(columns)]


FEW = (TWELVE[0], TWELVE[3], TWELVE[6], TWELVE[8], TWELVE[10])


def hashes_of_frame(folder: Path, census: Path, columns, entities, form: str):
    """Table hashes of a few tables built from a frame."""
    path = census / "people.parquet"
    spec = read(spec_in(folder, path, columns, entities))
    engine.build(
        in_a_frame(path, columns, form),
        out=folder / "r.duckdb",
        tables=FEW,
        key=folder / "my.key",
        columns=spec.columns,
        entities=entities,
        max_rows=spec.privacy.max_rows,
        vintage=spec.vintage,
    ).close()
    return table_hashes(folder / "r.duckdb")


@pytest.mark.ci
def test_a_frame_and_fewer_tables_give_what_the_file_gives(case, census, tmp_path):
    columns, entities, plain = case
    found = hashes_of_frame(tmp_path, census, columns, entities, "pandas")
    assert found == {t: plain[t] for t in FEW}


@pytest.mark.ci
def test_every_kind_of_frame_gives_the_same(census, tmp_path):
    """The third kind is that of the test above."""
    columns, entities = CASES["no entity column"]
    found = [
        hashes_of_frame(tmp_path / form, census, columns, entities, form)
        for form in ("arrow", "pandas of Arrow types")
    ]
    assert found[0] == found[1]


def switched_off() -> list[str]:
    """CPU features that numpy could use here beyond what it was built for."""
    return [f for f in umath.__cpu_dispatch__ if umath.__cpu_features__.get(f)]


@pytest.mark.ci
@pytest.mark.skipif(
    not switched_off(), reason="numpy uses no CPU feature here that could be switched off"
)
def test_cpu_features_and_hash_seeds_change_nothing(census, tmp_path):
    columns, entities = CASES["no entity column"]
    path = census / "people.parquet"
    plain = hashes_of(tmp_path / "plain", path, columns, entities)
    spec = spec_in(tmp_path / "bare", path, columns, entities)
    done = process(
        "build", spec, "-o", "r.duckdb", "--json",
        cwd=tmp_path / "bare",
        NPY_DISABLE_CPU_FEATURES=" ".join(switched_off()),
        PYTHONHASHSEED="1",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert table_hashes(tmp_path / "bare" / "r.duckdb") == plain


# Another key.


def noise_equal_share(sd: float) -> float:
    """P(two independent discrete Gaussians of this sd are equal): their difference has sd * sqrt(2)."""
    return 1 / (sd * math.sqrt(2) * math.sqrt(2 * math.pi))


@pytest.mark.ci
def test_another_key_gives_other_counts_as_often_as_theory_says(tmp_path):
    """Single values of a column of many well-filled values: noise sd sqrt(2) a count, then scaled in the tree.

    Locking moves a leaf by less than the noise (its parent has the same noise for twice the rows), so the sd of a
    published count lies between about 1 and sqrt(2): the share of equal counts between 0.19 and 0.29. With 400
    values, six standard errors are 0.13 at most; counts that ignored the key would be equal everywhere.
    """
    values = np.repeat(np.arange(400), 60)
    frame = pd.DataFrame({"id": np.arange(len(values)), "v": values})
    found = []
    for number in range(2):
        engine.new_key(tmp_path / f"{number}.key")
        with engine.build(
            frame, out=tmp_path / f"{number}.duckdb", tables=[["v"]],
            key=tmp_path / f"{number}.key", entities=["id"],
        ) as release:  # fmt: skip
            rows = dict(release.sql("SELECT v, count(*) FROM data GROUP BY v").rows)
        found.append(np.array([rows.get(v, 0) for v in range(400)]))
    equal = float(np.mean(found[0] == found[1]))
    theory = noise_equal_share(math.sqrt(2))
    assert theory == pytest.approx(0.1995, abs=1e-4)
    standard_error = math.sqrt(0.2 * 0.8 / 400)
    assert theory - 5 * standard_error <= equal <= noise_equal_share(1.0) + 5 * standard_error
    for counts in found:
        assert 0.9 <= np.std(counts - 60) <= 1.7


# Vintages.


@pytest.fixture(scope="module")
def once(census, tmp_path_factory):
    """A folder where a vintage was built."""
    folder = tmp_path_factory.mktemp("pinned")
    shutil.copy(census / "people.parquet", folder / "people.parquet")
    spec = write_spec(folder, "people.parquet", CENSUS, [("age", "sex")], privacy=ACCEPTED)
    done = tablepack("build", spec, "-o", "r.duckdb", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def pinned(once, tmp_path):
    """A copy of it, whose file can be changed."""
    shutil.copytree(once, tmp_path, dirs_exist_ok=True)
    return tmp_path, tmp_path / "release.toml"


def change(path: Path) -> None:
    frame = pd.read_parquet(path)
    frame.loc[3, "age"] = (frame.loc[3, "age"] + 1) % 100
    frame.to_parquet(path)


@pytest.mark.ci
def test_changed_data_under_the_same_vintage_is_refused(pinned):
    folder, spec = pinned
    change(folder / "people.parquet")
    before = (folder / "r.duckdb").read_bytes()
    for words in (
        ("build", spec, "-o", "r.duckdb", "--force"),
        ("build", spec, "-o", "new.duckdb"),
        ("plan", spec),
    ):
        done = tablepack(*words, cwd=folder)
        assert done.returncode == 3
        assert "the content of column age" in done.stderr
        assert "release.vintage a new name" in " ".join(done.stderr.split())
    assert (folder / "r.duckdb").read_bytes() == before
    assert sorted(p.name for p in folder.glob("*.tmp")) == []
    assert not (folder / "new.duckdb").exists()


@pytest.mark.ci
def test_changed_data_under_a_new_vintage_is_built(pinned):
    folder, spec = pinned
    before = table_hashes(folder / "r.duckdb")
    change(folder / "people.parquet")
    spec.write_text(spec.read_text().replace('"2021"', '"2022"'))
    done = tablepack("build", spec, "-o", "r.duckdb", "--json", "--force", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["vintage"] == "2022"
    assert table_hashes(folder / "r.duckdb") != before


@pytest.mark.ci
@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("[privacy]", '[privacy]\nprofile = "strict"', "the privacy parameters"),
        ('entities = ["person_id"]', "entities = []", "the entity columns"),
        ("resolution = 0.125", "resolution = 0.25", "the encoding of column travel_km"),
    ],
)  # fmt: skip
def test_other_settings_under_the_same_vintage_are_refused(pinned, old, new, what):
    folder, spec = pinned
    spec.write_text(spec.read_text().replace(old, new))
    done = tablepack("build", spec, "-o", "other.duckdb", cwd=folder)
    assert done.returncode == 3
    assert what in done.stderr


@pytest.mark.slow
def test_many_jobs_give_the_same_release_and_do_not_wait_for_each_other(tmp_path):
    """More tables under way than measurements were let ahead: once both sides waited for ever."""
    rng = np.random.default_rng(12)
    names = [f"c{i:02}" for i in range(14)]
    pd.DataFrame({name: rng.integers(0, 150, 6000) for name in names}).to_csv(
        tmp_path / "rows.csv", index=False
    )
    columns = {name: {"kind": "integer"} for name in names}
    pairs = [(a, b) for i, a in enumerate(names) for b in names[:i]]
    write_spec(tmp_path, "rows.csv", columns, pairs, entities=(), privacy=ACCEPTED)
    hashes = []
    for jobs in (1, 12):
        done = process(
            "build", "release.toml", "-o", f"{jobs}.duckdb", "--jobs", jobs, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        hashes.append(table_hashes(tmp_path / f"{jobs}.duckdb"))
    assert hashes[0] == hashes[1]
