"""Tables of entities beside tables of rows: whom they count, how noisy, what the ledger knows of both."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from fixtures.pipeline import counts, write_spec
from intervals import coverage, events, hospital
from study import Keys

import engine
from engine.errors import DataError, PrivacyError, SpecError
from queries.intervals import tabulate

COLUMNS = {
    "patient": {"kind": "integer"},
    "sex": {"kind": "category", "type": "text"},
    "born": {"kind": "integer"},
    "ward": {"kind": "category", "type": "text"},
}
STAYS = [("sex",), ("ward",), ("born", "sex"), ("sex", "ward")]
PRIVACY = {"max_rows": 128, "accept_risk": "simulated"}


@pytest.fixture(scope="module")
def stays(tmp_path_factory) -> tuple[pd.DataFrame, object]:
    """Six thousand stays of six hundred patients, as a file."""
    folder = tmp_path_factory.mktemp("hospital")
    frame = hospital(600, 6_000)[list(COLUMNS)]
    frame.to_parquet(folder / "stays.parquet")
    return frame, folder


def built(folder, tables, *, out="r.duckdb", privacy=PRIVACY, columns=COLUMNS, **release):
    """A release of the stays, its spec beside them."""
    spec = write_spec(
        folder, folder / "stays.parquet", columns, tables, entities=("patient",), privacy=privacy,
        release=release,
    )  # fmt: skip
    return engine.build(spec, out=folder / out, jobs=1, force=True)


@pytest.mark.ci
def test_patients_are_counted_once_with_the_noise_of_one_row(stays):
    frame, folder = stays
    with built(folder, STAYS, out="stays.duckdb") as release:
        assert release.card("sex").noise_sd >= 128
    tables = [("sex",), ("born",), ("born", "sex")]
    with built(folder, tables, out="patients.duckdb", count="entities") as release:
        truth = frame.drop_duplicates("patient")["sex"].value_counts()
        shown = tabulate(release, ["sex"]).df().set_index("sex")
        assert (shown["value"] - truth).abs().max() <= 8
        assert (shown["high"] - shown["low"]).max() <= 10
        assert release.card("born", "sex").noise_sd == pytest.approx(2**0.5)
        assert release.card("sex").scale == 1
    both = counts(folder / "patients.duckdb", "born", "sex")
    for sex, n in counts(folder / "patients.duckdb", "sex").items():
        assert sum(m for (_, s), m in both.items() if (s,) == sex) == n


@pytest.mark.ci
def test_patients_of_sites_that_number_them_from_one(stays, tmp_path):
    """Two columns name a patient: the noise is that of a patient's rows, not of a site's."""
    frame, _ = stays
    numbers = pd.DataFrame({"site": frame["patient"] % 20, "number": frame["patient"] // 20})
    frame.drop(columns="patient").join(numbers).to_parquet(tmp_path / "stays.parquet")
    columns = {"site": {"kind": "integer"}, "number": {"kind": "integer"}} | COLUMNS
    del columns["patient"]

    def spec(count, tables, **more):
        return write_spec(
            tmp_path, tmp_path / "stays.parquet", columns, tables, entities=[["site", "number"]],
            privacy=PRIVACY, release={"count": count}, name=f"{count}.toml", **more,
        )  # fmt: skip

    rows = engine.build(spec("rows", [("sex",)]), out=tmp_path / "rows.duckdb", jobs=1)
    assert rows.card("sex").scale == 128
    tables = [("sex",), ("born",)]
    path = tmp_path / "patients.duckdb"
    engine.build(spec("entities", tables), out=path, jobs=1)
    engine.add(path, [("born", "sex")], spec=tmp_path / "entities.toml", jobs=1)
    truth = frame.drop_duplicates("patient")["sex"].value_counts()
    shown = {sex: n for (sex,), n in counts(path, "sex").items()}
    assert max(abs(shown[sex] - n) for sex, n in truth.items()) <= 8
    with engine.open(path) as release:
        assert release.tables == (("born",), ("sex",), ("born", "sex"))
        assert any("site and number" in note for note in release.notes)
    text = (tmp_path / "entities.toml").read_text("utf-8")
    assert '["site", "number"]' in text
    (tmp_path / "entities.toml").write_text(
        text.replace('[["site", "number"]]', '[["number", "site"]]')
    )
    with pytest.raises(PrivacyError, match="the entity columns"):
        engine.build(tmp_path / "entities.toml", out=path, jobs=1, force=True)


@pytest.mark.ci
def test_each_value_counts_its_own_patients(stays):
    frame, folder = stays
    with built(folder, [("ward",), ("sex",)], out="w.duckdb", count="entities", each="ward") as r:
        assert set(r.tables) == {("ward",), ("sex", "ward")}
        shown = tabulate(r, ["ward"]).df().set_index("ward")
        truth = frame.groupby("ward")["patient"].nunique()
        assert (shown["value"] - truth).abs().max() <= 16
        assert 2**0.5 <= r.card("ward").noise_sd <= 4  # what the number of all has of it on top
        assert ((shown["low"] <= truth) & (truth <= shown["high"])).mean() >= 0.8
    two = {"count": "entities", "each": "ward", "most": 2, "vintage": "two"}
    with built(folder, [("ward",)], out="w.duckdb", **two) as r:
        kept = tabulate(r, ["ward"]).df()["value"].sum()
    assert kept <= 2 * frame["patient"].nunique() + 30


def test_what_differs_within_an_entity_is_refused(stays):
    _, folder = stays
    with pytest.raises(DataError, match=r"ward is not the same in all rows.*each = \"ward\""):
        built(folder, [("ward",)], count="entities")


@pytest.mark.ci
def test_a_few_slips_are_no_reason_to_refuse(stays, tmp_path):
    frame = stays[0].copy()
    slips = frame["patient"].drop_duplicates().head(2)
    first = frame[frame["patient"].isin(slips)].drop_duplicates("patient").index
    frame.loc[first, "sex"] = frame.loc[first, "sex"].map({"F": "M", "M": "F"})
    frame.to_parquet(tmp_path / "stays.parquet")
    with built(tmp_path, [("sex",)], count="entities") as release:
        assert (
            abs(
                sum(n for _, n in release.sql("SELECT sex, count(*) FROM data GROUP BY 1").rows)
                - 600
            )
            <= 8
        )


@pytest.mark.ci
def test_the_ledger_charges_patients_beside_stays(stays, tmp_path):
    stays[0].to_parquet(tmp_path / "stays.parquet")
    for release in ({}, {"count": "entities"}, {"count": "entities"}):
        built(tmp_path, [("born", "sex")], **release).close()
    charges = json.loads((tmp_path / "my.key.exposure.json").read_text())["charges"]
    assert [c["tables"] for c in charges] == [[["born", "sex"]], [["born", "sex", "(entities)"]]]
    with built(tmp_path, [("born", "sex")], count="entities") as release:
        said = " ".join(release.card("born", "sex").sentences())
    assert "earlier builds" in said or "all tables" in said.casefold()


@pytest.mark.ci
def test_another_number_of_wards_is_no_free_fresh_look(stays, tmp_path):
    """Before, each `most` drew other wards of the same people, and the ledger took it for the same tables."""
    stays[0].to_parquet(tmp_path / "stays.parquet")
    build = {"tables": [("sex", "ward")], "count": "entities"}
    built(tmp_path, each="ward", most=2, **build).close()
    built(tmp_path, each="ward", most=2, **build).close()
    with pytest.raises(PrivacyError, match=r"another state: release.most with each = ward changed"):
        built(tmp_path, each="ward", most=4, **build)
    built(tmp_path, [("born", "sex")], count="entities", each="born", most=1).close()
    with pytest.raises(PrivacyError, match=r"release\.most with each = ward changed"):
        built(tmp_path, each="ward", most=4, vintage="2", previous="2021", **build)
    charges = json.loads((tmp_path / "my.key.exposure.json").read_text())["charges"]
    assert [c["tables"] for c in charges] == [
        [["sex", "ward", "(entities in ward, at most 2)"]],
        [["born", "sex", "(entities in born, at most 1)"]],
    ]


@pytest.mark.ci
def test_a_copy_of_a_column_has_its_counts_whichever_tables_are_asked_for(stays, tmp_path):
    """Before, copies were looked for among the columns of tables: the same patients got a second noise."""
    frame = stays[0].assign(gender=lambda f: f["sex"].map({"F": "x", "M": "y"}))
    frame.to_parquet(tmp_path / "stays.parquet")
    columns = COLUMNS | {"gender": {"kind": "category", "type": "text"}}
    found = []
    for name in ("gender", "sex"):
        more = {"columns": columns, "count": "entities"}
        built(tmp_path, [("born", name)], **more).close()
        found.append(counts(tmp_path / "r.duckdb", "born", name))
    named = {"x": "F", "y": "M"}
    assert {(born, named[one]): n for (born, one), n in found[0].items()} == found[1]


def test_the_release_says_whom_it_counts(stays):
    _, folder = stays
    with built(folder, [("sex",)], out="n.duckdb", count="entities", name="patients") as release:
        assert release.sql("SELECT count(*) FROM patients WHERE sex = 'F'").rows[0][0] > 100
        said = " ".join(release.notes)
    assert "counts once, however many rows the source has of it." in said


# Which rows count, chosen once: groups add up.


@pytest.mark.ci
def test_heavy_patients_of_one_ward_do_not_lift_the_others(tmp_path):
    """Before, what one ward lost was shared out to the others: of 2,304 visits 1,628 came out, others were too high."""
    wards = ["heart", "skin", "eyes", "nerves"]
    light = pd.DataFrame({"patient": range(800), "ward": wards * 200, "sex": "F"})
    heavy = pd.DataFrame({"patient": [*range(9_000, 9_040)] * 16, "ward": "heart", "sex": "F"})
    pd.concat([light, heavy]).to_parquet(tmp_path / "stays.parquet")
    columns = {name: section for name, section in COLUMNS.items() if name != "born"}
    columns["ward"] = columns["ward"] | {"max_rows": 1}
    found = {}
    for how in ("bucket", "entity"):
        privacy = {"max_rows": 16, "max_rows_by": how}
        more = {"columns": columns, "privacy": privacy, "vintage": how}
        with built(tmp_path, [("ward",), ("sex",)], **more) as release:
            found[how] = dict(release.sql("SELECT ward, count(*) FROM data GROUP BY 1").rows)
            assert release.card("ward").scale == 16
            assert any("chosen once" in note for note in release.notes) == (how == "entity")
    assert min(found["bucket"][ward] for ward in wards[1:]) > 300
    assert max(abs(found["entity"][ward] - 200) for ward in wards[1:]) < 40
    assert abs(found["entity"]["heart"] - 240) < 40  # as many of them as count


@pytest.mark.ci
def test_a_vintage_keeps_what_the_choice_of_rows_hangs_on(stays, tmp_path):
    stays[0].to_parquet(tmp_path / "stays.parquet")
    privacy = PRIVACY | {"max_rows_by": "entity"}
    built(tmp_path, [("sex",)], privacy=privacy).close()
    for columns, changed in (
        (COLUMNS | {"ward": COLUMNS["ward"] | {"max_rows": 4}}, privacy),
        ({name: s for name, s in COLUMNS.items() if name != "ward"}, privacy),
        (COLUMNS, PRIVACY),
    ):
        with pytest.raises(PrivacyError, match="pinned to another state"):
            built(tmp_path, [("sex",)], columns=columns, privacy=changed)


@pytest.mark.ci
def test_what_is_compared_with_rows_counts_rows(stays):
    _, folder = stays
    built(folder, [("sex",)], out="c.duckdb", count="entities").close()
    with pytest.raises(SpecError, match=r"release\.count: "):
        engine.compare(folder / "release.toml", epsilon=[1.0])
    with pytest.raises(SpecError, match=r"release\.count: "):
        engine.evaluate(
            folder / "c.duckdb",
            data=folder / "stays.parquet",
            spec=folder / "release.toml",
            out=folder / "e.html",
        )


@pytest.mark.ci
@pytest.mark.parametrize("each", [None, pytest.param("ward", marks=pytest.mark.slow)])
def test_a_release_of_entities_is_not_taken_against_rows(stays, tmp_path, each):
    """Before, without a spec, 600 patients were held against 6,000 stays."""
    frame, folder = stays
    tables = [("sex", each) if each else ("born", "sex")]
    more = {"each": each, "vintage": "against"} if each else {}
    built(folder, tables, out="e.duckdb", count="entities", **more).close()
    by = ["patient", *([each] if each else [])]
    once = frame.drop_duplicates(by)
    found = engine.evaluate(folder / "e.duckdb", data=once)
    assert found.results[0].figures()
    said = "counts each patient once" + (" in each ward" if each else "")
    with pytest.raises(
        DataError, match=f"{said}, but .* has several rows of some: give as data one"
    ):
        engine.evaluate(folder / "e.duckdb", data=frame)
    with pytest.raises(
        DataError, match=f"{said}, and .* has no column patient: .*, and the column"
    ):
        engine.evaluate(folder / "e.duckdb", data=once.drop(columns="patient"))


@pytest.mark.slow
def test_intervals_follow_how_wards_give_way(stays, tmp_path):
    """Where noise is larger than counts these give way by size; intervals took all alike, too wide for most."""
    frame, folder = stays
    with built(folder, [("ward",)], out="i.duckdb", vintage="i") as release:
        shown = tabulate(release, ["ward"]).df().set_index("ward")
    half = (shown["high"] - shown["low"]) / 2
    value = shown["value"]
    assert half[value.idxmax()] > 1.1 * half[value.idxmin()]
    found = events(tmp_path, frame.assign(diagnosis="A", days=1), 4, Keys("wards"))
    holds = {key: coverage(parts) for key, parts in found.items()}
    assert min(holds["stays", ("ward",)], holds["patients", ("sex",)]) >= 0.75
    assert holds["patients in each ward", ("ward",)] >= 0.75
