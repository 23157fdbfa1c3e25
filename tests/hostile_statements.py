"""What strangers might try: statements, and every function of DuckDB that sounds like a way out, each looked at."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import duckdb

CANARY = "CANARY-9d2e41"
LISTED = "canary-in-a-folder"  # the name of a planted file, which no statement says
ENVIRONMENT = "TABLEPACK_CANARY"

# {d}: folder of planted files; {s}: the release itself; {f}: its folder.
REFUSED = (
    # files, by name and by function
    "SELECT * FROM read_csv('{d}/secret.csv')",
    "SELECT * FROM read_csv_auto('{d}/secret.csv')",
    "SELECT * FROM '{d}/secret.csv'",
    "SELECT * FROM '{d}/secret.parquet'",
    "SELECT * FROM '{d}/secret.json'",
    "SELECT * FROM \"{d}/secret.csv\"",
    "SELECT * FROM read_parquet(['{d}/secret.parquet'])",
    "SELECT * FROM parquet_metadata('{d}/secret.parquet')",
    "SELECT * FROM parquet_schema('{d}/secret.parquet')",
    "SELECT * FROM read_json_objects('{d}/secret.json')",
    "SELECT * FROM read_json('{d}/secret.json')",
    "SELECT * FROM read_text('{d}/*.csv')",
    "SELECT * FROM read_blob('{d}/**')",
    "SELECT * FROM read_text('file://{d}/secret.csv')",
    "SELECT * FROM read_text('{f}/../{d}/secret.csv')",
    "SELECT * FROM read_text('/proc/self/environ')",
    "SELECT * FROM read_blob('/proc/self/fd/*')",
    "SELECT * FROM read_text('/dev/stdin')",
    "SELECT * FROM sniff_csv('{d}/secret.csv')",
    "SELECT * FROM read_duckdb('{d}/secret.duckdb')",
    "SELECT * FROM '{d}/secret.duckdb'",
    "SELECT * FROM query('FROM read_text(''{d}/secret.csv'')')",
    "SELECT * FROM query_table('{d}/secret.csv')",
    "WITH x AS (SELECT * FROM read_csv('{d}/secret.csv')) SELECT * FROM x, data",
    "SELECT (SELECT content FROM read_text('{d}/secret.csv'))",
    "SELECT age FROM data WHERE EXISTS (FROM read_text('{d}/secret.csv'))",
    "EXPLAIN ANALYZE SELECT * FROM read_csv('{d}/secret.csv')",
    "PIVOT read_csv('{d}/secret.csv') ON a",
    "PIVOT data ON (SELECT content FROM read_text('{d}/secret.csv'))",
    "SUMMARIZE '{d}/secret.csv'",
    "DESCRIBE SELECT * FROM '{d}/secret.csv'",
    # the release's own bytes, and what lies beside it
    "SELECT content FROM read_blob('{s}')",
    "SELECT content FROM read_text('{s}.manifest.json')",
    "SELECT * FROM glob('{d}/*')",
    "SELECT * FROM glob('{f}/*')",
    "SELECT * FROM glob('{d}/../*/*')",
    "COPY (SELECT 1) TO '{s}.wal' (FORMAT csv)",
    "COPY (SELECT 1) TO '{s}.wal'",
    "SELECT * FROM force_checkpoint('release')",
    # environment, Python, network, extensions
    f"SELECT getenv('{ENVIRONMENT}')",
    "SELECT * FROM frame",
    "SELECT * FROM canary_table",
    "SELECT a FROM canary_list",
    "SELECT * FROM python_map_function((SELECT 1))",
    "SELECT * FROM 'https://localhost/x.csv'",
    "SELECT * FROM 's3://bucket/x.parquet'",
    "SELECT * FROM sqlite_scan('{d}/x', 't')",
    "SELECT * FROM postgres_scan('host=localhost', 'public', 't')",
    "INSTALL httpfs",
    "LOAD httpfs",
    "LOAD '{d}/secret.duckdb'",
    # what another session would see
    "SELECT * FROM enable_logging()",
    "SELECT * FROM enable_profiling()",
    "CALL enable_logging(storage_path := '{d}/log')",
    "SELECT * FROM duckdb_extensions()",
    # other kinds of statement
    "ATTACH '{d}/secret.duckdb' AS other",
    "ATTACH ':memory:' AS other",
    "COPY (SELECT 1) TO '{d}/out.csv'",
    "COPY data FROM '{d}/secret.csv'",
    "COPY FROM DATABASE release TO memory",
    "EXPORT DATABASE '{d}/out'",
    "IMPORT DATABASE '{d}/out'",
    "SET enable_external_access = true",
    "SET disabled_filesystems = ''",
    "SET VARIABLE x = 1",
    "RESET lock_configuration",
    "PRAGMA database_list",
    "PRAGMA enable_profiling",
    "CALL pragma_version()",
    "CREATE TABLE t AS SELECT 1",
    "CREATE TEMP TABLE data AS SELECT 1",
    "CREATE OR REPLACE TEMP VIEW data AS SELECT 1",
    "CREATE TEMP VIEW \"AGE\" AS SELECT 1",
    "CREATE MACRO noise_interval(n) AS 1",
    "CREATE TEMP MACRO m() AS 1",
    "CREATE FUNCTION f() AS 1",
    "CREATE TYPE mood AS ENUM ('a')",
    "CREATE SEQUENCE s",
    "CREATE SECRET s (TYPE s3)",
    "INSERT INTO catalog.notes VALUES (1, 'a', 'b')",
    "WITH x AS (INSERT INTO catalog.notes VALUES (1, 'a', 'b') RETURNING *) SELECT * FROM x",
    "MERGE INTO catalog.notes USING catalog.codes ON true WHEN MATCHED THEN DELETE",
    "UPDATE catalog.notes SET note = ''",
    "DELETE FROM catalog.notes",
    "TRUNCATE catalog.notes",
    'DROP VIEW "AGE"',
    "ALTER TABLE catalog.notes ADD COLUMN x INTEGER",
    "COMMENT ON TABLE catalog.notes IS ''",
    "PREPARE p AS SELECT 1",
    "EXECUTE p",
    "DEALLOCATE p",
    "BEGIN",
    "USE memory",
    "VACUUM",
    "ANALYZE",
    "CHECKPOINT release",
    "DETACH release",
    "SELECT 1; COPY (SELECT 1) TO '{d}/out.csv'",
    "PIVOT data ON sex; COPY (SELECT 1) TO '{d}/out.csv'",
    "EXPLAIN COPY (SELECT 1) TO '{d}/out.csv'",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{d}/out.csv'",
    "/* EXPLAIN */ EXPLAIN (FORMAT json) DELETE FROM catalog.notes",
    "/* EXPLAIN */ EXPLAIN (FORMAT json) INSERT INTO catalog.notes VALUES (1, 'a', 'b')",
    "SELECT * FROM write_log('x')",
    "SELECT write_blob('{d}/out', 'x')",
)  # fmt: skip
"""None of these is answered."""
HARMLESS = (
    "SELECT * FROM duckdb_temporary_files()",  # there is no folder for any
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM duckdb_logs()",
    "SELECT * FROM duckdb_variables()",
    "SELECT * FROM duckdb_prepared_statements()",
    "SELECT * FROM duckdb_external_file_cache()",
    "SELECT * FROM duckdb_databases()",
    "SELECT * FROM duckdb_settings()",
    "SELECT write_log('x')",
    "SELECT * FROM checkpoint()",
    "SELECT current_query()",
    "SELECT getvariable('x')",
    "SELECT * FROM which_secret('s3://x', 's3')",
)
"""Answered: they tell nothing of the planted, and change nothing."""
OF_SERVER = (
    "FROM duckdb_databases()",
    "FROM system.main.duckdb_databases()",
    'SELECT hex(path) FROM "duckdb_databases"()',
    "FROM duckdb_settings()",
    "FROM pragma_database_list",
    "SELECT setting FROM pg_catalog.pg_settings",
    "SELECT * FROM query('FROM duckdb_' || 'databases()')",
    "SELECT * FROM query/* x */('FROM duckdb_' || 'databases()')",
    "SELECT * FROM query -- x\n ('FROM duckdb_' || 'databases()')",
    "SELECT * FROM \"query\"('FROM duckdb_' || 'databases()')",
    "SELECT * FROM query -- e\N{COMBINING ACUTE ACCENT}\r('FROM duckdb_' || 'databases()')",  # it ends there
    "SELECT * FROM query -- see\r('FROM duckdb_' || 'databases()')",
    "SELECT * FROM query /* a /* b */ c */ ('FROM duckdb_' || 'databases()')",
    "PIVOT (SELECT * FROM query /* a /* b */ c */ ('FROM duckdb_' || 'databases()')) ON path USING count(*)",
    "PIVOT (SELECT * FROM query -- see\r('FROM duckdb_' || 'databases()')) ON path USING count(*)",
    "PIVOT 'duckdb_databases' ON path USING count(*)",
    "FROM 'duckdb_databases'",
    "SELECT ' '' ' AS a, path FROM duckdb_databases() -- '",
    "EXPLAIN ANALYZE SELECT * FROM query('FROM duckdb_' || 'databases()')",
    "SELECT * FROM QUERY_TABLE('duckdb_' || 'databases')",
    "SELECT current_setting('allowed_' || 'paths')",
    "SELECT hex(('allowed_' || 'paths').current_setting()::VARCHAR)",
    "SELECT current_/* x */setting('allowed_paths')",
    "FROM json_execute_serialized_sql(json_serialize_sql('FROM duckdb_' || 'databases()'))",
)
"""None of these tells strangers where the release lies."""
PATTERN = (
    "read|scan|glob|file|copy|attach|secret|env|query|log|write|sniff|import|export|install|load|checkpoint|http|url"
    "|path|dir|blob|parquet|external|resource|extension|setting|variable|shell|exec|connect|database|serial|profil"
    "|user|session|storage|platform|python|arrow|pandas"
)
LOOKED_AT = frozenset(
    """
    __internal_json_copy_to_geojson __internal_json_copy_to_json add_parquet_key arrow_scan arrow_scan_dumb
    checkpoint collations copy_database create_external_resource current_catalog current_connection_id
    current_database current_query current_query_id current_setting current_user database_list database_size
    deregister_external_resource destroy_external_resource disable_checkpoint_on_shutdown disable_logging
    disable_object_cache disable_optimizer disable_print_progress_bar disable_profile disable_profiling
    disable_progress_bar disable_verification disable_verify_parallelism duckdb_approx_database_count
    duckdb_available_metrics duckdb_columns duckdb_connection_count duckdb_constraints duckdb_coordinate_systems
    duckdb_databases duckdb_dependencies duckdb_dialects duckdb_eviction_queues duckdb_extension_repositories
    duckdb_extensions duckdb_external_file_cache duckdb_external_resource_types duckdb_external_resources
    duckdb_functions duckdb_grammar_extensions duckdb_indexes duckdb_keywords duckdb_log_contexts duckdb_logs
    duckdb_logs_parsed duckdb_memory duckdb_optimizers duckdb_prepared_statements duckdb_profiling_settings
    duckdb_schemas duckdb_secret_type_parameters duckdb_secret_types duckdb_secrets duckdb_sequences
    duckdb_settings duckdb_table_sample duckdb_tables duckdb_temporary_files duckdb_triggers duckdb_types
    duckdb_variables duckdb_views enable_checkpoint_on_shutdown enable_logging enable_object_cache
    enable_optimizer enable_print_progress_bar enable_profile enable_profiling enable_progress_bar
    enable_verification extension_versions force_checkpoint functions generate_series getvariable glob
    has_database_privilege histogram histogram_values icu_calendar_names import_database in_search_path
    json_copy_strftime_if_date json_copy_strftime_if_timestamp json_deserialize_sql json_each
    json_execute_serialized_sql json_extract_path json_extract_path_text json_serialize_plan json_serialize_sql
    json_tree log log10 log2 metadata_info pandas_scan parquet_bloom_probe parquet_file_metadata
    parquet_full_metadata parquet_kv_metadata parquet_metadata parquet_scan parquet_schema parse_dirname
    parse_dirpath parse_duckdb_log_message parse_filename parse_path path_join pg_conf_load_time
    pg_timezone_names platform pragma_collations pragma_database_size pragma_metadata_info pragma_platform
    pragma_show pragma_storage_info pragma_table_info pragma_user_agent pragma_version python_arrow_scan
    python_map_function query query_table range read_blob read_csv read_csv_auto read_duckdb read_json
    read_json_auto read_json_objects read_json_objects_auto read_ndjson read_ndjson_auto read_ndjson_objects
    read_parquet read_single_csv_file read_single_json_file read_single_parquet_file read_text
    register_external_resource register_external_resource_type repeat repeat_row seq_scan session_user show
    show_databases show_tables show_tables_expanded sniff_csv storage_info summary table_info test_all_types
    test_vector_types truncate_duckdb_logs unnest url_decode url_encode user user_agent
    variant_to_parquet_variant verify_parallelism version which_secret write_log
    """.split()
)
"""Functions of DuckDB 2.0 that make a table, run a pragma or sound like a way out. A newer one that has more fails the
tests: find out what the new ones do, close them if need be, then enter them here."""


@dataclass(frozen=True)
class Planted:
    """Where the canaries are, and what they were."""

    folder: Path
    before: dict[Path, str]
    watched: tuple[Path, ...]

    def now(self) -> dict[Path, str]:
        return fingerprints(*self.watched)


def plant(folder: Path, release: Path) -> Planted:
    """Plant canaries in a folder; what is there and beside the release must not change."""
    folder.mkdir()
    (folder / "secret.csv").write_text(f"a\n{CANARY}\n")
    (folder / "secret.json").write_text(json.dumps([{"a": CANARY}]))
    (folder / LISTED).write_text(CANARY)
    with duckdb.connect(str(folder / "secret.duckdb")) as con:
        con.execute(f"CREATE TABLE t AS SELECT '{CANARY}' AS a")
        con.execute(f"COPY t TO '{folder}/secret.parquet' (FORMAT parquet)")
    watched = (folder, release.parent)
    return Planted(folder=folder, before=fingerprints(*watched), watched=watched)


def fingerprints(*folders: Path) -> dict[Path, str]:
    """SHA-256 of every file in some folders."""
    return {
        path: hashlib.sha256(path.read_bytes()).hexdigest()
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def leaks(text: str) -> list[str]:
    """Canaries, names and bytes of a DuckDB or Parquet file in what a statement gave."""
    return [word for word in (CANARY, LISTED, "DUCK@", "PAR1", "\\x44UCK") if word in text]


def looked_for(con: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """The functions of the installed DuckDB that have to be looked at, with their kind."""
    rows = con.execute(
        "SELECT DISTINCT function_name, function_type FROM duckdb_functions() WHERE "
        f"function_type IN ('table', 'table_macro', 'pragma') OR regexp_matches(function_name, '{PATTERN}')"
    ).fetchall()
    return dict(sorted(rows))


def calls(name: str, kind: str, planted: Planted, release: Path) -> list[str]:
    """Statements that try a function on everything planted."""
    d = planted.folder
    targets = (
        f"{d}/secret.csv",
        f"{d}/secret.json",
        f"{d}/secret.parquet",
        f"{d}/secret.duckdb",
        f"{d}/*",
        str(release),
        ENVIRONMENT,
    )
    is_table = kind in ("table", "table_macro")
    lists = ["", "1", *(f"'{t}'" for t in targets)]
    if is_table:
        lists += ["(SELECT 1)", "frame", "'frame'", "1, 2, 3", "'a', 'b'", "'release'"]
        lists += [shape for t in targets[::3] for shape in (f"['{t}']", f"'{t}', '{t}'")]
    form = 'SELECT * FROM "{}"({})' if is_table else 'SELECT "{}"({})'
    return [form.format(name, arguments) for arguments in lists]
