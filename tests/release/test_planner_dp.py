"""Plans: what a build costs, what mode dp will measure and how accurate it is, told before it is built."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from fixtures.pipeline import ACCEPTED, CENSUS, write_spec
from fixtures.spec_dp import COLUMNS, NAMES, SIZES, spec_writer

import engine
from engine.errors import SpecError, StoreError
from engine.key_files import new_key
from engine.measure.dp import ledger_path, set_budget
from engine.measure.dp.ledger import charge
from engine.measure.dp.noise import variance_of
from engine.release import noise_words, plan_dp
from engine.source import opening
from engine.spec import read_spec

TABLES = "[[tables]]\nall = 1\n[[tables]]\nall = 2\n[[tables]]\nall = 3\n"


@pytest.fixture
def write(tmp_path):
    return spec_writer(tmp_path)


def planned(write, dp="epsilon = 1.0", *, rows=None, tables=TABLES, **more):
    return plan_dp(read_spec(write(dp, tables=tables, **more)), rows=rows)


def of(plan, *columns):
    (table,) = (t for t in plan.tables if t.columns == columns)
    return table


def test_a_plan_by_hand(write):
    """Six pairs share 98 % of epsilon 1; a pair's cell has their noise, a column's is summed from the best pair."""
    plan = planned(write, 'epsilon = 1.0\nallocation = "equal"')
    scale = 6 / 0.98
    sd = math.sqrt(variance_of("laplace", scale))
    assert plan.margins == 6
    assert plan.counts == sum(SIZES[a] * SIZES[b] for a, b in combinations(NAMES, 2))
    assert plan.cells == 4 * 3 * 5 * 3
    assert plan.fit == "dense: 180 cells"
    assert plan.total_sd == pytest.approx(math.sqrt(variance_of("laplace", 1 / 0.02)), rel=1e-6)
    pair = of(plan, "AGE", "JOB")
    assert (pair.cells, pair.measured_by) == (20, ("AGE", "JOB"))
    assert pair.noise_sd == pytest.approx(sd, rel=1e-6)
    age = of(plan, "AGE")
    assert age.measured_by in (("AGE", "AREA"), ("AGE", "OWNS"))  # three levels each: the fewest
    assert age.noise_sd == pytest.approx(sd * math.sqrt(3), rel=1e-6)
    three = of(plan, "AGE", "AREA", "JOB")
    assert (three.cells, three.measured_by, three.noise_sd) == (60, None, None)
    assert three.rows_needed is None
    assert noise_words(three) == "modelled from narrower margins"
    assert pair.rows_needed == pytest.approx(20 * sd, rel=1e-6)
    assert (plan.cost.epsilon, plan.budget, plan.spent, plan.left) == (1.0, 1.0, 0.0, 1.0)
    assert plan.warnings == ()


def test_a_plan_of_a_build_that_chooses(write):
    """It states the noise that all candidates would have: nothing that is measured has more."""
    plan = planned(write, 'epsilon = 1.0\nallocation = "equal"\nadaptive = true')
    assert (plan.margins, plan.candidates) == (10, 6)
    sd = math.sqrt(variance_of("laplace", 6 / (0.98 * 0.85)))
    assert of(plan, "AGE", "JOB").noise_sd == pytest.approx(sd, rel=1e-6)
    single = math.sqrt(variance_of("laplace", 4 / (0.98 * 0.1)))
    assert of(plan, "JOB").noise_sd == pytest.approx(min(single, sd * math.sqrt(3)), rel=1e-6)
    assert any("Of 6 margins of several columns" in sentence for sentence in plan.sentences())


def test_a_plan_of_sums(write):
    """They take part in the budget as a margin does, and are told in units of the column."""
    plan = planned(write, 'epsilon = 1.0\nallocation = "equal"\nsums = true')
    by = [(one.column, one.by) for one in plan.sums]
    assert by[0] == ("AGE", ())
    assert {by_ for _, by_ in by} == {(), ("AREA",), ("JOB",), ("OWNS",)}
    scale = (6 + len(by)) / 0.98
    assert of(plan, "AGE", "JOB").noise_sd == pytest.approx(
        math.sqrt(variance_of("laplace", scale)), rel=1e-6
    )
    # A row adds 512 at most, at an end of the widest group: 18 to 64 years, 23 from the middle.
    sd = math.sqrt(variance_of("laplace", 512 * scale)) * 23 / 512
    assert [one.noise_sd for one in plan.sums] == pytest.approx([sd] * 4, rel=1e-6)
    assert any("AGE by AREA" in sentence for sentence in plan.sentences())


def test_which_epsilon_an_accuracy_needs(write):
    """Half-widths of one cell are as 1 / epsilon; the epsilon that is found has the accuracy."""
    spec = read_spec(write('epsilon = 1.0\nallocation = "equal"\nnoise = "laplace"', tables=TABLES))
    plan = plan_dp(spec, accuracy="JOB, AGE: +-50")
    sd = math.sqrt(variance_of("laplace", 6 / 0.98))
    half = sd * math.log(20) / math.sqrt(2)
    asked = plan.accuracy
    assert dict(asked.curve)[1.0] == pytest.approx(half, rel=1e-6)
    assert asked.columns == ("AGE", "JOB")
    assert asked.epsilon == pytest.approx(half / 50, rel=0.02)
    again = replace(spec, dp=replace(spec.dp, epsilon=asked.epsilon))
    assert of(plan_dp(again), "AGE", "JOB").noise_sd * math.log(20) / math.sqrt(2) <= 50
    assert f"needs epsilon {asked.epsilon:g}" in "\n".join(plan.sentences())
    for wrong, said in (
        ("AGE JOB 50", "write it like"),
        ("AGE, JOBS: 50", "no column 'JOBS'"),
        ("AGE, AREA, JOB: 5", "no margin holds"),
        ("AGE: 0", "positive"),
    ):
        with pytest.raises(SpecError, match=said):
            plan_dp(spec, accuracy=wrong)


def test_strata_and_trees(write):
    """A tree of AGE (100 values and null) in 3 areas: per area 26 + 7 + 2 inner nodes over 101 leaves."""
    plan = planned(
        write,
        'epsilon = 1\nallocation = "equal"\nmargins = 1\nstrata = ["AREA"]\nranges = { AGE = 4 }\n',
        columns=COLUMNS.replace("breaks = [18, 65]\n", ""),
        tables="[[tables]]\nall = 1\n",
    )
    assert plan.counts == 3 * (101 + 26 + 7 + 2) + 3 * 5 + 3 * 3
    assert plan.fit == "dense: 1,515 cells in each stratum"
    # four depths of AGE, JOB and OWNS share the budget alike
    sd = math.sqrt(variance_of("laplace", 6 / 0.98))
    assert of(plan, "AGE").noise_sd == pytest.approx(sd * math.sqrt(3), rel=1e-6)
    assert of(plan, "AREA").measured_by == ("AREA", "OWNS")
    assert of(plan, "AREA").noise_sd == pytest.approx(sd * math.sqrt(3), rel=1e-6)


def test_without_a_guarantee_nothing_is_noisy(write):
    plan = planned(write, "guarantee = false")
    assert not plan.is_protected
    assert (plan.budget, plan.spent, plan.left, plan.total_sd) == (None, None, None, 0.0)
    assert of(plan, "AGE").noise_sd == 0
    assert plan.warnings == ("guarantee = false: no privacy guarantee: exact counts",)
    assert plan.as_dict()["epsilon"] is None
    assert json.loads(json.dumps(plan.as_dict(), allow_nan=False))["total_noise_sd"] == 0.0


def test_what_the_ledger_holds(write, tmp_path):
    spec = read_spec(write("epsilon = 1.0\nbudget = 2.5", tables=TABLES))
    params = spec.dp
    assert params is not None
    for number, (spent, refused) in enumerate(((1.0, False), (2.0, True))):
        name = f"m{number}"
        charge(spec.key_path, params, id=name, vintage="1", title="", margins=6)
        plan = plan_dp(spec)
        assert (plan.budget, plan.spent, plan.left) == (2.5, spent, 2.5 - spent)
        assert any("would be refused" in w for w in plan.warnings) == refused
    assert "epsilon 3 would be spent of 2.5" in plan.warnings[0]
    set_budget(spec.key_path, 3.0)
    other = replace(spec, dp=replace(params, budget=None))
    assert plan_dp(other).warnings == ()
    (told,) = plan_dp(spec).warnings
    assert told == "a build would be refused: dp.budget is 2.5, and the ledger is pinned to 3"
    ledger_path(spec.key_path).write_text("{}")
    with pytest.raises(StoreError, match="cannot be read"):
        plan_dp(spec)


def test_gaussian_noise(write):
    plan = planned(write, 'epsilon = 1\ndelta = 1e-6\nnoise = "gaussian"\nallocation = "equal"')
    assert plan.cost.rho > 0
    assert (plan.delta, plan.cost.delta) == (1e-6, 1e-6)
    scale = math.sqrt(6 / (2 * 0.98 * plan.cost.rho))
    assert of(plan, "AGE", "JOB").noise_sd == pytest.approx(
        math.sqrt(variance_of("gaussian", scale)), rel=1e-6
    )


def test_warnings(write):
    plan = planned(write, 'epsilon = 1\nmargins = [["AGE"], ["JOB"]]', rows=10)
    assert [w.split(":")[0] for w in plan.warnings[:2]] == [
        "AREA is in no margin",
        "OWNS is in no margin",
    ]
    assert "drawn evenly from its domain" in plan.warnings[0]
    noisy = [w for w in plan.warnings if "larger than the average cell of 10 rows" in w]
    assert [w.split(":")[0] for w in noisy] == ["AGE", "JOB"]
    assert not planned(write, rows=1_000_000).warnings
    many = planned(write, "epsilon = 0.001", rows=1).warnings
    assert len(many) == 6
    assert many[-1] == "... and 5 more warnings like these"


def test_the_better_noise_is_taken_where_the_spec_gives_a_delta_and_names_none(write):
    """Six pairs: Laplace scale 6 / 0.98; Gaussian 2.6 times the root of that at delta 1e-3, 4.3 times at 1e-6."""
    equal = 'epsilon = 1.0\nallocation = "equal"\n'
    small, large = (planned(write, f"{equal}delta = {delta}") for delta in ("1e-6", "1e-3"))
    assert (small.noise, small.cost.delta, small.cost.rho) == ("laplace", 0.0, 0.0)
    assert (large.noise, large.cost.delta) == ("gaussian", 1e-3)
    gaussian, laplace = small.prices
    assert (gaussian.noise, gaussian.delta, laplace.delta) == ("gaussian", 1e-6, 0.0)
    assert gaussian.sd == pytest.approx(4.256 * math.sqrt(6 / 0.98), rel=1e-3)
    assert laplace.sd == pytest.approx(math.sqrt(variance_of("laplace", 6 / 0.98)), rel=1e-6)
    assert of(large, "AGE", "JOB").noise_sd == large.prices[0].sd < laplace.sd
    assert f"gaussian noise with delta = 0.001: {large.prices[0].sd:.1f}; laplace" in repr(large)
    assert small.as_dict()["prices"][0]["sd"] == gaussian.sd


def test_noise_that_is_named_is_kept_and_pure_privacy_is_the_default(write):
    named = planned(write, 'epsilon = 1.0\nnoise = "gaussian"\ndelta = 1e-6')
    assert named.noise == "gaussian"
    assert named.prices[0].sd > named.prices[1].sd
    plain = planned(write)
    assert (plain.noise, plain.cost.delta, plain.prices[0].delta) == ("laplace", 0.0, 1e-9)
    assert planned(write, "guarantee = false").prices == ()


@pytest.fixture(scope="module")
def spec(tmp_path_factory, census):
    """Every pair and triple of six columns."""
    folder = tmp_path_factory.mktemp("costs")
    names = ("region", "age", "sex", "education", "income", "carer")
    columns = {name: CENSUS[name] for name in ("person_id", *names)}
    path = write_spec(folder, census / "people.parquet", columns, [["age"]], privacy=ACCEPTED)
    path.write_text(path.read_text("utf-8") + "[[tables]]\nall = 2\n[[tables]]\nall = 3\n", "utf-8")
    return path


def test_an_estimate_is_near_the_plan_and_measures_less(spec):
    plan, found = engine.plan(spec), engine.estimate(spec)
    assert found.rows == plan.rows
    assert found.tables == len(plan.tables)
    assert found.measured < 20
    assert abs(math.log2(found.cost.seconds / plan.cost.seconds)) < 1
    assert abs(math.log2(found.cost.megabytes / plan.cost.megabytes)) < 1
    assert plan.seconds == plan.cost.seconds
    assert "MB to build" in repr(plan)
    assert "what the release would disclose is not looked at" in repr(found)


def test_what_a_placeholder_hides_is_suppressed(tmp_path):
    """Half of the people have a street of their own."""
    streets = [f"street {n if n < 1_000 else n % 2}" for n in range(2_000)]
    sex = ["m", "f"] * 1_000
    pd.DataFrame({"street": streets, "sex": sex}).to_parquet(tmp_path / "p.parquet")
    columns = {
        "street": {"kind": "text", "release": "simulated"},
        "sex": {"kind": "category", "type": "text"},
    }
    tables = [("street",), ("sex",), ("sex", "street")]
    path = write_spec(tmp_path, tmp_path / "p.parquet", columns, tables, entities=())
    shares = {t.columns: t.suppressed_share for t in engine.plan(path).tables}
    assert shares["street",] == pytest.approx(0.5, abs=0.02)
    assert shares["sex", "street"] == pytest.approx(0.5, abs=0.02)
    assert shares["sex",] < 0.02


def test_mode_dp_is_planned_without_data(tmp_path, census):
    path = write_spec(
        tmp_path, census / "people.parquet", {c: CENSUS[c] for c in ("person_id", "sex")}, [["sex"]],
        release={"mode": "dp"},
    )  # fmt: skip
    path.write_text(path.read_text("utf-8") + "[dp]\nepsilon = 1.0\n", "utf-8")
    with pytest.raises(SpecError, match="mode dp: "):
        engine.estimate(path)


ROWS = 30


class Counting:
    """A connection that counts its statements."""

    def __init__(self, con) -> None:
        self._con = con
        self.n = 0

    def __getattr__(self, name):
        return getattr(self._con, name)

    def execute(self, sql, *parameters):
        self.n += 1
        return self._con.execute(sql, *parameters)


@pytest.fixture
def planned_of_many(tmp_path, monkeypatch):
    """Plans all pairs of so many columns; gives the number of statements and of tables."""
    new_key(tmp_path / "k.key")
    confidential = opening.confidential_connection

    def pairs_of(n_columns):
        rng = np.random.default_rng(n_columns)
        frame = pd.DataFrame({f"c{j}": rng.integers(0, 3, ROWS) for j in range(n_columns)})
        made = []
        monkeypatch.setattr(
            opening,
            "confidential_connection",
            lambda *a, **k: made.append(Counting(confidential(*a, **k))) or made[-1],
        )
        plan = engine.plan(
            frame,
            tables=2,
            key=tmp_path / "k.key",
            entities=[],
            vintage=str(n_columns),
        )
        return made[0].n, len(plan.tables)

    return pairs_of


@pytest.mark.ci
def test_statements_grow_with_columns_not_with_tables(planned_of_many):
    few, n_few = planned_of_many(6)
    many, n_many = planned_of_many(16)
    assert (n_few, n_many) == (6 + 15, 16 + 120)
    assert many <= 3 * few
