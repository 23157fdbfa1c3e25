"""Delimiter, decimal mark and header are found together: no value of a row becomes the name of a column."""

from __future__ import annotations

import csv
import io
import itertools
import random

import pytest
from fixtures.source import connection

from engine.errors import DataError
from engine.schema import SourceSpec
from engine.source import csv_shape, open_source
from engine.source.forms.finding import found_form

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


def test_years_may_be_names_below_a_title(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("Population\n\nregion,2019,2020\n" + "N,1,2\nS,3,4\n" * 10)
    source, _ = found_form(SourceSpec(path=str(path), format="csv"))
    assert (source.delimiter, source.skip) == (",", 2)


def test_comments_with_one_comma_each_stay_one_column(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("remark\n" + "".join(f"case {i}, word {i * 7}\n" for i in range(50)))
    source, _ = found_form(SourceSpec(path=str(path), format="csv"))
    assert csv_shape(path, delimiter=source.delimiter).names == ("remark",)
    assert source.skip == 0


@pytest.mark.parametrize("sign", [",", ";", "\t", "|"])
@pytest.mark.parametrize("header", ["a{0}b{0}", "a{0}b"])
def test_a_delimiter_at_the_end_of_each_line_makes_no_column(tmp_path, sign, header):
    path = tmp_path / "data.csv"
    path.write_text(header.format(sign) + "\n" + f"1{sign}x{sign}\n2{sign}{sign}\n" * 300)
    source, remarks = found_form(SourceSpec(path=str(path), format="csv"))
    con = connection()
    assert open_source(con, source).columns == ("a", "b")
    rows = con.execute("SELECT DISTINCT * FROM source ORDER BY a").fetchall()
    assert rows == [("1", "x"), ("2", "")]
    assert any("delimiter" in remark for remark in remarks)
    path.write_text(path.read_text() + f"1{sign}x{sign}SECRET\n")
    with pytest.raises(DataError, match="no name") as refused:
        open_source(connection(), source)
    assert "SECRET" not in str(refused.value)
