"""Wide tables end to end: what is measured for them, what they show, and what is said of how sure they are."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import replace
from itertools import combinations

import duckdb
import numpy as np
import pandas as pd
import pytest
from fixtures.pipeline import ACCEPTED, counts, table_hashes, tablepack, write_spec

from engine.api.reading import read
from engine.errors import DamagedRelease, SpecError, StoreError
from engine.release import build, plan
from engine.store import GeneratorCard, earlier_release
from queries.intervals.replays import table_of
from queries.intervals.tabulation import tabulate
from queries.release import open_release

COLUMNS = {
    "age": {"kind": "integer"},
    "county": {"kind": "category", "type": "integer"},
    "income": {"kind": "integer", "universe": {"column": "age", "min": 16}},
    "job": {"kind": "category", "universe": {"column": "age", "min": 16}},
    "sex": {"kind": "category"},
    "town": {"kind": "category", "type": "integer", "determines": ["county"]},
}
WIDE = tuple(sorted(COLUMNS))
BASE = tuple(name for name in WIDE if name != "county")
TRIPLE = ("age", "job", "sex")
TABLES = [WIDE, TRIPLE, ("age",), ("county",), ("income",), ("job",), ("sex",), ("town",)]


def people(n: int = 3_000) -> pd.DataFrame:
    rng = np.random.default_rng(4)
    town = rng.integers(0, 9, n)
    age = rng.integers(0, 80, n)
    income = np.where(age > 15, 500 * rng.geometric(0.02, n) + 3_000 * (town % 3), -1)
    job = np.where(age > 15, np.array(["clerk", "cook", "smith"])[rng.integers(0, 3, n)], "")
    return pd.DataFrame(
        {
            "age": age,
            "county": town // 3,
            "income": pd.Series(income).astype(str).where(income >= 0, ""),
            "job": job,
            "sex": rng.choice(["f", "m"], n),
            "town": town,
        }
    )


def spec_in(folder, tables, name="release.toml", privacy=ACCEPTED):
    people().to_csv(folder / "people.csv", index=False)
    return write_spec(
        folder, "people.csv", COLUMNS, tables, entities=(), privacy=privacy, name=name
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wide")
    return build(read(spec_in(folder, TABLES)), folder / "r.duckdb", jobs=2)


def shown(cells, *places) -> Counter:
    out: Counter = Counter()
    for row, n in cells.items():
        out[tuple(row[j] for j in places)] += n
    return out


@pytest.mark.ci
def test_columns_are_those_of_their_own_tables(built):
    wide = counts(built, *WIDE)
    for place, name in enumerate(WIDE):
        assert shown(wide, place) == counts(built, name), name


def test_what_is_told_and_what_is_impossible_stays_so(built):
    for age, county, income, job, _, town in counts(built, *WIDE):
        assert county == town // 3
        assert (income is None) == (job is None) == (age < 16)


def test_it_is_near_the_locked_triple(built):
    places = [WIDE.index(name) for name in TRIPLE]
    off = shown(counts(built, *WIDE), *places)
    off.subtract(counts(built, *TRIPLE))
    assert sum(map(abs, off.values())) / 2 < 0.05 * 3_000


def test_the_card_says_what_is_modelled(built):
    with open_release(built) as release:
        card = release.card(*WIDE)
    assert card.wide["pairs"] == len(list(combinations(BASE, 2)))
    planned = plan(read(built.parent / "release.toml"))
    triples = [t.columns for t in planned.tables if len(t.columns) == 3 and {*t.columns} <= {*BASE}]
    assert TRIPLE in triples
    assert len(triples) > 1  # others were chosen
    assert card.wide["triples"] == len(triples)
    assert card.wide["impossible"] == 0
    told = " ".join(card.sentences())
    assert f"MODELLED from 10 locked tables of two columns and {len(triples)} of three" in told
    assert "Every column has exactly the counts of its own table." in told
    assert "of the most exposed 1 %" in told


def test_answers_say_so(built):
    with open_release(built) as release:
        answer = release.sql("SELECT town, count(*) AS n FROM data WHERE income > 9000 GROUP BY 1")
        assert answer.table == WIDE
        assert "is MODELLED from locked tables" in answer.source
        assert any("add RELEASE --columns income,town" in warning for warning in answer.warnings)
        asked = tabulate(release, ["job"], where={"town": [3]})
        assert asked.table == WIDE
        assert "MODELLED" in asked.words
        assert "add RELEASE --columns job,town." in asked.words
        many = release.sql("SELECT age, job, sex, town, income FROM data LIMIT 1")
        assert not any("add RELEASE" in warning for warning in many.warnings)
        narrow = release.sql("SELECT count(*) FROM data WHERE age > 20 AND sex = 'f'")
        assert narrow.table == TRIPLE


def test_intervals_of_modelled_answers_hold(built):
    """Of tables that nothing measured: counts of three to five columns, and means of large groups."""
    truth, held = people(), {"n": [], "m": []}
    truth["income"] = pd.to_numeric(truth.income)
    with open_release(built) as release:
        for by in (["job", "town"], ["county", "job", "sex"], ["job", "sex", "town"]):
            for age in range(20, 60, 10):
                text = f"SELECT {', '.join(by)}, count(*) AS n, avg(income) AS m FROM data "
                found = release.sql(f"{text} WHERE age > {age} GROUP BY ALL", intervals=True).df()
                assert found.n_low.notna().all()
                known = truth[truth.age > age].groupby(by)
                known = known.agg(n=("sex", "size"), m=("income", "mean"))
                for row in found.fillna({"job": ""}).itertuples():
                    real = known.loc[tuple(getattr(row, name) for name in by)]
                    held["n"].append(row.n_low <= real.n <= row.n_high)
                    if np.isfinite(row.m_low):
                        assert row.n >= 30
                        held["m"].append(row.m_low <= real.m <= row.m_high)
    assert len(held["n"]) > 300
    assert len(held["m"]) > 100
    assert np.mean(held["n"]) >= 0.9
    assert np.mean(held["m"]) >= 0.9


def test_what_a_model_has_none_of_may_be_a_few(built):
    with open_release(built) as release:
        effect = release.card(*WIDE).wide["design_effect"]
        none = "SELECT count(*) FILTER (age = 60 AND town = 3 AND income > 90000) AS n FROM data"
        (row,) = release.sql(none, intervals=True).rows
        asked = tabulate(release, where={"age": [60], "town": [3], "income": (90_000, None)})
    most = np.ceil(3 * max(effect, 1))  # the rule of three
    assert row == (0, 0, most, "low")
    assert (asked.value[0], asked.low[0], asked.high[0]) == (0, 0, most)


def test_statements_of_any_shape_on_a_model(built):
    """What they group by, limit and compute decides whether an interval can be told; none fails for it."""
    mine = {"mine": pd.DataFrame({"j": ["cook", "smith"]})}
    with open_release(built) as release:

        def ends(text, **more):
            answer = release.sql(text, intervals=True, **more)
            return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]

        where = "job IN (SELECT j FROM mine) AND town < 5"
        text = f"SELECT sex, count(*) AS n FROM data WHERE {where} GROUP BY sex"
        assert all(row["n_low"] < row["n"] < row["n_high"] for row in ends(text, tables=mine))
        placed = ends("SELECT avg(income) AS m, job, town FROM data GROUP BY 3, 2")
        assert any(row["m_low"] is not None for row in placed)
        some = "avg(income) FILTER (town = 3 AND sex = 'f') AS m, avg(CASE WHEN town = 3 THEN income END) AS c"
        (row,) = ends(f"SELECT {some} FROM data")
        assert row["m_low"] is row["c_low"] is None
        (row,) = ends(
            "SELECT count(*) AS n FROM data WHERE age = 60 AND town = 3 AND income > 90000"
        )
        assert (row["n"], row["n_low"]) == (0, 0)
        assert row["n_high"] > 0
        shares = tabulate(release, ["job"], where={"town": [3]}, measure="share")
        assert shares.high.max() < 0.7


def test_a_design_effect_that_says_nothing_gives_no_interval(built):
    """As a forged card may have: wide or unknown, never narrow."""
    with open_release(built) as release:
        table = table_of(release, WIDE)
        for effect, known in ((2_000.0, True), (1e308, False)):
            card = table.card | {"wide": table.card["wide"] | {"design_effect": effect}}
            release.models.clear()
            release.models["table", WIDE] = replace(table, card=card)
            asked = tabulate(release, ["job"], where={"town": [3]})
            assert np.isfinite(asked.high).any() == known
            assert not {"reliable"} & {*asked.status}


def test_without_tables_of_three_columns_pairs_tell(built, tmp_path):
    """Of how far off the rows were in pairs before they met these: wider intervals, which hold."""
    path = spec_in(tmp_path, [WIDE], privacy={})
    text = "SELECT county, job, sex, count(*) AS n FROM data WHERE age > 40 GROUP BY ALL"
    truth = people().query("age > 40").groupby(["county", "job", "sex"]).size()
    widths, held = [], []
    for release in (build(read(path), tmp_path / "r.duckdb"), built):
        with open_release(release) as opened:
            found = opened.sql(text, intervals=True).df()
            held.append(
                np.mean(
                    [
                        low <= truth[county, job or "", sex] <= high
                        for county, job, sex, _, low, high, _ in found.fillna({"job": ""}).values
                    ]
                )
            )
            widths.append((found.n_high - found.n_low).mean())
    assert widths[0] > widths[1]
    assert min(held) >= 0.9


@pytest.mark.ci
def test_the_same_whoever_works_and_whatever_came_before(built, tmp_path):
    """One process or several, with the pairs published or not."""
    alone = build(read(spec_in(tmp_path, TABLES)), tmp_path / "one.duckdb", jobs=1)
    assert table_hashes(alone) == table_hashes(built)
    more = read(spec_in(tmp_path, [*TABLES, ("age", "sex"), ("county", "job")], "more.toml"))
    assert table_hashes(build(more, tmp_path / "m.duckdb"))[WIDE] == table_hashes(built)[WIDE]


def test_what_is_chosen_for_it_is_charged_and_stays(tmp_path):
    """Tables of three columns that a wide table takes by itself, where the risk is accepted."""
    wide = plan(read(spec_in(tmp_path, [WIDE], "wide.toml")))
    chosen = [t.columns for t in wide.tables if len(t.columns) == 3]
    assert chosen
    listed = plan(read(spec_in(tmp_path, [*combinations(BASE, 2), *chosen], "all.toml")))
    assert wide.exposure.groups == listed.exposure.groups
    few = plan(wishing(spec_in(tmp_path, [WIDE], "few.toml"), "max_added = 11"))
    assert [t.columns for t in few.tables if {*t.columns} <= {*BASE} and len(t.columns) == 3] in (
        [one] for one in chosen
    )
    release = build(read(spec_in(tmp_path, [WIDE, ("age", "sex")])), tmp_path / "r.duckdb")
    alone = table_hashes(release)[WIDE]
    done = tablepack(
        "add", release, "--spec", "release.toml", "--columns", ",".join(chosen[0]), cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert chosen[0] in table_hashes(release)
    assert table_hashes(release)[WIDE] == alone


def test_its_pairs_are_measured_and_charged(tmp_path):
    """Where the bound of exposure holds, a wide table is charged as all its pairs are, and as nothing else."""
    wide = plan(read(spec_in(tmp_path, [WIDE], "wide.toml", {})))
    pairs = plan(read(spec_in(tmp_path, list(combinations(BASE, 2)), "pairs.toml", {})))
    assert wide.modelled == (WIDE,)
    assert pairs.modelled == ()
    assert [t.columns for t in wide.tables] == [t.columns for t in pairs.tables]
    assert wide.exposure.groups == pairs.exposure.groups
    assert "is modelled from 14 of these of two columns and 0 of three" in repr(wide)
    assert wide.as_dict()["modelled"] == [list(WIDE)]


def wishing(path, line: str):
    """A spec whose wide table says more."""
    listed = ", ".join(f'"{column}"' for column in WIDE)
    text = path.read_text()
    assert f"columns = [{listed}]" in text
    path.write_text(text.replace(f"columns = [{listed}]", f"columns = [{listed}]\n{line}"))
    return read(path)


def with_target(path, name: str):
    """A spec whose wide table has a target."""
    return wishing(path, f'target = "{name}"')


@pytest.mark.ci
def test_a_target_is_told_and_changes_the_wide_table_alone(built, tmp_path):
    spec = with_target(spec_in(tmp_path, TABLES), "income")
    planned = plan(spec)
    assert "tables with income, its target, count more" in repr(planned)
    assert planned.as_dict()["targets"] == ["income"]
    path = build(spec, tmp_path / "r.duckdb", jobs=1)
    hashes = table_hashes(path)
    assert {t for t in hashes if hashes[t] != table_hashes(built)[t]} == {WIDE}
    with open_release(path) as release:
        assert release.card(*WIDE).wide["target"] == "income"
        told = " ".join(release.card(*WIDE).sentences())
    assert "train models that predict income" in told
    with open_release(built) as release:
        assert "target" not in release.card(*WIDE).wide
        assert "train models" not in " ".join(release.card(*WIDE).sentences())


@pytest.mark.ci
def test_few_columns_that_tell_many_are_measured_as_ever(tmp_path):
    """Five columns of which one is told are locked, as four are."""
    five = ("age", "county", "job", "sex", "town")
    made = build(read(spec_in(tmp_path, [five])), tmp_path / "f.duckdb")
    with open_release(made) as release:
        assert not release.card(*five).wide


def test_a_card_of_another_shape_is_refused(built):
    with duckdb.connect(str(built), read_only=True) as con:
        (text,) = con.execute("SELECT card FROM catalog.tables WHERE width = 6").fetchall()[0]
    plain = json.loads(text)
    for wrong in ({"pairs": "many"}, {"off": 3}):
        with pytest.raises(DamagedRelease):
            GeneratorCard.from_json(json.dumps(plain | {"wide": plain["wide"] | wrong}))


@pytest.mark.slow
def test_with_a_triple_more_or_after_an_interruption_it_is_what_a_build_of_all_gives(
    tmp_path, monkeypatch
):
    """A wide table is fitted to all triples inside it, also to those that lay finished in staging."""
    # Else it would take all triples by itself.
    few = "max_added = 10"
    fewer = wishing(spec_in(tmp_path, [t for t in TABLES if t != TRIPLE]), few)
    spec = wishing(spec_in(tmp_path, TABLES), few)
    whole = table_hashes(build(spec, tmp_path / "whole.duckdb", jobs=1))
    path = build(fewer, tmp_path / "r.duckdb", jobs=1)
    assert table_hashes(path)[WIDE] != whole[WIDE]
    build(spec, path, force=True, earlier=earlier_release(path), jobs=1)
    assert table_hashes(path) == whole
    build(fewer, path, force=True, earlier=earlier_release(path), jobs=1)
    assert WIDE in table_hashes(path)
    assert table_hashes(path)[WIDE] != whole[WIDE]
    with monkeypatch.context() as patch:
        patch.setattr(
            "engine.release.sticky.charged",
            lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt),
        )
        with pytest.raises(KeyboardInterrupt):
            build(spec, tmp_path / "stopped.duckdb", jobs=1)
    again = build(spec, tmp_path / "stopped.duckdb", jobs=1)
    assert table_hashes(again) == whole


@pytest.mark.ci
def test_sets_are_independent_and_each_a_release(built, tmp_path):
    """The first set is the release that a spec without sets gives; the others differ, but in no column's counts."""
    spec = wishing(spec_in(tmp_path, TABLES), "sets = 3")
    assert "3 sets of it, each a file" in repr(plan(spec))
    path = build(spec, tmp_path / "r.duckdb", jobs=1)
    others = [tmp_path / f"r.set{number}.duckdb" for number in (2, 3)]
    assert table_hashes(path) == table_hashes(built)
    tables = [counts(one, *WIDE) for one in (path, *others)]
    assert len({str(sorted(table.items(), key=str)) for table in tables}) == 3
    for place in range(len(WIDE)):
        assert shown(tables[1], place) == shown(tables[2], place) == shown(tables[0], place)
    for number, other in enumerate(others, 2):
        assert set(table_hashes(other)) == {WIDE}
        assert tablepack("doctor", other, cwd=tmp_path).returncode == 0
        with open_release(other) as release:
            assert release.card(*WIDE).wide["set"] == number
            told = " ".join(release.card(*WIDE).sentences())
        assert f"Set {number} of 3: independent syntheses of one measurement." in told


@pytest.mark.slow
def test_sets_replace_those_of_the_same_release_and_no_others(tmp_path):
    spec = wishing(spec_in(tmp_path, TABLES), "sets = 3")
    path = build(spec, tmp_path / "r.duckdb", jobs=1)
    others = [tmp_path / f"r.set{number}.duckdb" for number in (2, 3)]
    before = [table_hashes(one) for one in (path, *others)]
    with pytest.raises(StoreError, match="already"):
        build(spec, path, jobs=1)
    build(spec, path, jobs=1, force=True)
    assert [table_hashes(one) for one in (path, *others)] == before
    for name in (
        "r.set9.duckdb",
        "r.set01.duckdb",
        "s.set3.duckdb",
    ):  # of another release, or nobody's
        for ending in ("", ".manifest.json"):
            shutil.copy(f"{others[1]}{ending}", tmp_path / f"{name}{ending}")
    (tmp_path / "r.set4.duckdb").write_text("my notes")
    fewer = wishing(spec_in(tmp_path, TABLES, "fewer.toml"), "sets = 2")
    stays = {*tmp_path.iterdir()} - {others[1], tmp_path / "r.set3.duckdb.manifest.json"}
    build(fewer, path, jobs=1, force=True)
    assert {*tmp_path.iterdir()} == stays
    assert [table_hashes(one) for one in (path, others[0])] == before[:2]
    # A release that replaces none takes nobody's sets away.
    path.unlink()
    (tmp_path / "r.duckdb.manifest.json").unlink()
    build(wishing(spec_in(tmp_path, TABLES, "one.toml"), "sets = 1"), path, jobs=1)
    assert others[0].exists()


@pytest.mark.ci
def test_a_bound_on_what_is_added_says_which_tables_are_needed(tmp_path):
    """Five columns are searched, the county being told: ten pairs, three of which the triple needs anyway."""
    spec = wishing(spec_in(tmp_path, TABLES), "max_added = 6")
    for refused in (plan, lambda one: build(one, tmp_path / "r.duckdb", jobs=1)):
        with pytest.raises(
            SpecError, match="7 tables of two columns that the spec does not list"
        ) as e:
            refused(spec)
        assert "age x income" in str(e.value)
        assert "max_added = 7" in str(e.value)
    enough = plan(wishing(spec_in(tmp_path, TABLES, "enough.toml"), "max_added = 7"))
    assert enough.as_dict()["added"] == [7]
    assert "; 7 of two are measured for it alone" in repr(enough)
