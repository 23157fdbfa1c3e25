"""`tablepack audit` and `tablepack card`: specs, releases and commands; pages, JSON and exit codes."""

from __future__ import annotations

import json
import stat
import sys
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from fixtures.pipeline import tablepack

import engine
from engine.errors import PrivacyError
from engine.evaluation.audit import claim_of_release, claim_of_spec
from engine.evaluation.report import refuse_confidential
from engine.spec import read_spec

pytest.importorskip("jinja2")

SPEC = """
[release]
title = "Pairs <b>"
vintage = "1"
key = "k.key"
[source]
path = "people.csv"
entities = []
[columns.age]
kind = "integer"
domain = {min = 0, max = 5}
public = true
[columns.sex]
kind = "category"
domain = ["f", "m"]
public = true
[columns.town]
kind = "category"
domain = ["Gera", "Suhl", "Ulm"]
public = true
"""
STICKY = SPEC + "[[tables]]\nall = 2\n[privacy]\naccept_risk = 'a test'\n"
DP = SPEC.replace('vintage = "1"', 'vintage = "1"\nmode = "dp"') + (
    "[[tables]]\nall = 2\n[dp]\nepsilon = 1.0\nmargins = 2\neach_row_is_one_entity = true\n"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("audited")
    rng = np.random.default_rng(2)
    n = 900
    hidden = rng.integers(0, 2, n)
    pd.DataFrame(
        {
            "age": rng.integers(0, 4, n) + 2 * hidden,
            "sex": np.where(hidden + rng.integers(0, 2, n) > 1, "f", "m"),
            "town": np.array(["Gera", "Suhl", "Ulm"])[hidden + rng.integers(0, 2, n)],
        }
    ).to_csv(path / "people.csv", index=False)
    engine.new_key(path / "k.key")
    for name, text in (("sticky", STICKY), ("dp", DP)):
        (path / f"{name}.toml").write_text(text)
        engine.build(path / f"{name}.toml", out=path / f"{name}.duckdb")
    return path


@pytest.mark.ci
def test_the_claims_of_spec_and_release_agree(folder):
    for name in ("sticky", "dp"):
        of_spec = claim_of_spec(read_spec(folder / f"{name}.toml"))
        of_release = claim_of_release(folder / f"{name}.duckdb")
        assert (
            of_release.margins
            == of_spec.margins
            == (("age", "sex"), ("age", "town"), ("sex", "town"))
        )
        assert of_release.privacy.public() == of_spec.privacy.public() or name == "dp"
        assert (of_release.dp is None) == (name == "sticky")


FIVE = """
[release]
vintage = "1"
key = "k.key"
[source]
path = "rows.csv"
entities = []
[privacy]
accept_risk = "a test"
[[tables]]
columns = ["a", "b", "c", "d", "told"]
[[tables]]
columns = ["a", "b", "c", "d", "e"]
[columns.a]
kind = "integer"
determines = ["told"]
"""


@pytest.mark.slow
def test_a_table_of_five_columns_with_a_functional_dependency_is_measured(tmp_path):
    """Only a modelled table contributes its pairs as margins."""
    rng = np.random.default_rng(8)
    frame = pd.DataFrame(rng.integers(0, 3, (900, 4)), columns=list("abcd"))
    frame["told"] = frame["a"] // 2
    frame["e"] = rng.integers(0, 2, 900)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    others = "".join(
        f'[columns.{name}]\nkind = "integer"\n' for name in ("b", "c", "d", "e", "told")
    )
    spec = tmp_path / "five.toml"
    spec.write_text(FIVE + others)
    engine.new_key(tmp_path / "k.key")
    engine.build(spec, out=tmp_path / "r.duckdb")
    measured, modelled = ("a", "b", "c", "d", "told"), ("a", "b", "c", "d", "e")
    for claim in (claim_of_release(tmp_path / "r.duckdb"), claim_of_spec(read_spec(spec))):
        assert claim.modelled == (modelled,)
        assert set(claim.margins) == {measured, *combinations(modelled, 2)}


@pytest.mark.ci
@pytest.mark.parametrize(
    "what", ["sticky.toml", pytest.param("sticky.duckdb", marks=pytest.mark.slow)]
)
def test_the_card_of_a_release_is_not_refuted(folder, what, tmp_path):
    out = tmp_path / "a.html"
    words = ("--data", "people.csv", "--runs", 4, "--rows", 1800, "--seed", 3)
    done = tablepack("audit", what, *words, "-o", out, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "The card is not refuted" in done.stdout
    found = json.loads(out.with_suffix(".json").read_text("utf-8"))
    assert (found["confidential"], found["verdict"], found["level"]) == (True, "not refuted", 0.01)
    assert found["margins"] == [["age", "sex"], ["age", "town"], ["sex", "town"]]
    runs = [row for row in found["frame"] if "D+; run" in row["by"]]
    assert [row["measure"] for row in runs] == ["audit.statistic"] * 4
    page = out.read_text("utf-8")
    assert page.count("<svg") == 1
    assert "Pairs &lt;b&gt;" in page
    assert "Pairs <b>" not in page
    assert "The card is not refuted" in page
    assert {stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()} == {0o600}
    again = tablepack("audit", what, "--data", "people.csv", "-o", out, cwd=folder)
    assert again.returncode == 2
    with pytest.raises(PrivacyError, match="confidential"):
        refuse_confidential([tmp_path])


@pytest.mark.ci
def test_a_command_that_copies_is_refuted(folder, tmp_path):
    script = tmp_path / "copy.py"
    script.write_text("import shutil, sys; shutil.copy(*sys.argv[1:3])")
    done = tablepack(
        *(
            "audit",
            "--generator",
            f"{sys.executable} {script} {{in}} {{out}}",
            "--data",
            "people.csv",
        ),
        *("--safe", "2", "--columns", "age,sex,town", "--runs", 3, "--rows", 900, "--json"),
        *("-o", tmp_path / "c.html"),
        cwd=folder,
    )
    assert done.returncode == 3, done.stderr
    assert json.loads(done.stdout)["verdict"] == "refuted"


@pytest.mark.ci
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--generator"),
        (["sticky.toml", "--generator", "x {in} {out}"], "--generator"),
        (["--generator", "x {in}", "--data", "people.csv", "--safe", "age,sex"], "{out}"),
        (["sticky.duckdb"], "data: "),
        (["sticky.toml", "--columns", "shoe"], "shoe"),
    ],
)
def test_bad_arguments(folder, words, said, tmp_path):
    done = tablepack("audit", *words, "-o", tmp_path / "a.html", cwd=folder)
    assert done.returncode == 2
    assert said in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.ci
def test_margins_that_leave_nothing_to_test(folder, tmp_path):
    done = tablepack(
        "audit", "sticky.toml", "--columns", "age,sex", "-o", tmp_path / "n.html", cwd=folder
    )
    assert done.returncode == 0
    assert "nothing to test" in done.stdout


@pytest.mark.ci
@pytest.mark.parametrize("mode", ["sticky", "dp"])
def test_a_generator_card(folder, mode, tmp_path):
    out = tmp_path / "card.html"
    done = tablepack("card", f"{mode}.duckdb", "-o", out, cwd=folder)
    assert done.returncode == 0, done.stderr
    card = json.loads(out.with_suffix(".json").read_text("utf-8"))
    assert card["Phi"] == [["age", "sex"], ["age", "town"], ["sex", "town"]]
    assert [table["measured"] for table in card["psi"]["tables"]] == [True] * 3
    with engine.open(folder / f"{mode}.duckdb") as release:
        assert card["psi"]["release"] == release.content_hash
        assert card["generator"]["key_id"] == release.key_id
    headings = [section["heading"] for section in card["sections"]]
    assert headings == [
        *("Generator details", "Intended use", "Factors", "Metrics", "Training data", "Evaluation data"),
        *("Quantitative analyses", "Ethical considerations", "Caveats and recommendations"),
    ]  # fmt: skip
    page = out.read_text("utf-8")
    assert all(heading in page for heading in headings)
    assert "Pairs &lt;b&gt;" in page
    assert card["confidential"] is False
    again = tablepack("card", f"{mode}.duckdb", "-o", out, cwd=folder)
    assert again.returncode == 2
    refuse_confidential([tmp_path])
