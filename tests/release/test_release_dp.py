"""Releases of mode dp from end to end: one build, again, resumed, refused; and every way through the mode."""

from __future__ import annotations

import datetime
import json
from collections import Counter
from dataclasses import replace

import duckdb
import numpy as np
import pandas as pd
import pytest
from fixtures.pipeline import counts, table_hashes, write_spec
from fixtures.release_dp import COLUMNS, TABLES, WIDEST, N, people, spec_in

from engine.errors import BudgetError, NotAnswerable
from engine.keys import MasterKey
from engine.levels import Margin
from engine.measure.dp import balance, ledger_path
from engine.measure.dp.ledger import measured_folder
from engine.release import build, measure, plan_dp
from engine.release import fit as fit_folder
from engine.release.folder import MeasurementFolder, file_name
from engine.spec import read_spec
from engine.store.staging import staging_folder
from queries import open_release

pytest.importorskip("opendp")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dp")
    spec = spec_in(folder)
    told = []
    build(spec, folder / "r.duckdb", progress=lambda *stage: told.append(stage))
    return spec, folder, told


@pytest.mark.ci
def test_tables_are_projections_of_the_same_rows(built):
    _, folder, _ = built
    whole = counts(folder / "r.duckdb", *WIDEST)
    for columns in TABLES:
        sums = Counter()
        for row, n in whole.items():
            sums[tuple(row[WIDEST.index(c)] for c in columns)] += n
        assert counts(folder / "r.duckdb", *columns) == dict(sums)


def test_a_declared_universe_holds(built):
    _, folder, _ = built
    for (age, job, _, _), _ in counts(folder / "r.duckdb", *WIDEST).items():
        assert (job is None) == (age < 15)


def test_the_release_says_what_it_is(built):
    spec, folder, _ = built
    with open_release(folder / "r.duckdb") as release:
        assert release.mode == "dp"
        notes = " ".join(release.notes)
        assert "epsilon 5" in notes
        assert "Universe of job" in notes
        assert "same people" not in notes.replace("not about the same people", "")
        card = release.card("age", "sex")
        assert card.dp["covered"]
        assert card.dp["epsilon"] == 5.0
        assert card.dp["margins"] == 6
        assert card.dp["margins_inside"] == 1
        assert card.dp["converged"] == card.rake_converged
        modelled = release.card(*WIDEST)
        assert not modelled.dp["covered"]
        assert modelled.suppressed_share == 1.0
        assert modelled.dp["margins_inside"] == 6
        assert not release.card("age").dp["uniform"]
    with duckdb.connect(str(folder / "r.duckdb"), read_only=True) as con:
        rows = con.execute("SELECT state, epsilon, budget, title FROM catalog.ledger").fetchall()
        assert rows == [("measured", 5.0, 12.0, spec.title)]
        bare = con.execute(
            "SELECT table_name, column_name FROM duckdb_columns() "
            "WHERE schema_name = 'catalog' AND table_name = 'ledger' AND comment IS NULL"
        ).fetchall()
        assert not bare
        [(meaning,)] = con.execute(
            "SELECT comment FROM duckdb_columns() WHERE schema_name = 'catalog' "
            "AND table_name = 'tables' AND column_name = 'suppressed_share'"
        ).fetchall()
        assert "was not measured" in meaning
        [(privacy,)] = con.execute("SELECT privacy FROM catalog.release").fetchall()
        assert json.loads(privacy)["epsilon"] == 5.0
        boxes = con.execute(
            "SELECT name, sum(n), any_value(noise_sd) FROM catalog.cells GROUP BY ALL"
        ).fetchall()
        total = sum(counts(folder / "r.duckdb", "region").values())
        assert {name for name, *_ in boxes} == {"age", "region", "age.sex", "job.region"}
        assert all(n == total for _, n, _ in boxes)


def test_sql_says_how_sure_it_is(built):
    _, folder, _ = built
    with open_release(folder / "r.duckdb") as release:
        known = release.sql("SELECT sex, count(*) FROM data WHERE age < 30 GROUP BY 1")
        assert "noise of sd" in known.source
        assert "MODELLED" not in known.source
        wide = release.sql("SELECT count(*) FROM data WHERE job = 'a' AND sex = 'f' AND age > 3")
        assert "MODELLED" in wide.source
        assert "imputed" not in wide.source
        json.loads(wide.to_json())
        assert wide.card.dp["covered"] is False
        assert release.sql("SELECT 1").card is None
        with pytest.raises(NotAnswerable, match="no column 'wage'"):
            release.table("job", "wage")


@pytest.mark.ci
def test_a_second_build_draws_nothing_and_is_the_same(built, monkeypatch):
    spec, folder, _ = built
    spent = balance(spec.key_path).spent
    monkeypatch.setattr("engine.measure.dp.margins.noised", lambda *_: pytest.fail("drew again"))
    build(spec, folder / "again.duckdb")
    assert balance(spec.key_path).spent == spent
    assert table_hashes(folder / "again.duckdb") == table_hashes(folder / "r.duckdb")
    with open_release(folder / "again.duckdb") as two, open_release(folder / "r.duckdb") as one:
        assert one.content_hash == two.content_hash


@pytest.mark.ci
def test_other_tables_of_the_same_margins_cost_nothing(built):
    spec, folder, _ = built
    spent = balance(spec.key_path).spent
    build(replace(spec, tables=(("job", "sex"),)), folder / "other.duckdb")
    assert balance(spec.key_path).spent == spent


def test_the_budget_refuses_a_third_epsilon(built):
    spec, folder, _ = built
    more = replace(spec, dp=replace(spec.dp, epsilon=8.0))
    with pytest.raises(BudgetError):
        build(more, folder / "refused.duckdb")
    assert not (folder / "refused.duckdb").exists()
    assert not staging_folder(folder / "refused.duckdb").exists()


@pytest.mark.ci
def test_the_fit_needs_no_data(tmp_path):
    """Source, key, ledger and kept counts are gone before the fit starts, and what comes out is what a build gives."""
    spec = spec_in(tmp_path)
    whole = table_hashes(build(spec, tmp_path / "whole.duckdb"))
    folder = measure(spec, tmp_path / "measured")
    for path in (tmp_path / "rows.parquet", spec.key_path, ledger_path(spec.key_path)):
        path.unlink()
    for path in measured_folder(spec.key_path).iterdir():
        path.unlink()
    assert table_hashes(fit_folder(folder, tmp_path / "r.duckdb")) == whole


@pytest.mark.ci
def test_what_crosses_the_wall_are_noisy_margins_and_no_secret(tmp_path):
    spec = spec_in(tmp_path)
    folder = measure(spec, tmp_path / "measured")
    measured = MeasurementFolder(folder)
    order = measured.order()
    total, *margins = map(measured.margin, order.margins)
    assert total.columns == ()
    assert total.variance > 0
    assert [m.columns for m in margins] == list(spec.dp.margins)
    assert all(isinstance(m, Margin) and m.variance > 0 for m in margins)
    key = MasterKey(spec.key_path.read_bytes())
    names = {path.name for path in folder.iterdir()}
    told = {"README.txt", "build.json", "lock", "manifest.json", "order.json"}
    assert names == told | {file_name(m.columns) for m in (total, *margins)}
    raw = b"".join(path.read_bytes() for path in folder.iterdir())
    for purpose in ("entity", "entity-set", "suppression", "fingerprint", "label"):
        secret = key.derive(purpose, spec.vintage)
        assert secret not in raw
        assert secret.hex().encode() not in raw
    assert key.derive("sampling", spec.vintage).hex().encode() in raw
    assert spec.key_path.read_bytes() not in raw
    assert spec.key_path.read_bytes().hex().encode() not in raw
    assert (7_360_194_528_371).to_bytes(6, "little") not in raw
    assert str(spec.source.path).encode() not in raw
    assert order.params.budget is None


@pytest.mark.ci
def test_without_a_guarantee_it_is_said_in_capitals(tmp_path):
    spec = spec_in(tmp_path, dp="guarantee = false", tables=[("age", "sex"), ("region",)])
    build(spec, tmp_path / "r.duckdb")
    truth = people()["region"].value_counts()
    assert counts(tmp_path / "r.duckdb", "region") == {(name,): n for name, n in truth.items()}
    assert [entry.state for entry in balance(spec.key_path).entries] == ["exact"]
    with open_release(tmp_path / "r.duckdb") as release:
        assert any("NO PRIVACY GUARANTEE" in note for note in release.notes)
        assert "NO PRIVACY GUARANTEE" in " ".join(release.card("region").sentences())
        assert "NO PRIVACY GUARANTEE" in release.sql("SELECT count(*) FROM data").source
        assert release.sql("SELECT count(*) FROM catalog.ledger").rows == [(0,)]


@pytest.mark.ci
def test_trees_strata_catall_and_gaussian_noise(tmp_path):
    """The other ways through the mode, each once, in one release a way."""
    age = {**COLUMNS["age"], "breaks": list(range(5, 105, 5))}
    ways = {
        "tree": 'epsilon = 2.0\nbudget = 99.0\nmargins = [["age"], ["sex"]]\nranges = { age = 4 }',
        "strata": 'epsilon = 2.0\nstrata = ["region"]\nsample = "multinomial"',
        "catall": 'epsilon = 2.0\nmethod = "catall"\npost = "paper"\npublic_n = true\nprior = 1.0',
        "gaussian": 'epsilon = 2.0\ndelta = 1e-6\nnoise = "gaussian"',
    }
    for name, dp in ways.items():
        spec = spec_in(tmp_path, dp=dp, columns=COLUMNS | ({"age": age} if name == "tree" else {}),
                       tables=[("age", "sex"), WIDEST] if name != "tree" else [("age",), ("age", "sex")])  # fmt: skip
        spec = replace(spec, vintage=name)
        build(spec, tmp_path / f"{name}.duckdb")
        with open_release(tmp_path / f"{name}.duckdb") as release:
            card = release.card("age", "sex")
            rows = release.sql("SELECT count(*) FROM data").rows[0][0]
            assert abs(rows - N) < 400
            if name == "catall":
                assert rows == N
                assert "NUMBER OF ROWS IS PUBLIC" in " ".join(card.sentences())
            assert card.dp["covered"] == (name != "tree")
            assert card.dp["strata"] == (["region"] if name == "strata" else [])
            assert (card.dp["rho"] > 0) == (card.dp["delta"] > 0) == (name == "gaussian")
    assert len(balance(spec.key_path).entries) == 4


@pytest.mark.ci
def test_margins_that_promise_most_are_measured(tmp_path):
    """Of all pairs one is anything but independent: it is measured, in every stratum too, and its zeros are kept."""
    rows = people(20_000)
    rows["job"] = np.where(rows["age"] < 15, None, np.where(rows["age"] < 60, "a", "b"))
    rows.to_parquet(tmp_path / "rows.parquet")
    for vintage, strata in (("whole", ""), ("strata", 'strata = ["region"]')):
        spec = spec_in(
            tmp_path, dp=f"epsilon = 1.0\nbudget = 9.0\nadaptive = true\n{strata}",
            tables=[("age", "job"), ("age", "sex"), WIDEST],
        )  # fmt: skip
        spec = replace(spec, vintage=vintage)
        assert spec.dp.candidates
        build(spec, tmp_path / f"{vintage}.duckdb")
        with open_release(tmp_path / f"{vintage}.duckdb") as release:
            assert release.card("age", "job").dp["covered"]
            assert release.card("age", "job").dp["epsilon"] == 1.0
            (old,) = release.sql("SELECT count(*) FROM data WHERE age < 65 AND job = 'b'").rows[0]
            assert abs(old - ((rows["age"] < 65) & (rows["job"] == "b")).sum()) < 300
            release.sql("SELECT age < 15, sex, count(*) FROM data GROUP BY ALL", intervals=True)
    assert [entry.epsilon for entry in balance(spec.key_path).entries] == [1.0, 1.0]


@pytest.mark.ci
def test_sums_make_means_as_accurate_as_their_noise(tmp_path):
    """Ages of a sex lie at one end of their groups; groups of ten years alone say nothing of it."""
    rows, rng = people(20_000), np.random.default_rng(3)
    start = rng.choice([0, 10, 20, 40, 60], len(rows))
    shift = np.where(
        rows["sex"] == "f", rng.integers(0, 4, len(rows)), rng.integers(6, 10, len(rows))
    )
    rows["age"] = start + shift
    rows.to_parquet(tmp_path / "rows.parquet")
    age = {**COLUMNS["age"], "breaks": [10, 20, 40, 60]}
    truth = rows.groupby("sex")["age"].mean().to_dict()
    apart = {}
    for sums in ("true", "false"):
        spec = spec_in(
            tmp_path, dp=f"epsilon = 2.0\nbudget = 9.0\nsums = {sums}",
            columns=COLUMNS | {"age": age}, tables=[("age",), ("age", "sex"), ("age", "region", "sex")],
        )  # fmt: skip
        spec = replace(spec, vintage=sums)
        build(spec, tmp_path / f"{sums}.duckdb")
        with open_release(tmp_path / f"{sums}.duckdb") as release:
            got = release.sql(
                "SELECT sex, avg(age) AS mean FROM data GROUP BY sex ORDER BY sex", intervals=True
            )
            apart[sums] = {sex: mean - truth[sex] for sex, mean, *_ in got.rows}
            assert len(got.rows[0]) > 2
            wide = release.sql("SELECT avg(age) FROM data WHERE region IN ('R1', 'R2', 'R3')").rows
            assert wide == release.sql("SELECT avg(age) FROM data").rows  # one truth in all tables
            told = "sums that were measured" in " ".join(release.card("age", "sex").sentences())
            assert told == (sums == "true")
    assert max(map(abs, apart["true"].values())) < 0.5
    assert min(map(abs, apart["false"].values())) > 1


@pytest.mark.ci
def test_columns_in_no_margin_are_uniform_and_said_to_be(tmp_path):
    spec = spec_in(tmp_path, dp='epsilon = 9.0\nmargins = [["age"]]', tables=[("age", "region")])
    build(spec, tmp_path / "r.duckdb")
    with open_release(tmp_path / "r.duckdb") as release:
        card = release.card("age", "region")
        assert card.dp["uniform"] == ["region"]
        assert "UNIFORM: nothing was measured for region" in " ".join(card.sentences())
        assert "Nothing was measured" in release.sql("SELECT region FROM data").source
    found = counts(tmp_path / "r.duckdb", "region", "age")
    regions = Counter()
    for (region, _), n in found.items():
        regions[region] += n
    assert max(regions.values()) - min(regions.values()) <= 1


@pytest.mark.ci
def test_a_fit_that_does_not_converge_is_released_and_marked(tmp_path):
    spec = spec_in(tmp_path, dp='epsilon = 0.2\npost = "paper"\nmax_cycles = 2\ntolerance = 1e-9')
    build(spec, tmp_path / "r.duckdb")
    with open_release(tmp_path / "r.duckdb") as release:
        card = release.card("age", "sex")
        assert not card.is_converged
        assert not card.rake_converged
        assert "NOT CONVERGED" in " ".join(card.sentences())
        assert "NOT converge" in release.sql("SELECT sex FROM data").source


@pytest.mark.ci
def test_dates_and_entities_with_several_rows(tmp_path):
    rng = np.random.default_rng(4)
    who = rng.integers(0, 300, 1200)
    pd.DataFrame(
        {
            "pid": who,
            "day": [datetime.date(2020, 1, 1) + datetime.timedelta(days=int(d)) for d in who % 60],
            "sex": np.where(who % 2, "f", "m"),
        }
    ).to_parquet(tmp_path / "rows.parquet")
    columns = {
        "pid": {"kind": "integer"},
        "sex": COLUMNS["sex"],
        "day": {
            "kind": "date",
            "domain": {"min": "2020-01-01", "max": "2020-02-29"},
            "public": True,
        },
    }
    path = write_spec(
        tmp_path,
        "rows.parquet",
        columns,
        [("day", "sex")],
        entities=("pid",),
        release={"mode": "dp"},
    )
    text = (
        path.read_text().replace('"2020-01-01"', "2020-01-01").replace('"2020-02-29"', "2020-02-29")
    )
    path.write_text(text.replace("public = true", "public = true\nnullable = false")
                    .replace("nullable = false\nnullable = false", "nullable = false")
                    + "[dp]\nepsilon = 20.0\nmax_rows = 2\n")  # fmt: skip
    spec = read_spec(path)
    build(spec, tmp_path / "r.duckdb")
    found = counts(tmp_path / "r.duckdb", "day", "sex")
    assert 450 < sum(found.values()) < 700  # two rows an entity at most
    assert all(datetime.date(2020, 1, 1) <= day <= datetime.date(2020, 2, 29) for day, _ in found)
    with open_release(tmp_path / "r.duckdb") as release:
        assert "At most 2 rows per entity" in " ".join(release.card("day", "sex").sentences())


@pytest.mark.ci
def test_a_public_number_of_rows_is_said_in_the_notes(tmp_path):
    spec = spec_in(tmp_path, dp="epsilon = 2.0\npublic_n = true")
    build(spec, tmp_path / "r.duckdb")
    with open_release(tmp_path / "r.duckdb") as release:
        assert "THE NUMBER OF ROWS IS PUBLIC" in " ".join(release.notes)
    assert sum(counts(tmp_path / "r.duckdb", "region").values()) == N


@pytest.mark.ci
def test_of_entities_with_several_rows_one_counts_unless_more_are_declared(tmp_path):
    """Of stays one a patient counts, and everybody is told."""
    several = people().assign(pid=lambda frame: frame["pid"] // 4)
    several.to_parquet(tmp_path / "rows.parquet")
    spec = spec_in(tmp_path, dp="epsilon = 5.0", tables=[("region",)])
    build(spec, tmp_path / "r.duckdb")
    with open_release(tmp_path / "r.duckdb") as release:
        for told in (release.card("region").sentences(), release.notes):
            assert "At most 1 row per entity is counted" in " ".join(told)
        said = "At most 1 row per entity is counted in any figure"
        assert said in release.sql("SELECT count(*) FROM data").source
    assert said in repr(plan_dp(spec))
    path = tmp_path / "release.toml"
    path.write_text(path.read_text().replace("[release]", '[release]\nunit = "stays"', 1))
    assert "At most 1 stay per entity is counted" in repr(plan_dp(read_spec(path)))
    spec = spec_in(tmp_path, dp="guarantee = false", tables=[("region",)])
    build(replace(spec, vintage="exact"), tmp_path / "exact.duckdb")  # counts all rows
    assert sum(counts(tmp_path / "exact.duckdb", "region").values()) == N
