"""Delimiter, decimal mark and header are found together: no value of a row becomes the name of a column."""

from __future__ import annotations

import csv
import io
import itertools
import random

import pytest

from engine.schema import SourceSpec
from engine.source import csv_shape
from engine.source.forms.text import found_form

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
