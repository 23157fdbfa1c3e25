-- The process, DuckDB itself, and workers blocked without work.
SELECT version()
SELECT main.version()
SELECT upper(version())
SELECT ().version()
FROM pragma_version()
FROM pragma_platform()
FROM pragma_user_agent()
FROM duckdb_grammar_extensions()
FROM duckdb_dialects()
FROM duckdb_coordinate_systems()
SELECT sleep_ms(60000)
SELECT sleep_ms(age::BIGINT * 1000) FROM data
SELECT pg_sleep(60)
SELECT count(*) FROM range(1000) WHERE sleep_ms(1000) IS NULL
SELECT (60000).sleep_ms()
PIVOT (SELECT sleep_ms(60000) AS s FROM data) ON s USING count(*)
SELECT __internal_compress_string_uhugeint('x')
SELECT __internal_decompress_string(1::UHUGEINT)
SELECT "__internal_json_copy_to_json"('x')
SELECT combine(1, 2)
SELECT finalize(1)
SELECT to_aggregate_state('x')
SELECT create_sort_key(age, 'ASC') FROM data
SELECT constant_or_null(1, 2)
SELECT index_key('AGE', 1)
SELECT variant_normalize(1::VARIANT)
SELECT hive_partition_component('a', 'b')
SELECT has_table_privilege('AGE', 'SELECT')
SELECT format_type(1, 2)
SELECT pg_get_expr('x', 1)
SELECT json_copy_strftime_if_date(age, 'x') FROM data
SELECT get_type(1)
SELECT can_cast_implicitly(1, 'x')
SELECT error(version())
SELECT version()::INTEGER
SELECT 1 WHERE version() LIKE 'v%'
SELECT a FROM (SELECT version() AS a) WHERE a < 'z'
