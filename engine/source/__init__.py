"""CONFIDENTIAL. The source: opened, encoded to integers, its entities named by keyed tokens, its vintage pinned.

Takes a `ReleaseSpec`, perhaps a frame, and the key.
Gives encoded rows with entity tokens in scratch space that is swept afterwards (`open_rows`).
May import the engine's root, `engine.spec`.
"""

from __future__ import annotations

from engine.source.charges import (
    Charge,
    History,
    Sketch,
    add_charge,
    added_up,
    begin_charges,
    charges,
    charges_path,
    history,
)
from engine.source.encoding import (
    cell_sql,
    code_limits,
    code_sql,
    coded_universes,
    grid_code,
    value_sql,
)
from engine.source.entities import CHUNK_ROWS, ROWS_WITH_TOKENS, EntityColumn, row_lanes
from engine.source.files import (
    locked,
    read_json,
    replace_file,
    sync_folder,
)
from engine.source.forms.frames import register_frame
from engine.source.forms.opened import open_source
from engine.source.forms.text import CsvShape, csv_rows, csv_shape
from engine.source.ingest import Ingested
from engine.source.journal import (
    note_charges,
    note_release,
    noted_exposure,
    noted_releases,
    pin_vintage,
    pinned_vintages,
    unpin_vintage,
)
from engine.source.opening import Opened, open_rows, rows_about
from engine.source.relation import check_names, fetch
from engine.source.scratch import (
    confidential_connection,
    memory_connection,
    scratch_directory,
)
from engine.source.sealed import begin_ledger, ledger_path, read_entries, write_entries
from engine.source.spark import is_spark_frame

__all__ = [
    "CHUNK_ROWS",
    "ROWS_WITH_TOKENS",
    "Charge",
    "CsvShape",
    "EntityColumn",
    "History",
    "Ingested",
    "Opened",
    "Sketch",
    "add_charge",
    "added_up",
    "begin_charges",
    "begin_ledger",
    "cell_sql",
    "charges",
    "charges_path",
    "check_names",
    "code_limits",
    "code_sql",
    "coded_universes",
    "confidential_connection",
    "csv_rows",
    "csv_shape",
    "fetch",
    "grid_code",
    "history",
    "is_spark_frame",
    "ledger_path",
    "locked",
    "memory_connection",
    "note_charges",
    "note_release",
    "noted_exposure",
    "noted_releases",
    "open_rows",
    "open_source",
    "pin_vintage",
    "pinned_vintages",
    "read_entries",
    "read_json",
    "register_frame",
    "replace_file",
    "row_lanes",
    "rows_about",
    "scratch_directory",
    "sync_folder",
    "unpin_vintage",
    "value_sql",
    "write_entries",
]
