"""Files of SPSS, Stata and SAS, with the labels that they carry.

Takes their paths; gives one table and the labels of columns and values. Invariant: what the file declares missing is
null, and so is a blank text, for these packages have no other null among texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from engine.errors import DataError, SpecError
from engine.schema import SourceSpec, quoted
from engine.source.frames import Frame, register_frame
from engine.source.relation import Labels, check_names, fetch

if TYPE_CHECKING:
    import pandas as pd

_READERS = {
    "sav": "read_sav",
    "por": "read_por",
    "dta": "read_dta",
    "xpt": "read_xport",
    "sas7bdat": "read_sas7bdat",
}
"""What reads each format."""


def open_statistical(
    con: duckdb.DuckDBPyConnection,
    source: SourceSpec,
    files: Sequence[str],
    relation: str,
    place: str,
    *,
    by_row: bool = False,
) -> tuple[Frame, Labels]:
    """Read files of one format into one table; the labels are those of the first."""
    import pandas as pd  # slow to load

    frames: list[pd.DataFrame] = []
    labels: list[Labels] = []
    for file in files:
        frame, of_file = _read(file, source)
        check_names(frame.columns, f"source {file}")
        if frames and list(frame.columns) != list(frames[0].columns):
            raise DataError(f"source {file}: its columns differ from those of {files[0]}")
        frames.append(frame)
        labels.append(of_file)
    found = register_frame(con, pd.concat(frames, ignore_index=True), by_row=by_row)
    try:
        fetch(con, f"CREATE OR REPLACE TABLE {quoted(relation)} AS SELECT * FROM frame", place)
    finally:
        con.unregister("frame")
    return found, labels[0]


def _read(file: str, source: SourceSpec) -> tuple[pd.DataFrame, Labels]:
    """One file."""
    try:
        import pyreadstat
    except ImportError:
        raise SpecError(
            'source: files of SPSS, Stata and SAS need pyreadstat: pip install "tablepack[stat]"'
        ) from None
    if Path(file).stat().st_size == 0:
        raise DataError(f"source {file}: the file is empty")
    read = getattr(pyreadstat, _READERS[source.format])
    options = {} if source.encoding is None else {"encoding": source.encoding}
    found = None
    try:
        found = read(file, **options)
    except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError, ValueError, OverflowError):
        pass
    if found is None:
        raise DataError(
            f"source {file}: is no {source.format} file that can be read; it may be damaged, or its texts of another "
            'encoding, such as encoding = "cp1252" in [source]'
        )
    frame, about = found
    for name in frame.columns:
        if frame[name].dtype in ("str", "string", "object"):
            frame[name] = frame[name].mask(frame[name] == "")
    columns = {name: text for name, text in about.column_names_to_labels.items() if text}
    return frame, Labels(
        columns=columns,
        values={name: _texts(of) for name, of in about.variable_value_labels.items()},
    )


def _texts(labels: Mapping[Any, str]) -> dict[str, str]:
    """Labels by the values as text: whole numbers without a point."""
    return {
        value.strip() if isinstance(value, str) else f"{value:.15g}": label
        for value, label in labels.items()
    }
