"""What is detected of columns: kinds, spellings of null, codes, layouts, tables of frequencies; nothing is guessed."""

from __future__ import annotations

import contextlib
import csv
import datetime as dt
import io
import itertools
import random
import sqlite3
import tomllib
from collections import Counter

import duckdb
import numpy as np
import pandas as pd
import pytest
from fixtures.detect import EXACTLY_TEN, accepted, found, many, one
from fixtures.measure import KEY
from fixtures.source import connection

from engine.errors import DataError, SpecError
from engine.keys import MasterKey
from engine.schema import Resolution, SourceSpec
from engine.source import cell_sql, csv_shape, open_source
from engine.source.detection import detect_source, spec_text
from engine.source.detection.detect import detect
from engine.source.forms.text import found_form
from engine.spec import read_spec


@pytest.mark.ci
@pytest.mark.parametrize(
    ("cells", "kind", "value_type"),
    [
        (many("1", "2"), "category", "integer"),
        (many("1.0", "2.0"), "category", "integer"),
        (many("0.5", "1.5"), "category", "real"),
        ([str(n) for n in range(50)], "integer", "integer"),
        ([f"{n}.0" for n in range(50)], "integer", "integer"),
        ([str(2**63 + n) for n in range(50)], "category", "text"),
        ([f"{n % 30}.25" for n in range(600)], "decimal", "decimal"),
        ([f"{n % 30}.5" for n in range(600)] + ["1.125"] * 9, "decimal", "decimal"),
        ([f"{n % 30}.5" for n in range(600)] + ["1.125"] * 10, "real", "real"),
        ([str(n) for n in range(50)] + ["a"] * 9, "integer", "integer"),
        ([str(n) for n in range(50)] + ["a"] * 10, "category", "text"),
        ([str(n) for n in range(50)] + ["0.5"] * 9, "integer", "integer"),
        ([str(n) for n in range(50)] + ["007"] * 9, "integer", "integer"),
        ([str(n) for n in range(50)] + ["007"] * 10, "category", "text"),
        ([str(n) for n in range(50)] + [str(2**63)] * 9, "integer", "integer"),
        (many("1", "2") + [str(n) for n in range(9)], "category", "integer"),
        (many("1", "2") + [str(n) for n in range(3, 13)], "integer", "integer"),
        ([str(n) for n in range(9)], "category", "text"),
        ([f"name {n}" for n in range(99)], "category", "text"),
        ([f"name {n}" for n in range(100)], "text", "text"),
        (many("true", "FALSE"), "boolean", "boolean"),
        (many("t", "f"), "boolean", "boolean"),
        (many("Y", "N"), "category", "text"),
        (many("01", "02", "10"), "category", "text"),
        ([f"{n:05d}" for n in range(200)], "text", "text"),
        (many("2020-01-01", "1890-12-31"), "date", "date"),
        (many("2020-01-01 00:00:00", "1890-12-31"), "date", "date"),
        (many("2020-01-01 10:00:00", "2020-01-02T11:30:00Z"), "timestamp", "timestamp"),
        (many("a", "b"), "category", "text"),
        ([f"name {n}" for n in range(200)], "text", "text"),
        (["", ""], "category", "text"),
        (["N", "N"], "category", "text"),
        (["1", "a"], "category", "text"),
        (["1_000", "0x10"], "category", "text"),
    ],
)
def test_kinds_of_text_columns(cells, kind, value_type):
    column, _ = one(cells)
    assert (column.kind, column.value_type) == (kind, value_type)
    assert "kind" in column.detected
    assert not column.public
    assert column.domain is None
    assert column.bounds is None


@pytest.mark.parametrize(
    ("cells", "kind", "value_type"),
    [
        (np.arange(50), "integer", "integer"),
        (np.arange(50) % 3, "category", "integer"),
        (np.arange(50.0), "integer", "integer"),
        (np.arange(50) / 4, "real", "real"),
        (np.arange(50) % 2 == 0, "boolean", "boolean"),
        (pd.Categorical(["x", "y"] * 25), "category", "text"),
        (
            pd.Categorical(
                [f"x{n}" for n in range(50)] * 3, categories=[f"x{n}" for n in range(200)]
            ),
            "category",
            "text",
        ),
        (pd.date_range("2020-01-01", periods=50), "date", "date"),
        (pd.date_range("2020-01-01", periods=50, freq="h"), "timestamp", "timestamp"),
        (pd.Series([dt.date(2020, 1, 1)] * 50, dtype=object), "date", "date"),
        ([None] * 50, "category", "text"),
    ],
)
def test_kinds_of_typed_columns(cells, kind, value_type):
    column = found(pd.DataFrame({"v": cells})).columns[0]
    assert (column.kind, column.value_type) == (kind, value_type)


@pytest.mark.ci
def test_null_spellings():
    numbers = [str(n) for n in range(40)]
    assert one(numbers + ["N"] * 10)[0].nulls == ("N", "")
    assert one(numbers + ["."] * 10 + ["NA"] * 11 + [""])[0].nulls == (".", "NA", "")
    assert one(["2020-01-01"] * 10 + ["null"] * 10)[0].nulls == ("null", "")
    assert one(many("a", "b") + ["NA"] * 10)[0].nulls == ("NA", "")
    assert one(many("Y", "N"))[0].nulls == ("",)
    assert one(many("true", "false") + ["-"] * 10)[0].nulls == ("-", "")


HEADLESS = [
    "1,Smith\n2,Jones\n3,Brown\n",
    "Smith,2020-01-02\nJones,2021-01-02\n",
    "Smith,1/2/2020\nJones,2/2/2020\n",
    "Smith,-1.5e3\nJones,3\n",
    "Smith,F\n" + "Jones,M\nBrown,F\n" * 30,
]


@pytest.mark.ci
@pytest.mark.parametrize("text", HEADLESS)
def test_a_first_line_of_data_is_in_doubt(tmp_path, text):
    (tmp_path / "d.csv").write_text(text)
    detection = detect_source(tmp_path / "d.csv", key=KEY)
    assert detection.remarks[0].startswith("in doubt: the first line looks like data, not names: ")
    for name in text.splitlines()[0].split(","):
        assert name not in detection.remarks[0].replace("1 or", "").split()
    assert "Smith" not in detection.remarks[0]
    with pytest.raises(SpecError, match="no column pid; the first line looks like data") as caught:
        detect_source(tmp_path / "d.csv", entities=("pid",), key=KEY)
    assert "Smith" not in str(caught.value)


def test_a_rare_spelling_of_null_is_neither_written_nor_told():
    """Whether anybody has one depends on one person; the build stops there and says so."""
    column, detection = one([str(n) for n in range(40)] + ["N"] * 9)
    assert column.kind == "integer"
    assert column.nulls == ("",)
    assert "v" not in detection.column_remarks


def test_resolution_is_what_ten_entities_show():
    cells = [f"{n % 40}.5" for n in range(1_200)] + ["0.25"] * 10 + ["0.125"] * 9
    assert one(cells)[0].resolution == Resolution(exponent=-2)
    fewer = [*cells[:1_209], *cells[1_210:]]
    assert one(fewer)[0].resolution == Resolution(exponent=-2), "three digits show two as well"
    assert one(cells[:1_209])[0].resolution == Resolution(exponent=-1)


def test_a_resolution_is_coarse_enough_that_values_are_shared():
    """Amounts in cents: at the step in which they are written nearly every value would be suppressed."""
    rng = np.random.default_rng(3)
    amounts = [f"{value:.2f}" for value in np.exp(rng.normal(7, 1, 3_000))]
    column, detection = one(amounts)
    step = column.resolution
    assert step is not None
    assert step.exponent >= 1
    finer, own = (
        sum(n for n in Counter(np.rint(np.array(amounts, float) / float(s))).values() if n > 10)
        for s in (step.step / 100, step.step)
    )
    assert finer < 1_500 < own
    assert "as written: resolution = 1e-2" in spec_text(detection)
    people = found(pd.DataFrame({"v": amounts, "who": [0] * 3_000}), ["who"]).columns[0]
    assert people.resolution is None, "one person shares with nobody"
    # Tenths are no binary numbers: neighbours must not be taken for one value, shared by twice as many.
    nine, twenty = ([f"{n / 10:.1f}" for n in range(1_000)] * times for times in (9, 20))
    assert one(nine)[0].resolution == Resolution()
    assert one(twenty)[0].resolution == Resolution(exponent=-1)


def test_whole_numbers_and_dates_are_made_coarser_until_they_are_shared():
    rng = np.random.default_rng(8)
    n = 4_000
    day = pd.Timestamp("1950-01-01") + pd.to_timedelta(rng.integers(0, 20_000, n), unit="D")
    frame = pd.DataFrame(
        {
            "cents": np.exp(rng.normal(11, 1, n)).astype(int),
            "age": rng.integers(0, 90, n),
            "born": day.strftime("%d.%m.%Y"),
            "seen": day + pd.to_timedelta(rng.integers(0, 86_400, n), unit="s"),
            "stay": rng.permutation(n) + 70_000,
        }
    )
    detection = found(frame)
    assert {"stay"} == {*detection.suspects, *detection.entity_candidates}
    steps = {c.name: str(c.resolution) for c in detection.columns if c.name != "stay"}
    assert steps == {"cents": "1000", "age": "None", "born": "quarter", "seen": "quarter"}
    lines = spec_text(detection)
    assert 'resolution = "quarter"' in lines
    assert "as written: without resolution" in lines
    # A few people share nothing at a step that leaves several values, and names of entities are as they are.
    assert all(c.resolution is None for c in found(frame[:50]).columns)
    named = found(frame, ["stay"]).columns
    assert next(c for c in named if c.name == "stay").resolution is None


def test_values_are_those_of_ten_entities():
    frame = pd.DataFrame(
        {"v": ["a"] * 10 + ["RARE"] * 9 + ["c"] * 30, "who": list(range(19)) + list(range(30))}
    )
    assert found(frame).values["v"] == ("a", "c")
    frame["who"] = list(range(19)) + [1] * 30
    detection = found(frame, ["who"])
    assert detection.values["v"] == ("a",)
    text = spec_text(detection)
    assert "RARE" not in text
    assert '"c"' not in text


@pytest.mark.ci
def test_entity_candidates():
    n = 300
    frame = pd.DataFrame(
        {
            "person_id": range(n),
            "householdId": [f"h{i // 2}" for i in range(n)],
            "ID": [f"{i:05d}" for i in range(n)],
            "valid": [f"x{i}" for i in range(n)],
            "region_id": [i % 5 for i in range(n)],
            "age": [i % 90 for i in range(n)],
        }
    )
    detection = found(frame)
    assert detection.entity_candidates == ("person_id", "householdId", "ID")
    kinds = {c.name: c.kind for c in detection.columns}
    assert kinds["person_id"] == "integer"
    assert kinds["householdId"] == kinds["ID"] == "text"
    text = spec_text(detection)
    assert 'entities = ["person_id", "householdId", "ID"]' in text
    given = found(frame, ["person_id"])
    assert given.source.entities == ("person_id",)
    raw = tomllib.loads(spec_text(given))
    assert set(raw["columns"]) == {"person_id", "valid", "region_id", "age"}
    assert "# Left out: householdId looks like an identifier." in spec_text(given)


@pytest.mark.parametrize("entities", [["person_id"], []])
def test_a_null_among_the_entities_is_told(entities):
    """A build refuses it; better to hear so before the spec is reviewed."""
    frame = pd.DataFrame({
        "person_id": [None, *(f"p{i}" for i in range(59))],
        "v": ["a", "b", "c"] * 20,
    })  # fmt: skip
    told = [r for r in found(frame, entities).remarks if "holds a null, which names nobody" in r]
    assert [r.startswith("column 'person_id': ") for r in told] == [True]
    whole = found(frame.iloc[1:], entities)
    assert not any("names nobody" in r for r in whole.remarks)


N = 3_000
RNG = np.random.default_rng(5)
LETTERS = list("abcdefghiklmnoprstu")


def drawn(values):
    return RNG.choice(values, size=N)


def words(n, least=3, most=9):
    return ["".join(RNG.choice(LETTERS, RNG.integers(least, most))).title() for _ in range(n)]


ICD = [f"{c}{i:02}{dot}" for c in "EIJKM" for i in range(0, 90, 7) for dot in ("", ".1", ".9")]
NACE = [f"{i:02}.{j}{k}" for i in range(1, 90, 5) for j in range(1, 4) for k in (1, 2)]
ISCO = [f"{i}" for i in range(1111, 9600, 83)]
NUTS = [f"{c}{i}{j}" for c in ("DE", "FR", "AT") for i in range(1, 6) for j in "0123AB"]
ZIPS = [f"{i:05}" for i in range(1000, 99000, 1313)]


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("diagnosis", ICD, "ICD-10"), ("main", [v.replace(".", "") for v in ICD], "ICD-10"), ("nace", NACE, "NACE"),
        ("occupation", ISCO, "ISCO"), ("nuts3", NUTS, "NUTS"), ("zip_code", ZIPS, "postal"),
        ("income", ISCO, ""), ("first_name", words(120), ""), ("town", words(80), ""),
        ("comment", [" ".join(words(4)) for _ in range(150)], ""), ("amount", ZIPS, ""),
        ("grade", ["A1", "B2", "C3"], ""),
        ("airport", ["LHR", "CDG", "JFK", "FRA", "AMS", "MAD", "FCO", "VIE", "ZRH", "OSL"] * 4, ""),
    ],
)  # fmt: skip
def test_codes_are_recognised_and_nothing_else(tmp_path, name, values, expected):
    pd.DataFrame({name: drawn(values), "sex": drawn(["f", "m"])}).to_csv(
        tmp_path / "d.csv", index=False
    )
    for number in range(3):
        text = spec_text(detect_source(tmp_path / "d.csv", key=MasterKey(bytes([number]) * 32)))
        assert (f"looks like {expected} codes" in text) if expected else "looks like " not in text


SIDES = ("N", "S", "E", "W"), ("f", "m"), ("0-4", "5-9", "10-14", "15+")


def frequencies(name="n"):
    r = random.Random(1)
    lines = [[*line, r.randint(0, 60)] for line in itertools.product(*SIDES) if r.random() < 0.9]
    return pd.DataFrame(lines, columns=["region", "sex", "age", name])


@pytest.mark.parametrize("name", ["n", "Count", "freq", "Anzahl", "Häufigkeit", "n_obs"])
def test_a_table_of_frequencies_is_refused(name):
    with pytest.raises(DataError, match="table of frequencies"):
        found(frequencies(name))


@pytest.mark.ci
def test_microdata_with_a_column_of_such_a_name_are_not():
    r = random.Random(2)
    people = pd.DataFrame(
        {
            "n": [r.randint(0, 9) for _ in range(500)],
            "sex": r.choices("fm", k=500),
            "age": r.choices(range(80), k=500),
        }
    )
    assert found(people)
    assert found(frequencies("rent"))
    assert found(
        pd.DataFrame({"person_id": range(300), "n": [3, 4, 5] * 100, "sex": ["f", "m"] * 150})
    )


@pytest.mark.ci
def test_each_unit_is_a_row_where_that_is_asked_for(tmp_path):
    table = frequencies()
    path = tmp_path / "f.csv"
    table.to_csv(path, index=False)
    with pytest.raises(DataError, match="--count-column"):
        detect_source(path)
    detection = detect_source(path, count_column="n")
    spec = accepted(tmp_path, detection)
    assert spec.source.count_column == "n"
    con = connection()
    assert open_source(con, spec.source).columns == ("region", "sex", "age")
    rows = con.execute("SELECT region, count(*) FROM source GROUP BY ALL ORDER BY ALL").fetchall()
    assert rows == list(table.groupby("region").n.sum().items())
    assert "n" in {c.name for c in detect_source(path, count_column="").columns}


def test_counts_that_are_none_are_refused(tmp_path):
    for wrong in ("-1", "2.5", "", "SECRET", "1e12"):
        path = tmp_path / "f.csv"
        path.write_text(f"sex,n\nf,3\nm,{wrong}\n")
        source = SourceSpec(path=str(path), format="csv", count_column="n")
        with pytest.raises(DataError, match="column 'n'") as refused:
            open_source(connection(), source)
        assert "SECRET" not in str(refused.value)
    with pytest.raises(SpecError, match="no column 'm'"):
        open_source(connection(), SourceSpec(path=str(path), format="csv", count_column="m"))


DELIMITERS = (",", ";", "\t", "|")
COLUMNS = {
    "amount": lambda r, mark: f"{r.randint(1, 9999)}{mark}{r.randint(10, 99)}",
    "grouped": lambda r, mark: (
        f"{r.randint(1, 9)}{'.' if mark == ',' else ' '}{r.randint(100, 999)}{mark}{r.randint(10, 99)}"
    ),
    "sex": lambda r, _: r.choice("mf"),
    "answer": lambda r, _: r.choice(["yes, often", "no, never"]),
    "born": lambda r, _: f"{r.randint(1, 28):02}.{r.randint(1, 12):02}.{r.randint(1940, 2020)}",
    "age": lambda r, _: str(r.randint(0, 99)),
}
SETS = (
    ("amount",),
    ("amount", "sex"),
    ("sex", "amount"),
    ("grouped", "amount"),
    ("answer", "sex"),
    ("sex", "age", "amount"),
    ("born", "grouped", "answer"),
)


def written(names, delimiter, mark, *, quoted, title="", n=60):
    """A text of some rows; the csv module quotes what must be quoted."""
    r = random.Random(f"{names}{delimiter}{mark}")
    out = io.StringIO()
    how = csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL
    writer = csv.writer(out, delimiter=delimiter, quoting=how, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([COLUMNS[name](r, mark) for name in names] for _ in range(n))
    return title + out.getvalue()


@pytest.mark.parametrize("names", SETS, ids=lambda names: "-".join(names))
@pytest.mark.parametrize("mark", [".", ","])
def test_names_are_those_of_the_header(tmp_path, names, mark):
    wrong = []
    cases = itertools.product(
        DELIMITERS, [False, True], ["", "Table 1\n\n", "\n\n"], ["utf-8", "cp1252", "utf-16"]
    )
    for delimiter, quoted, title, encoding in cases:
        path = tmp_path / "data.csv"
        text = written(names, delimiter, mark, quoted=quoted, title=title)
        path.write_bytes(text.encode(encoding))
        source, remarks = found_form(SourceSpec(path=str(path), format="csv"))
        plain = tmp_path / "plain.csv"
        plain.write_text("".join(text.splitlines(keepends=True)[source.skip :]), "utf-8")
        found = csv_shape(plain, delimiter=source.delimiter).names
        # A title over a single column cannot be told from a header; then nothing is skipped and no value is a name.
        alone = ("Table 1",) if title.strip() and len(names) == 1 else names
        if (
            found != alone
            or (source.skip and not remarks)
            or (title == "\n\n" and source.skip != 2)
        ):
            wrong.append((delimiter, quoted, bool(title), encoding, found))
    assert wrong == []


def test_a_header_row_that_looks_like_data_is_not_found_below_other_lines(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("income;rent\n" + "1742,25;8684,19\n2311,50;7120,00\n" * 20)
    source, _ = found_form(SourceSpec(path=str(path), format="csv"))
    assert (source.delimiter, source.skip) == (";", 0)


CODES = {
    "continent": ["NA", "EU", "AS", "AF", "SA"],
    "country": ["NA", "DE", "FR", "NO", "NL"],
    "state": ["NA", "TX", "CA", "NY", "OH"],
    "answer": ["NA", "often", "never"],
    "first": ["nan", "ann", "null", "bob", ""],
    "amount": ["NA", "12", "17", "25"],
    "word": ["-", "missing", "left", "right"],
}


@pytest.fixture(scope="module")
def frame():
    r = random.Random(1)
    return pd.DataFrame({name: [r.choice(of) for _ in range(600)] for name, of in CODES.items()})


def nulls_of(detection) -> dict[str, tuple[str, ...]]:
    return {column.name: column.nulls for column in detection.columns}


def test_text_files(frame, tmp_path):
    path = tmp_path / "codes.csv"
    frame.to_csv(path, index=False)
    detection = detect(SourceSpec(path=str(path), format="csv"), thresholds=EXACTLY_TEN)
    assert nulls_of(detection) == {
        "continent": ("",),
        "country": ("",),
        "state": ("NA", ""),
        "answer": ("NA", ""),
        "first": ("nan", "null", ""),
        "amount": ("NA", ""),
        "word": ("",),
    }
    marked = {c.name for c in detection.columns if "nulls" in c.detected}
    assert marked == {"state", "answer", "first", "amount"}
    # In rounded terms, and which spellings.
    (told,) = (text for text in detection.column_remarks["answer"] if "NA" in text)
    assert "about 200 rows" in told
    for name in ("continent", "country", "word"):
        assert any("null" in text for text in detection.column_remarks[name])


TEXTS = {"text": ["", "NA", "nan", "null", "None", "a"], "number": ["1", "2", "NA"]}
KNOW_NULL = {
    "csv": False,
    "xlsx": False,
    "parquet": True,
    "duckdb": True,
    "sqlite": True,
    "sav": True,
}


@pytest.mark.parametrize("form", KNOW_NULL)
def test_a_spec_that_says_no_spelling_has_that_of_its_source(tmp_path, form):
    """A hand-written one: the empty text is null in text files, and in others a value of texts, but of nothing else."""
    kinds = {"text": "category", "more": "text", "number": "integer", "day": "date", "id": "text"}
    sections = "".join(f'[columns.{name}]\nkind = "{kind}"\n' for name, kind in kinds.items())
    head = '[release]\nvintage = "1"\nkey = "k.key"\n[source]\nentities = ["id"]\n'
    path = tmp_path / "r.toml"
    path.write_text(f'{head}path = "x.{form}"\n{sections}[[tables]]\ncolumns = ["text"]\n')
    columns = read_spec(path, check_key=False).columns
    of_texts = () if KNOW_NULL[form] else ("",)
    assert {c.name: c.nulls for c in columns} == {
        "text": of_texts,
        "more": of_texts,
        "number": ("",),
        "day": ("",),
        "id": ("",),
    }
    path.write_text(path.read_text().replace("entities", 'nulls = ["-"]\nentities'))
    assert {c.nulls for c in read_spec(path, check_key=False).columns} == {("-",)}


@pytest.mark.parametrize("form", ["csv", "parquet", "duckdb", "sqlite", "frame"])
def test_which_texts_are_null(tmp_path, form):
    held = pd.DataFrame({"text": TEXTS["text"] * 60, "number": TEXTS["number"] * 120})
    held.loc[::10, "text"] = None
    source, found = written_of_nulls(held, tmp_path, form)
    detection = detect(source, found, thresholds=EXACTLY_TEN)
    of = {c.name: cell_sql(c, "VARCHAR") for c in detection.columns}
    con = connection()
    open_source(con, source, found)
    null = {
        name: {
            cell
            for (cell,) in con.execute(
                f"SELECT {name} FROM source WHERE ({sql}) IS NULL"
            ).fetchall()
        }
        for name, sql in of.items()
    }
    taken = {"", "NA", "nan", "null"} if form == "csv" else {None}
    assert null == {"text": taken, "number": {"NA"}}
    told = " ".join(detection.column_remarks.get("text", ()))
    assert ("about 100 rows" in told) == (form == "csv")
    if form != "frame":  # no file can name one
        assert [c.nulls for c in accepted(tmp_path, detection).columns] == [
            c.nulls for c in sorted(detection.columns, key=lambda c: c.name)
        ]


def written_of_nulls(held, folder, form):
    """A frame in a file, or as it is."""
    path = folder / f"x.{form}"
    if form == "frame":
        return SourceSpec(path=None, format="frame"), held
    if form == "csv":
        held.to_csv(path, index=False)
    elif form == "parquet":
        held.to_parquet(path)
    elif form == "duckdb":
        with duckdb.connect(str(path)) as con:
            con.execute("CREATE TABLE t AS SELECT * FROM held")
    else:
        with contextlib.closing(sqlite3.connect(path)) as con:
            held.to_sql("t", con, index=False)
            con.commit()
    return SourceSpec(path=str(path), format=form), None
