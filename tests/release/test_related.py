"""Columns that determine each other, end to end: their tables are one measurement, whoever says so or nobody does."""

from __future__ import annotations

from collections import Counter

import duckdb
import numpy as np
import pandas as pd
import pytest
from fixtures.pipeline import ACCEPTED, counts, table_hashes, write_spec

from engine.api.reading import read
from engine.errors import SpecError
from engine.release import build
from queries.release import open_release

CODE = {"kind": "category", "type": "integer"}
COLUMNS = {
    "age": {"kind": "integer"},
    "area": CODE,
    "area_name": {"kind": "category"},
    "county": CODE,
    "sex": CODE,
}
DECLARED = {
    **COLUMNS,
    "area": CODE | {"determines": ["county"]},
    "area_name": {"kind": "category", "determines": ["area"]},
}
TABLES = [
    ("age",),
    ("area",),
    ("area_name",),
    ("county",),
    ("area", "area_name", "county"),
    ("area", "age"),
    ("age", "area_name"),
    ("age", "county"),
    ("county", "sex"),
    ("age", "area", "county", "sex"),
    ("age", "area_name", "sex"),
    ("age", "county", "sex"),
    ("area", "county"),
]


def people(n: int = 4_000) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    area = rng.choice(12, n, p=np.arange(1, 13) / 78)
    return pd.DataFrame(
        {
            "age": rng.integers(0, 70, n),
            "area": area,
            "area_name": [f"place {(5 * a) % 12:02d}" for a in area],
            "county": area // 3,
            "sex": rng.integers(1, 3, n),
        }
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("related")
    people().to_parquet(folder / "people.parquet")

    def made(columns, tables, name, source="people.parquet", **more):
        used = {n for t in tables for n in t}
        own = {c: v for c, v in columns.items() if c in used or more.get("all_columns")}
        path = write_spec(
            folder,
            folder / source,
            own,
            tables,
            entities=(),
            privacy=ACCEPTED,
            source={"identity": ["age", "area", "sex"]},
        )
        out = folder / f"{name}.duckdb"
        return build(read(path), out, jobs=1, force=True)

    made.folder = folder
    return made


@pytest.fixture(scope="module")
def declared(made):
    return made(DECLARED, TABLES, "declared")


def added_up(cells, *places):
    out: Counter = Counter()
    for row, n in cells.items():
        out[tuple(row[j] for j in places)] += n
    return dict(out)


@pytest.mark.ci
def test_copies_are_the_same_relabelled(declared):
    name = {a: f"place {(5 * a) % 12:02d}" for a in range(12)}
    own, copy = counts(declared, "age", "area"), counts(declared, "age", "area_name")
    assert copy == {(age, name[a]): n for (age, a), n in own.items()}
    assert counts(declared, "area_name") == {
        (name[a],): n for (a,), n in counts(declared, "area").items()
    }


def test_told_columns_are_always_as_told(declared):
    for (a, name, county), n in counts(declared, "area", "area_name", "county").items():
        assert n
        assert county == a // 3
        assert name == f"place {(5 * a) % 12:02d}"
    for (_, a, county, _), n in counts(declared, "age", "area", "county", "sex").items():
        assert n
        assert county == a // 3


@pytest.mark.ci
def test_tables_of_the_finer_column_add_up_to_those_of_the_coarser(declared):
    area = {(a, a // 3): n for (a,), n in counts(declared, "area").items()}
    assert added_up(area, 1) == counts(declared, "county")
    fine = {(age, a // 3): 0 for age, a in counts(declared, "age", "area")}
    for (age, a), n in counts(declared, "age", "area").items():
        fine[age, a // 3] += n
    coarse = counts(declared, "age", "county")
    assert max(abs(fine.get(k, 0) - coarse.get(k, 0)) for k in {*fine, *coarse}) <= 1
    wide = added_up(counts(declared, "age", "area", "county", "sex"), 0, 2, 3)
    narrower = counts(declared, "age", "county", "sex")
    with open_release(declared) as release:
        stated = release.card("age", "area", "county", "sex").rounding_gap
    assert max(abs(wide.get(k, 0) - narrower.get(k, 0)) for k in {*wide, *narrower}) <= stated <= 3


@pytest.mark.ci
def test_nobody_needs_to_declare_a_copy(made, declared):
    """Only what the county is, is not found by itself."""
    found = made({**COLUMNS, "area": DECLARED["area"]}, TABLES, "found")
    assert table_hashes(found) == table_hashes(declared)
    alone = table_hashes(
        made(COLUMNS, [("age", "area"), ("age", "area_name")], "alone", all_columns=True)
    )
    apart = {("age", "area"), ("age", "area_name")}
    assert {t for t in alone if t in apart} == apart
    with duckdb.connect(str(found), read_only=True) as con:
        notes = " ".join(n for (n,) in con.execute("SELECT note FROM catalog.notes").fetchall())
        card = open_release(found).card("age", "area_name")
    assert "area_name and area are one to one, found in the data" in notes
    assert "area determines county, declared" in notes
    assert card.told == {"area_name": "area"}
    assert card.sub_tables == (("age", "area"),)
    assert any("area_name is implied by area" in sentence for sentence in card.sentences())


@pytest.mark.ci
def test_a_copy_that_no_other_table_shows_is_the_same(made, declared):
    """Also where its original is in no table of the build."""
    only = made(DECLARED, [("age", "area_name")], "only", all_columns=True)
    assert counts(only, "age", "area_name") == counts(declared, "age", "area_name")


@pytest.mark.ci
def test_other_columns_and_tables_change_nothing(made, declared):
    fewer = table_hashes(made(DECLARED, TABLES[:9], "fewer", all_columns=True))
    own = table_hashes(declared)
    assert all(own[table] == digest for table, digest in fewer.items())


def test_sql_answers_with_intervals(declared):
    with open_release(declared) as release:
        for column, value in (("area", 11), ("area_name", f"place {(5 * 11) % 12:02d}")):
            answer = release.sql(
                f"SELECT count(*) AS n FROM data WHERE {column} = {value!r} AND age < 30"
            )
            truth = int(((people().area == 11) & (people().age < 30)).sum())
            row = answer.df().iloc[0]
            assert abs(row["n"] - truth) < 40


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (
            {**COLUMNS, "sex": CODE | {"determines": ["area"]}},
            "columns.sex.determines: area is not determined",
        ),
        ({**COLUMNS, "sex": CODE | {"determines": ["sex"]}}, "'sex' is not another column"),
        ({**COLUMNS, "sex": CODE | {"determines": ["nobody"]}}, "'nobody' is not another column"),
    ],
)
def test_what_contradicts_a_declaration(made, columns, said):
    with pytest.raises(SpecError, match=said):
        made(columns, TABLES, "wrong")


def test_what_cannot_be_used_is_said(made):
    """Of ages most values are single, but in a small table only ranges are released."""
    frame = people(300)
    frame["decade"] = frame.age // 10
    frame.to_parquet(made.folder / "small.parquet")
    columns = {"age": {"kind": "integer", "determines": ["decade"]}, "decade": CODE}
    path = write_spec(
        made.folder,
        made.folder / "small.parquet",
        columns,
        [("age",), ("decade",)],
        entities=(),
        privacy=ACCEPTED,
        vintage="small",
    )
    out = build(read(path), made.folder / "small.duckdb", jobs=1, force=True)
    with duckdb.connect(str(out), read_only=True) as con:
        notes = " ".join(n for (n,) in con.execute("SELECT note FROM catalog.notes").fetchall())
    assert "age is declared to determine decade, but is measured apart from it: too many" in notes


def in_builds(tmp_path, *specs):
    """Builds of one vintage, each of some of the columns; gives the counts of their tables."""
    frame = people(1_500)
    for name, step in (("xx", 11), ("yy", 5), ("zz", 7)):
        frame[name] = frame.area * step % 12
    frame.to_parquet(tmp_path / "p.parquet")
    frame["id"] = range(len(frame))
    frame.to_parquet(tmp_path / "p.parquet")
    out = []
    for at, (names, tables) in enumerate(specs):
        columns = {"id": {"kind": "integer"}, "age": COLUMNS["age"], **{n: CODE for n in names}}
        path = write_spec(
            tmp_path, tmp_path / "p.parquet", columns, tables, entities=("id",), privacy=ACCEPTED
        )
        out.append(build(read(path), tmp_path / f"{at}.duckdb", jobs=1, force=True))
    return out


@pytest.mark.ci
def test_what_was_built_before_stands_for_copies_that_come_later(tmp_path):
    pair = [("age", "zz")]
    releases = in_builds(
        tmp_path, (["zz"], pair), (["yy", "zz"], pair), (["xx", "yy", "zz"], [*pair, ("age", "xx")])
    )
    first, *later = (counts(release, "age", "zz") for release in releases)
    assert all(cells == first for cells in later)
    other = counts(releases[-1], "age", "xx")
    assert Counter(other.values()) == Counter(first.values())
    with open_release(releases[-1]) as release:
        assert release.card("age", "xx").told == {"xx": "zz"}


@pytest.mark.ci
def test_what_a_copy_found_in_the_data_determines_belongs_to_it(made):
    """Whether the county is asked for changes nothing, also where a copy leads to it."""
    columns = {**COLUMNS, "area": DECLARED["area"]}
    tables = [("age", "area_name"), ("area_name",)]
    one = made(columns, tables, "without", all_columns=True)
    other = made(columns, [*tables, ("county",)], "with", all_columns=True)
    own = table_hashes(other)
    assert all(own[table] == digest for table, digest in table_hashes(one).items())


@pytest.mark.ci
def test_few_who_contradict_a_relation_are_said_to_and_many_refuse_it(tmp_path):
    frame = people(20_000).assign(county=lambda f: f.area // 3)
    columns = {"area": CODE | {"determines": ["county"]}, "county": CODE}
    for wrong in (12, 60):
        frame["county"] = frame.area // 3
        frame.loc[frame.index[frame.area == 11][:wrong], "county"] = 0
        frame.to_parquet(tmp_path / "p.parquet")
        path = write_spec(
            tmp_path,
            tmp_path / "p.parquet",
            columns,
            [("area",), ("county",)],
            entities=(),
            privacy=ACCEPTED,
            vintage=str(wrong),
        )
        if wrong == 60:
            with pytest.raises(
                SpecError, match=r"area\.determines: county is not determined: about"
            ):
                build(read(path), tmp_path / "r.duckdb", jobs=1, force=True)
            continue
        out = build(read(path), tmp_path / "r.duckdb", jobs=1, force=True)
        truth = frame.area.value_counts()
        off = np.array([n - truth[a] for (a,), n in counts(out, "area").items()])
        with open_release(out) as release:
            stated = release.card("area").noise_sd
        assert stated > 1.42
        assert np.sqrt(np.mean(off**2)) < 1.6 * stated


@pytest.mark.slow
def test_coarser_columns_that_do_not_nest_differ_by_little_and_say_so(tmp_path):
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"area": rng.integers(0, 24, 9_000)})
    for name, size in (("k1", 5), ("k2", 4), ("k3", 7)):
        frame[name] = rng.permutation(24)[frame.area] % size
    frame.to_parquet(tmp_path / "p.parquet")
    columns = {
        "area": CODE | {"determines": ["k1", "k2", "k3"]},
        **{k: CODE for k in ("k1", "k2", "k3")},
    }
    path = write_spec(
        tmp_path,
        tmp_path / "p.parquet",
        columns,
        [("area", k) for k in ("k1", "k2", "k3")] + [("k1",)],
        entities=(),
        privacy=ACCEPTED,
    )
    out = build(read(path), tmp_path / "r.duckdb", jobs=1, force=True)
    margin = added_up(counts(out, "area", "k1"), 1)
    gap = max(abs(margin[k] - n) for k, n in counts(out, "k1").items())
    with open_release(out) as release:
        assert gap <= release.card("area", "k1").rounding_gap <= 3
