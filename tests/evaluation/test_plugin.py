"""A measure and a baseline of another package, installed where Python finds it: used like our own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from engine.evaluation.findings import FRAME

ROOT = Path(__file__).parents[2]
MODULE = """
import pandas as pd

def rows(aligned, options):
    factor = options.get("factor", 1)
    table = next(iter(aligned.tables.values()))
    return pd.DataFrame([
        {"measure": "ratio", "value": factor * table.total / aligned.original.total},
        {"measure": "never", "value": None, "note": "it is never there"},
        {"measure": "", "value": None, "note": "tables of one size only"},
        {"measure": "ratio", "columns": "a", "by": "x", "value": 0.5},
    ])

class Same:
    name, origin, promise = "same", "theirs", "Nothing."

    def synthesize(self, frame, schema, rng):
        return frame
"""
TEXTS = """
[plugged]
title = "Rows"
better = "lower"
[plugged.ratio]
title = "rows by rows"
words = "Rows of the table by those of the data."
good = 3
poor = 5
source = "this test"
"""


@pytest.fixture
def site(tmp_path) -> Path:
    """A folder with an installed package, as pip leaves it."""
    site = tmp_path / "site"
    info = site / "plugged_in-1.0.dist-info"
    package = site / "plugged_in"
    info.mkdir(parents=True)
    package.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged-in\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[tablepack.measures]\nplugged = plugged_in:rows\n"
        "[tablepack.baselines]\nsame = plugged_in:Same\ncart = plugged_in:Same\n"
    )
    (package / "__init__.py").write_text(MODULE)
    (package / "figures.toml").write_text(TEXTS)
    return site


def ran(code: str, site: Path, folder: Path) -> str:
    """What some Python prints where the package is installed."""
    path = os.pathsep.join([str(site), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.ci
def test_an_installed_package_adds_a_baseline_and_replaces_none(site, tmp_path):
    code = (
        "from engine.evaluation.baselines import baseline_of, entrants\n"
        "print(baseline_of('same').promise, baseline_of('cart').promise == 'Nothing.')\n"
        "try:\n    baseline_of('same5')\nexcept Exception as error:\n    print('same' in str(error))\n"
    )
    assert ran(code, site, tmp_path) == "Nothing. False\nTrue\n"


@pytest.mark.ci
def test_an_installed_package_adds_a_measure(site, tmp_path):
    pytest.importorskip("jinja2")
    frame = pd.DataFrame({"a": ["x", "y"] * 20, "b": ["u", "v", "u", "u"] * 10})
    frame.to_csv(tmp_path / "data.csv", index=False)
    frame.head(20).to_csv(tmp_path / "made.csv", index=False)
    (tmp_path / "study.study.toml").write_text('title = "t"\n[measures.plugged]\nfactor = 4\n')
    code = (
        "import engine\n"
        "found = engine.evaluate('made.csv', data='data.csv', spec='study.study.toml', out='r.html', jobs=1)\n"
        "found.frame().to_json('frame.json', orient='records')\n"
    )
    ran(code, site, tmp_path)
    rows = pd.DataFrame(json.loads((tmp_path / "frame.json").read_text()))
    assert tuple(rows) == FRAME
    own = rows[(rows["subject"] == "made") & rows["measure"].str.startswith("plugged")]
    told = own.set_index("measure")
    assert told.loc["plugged.ratio", "value"] == 2
    assert told.loc["plugged.ratio", "better"] == "lower"
    assert told.loc["plugged.never", "note"] == "not computed: it is never there"
    assert told.loc["plugged", "note"] == "tables of one size only"
    assert told.loc["plugged/value", ["columns", "value"]].tolist() == ["a", 0.5]
    page = (tmp_path / "r.html").read_text()
    assert "Rows by rows" in page
    assert "it is never there" in page
    rows = json.loads((tmp_path / "r.json").read_text())["frame"]
    (figure,) = [r for r in rows if (r["subject"], r["measure"]) == ("made", "plugged.ratio")]
    assert figure["note"].startswith("good")
