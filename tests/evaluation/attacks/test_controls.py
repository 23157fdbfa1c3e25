"""All attacks together: the original published as it is loses every one, a table of other people none."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from fixtures.nist import NIST, needs_nist, nist_rows, nist_study

from engine.evaluation.attacks.protocol import Attacker, Held, Linkage, attack_one, excess
from engine.evaluation.data.aligned import Distinct, align, distinct
from engine.evaluation.findings import WHOLE, Rate, figures_of
from engine.evaluation.report.verdicts import verdict
from engine.evaluation.study import Study
from engine.schema import column_set

pytest.importorskip("sklearn.ensemble")
ATTACKS = {"uniques", "apparent_match", "attribution", "identification", "linkage", "inference"}
RISK = {figure.name: figure for figure in figures_of(*ATTACKS)}
HEADLINES = {name for name, figure in RISK.items() if figure.is_headline}
TOLD = Attacker(
    quasi_identifiers=("region", "age", "sex", "job"),
    linkage=Linkage(targets=500),
    attempts=300,
    model_rows=1_000,
)


def people(n, seed):
    """People of one population: four of their columns single most of them out."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 4, n)
    return pd.DataFrame(
        {
            "region": rng.integers(0, 30, n).astype(float),
            "age": rng.integers(0, 80, n).astype(float),
            "sex": rng.choice(["m", "w"], n),
            "job": np.array([f"j{k}" for k in 3 * kind + rng.integers(0, 4, n)], object),
            "income": np.round(np.exp(rng.normal(5 + kind / 4, 0.7, n))),
            "health": np.where(rng.random(n) < 0.7, "good", rng.choice(["fair", "bad"], n)),
            "tenure": np.where(rng.random(n) < 0.3 + 0.15 * kind, "own", "rent"),
        }
    )


def shuffled(frame, seed=5):
    rng = np.random.default_rng(seed)
    return frame.apply(lambda column: column.to_numpy()[rng.permutation(len(column))])


def attacked(original, table, *, told=TOLD, control=None, study=None, baselines=None):
    given = table if isinstance(table, Distinct) else distinct(table)
    tables = {column_set(list(given.frame)): given}
    study = study or Study(title="")
    aligned = align(original, tables, study, control=control)
    held = Held(aligned=aligned, baselines=baselines or {})
    return {name: attack_one(name, held, told, seed=3) for name in sorted(ATTACKS)}


def verdicts(risks):
    """Verdict of every figure, under its whole name; absent ones with a reason are "not computed"."""
    found = {}
    for attack, risk in risks.items():
        for name, value in risk.values.items():
            figure = RISK[f"{attack}.{name}"]
            assert figure.low <= value <= figure.high, figure.name
            found[figure.name] = verdict(figure, value)
        for name in risk.why_not:
            if name != WHOLE:
                found[f"{attack}.{name}"] = verdict(RISK[f"{attack}.{name}"], None)
    return found


def poor(found):
    return {name for name, one in found.items() if one == "poor"}


def test_every_attack_has_a_headline_and_every_headline_a_verdict():
    assert {name.split(".")[0] for name in HEADLINES} == ATTACKS
    for name in HEADLINES:
        assert verdict(RISK[name], RISK[name].perfect) == "good"
        assert verdict(RISK[name], RISK[name].high) == "poor"


DECLARED = [False, pytest.param(True, marks=pytest.mark.slow)]


@pytest.mark.ci
@pytest.mark.parametrize("is_declared", DECLARED)
def test_a_copy_fails_every_attack(is_declared):
    original = people(1_200, 1)
    found = verdicts(
        attacked(original, original, control=people(1_000, 3) if is_declared else None)
    )
    assert poor(found) >= HEADLINES


@pytest.mark.ci
def test_a_copy_fails_where_rows_are_known_to_correspond():
    original = people(600, 1)
    told = TOLD.model_copy(update={"aligned": True})
    assert poor(verdicts(attacked(original, original, told=told))) >= HEADLINES


@pytest.mark.ci
@pytest.mark.parametrize("is_declared", DECLARED)
@pytest.mark.parametrize(
    "kind",
    ["shuffled", "fresh"]
    + [pytest.param(f"fresh, {size}", marks=pytest.mark.slow) for size in ("few", "ten times")],
)
def test_no_figure_is_poor_for_a_table_of_nobody(kind, is_declared):
    original = people(1_200, 1)
    size = {"fresh, ten times": 12_000, "fresh, few": 300}.get(kind, 1_200)
    table = shuffled(original) if kind == "shuffled" else people(size, 2)
    found = verdicts(attacked(original, table, control=people(1_000, 3) if is_declared else None))
    assert found.keys() >= HEADLINES
    assert not poor(found)


@pytest.mark.slow
def test_no_figure_is_poor_where_others_are_many_and_alike():
    """Few kinds of people: tables of others tell much of everybody, and replicate many uniques by chance."""
    original, fresh = (
        people(2_000, seed)[["region", "age", "health", "tenure"]] for seed in (1, 2)
    )
    told = TOLD.model_copy(update={"quasi_identifiers": ("region", "age")})
    found = attacked(original, fresh, told=told)
    assert found["uniques"].values["replicated"] > 5
    assert not poor(verdicts(found))
    assert poor(verdicts(attacked(original, original, told=told))) >= {
        "uniques.excess_over_control",
        "apparent_match.largest_gain",
    }


@pytest.mark.slow
def test_a_part_of_the_people_published_as_they_are_is_found():
    original = people(1_200, 1)
    mixed = pd.concat([original[:480], people(720, 2)], ignore_index=True)
    found = verdicts(attacked(original, mixed))
    assert poor(found) >= {n for n in HEADLINES if n.endswith("excess_over_control")}


# Like conditions.


@pytest.mark.ci
def test_distinct_rows_with_their_number_are_attacked_as_the_rows_are():
    """For all attacks; with control rows, as otherwise other records are drawn."""
    original, rows, control = people(120, 1), people(60, 2), people(100, 3)
    n = np.random.default_rng(1).integers(1, 4, 60)
    repeated = rows.loc[rows.index.repeat(n)].reset_index(drop=True)
    counted, expanded = (
        attacked(original, table, control=control)
        for table in (Distinct(frame=rows, n=n.astype(np.int64)), repeated)
    )
    for attack, risk in counted.items():
        assert risk.values == pytest.approx(expanded[attack].values), attack
        assert risk.rate == expanded[attack].rate


def test_what_chance_explains_is_no_excess():
    def rate(value, low, high):
        return Rate(value=value, low=low, high=high, n=9)

    assert excess(rate(0.5, 0.4, 0.6), rate(0.2, 0.1, 0.3)) == pytest.approx(0.3)
    assert excess(rate(0.5, 0.3, 0.7), rate(0.4, 0.2, 0.5)) == 0
    assert excess(rate(0.2, 0.1, 0.3), rate(0.5, 0.4, 0.6)) == pytest.approx(-0.3)


# Bad input.


BLANK = pd.DataFrame(
    {"region": [None] * 60, "sex": [None] * 60, "tenure": [None] * 60}, dtype=float
)
BAD = {
    "one row": (people(1, 1), people(1, 2), None),
    "two rows": (people(2, 1), people(2, 2), None),
    "no rows": (people(40, 1), people(0, 2), None),
    "nobody": (people(0, 1), people(40, 2), None),
    "all blank": (BLANK, BLANK, None),
    "constant": (people(50, 1).assign(job="j", tenure="own"), people(50, 2).assign(job="j"), None),
    "no quasi-identifier": (people(50, 1), people(50, 2)[["income", "health"]], None),
    "only quasi-identifiers": (people(50, 1), people(50, 2)[["region", "age", "sex", "job"]], None),
    "some quasi-identifiers": (people(50, 1), people(50, 2)[["sex", "job", "health"]], None),
    "control lacks a known column": (
        people(50, 1),
        people(50, 2),
        people(50, 3).drop(columns="sex"),
    ),
    "control lacks a target": (people(50, 1), people(50, 2), people(50, 3).drop(columns="income")),
    "control of no rows": (people(50, 1), people(50, 2), people(0, 3)),
    "control of one row": (people(50, 1), people(50, 2), people(1, 3)),
    "control of other columns": (people(50, 1), people(50, 2), pd.DataFrame({"z": [1.0, 2.0]})),
}


@pytest.mark.ci
@pytest.mark.parametrize("kind", BAD)
def test_bad_input_gives_figures_or_reasons(kind):
    original, table, control = BAD[kind]
    for attack, risk in attacked(original, table, control=control).items():
        assert all(np.isfinite(value) for value in risk.values.values()), attack
        assert not set(risk.values) & set(risk.why_not), attack
        assert all(risk.why_not.values()), attack
        headlines = {n.split(".")[1] for n in HEADLINES if n.split(".")[0] == attack}
        assert WHOLE in risk.why_not or headlines <= {*risk.values, *risk.why_not}, attack


# On real people.


@needs_nist
@pytest.mark.slow
@pytest.mark.parametrize("is_declared", [False, True])
def test_on_nist_people_a_copy_fails_and_others_do_not(is_declared):
    study, rows = nist_study(), nist_rows()
    rows = rows.iloc[np.random.default_rng(1).permutation(len(rows))].reset_index(drop=True)
    original, fresh, control = (
        rows[i : i + 3_000].reset_index(drop=True) for i in (0, 3_000, 6_000)
    )
    few = {"attempts": 300, "model_rows": 600, "linkage": Linkage(targets=400)}
    more = {
        "told": study.risks.model_copy(update=few),
        "control": control if is_declared else None,
        "study": study,
        # Of the model, as published: it takes long to train.
        "baselines": pd.read_json(NIST / "inference_baselines.json", typ="series").to_dict(),
    }
    assert poor(verdicts(attacked(original, original, **more))) >= HEADLINES
    for table in (fresh, shuffled(original)):
        found = verdicts(attacked(original, table, **more))
        assert found.keys() >= HEADLINES
        assert not poor(found) & {*HEADLINES, *(n for n in found if "control" in n or "gain" in n)}
