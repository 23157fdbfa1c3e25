-- Settings and variables of the server, under each of their names.
SELECT current_setting('memory_limit')
SELECT current_setting('allowed_' || 'paths')
SELECT "current_setting"('threads')
SELECT CURRENT_SETTING('threads')
SELECT main.current_setting('threads')
SELECT system.main.current_setting('threads')
SELECT ('threads').current_setting()
SELECT hex(('home_' || 'directory').current_setting()::VARCHAR)
SELECT current_/* x */setting('threads')
SELECT current_setting /* x */ ('threads')
SELECT current_setting -- x
FROM data WHERE age > length(current_setting('home_directory'))
SELECT count(*) FROM data GROUP BY current_setting('threads')
SELECT age FROM data ORDER BY current_setting('threads')
SELECT count(*) FROM data HAVING count(*) > length(current_setting('memory_limit'))
SELECT age FROM data LIMIT length(current_setting('memory_limit'))
SELECT age FROM data QUALIFY row_number() OVER (ORDER BY current_setting('threads')) = 1
SELECT sum(length(current_setting('threads')::VARCHAR)) OVER () FROM data
SELECT count(*) FILTER (WHERE current_setting('threads') > 0) FROM data
SELECT list_transform([1], x -> current_setting('threads'))
SELECT [current_setting(s) FOR s IN ['threads', 'memory_limit']]
SELECT CASE WHEN true THEN current_setting('memory_limit') END
SELECT (SELECT current_setting('memory_limit'))
SELECT 'a' LIKE current_setting('memory_limit')
SELECT INTERVAL (current_setting('threads')) DAY
SELECT {'a': current_setting('memory_limit')}
SELECT MAP {'a': current_setting('memory_limit')}
SELECT coalesce(current_setting('memory_limit'), 'x')
SELECT try(current_setting('memory_limit'))
SELECT error(current_setting('memory_limit'))
SELECT current_setting('memory_limit')::INTEGER
SELECT COLUMNS(c -> length(current_setting('memory_limit')) > 0) FROM data
WITH s AS (SELECT current_setting('memory_limit') AS v) SELECT v FROM s
WITH RECURSIVE s AS (SELECT current_setting('memory_limit') AS v UNION SELECT v FROM s) SELECT v FROM s
VALUES (current_setting('memory_limit'))
SELECT * FROM range(length(current_setting('memory_limit')))
SELECT * FROM repeat(current_setting('memory_limit'), 1)
SELECT * FROM unnest([current_setting('memory_limit')])
SELECT * FROM generate_series(1, length(current_setting('memory_limit')))
SELECT * FROM json_each(to_json(current_setting('memory_limit')))
SELECT * FROM data, LATERAL (SELECT current_setting('memory_limit') AS v)
SELECT * FROM data JOIN (SELECT current_setting('threads') AS v) ON v > age
DESCRIBE SELECT current_setting('memory_limit')
SUMMARIZE SELECT current_setting('memory_limit') AS v
EXPLAIN SELECT current_setting('memory_limit')
EXPLAIN ANALYZE SELECT current_setting('memory_limit')
FROM duckdb_settings()
FROM "duckdb_settings"()
FROM main.duckdb_settings()
FROM system.main.duckdb_settings()
SELECT value FROM duckdb_settings() WHERE name = 'memory_limit'
SELECT setting FROM pg_settings
SELECT setting FROM pg_catalog.pg_settings
SELECT setting FROM system.pg_catalog.pg_settings
SELECT setting FROM "pg_catalog"."pg_settings"
FROM 'pg_settings'
FROM duckdb_profiling_settings()
SELECT getvariable('x')
SELECT ('x').getvariable()
SELECT getvariable('a' || 'b')
FROM duckdb_variables()
SHOW VARIABLES
FROM (SHOW VARIABLES)
FROM duckdb_optimizers()
FROM duckdb_available_metrics()
FROM duckdb_logs()
FROM duckdb_logs
FROM duckdb_logs_parsed('QueryLog')
FROM duckdb_log_contexts()
SELECT parse_duckdb_log_message('FileSystem', 'x')
SELECT write_log('x')
SELECT write_log('x', level := 'error')
SHOW allowed_paths
SHOW "allowed_paths"
SHOW 'allowed_paths'
SHOW ALLOWED_PATHS
SHOW/**/allowed_paths
SHOW memory_limit
SHOW max_memory
SHOW home_directory
SHOW temp_directory
FROM (SHOW allowed_paths)
SELECT (FROM (SHOW allowed_paths))
SELECT [*COLUMNS(*)] FROM (SHOW allowed_paths)
WITH x AS (SHOW allowed_paths) FROM x
WITH RECURSIVE x AS (FROM (SHOW allowed_paths) UNION FROM x) FROM x
SUMMARIZE FROM (SHOW allowed_paths)
DESCRIBE FROM (SHOW allowed_paths)
EXPLAIN FROM (SHOW allowed_paths)
SELECT * FROM data, (SHOW allowed_paths) AS s
FROM data WHERE EXISTS (FROM (SHOW memory_limit) AS s(v) WHERE v > '')
PIVOT (FROM (SHOW allowed_paths)) ON allowed_paths USING count(*)
PIVOT (FROM (SHOW allowed_paths)) ON allowed_paths IN ('a') USING count(*)
WITH p AS (PIVOT (FROM (SHOW memory_limit)) ON memory_limit USING count(*)) FROM p
UNPIVOT (FROM (SHOW allowed_paths)) ON allowed_paths
PIVOT (SELECT​current_setting('memory_limit') AS v) ON v USING count(*)
PIVOT (SELECT current_setting⁠('memory_limit') AS v) ON v USING count(*)
PIVOT (FROM (SHOW​memory_limit)) ON memory_limit USING count(*)
PIVOT (FROM　pg_settings) ON name USING first(setting)
