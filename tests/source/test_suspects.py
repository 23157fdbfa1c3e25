"""Columns that look like identifiers: found whatever their names; harmless ones are left alone; none is published."""

from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd
import pytest
from fixtures.detect import EXACTLY_TEN
from fixtures.identifiers import harmless, identifiers
from fixtures.pipeline import make_frame

import engine
from engine.errors import PrivacyError, SpecError
from engine.schema import Column
from engine.source.detection.determined import Table
from engine.source.detection.identifiers import Judged, suspects
from engine.source.detection.names import reads_like_an_identifier


def found_in(frame: pd.DataFrame, *, entities: tuple[str, ...] = ()) -> dict[str, str]:
    con = duckdb.connect()
    con.register("given", frame)
    con.execute("CREATE TABLE t AS SELECT * FROM given")
    columns = {name: f'"{name}"' for name in frame if name not in entities}
    judged = {}
    for name in columns:
        is_number = pd.api.types.is_numeric_dtype(frame[name])
        if is_number or pd.api.types.is_string_dtype(frame[name]):
            values = sorted(set(frame[name].dropna()))
            judged[name] = Judged(
                is_number=is_number,
                is_whole=pd.api.types.is_integer_dtype(frame[name]),
                sample=lambda most, v=values: v[:most],
            )
    table = Table(con=con, name="t", columns=columns, entities=tuple(f'"{e}"' for e in entities))
    return suspects(table, judged, EXACTLY_TEN)


@pytest.mark.ci
@pytest.mark.parametrize(
    ("n_people", "rows_each"), [(400, 9), pytest.param(2_500, 1, marks=pytest.mark.slow)]
)
def test_sixty_identifiers_are_found_whatever_their_names(n_people, rows_each):
    frame, names = identifiers(n_people, rows_each, seed=1)
    assert set(names) - set(found_in(frame)) == set()


@pytest.mark.parametrize("n", [300, 2_000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_of_sixty_harmless_columns_three_are_suspected_at_most(n):
    frame = harmless(n, seed=3)
    assert len(frame.columns) == 60
    found = found_in(frame)
    assert len(found) <= 3, found


def repeated(n_people: int, rows_each: int, seed: int = 8) -> pd.DataFrame:
    """Rows of people who have a sex, and nothing else that stays."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(n_people), rows_each)
    n = len(who)
    return pd.DataFrame(
        {
            "who": who,
            "sex": rng.choice(["f", "m"], n_people)[who],
            "ward": rng.integers(0, 9, n),
            "days": rng.integers(1, 25, n),
        }
    )


@pytest.mark.parametrize(
    ("name", "values", "n_people", "rows_each"),
    [
        ("patient_id", lambda who: 107_000 + 17 * who, 50, 200),
        ("patient_id", lambda who: [f"P{x:05d}" for x in who], 25, 100),
        ("surname", lambda who: [f"Muller{x}" for x in who], 25, 100),
        ("contact", lambda who: [f"a{x}@b.de" for x in who], 300, 20),
        ("x1", lambda who: [f"P{x:05d}" for x in who], 400, 8),
        ("x1", lambda who: 100_000 + 1_731 * who, 400, 8),
        ("x1", lambda who: 5_000_000.0 + who, 400, 12),
    ],
)  # fmt: skip
def test_identifiers_of_people_with_many_rows(name, values, n_people, rows_each):
    frame = repeated(n_people, rows_each)
    frame[name] = values(frame.pop("who"))
    assert set(found_in(frame)) == {name}


def build(tmp_path, frame, **more):
    engine.new_key(tmp_path / "a.key")
    return engine.build(
        frame,
        key=tmp_path / "a.key",
        out=tmp_path / "r.duckdb",
        **{"tables": 1, "entities": []} | more,
    )


@pytest.mark.slow
def test_nothing_of_sixty_identifiers_is_published(tmp_path):
    frame, names = identifiers(400, 9, seed=5)
    release = build(tmp_path, frame)
    assert set(release.columns) == set(frame) - set(names)


def spec_of(tmp_path, section: str, tables: str = "all = 1") -> str:
    frame, _ = identifiers(300, 7, seed=6)
    frame[["sex", "v02", "days"]].to_csv(tmp_path / "stays.csv", index=False)
    engine.new_key(tmp_path / "a.key")
    path = tmp_path / "r.toml"
    path.write_text(
        f"""
        [release]
        vintage = "1"
        key = "a.key"
        [source]
        path = "stays.csv"
        [columns.sex]
        kind = "category"
        [columns.days]
        kind = "integer"
        [columns.v02]
        {section}
        [[tables]]
        {tables}
        """
    )
    return path


@pytest.mark.ci
def test_a_declared_column_that_looks_like_an_identifier_is_refused(tmp_path):
    path = spec_of(tmp_path, 'kind = "integer"')
    frame, _ = identifiers(300, 7, seed=6)
    frame["v02"] = np.arange(len(frame))
    frame[["sex", "v02", "days"]].to_csv(tmp_path / "stays.csv", index=False)
    for act in (engine.plan, lambda p: engine.build(p, out=tmp_path / "r.duckdb")):
        with pytest.raises(
            PrivacyError, match=r"columns\.v02: nearly all numbers differ(.|\n)*drop = true"
        ):
            act(path)
    assert not (tmp_path / "r.duckdb").exists()


def test_a_table_that_names_a_dropped_column_is_a_mistake(tmp_path):
    path = spec_of(tmp_path, "drop = true", 'columns = ["sex", "v02"]')
    with pytest.raises(SpecError, match=r"v02 is left out of the release \(columns.v02.drop\)"):
        engine.plan(path)


@pytest.mark.ci
def test_a_public_list_is_no_suspect(tmp_path):
    frame = make_frame(900)
    frame["place"] = [f"P{x % 300:06d}" for x in range(900)]
    listed = tuple(sorted(set(frame["place"])))
    place = Column(name="place", kind="category", value_type="text", domain=listed, public=True)
    release = build(tmp_path, frame, columns=[place], tables=[["place"]])
    assert "place" in release.columns


PATTERNS = {
    "P004711": lambda x: f"P{x:06d}",
    "AB-1234": lambda x: (
        f"{chr(65 + x // 260 % 26)}{chr(65 + x // 10 % 26)}-{1000 + x * 7 % 9000:04d}"
    ),
    "k12345": lambda x: f"k{10000 + x}",
    "2021/A/00017": lambda x: f"2021/A/{x:05d}",
    "Пац-01234": lambda x: f"Пац-{x:05d}",
}
NAMES = ("zz", "患者番号")


def rows_of(form, n_ids: int, rows_each: int) -> pd.DataFrame:
    """Rows whose sex and age differ between the rows of one id."""
    rng = np.random.default_rng(5)
    ids = np.repeat(np.arange(n_ids), rows_each)
    n = len(ids)
    frame = pd.DataFrame({"id": [form(int(x)) for x in ids]})
    return frame.assign(sex=rng.choice(["f", "m"], n), age=rng.integers(0, 90, n))


def found_in_of_codes(frame: pd.DataFrame) -> set[str]:
    with duckdb.connect() as con:
        con.register("given", frame)
        con.execute("CREATE TABLE t AS SELECT * FROM given")
        values = {name: sorted(set(frame[name])) for name in frame}
        judged = {
            name: Judged(
                is_number=name == "age", is_whole=True, sample=lambda most, n=name: values[n][:most]
            )
            for name in frame
        }
        table = Table(con=con, name="t", columns={c: f'"{c}"' for c in frame}, entities=())
        return set(suspects(table, judged, EXACTLY_TEN))


@pytest.mark.parametrize("form", PATTERNS.values(), ids=list(PATTERNS))
def test_codes_of_one_pattern_are_suspect_under_any_name(form):
    frame = rows_of(form, 1_500, 5)
    for name in NAMES:
        assert found_in_of_codes(frame.rename(columns={"id": name})) == {name}


def test_codes_of_very_different_frequency_are_a_classification():
    rng = np.random.default_rng(6)
    codes = np.minimum(rng.zipf(1.3, 30_000), 4_000)
    frame = pd.DataFrame(
        {"icd": [f"I{x:04d}" for x in codes], "sex": rng.choice(["f", "m"], 30_000)}
    )
    assert found_in_of_codes(frame.assign(age=rng.integers(0, 90, 30_000))) == set()


@pytest.mark.parametrize(
    "name",
    [
        *(
            "kundnr",
            "numéro client",
            "numéro_dossier",
            "N° patient",
            "numero paziente",
            "número de cliente",
        ),
        *(
            "número do utente",
            "klantnummer",
            "pasientnr",
            "asiakasnumero",
            "numer pacjenta",
            "hasta_no",
        ),
        *(
            "患者番号",
            "顧客番号",
            "患者编号",
            "身份证号",
            "환자번호",
            "주민등록번호",
            "номер пациента",
            "СНИЛС",
        ),
        *(
            "Αριθμός ασθενούς",
            "ΑΜΚΑ",
            "رقم المريض",
            "מספר לקוח",
            "रोगी संख्या",
            "KundenNr",
            "Medlemsnummer",
        ),
    ],
)
def test_telling_names(name):
    assert reads_like_an_identifier(name) == "strong"


@pytest.mark.parametrize(
    "name",
    [
        "年齢",
        "性別",
        "возраст",
        "номенклатура",
        "ηλικία",
        "العمر",
        "번지",
        "nombre_hijos",
        "no_of_rooms",
        "nota",
    ],
)
def test_harmless_names(name):
    assert reads_like_an_identifier(name) != "strong"
