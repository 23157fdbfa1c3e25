"""The file that accompanies a release: definitions, sources, contacts, maps; its mistakes are reported at start."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from fixtures.page import open_page
from fixtures.serve import one_worker, served

from engine.errors import SpecError

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from queries.serve import app_of
from queries.serve.about import about_of, outlines_of

ABOUT = """
about = "A census of nobody."
contact = "all@example.org"

[variables.region]
definition = "Where people live. <img src=x onerror=alert(1)>"
source = "Form, question 1"

[variables.age]
contact = "ages@example.org"

[maps.age]
file = "ages.json"
key = "code"

[maps.region]
file = "areas.json"
key = "code"
"""


ONE = """{"features": [{"properties": {"code": 1},
    "geometry": {"type": "Polygon", "coordinates": [[POINT]]}}]}"""


def square(x: float, y: float) -> list[list[list[float]]]:
    return [[[x, y], [x + 1, y], [x + 1, y + 1], [x, y + 1], [x, y]]]


def areas(*keys: object, kind: str = "Polygon") -> dict[str, object]:
    """A row of squares on the equator."""
    features = []
    for i, key in enumerate(keys):
        shape = square(i, -0.5) if kind == "Polygon" else [square(i, -0.5)]
        geometry = {"type": kind, "coordinates": shape}
        features.append({"type": "Feature", "properties": {"code": key}, "geometry": geometry})
    return {"type": "FeatureCollection", "features": features}


@pytest.fixture(scope="module")
def described(path, tmp_path_factory) -> Path:
    """The release, with what stands beside it; R9 has no area, and R0 no people."""
    folder = tmp_path_factory.mktemp("beside")
    for file in path.parent.glob(f"{path.name}*"):
        if file.is_file():  # without the replays
            os.link(file, folder / file.name)
    (folder / "r.about.toml").write_text(ABOUT)
    (folder / "areas.json").write_text(json.dumps(areas("R0", *(f"R{i}" for i in range(1, 9)))))
    ages = areas(*range(100))  # as GIS programs write whole numbers: 30.0
    for feature in ages["features"]:
        feature["properties"]["code"] = float(feature["properties"]["code"])
    (folder / "ages.json").write_text(json.dumps(ages))
    return folder / "r.duckdb"


@pytest.fixture(scope="module")
def client(described):
    with served(app_of(described, limits=one_worker())) as client:
        yield client


def test_outlines_fit_a_box_and_keep_their_shape(tmp_path):
    file = tmp_path / "a.json"
    file.write_text(json.dumps(areas("a", "b")))
    got = outlines_of(file, "code")
    assert (got["width"], got["height"]) == (1000, 500)
    assert got["areas"][0] == {"key": "a", "path": "M0 500L500 500L500 0L0 0L0 500Z"}
    file.write_text(json.dumps(areas("a", "b", kind="MultiPolygon")))
    assert outlines_of(file, "code") == got
    north = {"type": "Polygon", "coordinates": square(10, 59.5)}
    feature = {"properties": {"code": 7}, "geometry": north}
    file.write_text(json.dumps({"features": [feature, {"properties": None, "geometry": None}]}))
    got = outlines_of(file, "code")
    assert (got["width"], got["height"]) == (500, 1000)  # a degree is half as wide there
    assert [a["key"] for a in got["areas"]] == ["7"]
    metres = {"type": "Polygon", "coordinates": square(500_000, 60)}
    file.write_text(json.dumps({"features": [{"properties": {"code": "x"}, "geometry": metres}]}))
    assert outlines_of(file, "code")["width"] == 1000


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (None, "a.json"),
        ("{", "a.json"),
        ("[1]", "a.json"),
        ('{"features": [1]}', "features[0]"),
        ('{"features": []}', "'code'"),
        (ONE.replace("POINT", '["x", 1]'), "features[0]"),
        (ONE.replace("POINT", "[1e999, 1]"), "features[0]"),
        (ONE.replace("POINT", "[-1e308, 1], [1e308, 2]"), "features[0]"),
        (ONE.replace("POINT", f"[{10**400}, 1]"), "features[0]"),
        (ONE.replace("POINT", "[NaN, 1]"), "features[0]"),
        (ONE.replace("POINT", "[0]"), "features[0]"),
        (ONE.replace(": 1}", ": [1]}").replace("POINT", ""), "features[0]"),
        ('{"features": {}}', "a.json"),
        (json.dumps({"features": [{}] * 5001}), "5,000"),
    ],
)  # fmt: skip
def test_an_invalid_map_is_refused(tmp_path, text, place):
    if text is not None:
        (tmp_path / "a.json").write_text(text)
    with pytest.raises(SpecError, match=re.escape(place)):
        outlines_of(tmp_path / "a.json", "code")


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.json")
    with pytest.raises(SpecError, match=r"a\.json: not a file"):
        outlines_of(tmp_path / "a.json", "code")


def test_values_meet_those_of_the_column(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(areas(1.0, 1, True, "1.0", 2.5, "~x")))
    keys = [a["key"] for a in outlines_of(tmp_path / "a.json", "code")["areas"]]
    assert keys == ["1", "1", "true", "1.0", "2.5", "~~x"]


@pytest.mark.parametrize("file", ["{0}/a.json", "../a.json", "link.json", "a\\u0000b"])
def test_a_map_elsewhere_is_refused(tmp_path, file):
    folder = tmp_path / "served"
    (folder / "maps").mkdir(parents=True)
    (tmp_path / "a.json").write_text(json.dumps(areas("x")))
    (folder / "link.json").symlink_to(tmp_path / "a.json")
    about = folder / "r.about.toml"
    about.write_text(f'[maps.age]\nfile = "{file.format(tmp_path)}"\nkey = "code"')
    with pytest.raises(SpecError, match=r"maps\.age\.file: "):
        about_of(folder / "r.duckdb", frozenset({"age"}))
    about.write_text('[maps.age]\nfile = "maps/../maps/a.json"\nkey = "code"')
    assert about_of(folder / "r.duckdb", frozenset({"age"})).maps["age"].key == "code"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("about = ", "TOML"),
        ("abuot = 'x'", "abuot.*allowed: about, source, contact, variables, maps"),
        ("[variables.age]\nmeaning = 'x'", "meaning.*allowed: definition, source, contact"),
        ("[maps.age]\nfile = 'x'\nkey = 'k'\nkind = 'x'", "kind.*allowed: file, key"),
        ("[variables.agee]\ndefinition = 'x'", r"variables\.agee: "),
        ("[maps.area]\nfile = 'x'\nkey = 'y'", r"maps\.area: "),
        ("\xff", "UTF-8"),
        ("a" * 4_000_001, "4 MB"),
    ],
    ids=range(8),
)
def test_mistakes_in_the_file_are_reported(tmp_path, text, words):
    (tmp_path / "r.about.toml").write_bytes(text.encode("latin-1"))
    with pytest.raises(SpecError, match=words):
        about_of(tmp_path / "r.duckdb", frozenset({"age"}))


@pytest.mark.ci
def test_variables_have_definitions(client):
    got = client.ask("/api/definition?column=region").json
    assert (got["source"], got["contact"]) == ("Form, question 1", "all@example.org")
    assert (got["kind"], got["n_values"], got["n_tables"] > 0) == ("categories", 9, True)
    assert client.ask("/api/definition?column=age").json["contact"] == "ages@example.org"
    rent = client.ask("/api/definition?column=rent_weekly").json
    assert (rent["kind"], rent["step"]) == ("numbers", 0.01)
    assert client.ask("/api/definition?column=nothing").status == 404
    assert client.ask("/api/map?column=sex").status == 404
    assert len(client.ask("/api/map?column=region").json["areas"]) == 9
    about = client.ask("/api/variables").json
    assert about["about"][0] == "A census of nobody."
    assert [v["name"] for v in about["variables"] if v["has_map"]] == ["region", "age"]


@pytest.mark.slow
def test_the_page_shows_the_definition_of_a_variable(sheet, client):
    open_page(sheet, client.address)
    assert "A census of nobody." in sheet.locator("#about").inner_text()
    button = sheet.get_by_role("button", name="About region")
    button.click()
    sheet.get_by_text("Form, question 1").wait_for()
    assert "<img" in sheet.locator(".meaning").inner_text()
    assert button.get_attribute("aria-expanded") == "true"
    button.click()
    assert sheet.locator(".meaning").count() == 0
    assert sheet.messages == []


@pytest.mark.slow
def test_areas_are_drawn_with_their_figures(sheet, client):
    user = open_page(sheet, f"{client.address}?rows=region")
    sheet.wait_for_selector("#chart path.area")
    assert sheet.locator("#chart-kind").input_value() == "map"
    figures = client.ask("/api/tabulate?rows=region").json["cells"]["value"]
    said = sheet.locator("#chart path.area title").all_text_contents()
    assert said[0] == "R0: not in the table"
    assert said[1].startswith(f"R1: {figures[0]:,.0f} (")
    strength = "[...document.querySelectorAll('#chart path.k0')].map(a => Number(a.getAttribute('fill-opacity')))"
    drawn = sheet.evaluate(strength)
    assert max(drawn) == drawn[figures[:8].index(max(figures[:8]))]
    assert user.download("PNG")[:4] == b"\x89PNG"
    open_page(sheet, f"{client.address}?rows=region&cols=sex&chart=map")
    sheet.wait_for_selector("#chart path.area")
    assert sheet.locator("#chart path.area").count() == 18
    open_page(sheet, f"{client.address}?rows=sex")
    assert "Map" not in sheet.locator("#chart").inner_text()
    assert sheet.messages == []
