"""Releases of mode dp from end to end: one build, again, resumed, refused; what crosses the wall and what is there."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import duckdb
import pytest
from fixtures.pipeline import counts, table_hashes
from fixtures.release_dp import TABLES, WIDEST, spec_in

from engine.errors import BudgetError, NotAnswerable
from engine.keys import MasterKey
from engine.levels import Margin
from engine.measure.dp import balance, ledger_path
from engine.measure.dp.ledger import measured_folder
from engine.release import build, measure
from engine.release import fit as fit_folder
from engine.release.folder import MeasurementFolder, file_name
from engine.release.joint_fitter import fit_joint
from engine.store import Staging
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
        assert not release.sql("SELECT 1").dp
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
def test_a_killed_build_resumes_at_no_cost(built, monkeypatch):
    """The process that measures is stopped between two margins."""
    spec, folder, _ = built
    spec = replace(spec, vintage="killed", dp=replace(spec.dp, epsilon=0.5))
    real = MeasurementFolder.put

    def stopped(self, margin):
        if margin.columns:
            raise KeyboardInterrupt
        return real(self, margin)

    with monkeypatch.context() as patched:
        patched.setattr(MeasurementFolder, "put", stopped)
        with pytest.raises(KeyboardInterrupt):
            build(spec, folder / "killed.duckdb")
    assert not (folder / "killed.duckdb").exists()
    spent = balance(spec.key_path).spent
    build(spec, folder / "killed.duckdb")
    assert balance(spec.key_path).spent == spent
    build(spec, folder / "whole.duckdb")
    assert table_hashes(folder / "killed.duckdb") == table_hashes(folder / "whole.duckdb")


def test_a_killed_fit_resumes_with_the_tables_it_had(built):
    spec, folder, _ = built
    measured = MeasurementFolder(measure(spec, folder / "half.measured"))
    order = measured.order()

    def stop_at_3(stage, done, _total):
        if (stage, done) == ("tables", 3):
            raise KeyboardInterrupt

    def fit(tell):
        out = folder / "half.duckdb"
        with Staging.open(out, order.header, build_id=order.build_id) as staging:
            before = staging.finished()
            fit_joint(order, staging, measured.margin, tell)
            staging.finish(order.ledger)
        return before

    with pytest.raises(KeyboardInterrupt):
        fit(stop_at_3)
    assert fit(lambda *_: None) == frozenset(spec.tables[:3])
    assert table_hashes(folder / "half.duckdb") == table_hashes(folder / "r.duckdb")


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
