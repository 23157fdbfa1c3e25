from __future__ import annotations

import pandas as pd
import pytest
from fixtures.source import col

from engine.errors import DataError
from engine.schema import SourceSpec
from engine.source import open_source
from engine.source.ingest import ingest
from engine.source.scratch import confidential_connection


@pytest.mark.parametrize("nulls", [[], [None], [None, None]])
def test_a_null_where_none_may_be(nulls, tmp_path):
    told = (
        col("integer", "full", public=True, bounds=(0, 9), nullable=False),
        col("category", "also", public=True, domain=("x", "y"), nullable=False),
        col("integer", "free", public=True, bounds=(0, 9)),
    )
    frame = pd.DataFrame(
        {
            "full": pd.array([1, 2, 3, *nulls], dtype="Int64"),
            "also": ["x", "y", "x", *nulls],
            "free": pd.array([None, *([4] * (2 + len(nulls)))], dtype="Int64"),
        }
    )
    with confidential_connection(tmp_path) as con:
        source = open_source(con, SourceSpec(path=None, format="frame"), frame)
        if not nulls:
            assert ingest(con, source, told).n_rows == 3
            return
        with pytest.raises(DataError) as caught:
            ingest(con, source, told)
    assert str(caught.value).splitlines() == [
        "column 'also': holds a null, declared \"nullable = false\"",
        "column 'full': holds a null, declared \"nullable = false\"",
    ]
