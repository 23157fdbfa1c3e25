"""Conditions on parts of texts: what a prefix decides is sure, and what it does not leaves room for what is hidden."""

from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd
import pytest
from fixtures.pipeline import put_key

import engine
from engine.errors import QueryRefused
from engine.schema import Column
from queries.intervals import annotated


def stays(n=1_500, seed=1) -> pd.DataFrame:
    """180 ICD-like codes in three chapters, most of a few stays."""
    rng = np.random.default_rng(seed)
    weight = np.tile(1 / np.arange(1, 61), 3)
    of = rng.choice(180, size=n, p=weight / weight.sum())
    codes = [f"{'EIJ'[i // 60]}{10 + i % 60 // 6}.{i % 6}" for i in of]
    return pd.DataFrame({"code": codes, "sex": rng.choice(["f", "m"], n)})


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    put_key(folder / "k")
    text = Column(name="code", kind="text", value_type="text", placeholder="(other)")
    return engine.build(
        stays(), tables=[["code"], ["code", "sex"]], key=folder / "k", out=folder / "r.duckdb", entities=[],
        columns=[text], reviewed=True, privacy={"accept_risk": "a test"},
    )  # fmt: skip


def asked(release, condition, own=None):
    """Figure, ends and status of a count."""
    ((n, low, high, status),) = annotated(
        release, f"SELECT count(*) AS n FROM data WHERE {condition}", own
    ).rows
    return n, low, high, status


ALL_E = ", ".join(f"'E{10 + i // 6}.{i % 6}'" for i in range(60))


@pytest.mark.ci
@pytest.mark.parametrize(
    ("condition", "is_decided"),
    [
        ("code LIKE 'E%'", True), ("code NOT LIKE 'E%'", True), ("left(code, 1) = 'E'", True), ("code[1] = 'E'", True),
        ("starts_with(code, 'E')", True), ("code >= 'E' AND code < 'F'", True), ("code ILIKE 'e%'", True),
        ("CASE WHEN code LIKE 'E%' THEN 0 ELSE 1 END = 1", True), ("sex = 'f' AND code LIKE 'E%'", True),
        ("code LIKE '%.3'", False), ("contains(code, '7.')", False), ("code LIKE 'E1_.4'", False),
        (f"code IN ({ALL_E})", False), ("substr(code, 5, 1) = '2'", False), ("regexp_matches(code, '\\.[45]$')", False),
        ("code BETWEEN 'E12' AND 'E15.9'", False), ("right(code, 1) < '2'", False),
    ],
)  # fmt: skip
def test_an_interval_leaves_room_for_what_is_hidden(release, condition, is_decided):
    frame = stays()  # read by name
    ((truth,),) = duckdb.sql(f"SELECT count(*) FROM frame WHERE {condition}").fetchall()
    n, low, high, status = asked(release, condition)
    assert low <= truth <= high, len(frame)
    if is_decided:
        assert abs(n - truth) <= 10
        assert high - low <= 40
        assert status == "reliable"


@pytest.mark.ci
def test_what_a_list_of_codes_does_not_join_is_left_room_for(release):
    codes = pd.DataFrame({"id": [f"{c}{10 + i // 6}.{i % 6}" for c in "EIJ" for i in range(60)]})
    codes["chapter"] = codes["id"].str[:1]
    result = annotated(
        release,
        "SELECT chapter, count(*) AS n FROM data JOIN codes ON code = id GROUP BY 1",
        {"codes": codes},
    )
    truth = stays()["code"].str[:1].value_counts()
    for chapter, _, low, high, status in result.rows:
        assert low <= truth[chapter] <= high
        assert status == "unreliable"


def test_values_themselves_are_as_sure_as_before(release):
    rows = annotated(release, "SELECT code, count(*) AS n FROM data GROUP BY 1").rows
    truth = stays()["code"].value_counts()
    common = [row for row in rows if truth.get(row[0], 0) >= 60]
    assert common
    assert all(status == "reliable" for *_, status in common)
    assert any(code.endswith("*") for code, *_ in rows)


@pytest.mark.parametrize("cast", ["substr(code, 2, 4)::INT", "hour(code::TIME)"])
def test_a_cast_that_fails_says_what_is_hidden(release, cast):
    with pytest.raises(
        QueryRefused, match=r"% of the rows have a text such as '[EIJ1-9.]+\*'.*domain"
    ):
        release.sql(f"SELECT {cast} AS x, count(*) FROM data GROUP BY 1")


def test_a_cast_that_gives_null_says_what_is_hidden(release):
    (warning,) = release.sql("SELECT avg(TRY_CAST(code AS DOUBLE)) FROM data").warnings
    hidden = "SELECT count(*) FROM data WHERE code SIMILAR TO '.*\\*|\\(other\\)'"
    share = release.sql(hidden).rows[0][0] / release.sql("SELECT count(*) FROM data").rows[0][0]
    assert warning.startswith(f"{share:.1%} of the rows")
    for whole in ("avg((code LIKE 'E%')::INT)", "count(code::VARCHAR)", "avg(length(code))"):
        assert release.sql(f"SELECT {whole} FROM data").warnings == ()


def test_a_text_that_is_compared_with_a_number_needs_no_quotes(release):
    with pytest.raises(QueryRefused) as refused:
        release.sql("SELECT count(*) FROM data WHERE code LIKE 4")
    assert "double quotes" not in str(refused.value)


SECTIONS = {"A": range(1, 4), "C": range(10, 34), "G": range(45, 48)}
"""Of NACE: the divisions of a section do not begin as it does."""


@pytest.fixture(scope="module")
def branches(tmp_path_factory):
    """Employers by branch, of which most have few, and their release by sections."""
    folder = tmp_path_factory.mktemp("branches")
    put_key(folder / "k")
    above = {f"{d:02}.{g}": s for s, ds in SECTIONS.items() for d in ds for g in range(1, 7)}
    listed = ["code,parent", *(f"{s}," for s in SECTIONS), *(f"{c},{s}" for c, s in above.items())]
    (folder / "nace.csv").write_text("\n".join(listed))
    rng = np.random.default_rng(1)
    weight = 1 / np.arange(1, len(above) + 1)
    codes = rng.choice(rng.permutation([*above]), 800, p=weight / weight.sum())
    pd.DataFrame({"branch": codes}).to_csv(folder / "employers.csv", index=False)
    (folder / "spec.toml").write_text(BRANCHES)
    return engine.build(folder / "spec.toml", out=folder / "r.duckdb"), pd.Series(codes)


BRANCHES = """
[release]
vintage = "1"
key = "k"
reviewed = true
[source]
path = "employers.csv"
format = "csv"
entities = []
[privacy]
accept_risk = "a test"
[columns.branch]
kind = "text"
hierarchy = "nace.csv"
[[tables]]
columns = ["branch"]
"""


@pytest.mark.ci
@pytest.mark.parametrize(
    "condition",
    ["branch LIKE '2%'", "branch LIKE '%.3'", "length(branch) = 4", "branch BETWEEN '20' AND '25'",
     "branch IN ('10.1', '10.2', '10.3', '10.4', '10.5', '10.6', '11.1', '11.2', '11.3', '11.4')"],
)  # fmt: skip
def test_hidden_codes_do_not_begin_as_their_ancestors_in_a_list(branches, condition):
    release, codes = branches
    frame = codes.to_frame("branch")  # read by name
    ((truth,),) = duckdb.sql(f"SELECT count(*) FROM frame WHERE {condition}").fetchall()
    _, low, high, status = asked(release, condition)
    assert low <= truth <= high, len(frame)
    assert status == "unreliable"


@pytest.mark.ci
def test_a_level_of_a_list_is_sure(branches):
    release, codes = branches
    above = codes.str[:2].astype(int).map({d: s for s, ds in SECTIONS.items() for d in ds})
    rows = annotated(release, "SELECT branch_1, count(*) AS n FROM data GROUP BY 1").rows
    assert {section: status for section, *_, status in rows} == dict.fromkeys("ACG", "reliable")
    for section, n, *_ in rows:
        assert abs(n - (above == section).sum()) <= 8
