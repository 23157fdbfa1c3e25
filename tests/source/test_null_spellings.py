"""Spellings of null: read as null where that is plain, kept where the source tells null from text or NA is a code."""

from __future__ import annotations

import random

import pandas as pd
import pytest
from fixtures.detect import EXACTLY_TEN

from engine.schema import SourceSpec
from engine.source.detection.detect import detect

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


def test_typed_files_tell_null_from_text(frame, tmp_path):
    path = tmp_path / "codes.parquet"
    frame.to_parquet(path)
    detection = detect(SourceSpec(path=str(path), format="parquet"), thresholds=EXACTLY_TEN)
    nulls = nulls_of(detection)
    assert nulls.pop("amount") == ("NA", "")  # numbers as texts: what is no number must be null
    assert set(nulls.values()) == {()}
    assert any("NA" in text for text in detection.column_remarks["answer"])
