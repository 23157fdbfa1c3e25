"""The benchmark of fine columns in its quickest form: it builds, checks what it times, and finds planted faults."""

from __future__ import annotations

import json
import subprocess
import sys

import hospital_fine
import numpy as np
import pandas as pd
import pytest
from fixtures.pipeline import ROOT, environment


def test_the_source_is_as_fine_as_it_says():
    frame = hospital_fine.hospital(20_000)
    assert set(frame.columns) == {"stay", *hospital_fine.KINDS}
    assert frame.stay.is_unique
    assert frame.diagnosis.nunique() > 8_000
    for name in ("admitted", "discharged", "cost"):
        assert frame[name].nunique() > 15_000, name
    assert 0.5 < frame.operated.isna().mean() < 0.7
    pd.testing.assert_frame_equal(frame, hospital_fine.hospital(20_000))


def test_encoded_columns_are_the_same_columns_in_whole_numbers():
    frame = hospital_fine.hospital(3_000)
    codes = hospital_fine.encoded(frame)
    for name in hospital_fine.KINDS:
        assert pd.api.types.is_integer_dtype(codes[name])
        both = pd.DataFrame({"a": frame[name], "b": codes[name]}).drop_duplicates()
        assert both.a.nunique(dropna=False) == both.b.nunique(dropna=False) == len(both), name


def test_a_floor_that_counts_something_else_ends_the_run(tmp_path):
    frame = hospital_fine.hospital(500)
    frame.to_parquet(tmp_path / "stays.parquet")
    codes = hospital_fine.encoded(frame)
    codes.to_parquet(tmp_path / "encoded.parquet")
    hospital_fine.check_floor(tmp_path, [["sex"], ["cost", "ward"]])
    codes["sex"] = np.where(np.arange(500) == 7, 1 - codes["sex"], codes["sex"])
    codes.to_parquet(tmp_path / "encoded.parquet")
    with pytest.raises(SystemExit, match="sex"):
        hospital_fine.check_floor(tmp_path, [["cost"], ["sex"]])


@pytest.mark.slow
def test_it_runs():
    done = subprocess.run(
        [sys.executable, "scripts/hospital_fine.py", "--rows", "3000", "--repeat", "1"],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[0])
    assert (told["rows"], told["tables"]) == (3_000, 78)
    assert told["comparisons"] > 200
    assert "| 3,000 | 78 |" in done.stdout
