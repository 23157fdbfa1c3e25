"""Files as people have them, each nasty in one way that its name and its sentence tell.

Takes a folder; makes a file there.
"""

from __future__ import annotations

import csv
import gzip
import io
import random
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pandas as pd
import xlsxwriter

N = 300
CITIES = ("Köln", "Zürich", "Łódź", "Orléans")


@dataclass(frozen=True, kw_only=True)
class Nasty:
    """One file of the corpus."""

    make: Callable[[Path], Path]  # Makes it in a folder; gives its path, or a glob
    why: str  # What is nasty
    refused: str = ""  # What the message must say; empty: it is published
    in_spec: tuple[str, ...] = ()  # Lines that `init` must write
    init: tuple[str, ...] = ()  # What `init` is given beside the file


CORPUS: dict[str, Nasty] = {}


def nasty(why: str, **keys) -> Callable:
    """Add a file to the corpus under the name of its maker."""

    def add(make: Callable[[Path], Path]) -> Callable[[Path], Path]:
        CORPUS[make.__name__] = Nasty(make=make, why=why, **keys)
        return make

    return add


def rows(n: int = N) -> list[dict[str, object]]:
    """Plain rows: a word, an age, an amount, a day."""
    chance = random.Random(4)
    return [
        {
            "city": chance.choice(("Aachen", "Bonn", "Celle")),
            "age": chance.randint(20, 59),
            "cost": round(chance.randint(2, 400) * 12.5, 2),
            "day": f"2021-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}",
        }
        for _ in range(n)
    ]


def text(
    table: list[dict[str, object]], *, delimiter: str = ",", end: str = "\n", quote: int = 0
) -> str:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator=end, quoting=quote)
    writer.writerow(table[0])
    writer.writerows(row.values() for row in table)
    return out.getvalue()


def put(folder: Path, name: str, content: str, encoding: str = "utf-8") -> Path:
    (folder / name).write_bytes(content.encode(encoding))
    return folder / name


def changed(**how: Callable[[object], object]) -> list[dict[str, object]]:
    return [{k: how[k](v) if k in how else v for k, v in row.items()} for row in rows()]


def with_column(name: str, cells: Callable[[int], object]) -> list[dict[str, object]]:
    return [row | {name: cells(i)} for i, row in enumerate(rows())]


# Encodings and delimiters.


@nasty("latin-1 with umlauts", in_spec=('encoding = "cp1252"',))
def latin_1(folder):
    return put(folder, "a.csv", text(with_column("ort", lambda i: CITIES[i % 2])), "latin-1")


@nasty("Windows' signs: umlauts, dashes, euros", in_spec=('encoding = "cp1252"',))
def windows(folder):
    words = ("Köln – Süd", "„Mitte“", "über 5 €")
    return put(folder, "a.csv", text(with_column("größe", lambda i: words[i % 3])), "cp1252")


@nasty("Polish in the encoding of Windows", in_spec=('encoding = "cp1250"',))
def polish(folder):
    words = ("Łódź", "Świętokrzyska", "Żółkiewskiego", "Kraków")
    return put(folder, "a.csv", text(with_column("miasto", lambda i: words[i % 4])), "cp1250")


@nasty("utf-16, as Excel saves Unicode text", in_spec=('encoding = "utf-16"', 'delimiter = "\\t"'))
def utf_16(folder):
    table = with_column("ort", lambda i: CITIES[i % 4])
    return put(folder, "a.txt", text(table, delimiter="\t", end="\r\n"), "utf-16")


@nasty("a byte order mark")
def byte_order_mark(folder):
    return put(folder, "a.csv", text(rows()), "utf-8-sig")


@nasty("semicolons", in_spec=('delimiter = ";"',))
def semicolons(folder):
    return put(folder, "a.csv", text(rows(), delimiter=";"))


@nasty("tabs in a file called .txt", in_spec=('delimiter = "\\t"',))
def tabs(folder):
    return put(folder, "a.txt", text(rows(), delimiter="\t"))


@nasty("pipes", in_spec=('delimiter = "|"',))
def pipes(folder):
    return put(folder, "a.txt", text(rows(), delimiter="|"))


@nasty("gzip")
def zipped(folder):
    (folder / "a.csv.gz").write_bytes(gzip.compress(text(rows()).encode()))
    return folder / "a.csv.gz"


# Numbers and dates.


def comma(number: object) -> str:
    return f"{number:.2f}".replace(".", ",")


@nasty("decimal commas", in_spec=('decimal = ","', 'kind = "real"'))
def decimal_commas(folder):
    return put(folder, "a.csv", text(changed(cost=comma), delimiter=";"))


@nasty("points between thousands", in_spec=('thousands = "."', 'decimal = ","'))
def thousands_points(folder):
    def written(number):
        return f"{number:,.2f}".translate(str.maketrans(",.", ".,"))

    return put(folder, "a.csv", text(changed(cost=written), delimiter=";"))


@nasty("apostrophes between thousands", in_spec=('thousands = "\'"',))
def thousands_apostrophes(folder):
    written = changed(cost=lambda number: f"{number:,.2f}".replace(",", "'"))
    return put(folder, "a.csv", text(written))


@nasty("days as d.m.Y", in_spec=('date_format = "%d.%m.%Y"', 'kind = "date"'))
def german_days(folder):
    return put(folder, "a.csv", text(changed(day=lambda d: f"{d[8:]}.{d[5:7]}.{d[:4]}")))


@nasty("days as m/d/Y", in_spec=('date_format = "%m/%d/%Y"',))
def american_days(folder):
    return put(folder, "a.csv", text(changed(day=lambda d: f"{d[5:7]}/{d[8:]}/{d[:4]}")))


@nasty("years of two digits", in_spec=('date_format = "%d/%m/%y"', 'century = "', 'kind = "date"'))
def short_years(folder):
    days = changed(day=lambda d: f"{d[8:]}/{d[5:7]}/{35 + int(d[8:]) * 2}")
    return put(folder, "a.csv", text(days))


# One column more, each in a CSV.

COLUMNS: dict[str, tuple[str, tuple[str, ...], str, Callable[[int], object]]] = {
    "percents": ("percent signs", ("in the way: percent signs",), "share", lambda i: f"{i % 40} %"),
    "currencies": (
        "currencies",
        ("in the way: signs of currencies",),
        "fee",
        lambda i: f"€ {i % 40}.50",
    ),
    "wide_numbers": (
        "very large numbers and very small ones",
        (),
        "x",
        lambda i: 10.0 ** (i % 30 - 12) * (i + 1),
    ),
    "mixed_types": (
        "numbers with words among them",
        ('nulls = ["k.A.", ""]',),
        "n",
        lambda i: "k.A." if i % 7 == 0 else i % 50,
    ),
    "words_for_truth": (
        "yes and no in words",
        ('# domain = ["ja", "nein"]',),
        "ok",
        lambda i: ("ja", "nein")[i % 2],
    ),
    "all_null": ("a column without any value", (), "nothing", lambda i: ""),
    "identifiers": (
        "numbers of patients under an odd name",
        ("names whom to protect",),
        "Pat-Nr.",
        lambda i: 70_000 + 7 * i,
    ),
    "clocks": (
        "times of day",
        ('kind = "time"',),
        "admitted",
        lambda i: f"{i * 7 % 24:02}:{i * 11 % 60:02}:{i % 60:02}",
    ),
    "zones": (
        "moments with zones",
        ('kind = "timestamp"', "shown in UTC"),
        "at",
        lambda i: f"2021-03-{i % 28 + 1:02}T{i % 24:02}:15:00+02:00",
    ),
    "negative_codes": (
        "negative codes for what is not known",
        ('nulls = ["-9", "-8", ""]',),
        "years",
        lambda i: -8 if i % 9 == 0 else -9 if i % 11 == 0 else i % 40,
    ),
    "quoted_newlines": (
        "line breaks and quotes inside fields",
        (),
        "note",
        lambda i: ('said "no"', "two\nlines", "a, b")[i % 3],
    ),
}
for name_, (why_, in_spec_, column_, cells_) in COLUMNS.items():
    CORPUS[name_] = Nasty(
        make=lambda folder, column=column_, cells=cells_: put(
            folder, "a.csv", text(with_column(column, cells))
        ),
        why=why_,
        in_spec=in_spec_,
    )


# Layout.


@nasty("blank lines, also before the names", in_spec=("skip = 2",))
def blank_lines(folder):
    lines = text(rows()).splitlines(keepends=True)
    return put(folder, "a.csv", "\n\n" + "\n".join(lines[:40]) + "".join(lines[40:]))


@nasty("a title above the names", in_spec=("skip = 2", 'delimiter = ";"'))
def title_lines(folder):
    return put(folder, "a.csv", "Report 2021\nof the office\n" + text(rows(), delimiter=";"))


@nasty("names with blanks, hyphens, quotes and points")
def odd_names(folder):
    body = text(rows()).replace("cost", '"Cost (in ""€"")"', 1).replace("age", "age-at.entry", 1)
    return put(folder, "a.csv", body)


@nasty("names that are words of SQL")
def reserved_words(folder):
    return put(folder, "a.csv", text(rows()).replace("city,age,cost,day", "select,from,order,n", 1))


@nasty("one row", refused="fewer entities than privacy.threshold asks for")
def one_row(folder):
    return put(folder, "a.csv", text(rows(1)))


@nasty("no names, rows at once", refused="first line looks like data", init=("--entity", "id"))
def no_names(folder):
    return put(folder, "a.csv", text(rows()).partition("\n")[2])


@nasty("part files of one kind")
def part_files(folder):
    for part in range(3):
        put(folder, f"part-{part}.csv", text(rows()[part * 100 : part * 100 + 100]))
    return folder / "part-*.csv"


# Other forms.


def book(path: Path, sheets: dict[str, tuple[int, list[dict[str, object]]]]) -> Path:
    made = xlsxwriter.Workbook(path)
    for name, (above, table) in sheets.items():
        sheet = made.add_worksheet(name)
        for line in range(above):
            sheet.write(line, 0, "Report of the office")
        for j, column in enumerate(table[0]):
            sheet.write(above, j, column)
        for i, row in enumerate(table):
            for j, cell in enumerate(row.values()):
                sheet.write(above + 1 + i, j, cell)
    made.close()
    return path


@nasty("a workbook with a title above the names", in_spec=("skip = 3", 'format = "xlsx"'))
def workbook_with_title(folder):
    return book(folder / "a.xlsx", {"Data": (3, rows())})


@nasty("a workbook of several sheets", in_spec=('sheet = "Stays"',))
def workbook_of_sheets(folder):
    notes: list[dict[str, object]] = [{"note": "made by hand"}]
    return book(folder / "a.xlsx", {"Notes": (0, notes), "Stays": (0, rows())})


@nasty("a SQLite file called .db", in_spec=('table = "stays"',), init=("--table", "stays"))
def sqlite_file(folder):
    with sqlite3.connect(folder / "a.db") as file:
        pd.DataFrame(rows()).to_sql("stays", file, index=False)
        file.execute("CREATE TABLE other (x)")
    return folder / "a.db"


@nasty("Parquet with nested columns", in_spec=("is left out",))
def nested_parquet(folder):
    path = folder / "a.parquet"
    pd.DataFrame(rows()).to_csv(folder / "plain.csv", index=False)
    duckdb.execute(
        f"COPY (SELECT *, [age] AS visits FROM read_csv('{folder}/plain.csv')) TO '{path}'"
    )
    return path


@nasty("a frame in Feather, a format that is not known", refused=r"a\.feather: .*\.parquet")
def unknown_format(folder):
    return put(folder, "a.feather", "ARROW1")
