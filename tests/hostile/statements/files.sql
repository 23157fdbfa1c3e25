-- Files, folders, the network, Python and memory; {d} is a folder with planted files, {s} the release, {f} its folder.
FROM '{d}/secret.csv'
FROM "{d}/secret.csv"
FROM '{d}/secret.parquet'
FROM '{d}/secret.json'
FROM '{d}/secret.duckdb'
FROM '{d}/*.csv'
FROM read_csv('{d}/secret.csv')
FROM read_csv(['{d}/secret.csv'])
FROM read_csv('{d}/' || 'secret.csv')
FROM system.main.read_csv('{d}/secret.csv')
FROM READ_CSV('{d}/secret.csv')
FROM "read_csv"('{d}/secret.csv')
FROM read_csv_auto('{d}/secret.csv')
FROM read_parquet('{d}/secret.parquet')
FROM parquet_scan('{d}/secret.parquet')
FROM parquet_metadata('{d}/secret.parquet')
FROM parquet_schema('{d}/secret.parquet')
FROM parquet_kv_metadata('{d}/secret.parquet')
FROM parquet_file_metadata('{d}/secret.parquet')
FROM parquet_full_metadata('{d}/secret.parquet')
FROM parquet_bloom_probe('{d}/secret.parquet', 'a', 1)
FROM read_json('{d}/secret.json')
FROM read_json_auto('{d}/secret.json')
FROM read_json_objects('{d}/secret.json')
FROM read_ndjson('{d}/secret.json')
FROM read_ndjson_objects('{d}/secret.json')
FROM read_text('{d}/*')
FROM read_blob('{d}/**')
FROM read_duckdb('{d}/secret.duckdb')
FROM read_single_csv_file('{d}/secret.csv')
FROM sniff_csv('{d}/secret.csv')
FROM glob('{d}/*')
FROM glob('{f}/*')
FROM glob('/')
FROM glob('~/*')
SELECT file FROM glob('/proc/self/*')
FROM read_text('/proc/self/environ')
FROM read_text('/proc/self/cmdline')
FROM read_text('/proc/self/maps')
FROM read_blob('/proc/self/fd/3')
FROM read_text('/dev/stdin')
FROM read_text('{s}.manifest.json')
FROM read_blob('{s}')
FROM read_text('file://{d}/secret.csv')
FROM read_csv('/dev/fd/0')
FROM read_csv('https://localhost/x.csv')
FROM 's3://bucket/x.parquet'
FROM 'hf://datasets/x/y.csv'
FROM read_csv('pipe:cat {d}/secret.csv|')
SELECT age FROM data WHERE EXISTS (FROM read_text('{d}/secret.csv'))
SELECT (FROM read_text('{d}/secret.csv') SELECT content)
WITH x AS (FROM read_csv('{d}/secret.csv')) FROM x
DESCRIBE FROM '{d}/secret.csv'
SUMMARIZE '{d}/secret.csv'
EXPLAIN ANALYZE FROM '{d}/secret.csv'
PIVOT '{d}/secret.csv' ON a USING count(*)
PIVOT read_csv('{d}/secret.csv') ON a USING count(*)
PIVOT (FROM read_text('{d}/secret.csv')) ON content USING count(*)
UNPIVOT '{d}/secret.csv' ON a
FROM data UNION ALL BY NAME FROM read_csv('{d}/secret.csv')
FROM data, read_csv(sex)
FROM data, LATERAL read_text(sex)
SELECT getenv('TABLEPACK_CANARY')
SELECT getenv('PATH')
FROM frame
FROM canary_table
FROM python_map_function((SELECT 1))
FROM pandas_scan(1)
FROM arrow_scan(1, 2, 3)
FROM arrow_scan_dumb(1, 2, 3)
FROM python_arrow_scan(1)
FROM seq_scan()
FROM sqlite_scan('{d}/secret.duckdb', 't')
FROM postgres_query('host=localhost', 'SELECT 1')
FROM st_read('{d}/secret.csv')
FROM read_xlsx('{d}/secret.xlsx')
FROM iceberg_scan('{d}')
FROM delta_scan('{d}')
FROM enable_logging()
FROM disable_logging()
FROM enable_profiling()
FROM checkpoint()
FROM force_checkpoint('release')
FROM truncate_duckdb_logs()
FROM register_external_resource('a', 'b')
FROM create_external_resource('a', 'b')
FROM test_all_types()
SELECT * FROM read_csv('{d}/secret.csv')
SELECT * FROM read_csv_auto('{d}/secret.csv')
SELECT * FROM '{d}/secret.csv'
SELECT * FROM '{d}/secret.parquet'
SELECT * FROM '{d}/secret.json'
SELECT * FROM "{d}/secret.csv"
SELECT * FROM read_parquet(['{d}/secret.parquet'])
SELECT * FROM parquet_metadata('{d}/secret.parquet')
SELECT * FROM parquet_schema('{d}/secret.parquet')
SELECT * FROM read_json_objects('{d}/secret.json')
SELECT * FROM read_json('{d}/secret.json')
SELECT * FROM read_text('{d}/*.csv')
SELECT * FROM read_blob('{d}/**')
SELECT * FROM read_text('file://{d}/secret.csv')
SELECT * FROM read_text('{f}/../{d}/secret.csv')
SELECT * FROM read_text('/proc/self/environ')
SELECT * FROM read_blob('/proc/self/fd/*')
SELECT * FROM read_text('/dev/stdin')
SELECT * FROM sniff_csv('{d}/secret.csv')
SELECT * FROM read_duckdb('{d}/secret.duckdb')
SELECT * FROM '{d}/secret.duckdb'
SELECT * FROM query('FROM read_text(''{d}/secret.csv'')')
SELECT * FROM query_table('{d}/secret.csv')
WITH x AS (SELECT * FROM read_csv('{d}/secret.csv')) SELECT * FROM x, data
SELECT (SELECT content FROM read_text('{d}/secret.csv'))
EXPLAIN ANALYZE SELECT * FROM read_csv('{d}/secret.csv')
PIVOT read_csv('{d}/secret.csv') ON a
PIVOT data ON (SELECT content FROM read_text('{d}/secret.csv'))
DESCRIBE SELECT * FROM '{d}/secret.csv'
SELECT content FROM read_blob('{s}')
SELECT content FROM read_text('{s}.manifest.json')
SELECT * FROM glob('{d}/*')
SELECT * FROM glob('{f}/*')
SELECT * FROM glob('{d}/../*/*')
SELECT * FROM frame
SELECT * FROM canary_table
SELECT a FROM canary_list
SELECT * FROM python_map_function((SELECT 1))
SELECT * FROM 'https://localhost/x.csv'
SELECT * FROM 's3://bucket/x.parquet'
SELECT * FROM sqlite_scan('{d}/x', 't')
SELECT * FROM postgres_scan('host=localhost', 'public', 't')
SET disabled_filesystems = ''
SELECT write_blob('{d}/out', 'x')
