"""Clients that nobody here wrote, unmodified, against a live server: lists, metadata, figures as of `release.sql`.

The figures are those of the examples in queries/serve/CLIENTS.md, which run as they stand.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from fixtures.pipeline import ROOT

from queries.release import open_release

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("xmltodict")

pytestmark = pytest.mark.slow
ADDRESS = "http://localhost:8765/"
EXAMPLES = dict(
    re.findall(
        r"^## ([^\n]+)\n[^#]*?```(?:python|r)\n(.*?)```",
        (ROOT / "queries/serve/CLIENTS.md").read_text("utf-8"),
        re.DOTALL | re.MULTILINE,
    )
)
PYTHON = Path(os.environ.get("TABLEPACK_CLIENTS", ROOT / ".venv-clients")) / "bin/python"
R = os.environ.get("TABLEPACK_R") or shutil.which("Rscript")
AS_ROWS = """
import json
rows = frame.to_dicts() if hasattr(frame, "to_dicts") else frame.reset_index().to_dict("records")
print("rows", json.dumps(rows, default=str))
"""
PX = "http://localhost:8765/api/px/v2"
MORE = {
    "pxwebpy": f"""
import pxweb
api = pxweb.PxApi("{PX}")
assert "age-sex" in [t["id"] for t in api.all_tables()]
assert [t["id"] for t in api.search(query="income")["tables"]] == ["sex-income"]
assert list(api.get_table_variables("age-sex")) == ["age", "sex", "ContentsCode"]
assert len(api.tables_on_path("root")) == len(api.all_tables())
assert api.get_code_list("agg_age")["values"][0]["valueMap"][:2] == ["0", "1"]
banded = api.get_table_data("age-sex", {{"age": ["*"], "ContentsCode": ["count"]}}, code_list={{"age": "agg_age"}})
print("sum", sum(row["value"] or 0 for row in banded))
assert len(api.get_table_data_all("region-sex-education")) == 9 * 2 * 9 * 3
api.language = "de"
assert api.get_table_metadata("age-sex")["label"].startswith("Anzahl")
""",
    "pxstatspy": f"""
import pxstatspy
api = pxstatspy.PxAPI(pxstatspy.PxAPIConfig("{PX}"))
api.find_tables()
assert "age-sex" in list(api.find_tables_as_dataframe(all_pages=True)["id"])
assert api.get_table_metadata("age-sex")["size"][1] == 2
api.print_table_variables("age-sex")
for form in ("PX", "CSV", "XLSX", "HTML", "PARQUET"):
    assert api.get_table_data("sex-income", {{"sex": ["*"]}}, output_format=pxstatspy.OutputFormat[form])
""",
    "pyjstat": f"""
import requests
from jsonstat_validator import validate_jsonstat
for path in ("metadata", "data", "data?valueCodes[sex]=*", "data?valueCodes[ContentsCode]=count"):
    assert validate_jsonstat(requests.get(f"{PX}/tables/sex-income/{{path}}").json()) is True
""",
    "sdmx1": """
import sdmx
client = sdmx.Client("TABLEPACK")
assert "age-sex" in client.dataflow().dataflow
message = client.dataflow("sex-income")
structure = message.structure["sex-income"]
assert [d.id for d in structure.dimensions] == ["sex", "income", "MEASURE"]
assert "Female" in message.codelist["CL_sex"]
key = {"sex": ["Female"], "income": ["_T"]}
checked = client.data("sex-income", key=key, dsd=structure)
assert len(sdmx.to_pandas(checked, attributes="o")["NOISE_HALF_WIDTH"]) == 3
new = {"id": "TABLEPACK", "url": "http://localhost:8765/api/sdmx", "name": "ours", "versions": ["3.0.0"]}
sdmx.add_source(new, override=True)
client = sdmx.Client("TABLEPACK")
assert "age-sex" in client.dataflow().dataflow
later = client.data("sex-income", key="Female._T.*", context="dataflow", version="1.0.0")
assert list(sdmx.to_pandas(later)) == list(sdmx.to_pandas(checked))
""",
    "pysdmx": """
connector = rest.SdmxConnector("http://localhost:8765/api/sdmx")
assert [flow.id for flow in connector.dataflows("income")] == ["sex-income"]
flow = connector.dataflow("Dataflow=TABLEPACK:sex-income(1.0.0)")
assert [c.id for c in flow.structure.components.dimensions] == ["sex", "income", "MEASURE"]
""",
    "opensdmx": """
assert "age-sex" in list(opensdmx.all_available()["df_id"])
loaded = opensdmx.load_dataset("sex-income")
assert list(opensdmx.dimensions_info(loaded)["dimension_id"]) == ["sex", "income", "MEASURE"]
assert list(opensdmx.get_dimension_values(loaded, "sex")["id"]) == ["_T", "Female", "Male"]
""",
}
"""What is called of each besides its example: lists, metadata, other forms of data."""


def counted(path):
    """People by sex, as SQL counts them."""
    with open_release(path) as release:
        return dict(release.sql("SELECT sex, count(*) FROM data GROUP BY sex").rows)


def run(client, tmp_path, text):
    """Run lines in the environment of the clients against a server; what they print."""
    if not PYTHON.exists():
        pytest.skip("the clients are not installed: ./scripts/clients installs them")
    env = {"OPENSDMX_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [PYTHON, "-c", text.replace(ADDRESS, client.address)],
        cwd=tmp_path,
        env={**os.environ, **env, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        timeout=300,
    )
    if "No module named 'opensdmx'" in done.stderr:
        pytest.skip("opensdmx needs Python 3.12")
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_r(client, tmp_path, text):
    """The same for R, whose package rsdmx is one of the system's."""
    if R is None:
        pytest.skip("R is not installed")
    (tmp_path / "lines.R").write_text(text.replace(ADDRESS, client.address))
    done = subprocess.run([R, tmp_path / "lines.R"], capture_output=True, text=True, timeout=300)
    if "no package called" in done.stderr:
        pytest.skip("rsdmx is not installed")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_client_has_an_example_of_two_lines():
    assert set(MORE) <= set(EXAMPLES)
    assert {text.count("\n") for text in EXAMPLES.values()} == {2}


def test_rsdmx_lists_flows_and_codes_and_gives_what_sql_gives(client, path, tmp_path):
    more = f"""
cat("rows\\n")
write.csv(frame, row.names = FALSE)
flows <- as.data.frame(readSDMX("{ADDRESS}api/sdmx/dataflow/TABLEPACK"))
stopifnot("age-sex" %in% flows$id)
found <- readSDMX("{ADDRESS}api/sdmx/datastructure/TABLEPACK/age-sex/1.0.0?references=all")
codes <- as.data.frame(slot(found, "codelists"), codelistId = "CL_sex")
stopifnot(identical(codes$id, c("_T", "Female", "Male")))
"""
    out = run_r(client, tmp_path, EXAMPLES["rsdmx (R)"] + more)
    rows = csv.DictReader(io.StringIO(out.partition("rows\n")[2]))
    assert {row["sex"]: float(row["obsValue"]) for row in rows} == counted(path)


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name != "rsdmx (R)"])
def test_the_example_gives_what_sql_gives(client, path, tmp_path, name):
    out = run(client, tmp_path, EXAMPLES[name] + AS_ROWS + MORE.get(name, ""))
    expected = counted(path)
    (line,) = re.findall(r"^rows (.*)$", out, re.MULTILINE)
    codes = {"Women": "Female", "Men": "Male", "Female": "Female", "Male": "Male"}
    found = {}
    for row in json.loads(line):
        (sex,) = [codes[v] for v in row.values() if v in codes]
        figure = next(row[k] for k in ("value", "OBS_VALUE", "Number of people") if k in row)
        found[sex] = float(figure)
    assert found == expected
    for summed in re.findall(r"^sum (.*)$", out, re.MULTILINE):
        assert float(summed) == sum(expected.values())
