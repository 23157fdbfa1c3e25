-- Where the release is, and what else is attached.
FROM duckdb_databases()
FROM duckdb_databases
SELECT path FROM duckdb_databases()
SELECT hex(path) FROM duckdb_databases()
SELECT base64(path::BLOB) FROM duckdb_databases()
SELECT reverse(path) FROM duckdb_databases()
SELECT length(path) FROM duckdb_databases()
SELECT ascii(path[1]) FROM duckdb_databases()
SELECT count(*) FROM duckdb_databases() WHERE path LIKE '/%'
SELECT error(path) FROM duckdb_databases()
SELECT CAST(path AS INTEGER) FROM duckdb_databases()
SELECT path::DATE FROM "duckdb_databases"()
SELECT d.path FROM main.duckdb_databases() AS d
SELECT d.path FROM system.main.duckdb_databases() AS d
SELECT ' '' ' AS a, path FROM duckdb_databases() -- '
SELECT (SELECT path FROM duckdb_databases() LIMIT 1)
SELECT age FROM data WHERE EXISTS (FROM duckdb_databases() WHERE path LIKE '/%')
SELECT age FROM data WHERE 'x' IN (SELECT path FROM duckdb_databases())
WITH d AS (FROM duckdb_databases()) SELECT path FROM d
WITH d AS MATERIALIZED (FROM duckdb_databases()) SELECT path FROM d
SELECT path FROM (FROM duckdb_databases()) UNION ALL SELECT sex FROM data
SELECT sex FROM data EXCEPT SELECT path FROM duckdb_databases()
SELECT COLUMNS('pa.*') FROM duckdb_databases()
SELECT d FROM duckdb_databases() AS d
SELECT to_json(d) FROM duckdb_databases() AS d
SELECT list(path) FROM duckdb_databases()
SELECT string_agg(path, ',') FROM duckdb_databases()
SELECT max(path) OVER () FROM duckdb_databases()
SELECT * EXCLUDE (tags) FROM duckdb_databases()
SELECT * REPLACE (upper(path) AS path) FROM duckdb_databases()
UNPIVOT (SELECT path FROM duckdb_databases()) ON path
PIVOT (SELECT path FROM duckdb_databases()) ON path USING count(*)
PIVOT duckdb_databases() ON path USING count(*)
PIVOT duckdb_databases ON path USING count(*)
PIVOT 'duckdb_databases' ON path USING count(*)
PIVOT "duckdb_databases" ON path USING count(*)
PIVOT pragma_database_list ON file USING count(*)
PIVOT (SELECT CAST(path AS INTEGER) AS p FROM duckdb_databases()) ON p USING count(*)
PIVOT data ON (SELECT path FROM duckdb_databases() LIMIT 1) USING count(*)
PIVOT data ON sex USING count(*) FILTER (WHERE 'x' IN (SELECT path FROM duckdb_databases()))
SUMMARIZE duckdb_databases
SUMMARIZE SELECT * FROM duckdb_databases()
EXPLAIN ANALYZE SELECT * FROM duckdb_databases()
SHOW DATABASES
FROM (SHOW DATABASES)
SHOW databases;
FROM pragma_database_list
FROM pragma_database_list()
PRAGMA database_list
CALL duckdb_databases()
FROM pragma_database_size()
PRAGMA database_size
SELECT datname FROM pg_database
SELECT datname FROM pg_catalog.pg_database
FROM sqlite_master, pragma_database_list
FROM duckdb_external_file_cache()
FROM duckdb_temporary_files()
FROM duckdb_memory()
FROM duckdb_eviction_queues()
FROM duckdb_extensions()
SELECT install_path FROM duckdb_extensions()
FROM duckdb_extension_repositories()
FROM duckdb_secrets()
FROM which_secret('s3://x', 's3')
FROM duckdb_secret_types()
FROM duckdb_external_resources()
FROM pragma_storage_info('AGE')
FROM pragma_metadata_info()
FROM pragma_metadata_info('release')
SELECT get_block_size('release')
FROM duckdb_approx_database_count()
FROM duckdb_connection_count()
FROM system.main.duckdb_databases()
SELECT hex(path) FROM "duckdb_databases"()
SELECT * FROM query('FROM duckdb_' || 'databases()')
SELECT * FROM query/* x */('FROM duckdb_' || 'databases()')
SELECT * FROM query -- x{n} ('FROM duckdb_' || 'databases()')
SELECT * FROM "query"('FROM duckdb_' || 'databases()')
SELECT * FROM query -- é{r}('FROM duckdb_' || 'databases()')
SELECT * FROM query /* a /* b */ c */ ('FROM duckdb_' || 'databases()')
FROM 'duckdb_databases'
EXPLAIN ANALYZE SELECT * FROM query('FROM duckdb_' || 'databases()')
SELECT * FROM QUERY_TABLE('duckdb_' || 'databases')
SELECT hex(('allowed_' || 'paths').current_setting()::VARCHAR)
SELECT current_/* x */setting('allowed_paths')
