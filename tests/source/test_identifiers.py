"""Codes that several rows share are found by their pattern, and by telling names in ten languages and more."""

from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd
import pytest
from fixtures.detect import EXACTLY_TEN

from engine.source.detection.determined import Table
from engine.source.detection.identifiers import Judged, suspects
from engine.source.detection.names import reads_like_an_identifier

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


def found_in(frame: pd.DataFrame) -> set[str]:
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
        assert found_in(frame.rename(columns={"id": name})) == {name}


def test_codes_of_very_different_frequency_are_a_classification():
    rng = np.random.default_rng(6)
    codes = np.minimum(rng.zipf(1.3, 30_000), 4_000)
    frame = pd.DataFrame(
        {"icd": [f"I{x:04d}" for x in codes], "sex": rng.choice(["f", "m"], 30_000)}
    )
    assert found_in(frame.assign(age=rng.integers(0, 90, 30_000))) == set()


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
