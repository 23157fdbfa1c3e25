"""The NIST excerpt of the American Community Survey: real data, a real workload."""

from __future__ import annotations

import csv
import json

import pandas as pd
import pytest
from fixtures.pipeline import ACCEPTED, ROOT, tablepack, write_spec

import engine

DATA = ROOT.parent / "shared" / "nist"
SOURCE = DATA / "national2019.csv"
pytestmark = [
    pytest.mark.nist,
    pytest.mark.skipif(
        not SOURCE.exists(), reason="the NIST excerpt is not beside the checkout (../shared/nist)"
    ),
]
CODED = ("PUMA", "SEX", "MSP", "HISP", "RAC1P", "HOUSING_TYPE", "OWN_RENT", "EDU", "DREM", "NOC")
NOISE_SD = 2**0.5
N_WIDE = 10


def workload() -> list[tuple[str, ...]]:
    sets = json.loads((DATA / "workload.json").read_text())
    return [tuple(s) for s in sets if len(s) <= 4]


def some_tables() -> list[tuple[str, ...]]:
    """All single columns, and ten tables of each greater width, spread over the list."""
    tables = [t for t in workload() if len(t) == 1]
    for width in (2, 3, 4):
        of_width = [t for t in workload() if len(t) == width]
        tables += of_width[:: max(len(of_width) // N_WIDE, 1)][:N_WIDE]
    return tables


def write_nist_spec(folder, tables) -> None:
    """The columns as releases/nist.toml declares them; source, key and tables are ours."""
    text = (ROOT / "releases" / "nist.toml").read_text(encoding="utf-8")
    columns = text[text.index("[columns.") : text.index("[[tables]]")]
    nulls = {"nulls": ["N"]}
    ours = write_spec(
        folder, SOURCE, {}, tables, entities=(), source=nulls, privacy=ACCEPTED
    ).read_text()
    head, _, rest = ours.partition("[[tables]]")
    (folder / "release.toml").write_text(f"{head}{columns}[[tables]]{rest}", encoding="utf-8")


@pytest.fixture(scope="module")
def source():
    return pd.read_csv(SOURCE, dtype=str, keep_default_na=False)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nist")
    write_nist_spec(folder, some_tables())
    done = tablepack("build", "release.toml", "-o", "r.duckdb", cwd=folder)
    assert done.returncode == 0, done.stderr
    done = tablepack("export", "r.duckdb", "csv", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def release(built):
    with engine.open(built / "r.duckdb") as opened:
        yield opened


def exported(built, *columns) -> list[list[str]]:
    with (built / "csv" / f"{'.'.join(sorted(columns))}.csv").open(newline="") as file:
        return list(csv.reader(file))


@pytest.mark.ci
def test_values_are_spelled_as_in_the_source(built, source):
    """Of coded columns no other spelling may appear, of numbers no other kind; null is N in all."""
    for name in source.columns:
        shown = {row[0] for row in exported(built, name)[1:]}
        truth = set(source[name])
        assert ("N" in shown) == ("N" in truth), name
        if name in CODED:
            assert shown <= truth, name
        numbers = shown - {"N"} if name != "PUMA" else set()
        is_whole = all("." not in value for value in truth)
        for value in numbers:
            assert float(value) == float(value)
            assert ("." not in value) == is_whole, (name, value)


@pytest.mark.ci
def test_counts_are_near_the_truth(built, source, release):
    """Public codes: two layers of sd 1, scaled a little by the tree; 7 sd is not seen but for a fault."""
    for name in CODED:
        truth = source[name].value_counts()
        rows = [row[0] for row in exported(built, name)[1:]]
        shown = pd.Series(rows).value_counts().reindex(truth.index, fill_value=0)
        assert (shown - truth).abs().max() <= 7 * NOISE_SD, name
        assert abs(len(rows) - len(source)) <= 7 * NOISE_SD


@pytest.mark.ci
def test_sql_answers_near_the_truth(source, release):
    wide = next(t for t in some_tables() if len(t) == 4)
    listed = ", ".join(f'"{name}"' for name in wide)
    answer = release.sql(f"SELECT {listed}, count(*) AS n FROM data GROUP BY ALL")
    assert answer.table == tuple(sorted(wide))
    assert abs(sum(row[-1] for row in answer.rows) - len(source)) <= 7 * NOISE_SD
    rows = release.sql("SELECT SEX, count(*) FROM data GROUP BY SEX").rows
    truth = source["SEX"].astype(int).value_counts()
    assert {sex for sex, _ in rows} == {1, 2}
    assert all(abs(n - truth[sex]) <= 7 * NOISE_SD for sex, n in rows)
    ages = source["AGEP"].astype(int)
    ((mean,),) = release.sql("SELECT avg(AGEP) FROM data").rows
    assert abs(mean - ages.mean()) < 0.1


@pytest.mark.slow
def test_the_whole_workload(tmp_path, source):
    write_nist_spec(tmp_path, workload())
    done = tablepack("build", "release.toml", "-o", "r.duckdb", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["tables"] == len(workload()) == 438
    assert told["bytes"] <= 60e6
    assert tablepack("export", "r.duckdb", "csv", cwd=tmp_path).returncode == 0
    assert len(list((tmp_path / "csv").iterdir())) == 438
    with engine.open(tmp_path / "r.duckdb") as opened:
        cards = [opened.card(*columns) for columns in opened.tables]
    assert len({card.rows for card in cards}) == 1
    assert abs(cards[0].rows - len(source)) <= 7 * NOISE_SD
    narrow = [card for card in cards if len(card.columns) <= 2]
    assert all(card.rounding_gap == 0 for card in narrow if "INDP" not in card.columns)
    # Tables of an industry are locked to those of its category too, where a filled count may be off by one. Of 16 keys
    # 3 (and of the same 4 while remainders were shrunk) had one or two tables where one is off by 2.
    gaps = [card.rounding_gap for card in narrow if card.rounding_gap > 1]
    assert gaps in ([], [2], [2, 2])
