"""A release of stays, of which a patient has several: nothing that it says calls its rows people, or rows."""

from __future__ import annotations

import json
import re

import duckdb
import pytest
from fixtures.pipeline import tablepack
from fixtures.stays import release_of_stays, write_stays

import engine
from queries.intervals import tabulate

TEXT = "SELECT age, ward, count(*) AS n FROM data WHERE age >= 50 GROUP BY ALL ORDER BY ALL"
_WRONG = re.compile(r"\bpeople\b|\b\d[\d,.]* (synthetic )?rows\b|\bof (its|the) rows\b", re.I)


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    with release_of_stays(tmp_path_factory.mktemp("stays")) as made:
        yield made


@pytest.fixture(scope="module")
def told(release, tmp_path_factory):
    """What commands, cards, notes and answers say, by where they say it."""
    folder = release.path.parent
    runs = {
        "plan": ("plan", "release.toml"),
        "build": ("build", "release.toml", "-o", "again.duckdb"),
        "show": ("show", release.path),
        "card": ("show", release.path, "--table", "age,ward"),
        "sql": ("sql", release.path, TEXT),
        "intervals": ("sql", release.path, TEXT, "--intervals"),
    }
    out = {}
    for name, words in runs.items():
        done = tablepack(*words, cwd=folder)
        assert done.returncode == 0, done.stderr
        out[name] = done.stdout + done.stderr
    out["tabulate"] = tabulate(release, ["age", "ward"]).words
    out["notes"] = "\n".join(release.notes)
    with duckdb.connect(str(release.path), read_only=True) as con:
        comments = con.execute("SELECT comment FROM duckdb_views() WHERE NOT internal").fetchall()
    out["comments"] = "\n".join(text for (text,) in comments if text)
    return out


@pytest.mark.ci
def test_nothing_calls_stays_people_or_rows(told):
    wrong = {name: _WRONG.findall(text) for name, text in told.items() if _WRONG.search(text)}
    assert wrong == {}
    silent = [name for name in told if not re.search(r"\bstays?\b", told[name])]
    assert silent in ([], ["build"])
    for name in ("card", "tabulate", "notes"):  # whom the thresholds protect
        assert "patients" in told[name], name
    for name in ("plan", "sql", "intervals", "notes"):  # stays beyond the bound are left out
        assert "16 stays" in told[name], name


@pytest.mark.ci
def test_the_server_and_packs_have_the_words(release, tmp_path):
    pytest.importorskip("fastapi")
    from fixtures.serve import served

    from queries.serve import app_of

    with served(app_of(release.path)) as client:
        about = client.ask("/api/variables").json
        answer = client.sql(TEXT).json
    assert about["unit"]["de"]["many"] == "Aufenthalte"
    assert "patients" in " ".join(answer["warnings"])
    assert about["entity"]["en"]["many"] == "patients"
    spec = tmp_path / "pack.toml"
    spec.write_text('[pack]\nlanguages = ["en", "de"]\n[[tables]]\ncolumns = ["ward"]\nid = "T1"\n')
    engine.publish_pack(release.path, tmp_path / "pack", spec=spec)
    read = (tmp_path / "pack" / "README.md").read_text("utf-8")
    pages = [p.read_text("utf-8") for p in (tmp_path / "pack").rglob("*.html")]
    assert not re.search(r"\bpeople\b", read, re.I)
    assert not any(re.search(r"\bpeople\b", page, re.I) for page in pages)
    units = [
        json.loads(p.read_text("utf-8"))["dimension"]["figure"]["category"]["unit"]["value"][
            "label"
        ]
        for p in sorted((tmp_path / "pack" / "jsonstat").glob("*.json"))
    ]
    assert set(units) == {"stays", "Aufenthalte"}


@pytest.mark.ci
def test_plan_show_card_and_answers_state_the_same_noise(release):
    planned = json.loads(
        tablepack("plan", "release.toml", "--json", cwd=release.path.parent).stdout
    )
    stated = {tuple(t["columns"]): t["noise_sd"] for t in planned["tables"] if t["published"]}
    for columns in release.tables:
        card = release.card(*columns)
        names = ", ".join(columns)
        answer = release.sql(f"SELECT {names}, count(*) FROM data GROUP BY ALL")
        assert answer.table == columns
        assert answer.noise_sd == card.noise_sd
        assert stated[columns] == pytest.approx(card.noise_sd, abs=6e-4), columns
        assert f"{card.noise_sd:.2f} stays" in " ".join(card.sentences())


def test_a_unit_that_is_none_is_refused_with_its_place(tmp_path):
    spec = write_stays(tmp_path, release={"unit": {"one": "stay"}, "entity": ["patients"]})
    done = tablepack("plan", spec.name, cwd=tmp_path)
    assert done.returncode == 2
    assert "release.unit" in done.stderr
    assert "release.entity" in done.stderr


@pytest.mark.ci
def test_totals_beside_hidden_parts_say_why_they_do_not_add(release, tmp_path):
    pytest.importorskip("fastapi")
    from fixtures.serve import served

    from queries.serve import app_of

    said = re.compile("totals", re.IGNORECASE)
    with served(app_of(release.path)) as client:
        hidden = client.ask("/api/tabulate?rows=age&cols=ward").json
        whole = client.ask("/api/tabulate?rows=urgent").json
    assert "not released" in hidden["cells"]["status"]
    assert said.search(hidden["words"])
    assert not said.search(whole["words"])
    assert sum(whole["cells"]["value"]) == whole["total"]["value"][0]
    spec = tmp_path / "pack.toml"
    entry = '[[tables]]\nid = "{}"\nrows = ["age"]\ncols = ["ward"]\n{}'
    with_totals = entry.format("T1", 'totals = ["age", "ward"]\n')
    spec.write_text(with_totals + entry.format("T2", ""))
    engine.publish_pack(release.path, tmp_path / "pack", spec=spec)
    pages = {p.stem: p.read_text("utf-8") for p in (tmp_path / "pack").rglob("T*.html")}
    notes = {name: said.findall(page) for name, page in pages.items()}
    assert len(notes["T1"]) > len(notes["T2"])
