"""The scripts that measure rivals: figures by hand, a short run of each."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from fixtures.nist import NIST, needs_nist
from fixtures.pipeline import ROOT

pytest.importorskip("sklearn")

import rivals
import rivals_contest
import rivals_nist

from engine.evaluation.compare import Contest
from engine.evaluation.compare.contest import Generator, Trial
from engine.evaluation.rivals import Schema, entrants, rival_of, schema_of
from engine.spec import read_spec

SD2011 = ROOT.parent / "shared" / "synthpop"


def survey(n: int = 300) -> pd.DataFrame:
    """A survey like SD2011."""
    rng = np.random.default_rng(5)
    age = rng.integers(18, 90, n).astype(float)
    return pd.DataFrame(
        {
            "sex": rng.choice(["MALE", "FEMALE"], n),
            "age": age,
            "region": rng.choice(list("abc"), n),
            "edu": rng.choice(["low", "high"], n),
            "marital": np.where(age > 70, "WIDOWED", "MARRIED"),
            "socprof": rng.choice(list("xy"), n),
            "income": 900 + 7 * age + rng.normal(0, 90, n).round(),
            "smoke": rng.choice(["YES", "NO"], n),
        }
    )


def test_the_data_itself_loses_nothing_and_a_bootstrap_little():
    frame = survey()
    same = rivals.measured(frame, [frame], is_aligned=True)
    assert same["distributions.largest_u_m"] == same["distributions.largest_u_a"] == 0
    assert same[rivals.OVERLAP] == pytest.approx(1)
    made = rival_of("bootstrap").synthesize(frame, schema_of(frame), np.random.default_rng(1))
    other = rivals.measured(frame, [made, made], is_aligned=False)
    assert 0 < other["distributions.largest_u_m"] < 0.1
    assert 0.5 < other[rivals.OVERLAP] < 1


def test_ways_are_partial_and_full_of_two_rivals():
    assert list(rivals.ways()) == ["cart, partial", "cart, full", "dpmpm, partial", "dpmpm, full"]


@pytest.mark.skipif(not SD2011.exists(), reason="SD2011 is not beside the checkout")
def test_the_survey_has_blanks_where_income_is_not_known():
    frame = rivals.read(SD2011)
    assert list(frame) == rivals.COLUMNS
    assert frame["income"].isna().any()
    assert (frame["income"].dropna() != rivals.NOT_KNOWN).all()


def test_near_is_within_fifteen_percent():
    assert rivals_nist.is_near(0.86, 1.0)
    assert not rivals_nist.is_near(0.84, 1.0)
    assert rivals_nist.is_near(0.0, 0.0)
    assert not rivals_nist.is_near(1.0, 0.0)
    assert rivals_nist.is_near_one(0.5, [0.1, 0.9])
    assert rivals_nist.is_near_one(1.0, [0.1, 0.9])
    assert not rivals_nist.is_near_one(1.1, [0.1, 0.9])
    assert not rivals_nist.is_near_one(0.08, [0.1, 0.9])


def test_codes_are_read_as_numbers_and_blanks_come_back():
    """A tree of numbers draws numbers of the data, and -1 alone stands for a blank."""
    rng = np.random.default_rng(1)
    n = 300
    frame = pd.DataFrame(
        {
            "area": pd.Categorical(rng.choice(["p", "q", "r"], n)),
            "code": np.where(rng.random(n) < 0.3, np.nan, rng.integers(1, 4, n)),
            "full": rng.integers(0, 2, n),
        }
    )
    made = rivals_nist.CodedCart().synthesize(frame, Schema(), rng)
    assert list(made) == list(frame)
    assert set(made["code"].dropna()) == {1.0, 2.0, 3.0}
    assert 0.2 < made["code"].isna().mean() < 0.4
    assert set(made["full"]) == {0, 1}


def test_a_file_stands_beside_the_median_of_the_seeds():
    file = dict.fromkeys(rivals_nist.FIGURES, 1.1)
    seeds = [dict.fromkeys(rivals_nist.FIGURES, x) for x in (2.0, 1.0, 0.5)]
    for row in rivals_nist.beside(file, seeds):
        assert row[1:] == ["1.1", "1 (0.5 to 2)", "1.10", "yes", "yes"]
    file = dict.fromkeys(rivals_nist.FIGURES, 1.9)
    assert rivals_nist.beside(file, seeds)[0][3:] == ["1.90", "no", "yes"]


@needs_nist
def test_the_study_is_cut_to_what_is_compared():
    study = rivals_nist.study_of(NIST)
    assert study.marginals is not None
    assert (study.models, study.risks, study.estimates) == (None, None, ())


# --- the page of all rivals


def trial(name: str, origin: str, seconds: float | None) -> Trial:
    return Trial(
        generator=Generator(name=name, side="rival", promise="none", origin=origin),
        repeat=1,
        figures={"misplaced": 0.25},
        seconds=seconds,
        cpu=seconds,
        n_rows=7,
    )


def test_a_row_of_the_contest_says_whose_code_it_is_and_what_it_took():
    found = Contest(
        title="two",
        trials=(
            trial("cart", "ours, after R's synthpop", 2.0),
            trial("mst", "theirs: estimation", 61.26),
            trial("file", "theirs: a file", None),
        ),
        own="",
        repeats=1,
        n_tables=3,
        n_rows=7,
        has_control=True,
        study="by hand",
        notes=(),
        version="0",
    )
    lines = rivals_contest.table_of(found).splitlines()
    assert lines[0].startswith("| generator | code | seconds | of processor | rows misplaced |")
    assert lines[2].startswith("| cart | ours | 2.0 | 2.0 | 0.25")
    assert lines[3].startswith("| mst | theirs | 61.3 | 61.3 |")
    assert lines[4].startswith("| file | theirs |")
    assert lines[4].split(" | ")[3] == ""


def test_the_contest_is_of_a_spec_that_both_modes_can_build(tmp_path):
    spec, strangers = rivals_contest.prepared(tmp_path, 1_000)
    told = read_spec(spec)
    assert told.mode == "dp"
    assert set(rivals_contest.AREAS) < {column.name for column in told.columns}
    people = [pd.read_parquet(p) for p in (tmp_path / "census" / "people.parquet", strangers)]
    assert not people[0].equals(people[1])
    assert [one.name for one in entrants([rivals_contest.RIVALS])][-1] == "dpmpm"
