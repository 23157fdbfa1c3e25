"""Hierarchies of codes: every level is a column of all their tables, and parents are the sums of their children."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from fixtures.pipeline import put_key
from fixtures.serve import one_worker, served

import engine
from engine.errors import SpecError
from engine.spec import read_spec

pytestmark = pytest.mark.ci

SPEC = """
[release]
vintage = "1"
key = "k"
reviewed = true
{release}
[source]
path = "stays.csv"
format = "csv"
entities = []
{source}
[privacy]
accept_risk = "a test"
[columns.code]
kind = "text"
{code}
[columns.sex]
kind = "category"
{tables}
"""
PAIR = '[[tables]]\ncolumns = ["code", "sex"]\n'


def stays(n=3_000, seed=2) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    of = rng.choice(240, size=n, p=(weight := 1 / np.arange(1, 241)) / weight.sum())
    codes = [f"{'EIJK'[i % 4]}{10 + i // 24}.{i % 6}" for i in of]
    codes[:40] = ["NA"] * 40
    return pd.DataFrame({"code": codes, "sex": rng.choice(["f", "m"], n)})


def spec_in(folder, code="hierarchy = [1, 3]", tables=PAIR, release="", source='nulls = ["NA"]'):
    folder.mkdir(exist_ok=True)
    if not (folder / "k").exists():
        put_key(folder / "k")
        stays().to_csv(folder / "stays.csv", index=False)
    path = folder / "spec.toml"
    path.write_text(SPEC.format(code=code, tables=tables, release=release, source=source))
    return path


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    folder = tmp_path_factory.mktemp("levels")
    return engine.build(spec_in(folder / "a"), out=folder / "r.duckdb")


def test_levels_are_columns_of_every_table_of_the_codes(release):
    assert {*release.tables} == {("code", "sex"), ("code_1", "sex"), ("code_3", "sex")}
    truth = stays()
    level = truth["code"].where(truth["code"] != "NA").str[:1]
    for value, n in release.sql("SELECT code_1, count(*) FROM data GROUP BY 1").rows:
        known = level.isna().sum() if value is None else (level == value).sum()
        assert abs(n - known) <= 8


def test_parents_are_the_sums_of_their_children(release):
    (gap,) = {release.card(*table).rounding_gap for table in release.tables}
    assert gap == 0
    for length in (1, 3):
        own = release.sql(f"SELECT code_{length} AS c, sex, count(*) FROM data GROUP BY ALL").rows
        summed = release.sql(
            f"SELECT left(code, {length}) AS c, sex, count(*) FROM data GROUP BY ALL"
        ).rows
        below = {(c, sex): n for c, sex, n in summed if c is None or not c.endswith("*")}
        for c, sex, n in own:
            if (c, sex) in below:
                hidden = sum(
                    of
                    for (other, s), of in {(c, s): n for c, s, n in summed}.items()
                    if s == sex and other and other.endswith("*") and c and c.startswith(other[:-1])
                )
                assert 0 <= n - below[c, sex] <= hidden


def test_hidden_codes_show_levels_only(release):
    shown = {
        code
        for (code,) in release.sql("SELECT DISTINCT code FROM data").rows
        if code and code.endswith("*")
    }
    assert shown
    assert {len(code) - 1 for code in shown} <= {1, 3}


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"code": "hierarchy = [3, 1]"}, "characters of each level"),
        ({"code": "hierarchy = [0, 1]"}, "characters of each level"),
        ({"code": "hierarchy = []"}, "characters of each level"),
        ({"code": 'hierarchy = [1]\ndomain = ["E10.1"]'}, "without domain and order"),
        ({"code": 'hierarchy = [1]\norder = "numeric"'}, "without domain and order"),
        (
            {"code": 'hierarchy = [1]\n[columns.code_1]\nkind = "text"'},
            "another column of the spec",
        ),
        ({"release": 'mode = "dp"'}, "mode dp takes a public list of codes only"),
    ],
)
def test_levels_that_cannot_be_are_refused(tmp_path, changed, why):
    with pytest.raises(SpecError, match=why):
        read_spec(spec_in(tmp_path / "a", **changed))


def test_a_level_that_the_source_has_is_refused(tmp_path):
    path = spec_in(tmp_path / "a")
    frame = stays()
    frame.assign(CODE_1=1).to_csv(path.with_name("stays.csv"), index=False)
    with pytest.raises(SpecError, match="another column of the source"):
        engine.plan(path)


def test_levels_of_codes_that_are_numbers_in_the_source(tmp_path):
    path = spec_in(tmp_path / "a", code="hierarchy = [1]", source="")
    frame = stays()
    frame["code"] = [int(100 + i % 7 * 100 + i % 3) for i in range(len(frame))]
    frame.to_parquet(path.with_name("stays.parquet"))
    path.write_text(
        path.read_text().replace("stays.csv", "stays.parquet").replace('"csv"', '"parquet"')
    )
    release = engine.build(path, out=tmp_path / "r.duckdb")
    levels = dict(release.sql("SELECT code_1, count(*) FROM data GROUP BY 1").rows)
    assert {*levels} == set("1234567")


def test_tables_of_levels_alone_need_no_table_of_the_codes(tmp_path):
    path = spec_in(tmp_path / "a", tables='[[tables]]\ncolumns = ["code_1", "sex"]\n')
    release = engine.build(path, out=tmp_path / "r.duckdb")
    assert release.tables == (("code_1", "sex"),)


ISCO = """code,parent,label
M,,Managers
P,,Professionals
11,M,Executives
12,M,Administrative managers
21,P,Scientists
22,P,Health professionals
1111,11,Legislators
1112,11,Senior officials
1211,12,Finance managers
2111,21,Physicists
2112,21,Meteorologists
2211,22,Doctors
2221,22,Nurses
"""


def coded(folder, listed=ISCO):
    path = spec_in(folder, code='hierarchy = "isco.csv"', source="")
    path.with_name("isco.csv").write_text(listed)
    n = {
        "1111": 400,
        "1112": 4,
        "1211": 300,
        "2111": 2,
        "2112": 2,
        "2211": 500,
        "2221": 600,
        "22": 40,
        "9999": 60,
    }
    codes = [code for code, of in n.items() for _ in range(of)]
    pd.DataFrame({"code": codes, "sex": ["f", "m"] * (len(codes) // 2)}).to_csv(
        path.with_name("stays.csv"), index=False
    )
    return path, n


def test_levels_of_a_list_of_codes(tmp_path):
    path, n = coded(tmp_path / "a")
    release = engine.build(path, out=tmp_path / "r.duckdb")
    assert {*release.tables} == {("code", "sex"), ("code_1", "sex"), ("code_2", "sex")}
    top = dict(release.sql("SELECT code_1, count(*) FROM data GROUP BY 1").rows)
    assert {*top} == {"M", "P", "9999"}  # a code that the list does not have is its own level
    assert abs(top["M"] - 704) <= 8
    assert abs(top["P"] - 1144) <= 8
    middle = dict(release.sql("SELECT code_2, count(*) FROM data GROUP BY 1").rows)
    assert abs(middle["22"] - 1140) <= 8
    assert abs(middle["12"] - n["1211"]) <= 8
    codes = dict(release.sql("SELECT code, count(*) FROM data GROUP BY 1").rows)
    assert {"1111", "1211", "2211", "2221", "22", "9999"} <= {*codes}
    assert "2111" not in codes
    assert [*release.columns] == ["code", "code_1", "code_2", "sex"]
    hidden = release.sql("SELECT value, label FROM values_of('code') WHERE kind = 'ancestor'").rows
    assert hidden == [("22*", "Health professionals: (other)")]
    labels = dict(release.sql("SELECT value, label FROM values_of('code_1')").rows)
    assert labels == {"M": "Managers", "P": "Professionals", "9999": None}


@pytest.mark.parametrize(
    ("listed", "why"),
    [
        ("code,parent\n1,2\n2,1\n", "ancestors of themselves"), ("code,parent\n1,3\n", "no codes of it"),
        ("code,parent\n1,\n1,\n", "a code twice"), ("a,b\n1,2\n", "the columns code and parent"),
        ("", "code and parent"),
    ],
)  # fmt: skip
def test_lists_of_codes_that_cannot_be_are_refused(tmp_path, listed, why):
    path, _ = coded(tmp_path / "a", listed)
    with pytest.raises(SpecError, match=why):
        read_spec(path)
    path.with_name("isco.csv").unlink()
    with pytest.raises(SpecError, match="cannot be read"):
        read_spec(path)


def test_the_page_lists_levels_beside_their_codes(release):
    pytest.importorskip("fastapi")
    from queries.serve import app_of

    with served(app_of(release.path, limits=one_worker())) as client:
        said = client.ask("/api/variables").json
    assert [v["name"] for v in said["variables"]] == ["code", "code_1", "code_3", "sex"]
    assert said["about"] == []
    assert any("code determines code_3" in note for note in said["notes"])


AREAS = """
[release]
vintage = "1"
key = "k"
mode = "dp"
[dp]
epsilon = 1.0
delta = 1e-6
noise = "gaussian"
[source]
path = "people.csv"
entities = ["id"]
[columns.id]
kind = "integer"
[columns.area]
kind = "text"
hierarchy = "areas.csv"
{area}
[columns.sex]
kind = "category"
domain = ["f", "m"]
public = true
nullable = false
[[tables]]
columns = ["area"]
[[tables]]
columns = ["area", "sex"]
"""


def areas_in(folder, area="nullable = false"):
    """Ten regions of 100 areas, and 20,000 people."""
    rng = np.random.default_rng(3)
    put_key(folder / "k")
    codes = [f"R{region}A{n:02d}" for region in range(10) for n in range(100)]
    listed = [(f"R{region}", "") for region in range(10)] + [(code, code[:2]) for code in codes]
    pd.DataFrame(listed, columns=["code", "parent"]).to_csv(folder / "areas.csv", index=False)
    weight = rng.gamma(1, 1, 1_000) * np.repeat(rng.gamma(3, 1, 10), 100)
    people = pd.DataFrame(
        {
            "id": np.arange(20_000),
            "area": rng.choice(codes, 20_000, p=weight / weight.sum()),
            "sex": rng.choice(["f", "m"], 20_000),
        }
    )
    people.loc[:99, "area"] = "abroad"  # no code of the list
    people.to_csv(folder / "people.csv", index=False)
    (folder / "s.toml").write_text(AREAS.format(area=area))
    return people


def test_mode_dp_measures_every_level_of_a_list_of_codes(tmp_path):
    people = areas_in(tmp_path)
    planned = engine.plan(tmp_path / "s.toml")
    sd = {table.columns: table.noise_sd for table in planned.tables}
    # Half of the budget for each level: the noise of both is the square root of 2 times that of one alone.
    assert sd["area", "sex"] == pytest.approx(sd["area_1", "sex"], rel=1e-6)
    assert not [line for line in planned.warnings if "determines" in line]
    release = engine.build(tmp_path / "s.toml", out=tmp_path / "r.duckdb")
    assert {*release.tables} == {("area",), ("area_1",), ("area", "sex"), ("area_1", "sex")}
    off = []
    told = release.sql("SELECT area_1, sex, count(*) FROM data GROUP BY ALL").rows
    for region, sex, n in told:
        inside = people["area"].str.startswith(region) & (people["sex"] == sex)
        off.append((n - inside.sum()) / sd["area_1", "sex"])
    # 20 errors of sd at most 1, where 100 areas added up would have 10.
    assert np.sqrt(np.mean(np.square(off))) < 1 + 3 / np.sqrt(2 * 20)
    summed = release.sql("SELECT left(area, 2), sex, count(*) FROM data GROUP BY ALL").rows
    assert sorted(summed) == sorted(told)


def test_values_that_a_list_lacks_count_as_its_other_code_in_mode_dp(tmp_path):
    people = areas_in(tmp_path, area='nullable = false\nother = "R0A00"')
    spec = read_spec(tmp_path / "s.toml")
    by_name = {column.name: column for column in spec.columns}
    assert by_name["area_1"].domain == tuple(f"R{region}" for region in range(10))
    assert by_name["area_1"].other == "R0"
    release = engine.build(tmp_path / "s.toml", out=tmp_path / "r.duckdb")
    ((n,),) = release.sql("SELECT count(*) FROM data WHERE area_1 = 'R0'").rows
    known = people["area"].str.startswith("R0").sum() + 100
    assert abs(n - known) < 5 * 10


def test_inner_codes_count_as_the_other_code_at_every_level_in_mode_dp(tmp_path):
    people = areas_in(tmp_path, area='nullable = false\nother = "R0A00"')
    people.loc[100:2_099, "area"] = "R1"  # a parent in the list
    people.to_csv(tmp_path / "people.csv", index=False)
    release = engine.build(tmp_path / "s.toml", out=tmp_path / "r.duckdb")
    other = people["area"].isin(["abroad", "R1", "R0A00"])
    ((n,),) = release.sql("SELECT count(*) FROM data WHERE area = 'R0A00'").rows
    assert n == pytest.approx(other.sum(), rel=0.1)  # one large cell among small ones is shrunk
    level = people["area"].str[:2].where(~other, "R0")
    for region, n in release.sql("SELECT area_1, count(*) FROM data GROUP BY 1").rows:
        assert abs(n - (level == region).sum()) < 5 * 10


def test_rows_with_inner_codes_are_not_counted_at_any_level_without_other_in_mode_dp(tmp_path):
    people = areas_in(tmp_path)
    people.loc[100:2_099, "area"] = "R1"  # a parent in the list
    people.to_csv(tmp_path / "people.csv", index=False)
    release = engine.build(tmp_path / "s.toml", out=tmp_path / "r.duckdb")
    for region, n in release.sql("SELECT area_1, count(*) FROM data GROUP BY 1").rows:
        assert abs(n - people["area"].str.startswith(region + "A").sum()) < 5 * 10


def columns_of(tmp_path, tables, margins=""):
    areas_in(tmp_path)
    text = (tmp_path / "s.toml").read_text()
    text = text[: text.index("[[tables]]")].replace("[dp]", f"[dp]\n{margins}") + tables
    (tmp_path / "s.toml").write_text(text)
    return tmp_path / "s.toml"


def test_a_table_of_codes_alone_is_measured_in_mode_dp(tmp_path):
    path = columns_of(tmp_path, '[[tables]]\ncolumns = ["area"]\n')
    assert read_spec(path).dp.margins == (("area",), ("area_1",))
    release = engine.build(path, out=tmp_path / "r.duckdb")
    assert {*release.tables} == {("area",), ("area_1",)}


def test_margins_of_codes_and_their_levels_alone_are_refused(tmp_path):
    path = columns_of(tmp_path, '[[tables]]\ncolumns = ["area", "sex"]\n', "margins = 3")
    with pytest.raises(SpecError, match="no 3 columns are left to count together"):
        read_spec(path)
