"""Twenty things a new user wants, done on the page of `tablepack serve` in headless Chromium, with the clicks counted.

    scripts/serve_tasks.py RELEASE [--picture FILE.png]

RELEASE is the demo's (releases/demo.toml) with a table of activity, age, region and sex besides: too fine a table for
everyone's example, as `tablepack plan` says, but what the first task asks. It is served from a folder in which it
stands twice, as two releases would, with a made-up map of its regions. A choice from a list counts two clicks.
Prints a table in Markdown; a task that fails ends the run.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from measured import add_option, command_line, markdown, record

ROOT = Path(__file__).resolve().parent.parent
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
EXTRA_TABLE = "".join(
    f"\n[[tables]]\ncolumns = {columns}\n"
    for columns in ('["activity", "age", "region", "sex"]', '["arrival_date", "sex"]')
)
"""What the demo's spec lacks for the first task and for months."""
EMPLOYED = ("Employed full-time", "Employed part-time", "Self-employed")


class User:
    """Works the page by what it says, as people and screen readers do, and counts.

    Parameters
    ----------
    sheet : playwright page
    """

    def __init__(self, sheet: Any) -> None:
        self.sheet = sheet
        self.clicks = self.keys = 0

    def press(self, name: str) -> None:
        self.clicks += 1
        self.sheet.get_by_role("button", name=name, exact=True).click()
        self.wait()

    def tick(self, name: str, role: str = "checkbox") -> None:
        self.clicks += 1
        self.sheet.get_by_role(role, name=name, exact=True).check()
        self.wait()

    def follow(self, name: str) -> None:
        self.clicks += 1
        self.sheet.get_by_role("link", name=name, exact=True).click()
        self.wait()

    def open(self, name: str) -> None:
        self.clicks += 1
        self.sheet.get_by_text(name, exact=True).click()

    def pick(self, label: str, option: str) -> None:
        self.clicks += 2
        self.sheet.get_by_label(label, exact=True).select_option(label=option)
        self.wait()

    def write(self, label: str, text: str) -> None:
        self.clicks += 1
        field = self.sheet.get_by_label(label, exact=True)
        field.fill(text)
        field.press("Tab")
        self.keys += len(text) + 1
        self.wait()

    def key(self, name: str, times: int = 1) -> None:
        for _ in range(times):
            self.keys += 1
            self.sheet.keyboard.press(name)
        self.wait()

    def download(self, name: str) -> bytes:
        self.clicks += 1
        with self.sheet.expect_download() as caught:
            self.sheet.get_by_role("button", name=name, exact=True).click()
        return Path(caught.value.path()).read_bytes()

    def wait(self) -> None:
        """Wait until the table on screen is the one asked for."""
        self.sheet.wait_for_timeout(20)
        self.sheet.wait_for_selector("body:not([aria-busy])")

    def table(self) -> list[list[str]]:
        """The table's body and its last line as text."""
        rows = self.sheet.locator("#table tbody tr, #table tfoot tr").all()
        return [[c.strip() for c in row.locator("th, td").all_inner_texts()] for row in rows]

    def title(self) -> str:
        return self.sheet.locator("#table caption").inner_text()

    def reason(self, variable: str) -> str:
        item = self.sheet.locator("#variables li", has=self.sheet.get_by_text(variable, exact=True))
        return item.locator(".reason").inner_text()


def employed_women(user: User) -> str:
    user.press("Rows: Age in years")
    user.press("Filter: Sex")
    user.tick("Female")
    user.press("Filter: Economic activity")
    for kind in EMPLOYED:
        user.tick(kind)
    user.press("Filter: Region")
    user.tick("R6")
    user.tick("of the total", role="radio")
    book = user.download("Excel")
    rows = user.table()
    check(
        book[:2] == b"PK" and "%" in rows[3][1] and " to " in rows[3][1],
        "no workbook or no interval",
    )
    check("only Sex: Female" in user.title() and "Region: R6" in user.title(), user.title())
    return "Employed women by age group in one area, as a percentage, with how sure it is, into a spreadsheet"


def people_by_region(user: User) -> str:
    user.press("Rows: Region")
    check(len(user.table()) == 10, "nine regions and a total")
    return "How many people live in each region"


def pyramid(user: User) -> str:
    user.press("Rows: Age in years")
    user.press("Columns: Sex")
    user.pick("Level of detail: Age in years", "bands of 5")
    check(user.table()[1][0] == "5 to 9", "bands of 5")
    check(user.sheet.locator("#chart svg rect").count() > 30, "a chart")
    return "Age pyramid: five-year groups by sex, with a chart"


def tenure_by_region(user: User) -> str:
    user.press("Rows: Region")
    user.press("Columns: Tenure")
    user.tick("of each row", role="radio")
    rows = list(csv.DictReader(io.StringIO(user.download("CSV").decode())))
    first = [float(r["value"] or 0) for r in rows if r["region"] == "R6"]
    check(abs(sum(first) - 1) < 0.01, "shares of a region add to one")
    return "Share of each tenure in each region, as CSV"


def median_income(user: User) -> str:
    user.press("Rows: Highest qualification")
    user.press("Columns: Sex")
    user.pick("Measure", "Median")
    user.pick("of", "Yearly income, pounds")
    check(user.title().startswith("Median of Yearly income"), user.title())
    return "Median income by qualification and sex"


def old_by_district(user: User) -> str:
    user.press("Rows: District")
    user.press("Filter: Age in years")
    user.write("from", "65")
    check("only Age in years: 65 to" in user.title(), user.title())
    check(len(user.table()) > 60, "districts")
    return "People of 65 and over in each district"


def link_to_send(user: User) -> str:
    user.press("Rows: General health")
    user.press("Columns: Sex")
    user.press("Filter: Economic activity")
    user.tick("Unemployed")
    user.press("Filter: Region")
    user.tick("R6")
    user.press("Link")
    before = user.table()
    check("only.region=R6" in user.sheet.url, "the address is the query")
    user.sheet.goto(user.sheet.url)
    user.sheet.wait_for_selector("#table table")
    check(user.table() == before, "the link gives the same table")
    return "Health of the unemployed of one region by sex, as a link to send"


def why_not(user: User) -> str:
    user.press("Rows: District")
    check(
        user.reason("Yearly income, pounds") == "not released with District",
        user.reason("Yearly income, pounds"),
    )
    return "Is income by district released, and if not, why"


def sql_of_a_table(user: User) -> str:
    user.press("Rows: Tenure")
    user.press("SQL")
    message = user.sheet.locator("#live").inner_text()
    check("copied" in message or "GROUP BY" in message, message)
    answer = user.sheet.evaluate(
        "q => fetch('api/query?' + new URLSearchParams({sql: q})).then(r => r.text())",
        user.sheet.locator("#sql").text_content(),
    )
    shown = [row[1].split("\n")[0].replace(",", "") for row in user.table()[:-1]]
    given = sorted(str(r[1]) for r in json.loads(answer)["rows"])
    check(given == sorted(shown), "SQL gives the table's figures")
    return "The SQL behind a table, to go on with in a notebook"


def by_keyboard(user: User) -> str:
    user.sheet.get_by_label("Find a variable").focus()
    for letter in "health":
        user.key(letter)
    user.key("Tab", 2)
    user.key("Enter")
    check(user.title() == "Number of people by General health", user.title())
    return "Without a mouse: people by general health"


def map_of_regions(user: User) -> str:
    user.press("Rows: Region")
    user.sheet.wait_for_selector("#chart path.area")
    check(user.sheet.locator("#chart path.k0").count() == 9, "nine areas")
    picture = user.download("PNG")
    check(picture[:4] == b"\x89PNG", "a picture")
    return "A map of people by region, as a picture for a paper"


def pyramid_from_the_start(user: User) -> str:
    user.follow("People by Age in years and Sex")
    check(user.sheet.locator("#chart-kind").input_value() == "pyramid", "a pyramid")
    check(user.download("SVG").startswith(b"<svg"), "a picture")
    return "A population pyramid, from the start page, as SVG"


def two_releases(user: User) -> str:
    user.press("Rows: Economic activity")
    user.open("Saved tables and comparisons")
    user.clicks += 1
    user.sheet.locator("#saved button", has_text="Compare with").first.click()
    user.sheet.wait_for_selector("#compare tbody tr")
    words = set(user.sheet.locator("#compare tbody .s").all_inner_texts())
    check(words == {"may be noise"}, f"the same release twice differs: {words}")
    return "Economic activity in two releases, and where they differ by more than noise"


def cross_table_in_excel(user: User) -> str:
    user.press("Rows: Highest qualification")
    user.press("Columns: Sex")
    book = user.download("Excel")
    import openpyxl

    sheet = openpyxl.load_workbook(io.BytesIO(book))["Table"]
    check([c.value for c in sheet[3]][1:7] == ["Female", None, None, "Male", None, None], "heads")
    check(sheet["B4"].value == "figure", "figures with their intervals")
    return "Qualification by sex in Excel, as shown, with intervals and notes"


def months(user: User) -> str:
    user.press("Rows: Date of arrival")
    user.pick("Level of detail: Date of arrival", "months")
    check(user.table()[0][0].endswith("-01"), "months")
    check(user.sheet.locator("#chart polyline").count() > 0, "a line")
    return "Arrivals month by month, the last five years, as a line"


def two_tables(user: User) -> str:
    user.press("Rows: General health")
    user.press("Filter: Sex")
    user.tick("Female")
    user.open("Saved tables and comparisons")
    user.press("Save this table")
    user.sheet.get_by_label("Female", exact=True).uncheck()
    user.clicks += 1
    user.wait()
    user.tick("Male")
    user.clicks += 1
    user.sheet.locator("#saved li button", has_text="Compare").click()
    user.sheet.wait_for_selector("#compare tbody tr")
    check(user.sheet.locator("#compare tbody tr").count() == 5, "five kinds of health")
    return "Health of women beside that of men, and where they differ by more than noise"


def meaning(user: User) -> str:
    user.press("About Region")
    user.sheet.get_by_text("Where a person usually lives").wait_for()
    return "What region means, where it is from, and whom to ask"


def shares_as_picture(user: User) -> str:
    user.press("Rows: Region")
    user.press("Columns: Tenure")
    user.tick("of each row", role="radio")
    user.pick("Chart", "Stacked shares")
    check(user.sheet.locator("#chart .part").count() > 40, "parts")
    check(user.download("PNG")[:4] == b"\x89PNG", "a picture")
    return "Tenure of each region as stacked shares, as a picture"


def average_at_once(user: User) -> str:
    user.press("Rows: Age in years")
    user.pick("Measure", "Average")
    check(
        " by Age in years" in user.title() and not user.title().startswith("Average of Age"),
        user.title(),
    )
    return "An average by age: of something else than age, without a refusal"


def ask_in_sql(user: User) -> str:
    user.open("Query with SQL")
    text = user.sheet.get_by_label("One read-only query")
    user.clicks += 1
    text.fill("SELECT ")
    text.press_sequentially("ten")
    text.press("Enter")
    text.press_sequentially(", count(*) AS people FROM data GROUP BY ALL")
    text.press("Control+Enter")
    user.keys += 56
    user.sheet.wait_for_selector("#answer tbody tr")
    check("people_low" in user.sheet.locator("#answer th").all_inner_texts(), "intervals")
    return "A statement by hand, a name completed, with noise intervals"


TASKS: tuple[Callable[[User], str], ...] = (
    employed_women,
    people_by_region,
    pyramid,
    tenure_by_region,
    median_income,
    old_by_district,
    link_to_send,
    why_not,
    sql_of_a_table,
    by_keyboard,
    map_of_regions,
    pyramid_from_the_start,
    two_releases,
    cross_table_in_excel,
    months,
    two_tables,
    meaning,
    shares_as_picture,
    average_at_once,
    ask_in_sql,
)


def check(is_so: bool, what: str) -> None:
    """End the run where a task did not do what it should."""
    if not is_so:
        raise SystemExit(f"a task failed: {what}")


def run(browser: Any, address: str, picture: Path | None = None) -> list[tuple[str, int, int]]:
    """Do all tasks, each on a fresh page; return what was done, clicks and keys."""
    out = []
    if picture is not None:
        sheet = browser.new_page(viewport={"width": 1180, "height": 1000})
        sheet.goto(address)
        sheet.wait_for_selector("#pictures svg")
        sheet.locator(".card:not(:has(svg))").first.wait_for(state="detached")
        sheet.screenshot(path=picture)
        sheet.close()
    for task in TASKS:
        sheet = browser.new_page(viewport={"width": 1180, "height": 860})
        sheet.goto(address)
        sheet.wait_for_selector("#table table")
        user = User(sheet)
        out.append((task(user), user.clicks, user.keys))
        sheet.close()
    return out


ABOUT = """
contact = "statistics@example.org"
[variables.region]
definition = "Where a person usually lives."
source = "Simulated form"
[maps.region]
file = "regions.json"
key = "code"
"""


def twice(release: Path, folder: Path) -> None:
    """Put a release into a folder under two names, and a made-up map of its nine regions beside it."""
    for name in ("census", "later"):
        for file in release.parent.glob(f"{release.name}*"):
            shutil.copy(file, folder / file.name.replace(release.name, f"{name}.duckdb"))
    (folder / "census.about.toml").write_text(ABOUT)
    features = []
    for i in range(9):
        x, y = i % 3, i // 3
        ring = [[x, y], [x + 1, y], [x + 1, y + 1], [x, y + 1], [x, y]]
        shape = {"type": "Polygon", "coordinates": [ring]}
        features.append({"properties": {"code": f"R{i + 1}"}, "geometry": shape})
    (folder / "regions.json").write_text(json.dumps({"features": features}))


@contextmanager
def chromium() -> Iterator[Any]:
    """Start the distribution's Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        opened = started.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        yield opened
        opened.close()


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("release", type=Path)
    parser.add_argument("--picture", type=Path)
    add_option(parser)
    given = parser.parse_args()
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    from fixtures.serve import served

    from queries.serve import front_of

    with tempfile.TemporaryDirectory() as folder:
        twice(given.release, Path(folder))
        with served(front_of(Path(folder))) as client, chromium() as browser:
            done = run(browser, f"{client.address}census/", given.picture)
    text = markdown(["task", "clicks", "keys"], [[what, n, keys or ""] for what, n, keys in done])
    print(text)
    if given.record:
        record("serve-tasks", command_line(".venv/bin/python scripts/serve_tasks.py"), text)


if __name__ == "__main__":
    main()
