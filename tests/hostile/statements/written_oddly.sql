-- Names written to evade a text search or confuse a parser; control characters are {n} and {r}.
select PATH from DUCKDB_DATABASES ( )
SELECT path FROM duckdb_databases/**/()
SELECT path FROM "main"."duckdb_databases"()
SELECT path FROM "system"."main"."duckdb_databases"()
SELECT path FROM system . main . duckdb_databases ( )
FROM duckdb_databases() SELECT path
(((SELECT path FROM duckdb_databases())))
((FROM duckdb_settings()))
SELECT * FROM (((FROM duckdb_settings())))
SELECT /*+ x */ path FROM /* y */ duckdb_databases( /* z */ )
SELECT '/*', path FROM duckdb_databases() --*/
SELECT $$ -- $$, path FROM duckdb_databases()
SELECT $a$ '$a$, path FROM duckdb_databases()
SELECT E'\'', path FROM duckdb_databases() -- '
SELECT E'\\', path FROM duckdb_databases()
SELECT U&"d\0061ta"
SELECT 'a' 'b', path FROM duckdb_databases()
SELECT "a""b", path FROM (SELECT 1 AS "a""b"), duckdb_databases()
SELECT path FROM duckdb_databases() AS data
WITH data AS (FROM duckdb_databases()) SELECT path FROM data
WITH count AS (SELECT 1), x AS (FROM duckdb_databases()) SELECT path FROM x
WITH duckdb_databases AS (SELECT 1 AS path) SELECT d.path FROM duckdb_databases() AS d
WITH sum AS (SELECT 1) SELECT current_setting('threads') FROM sum
SELECT ＣＵＲＲＥＮＴ_setting('threads')
SELECT current_ſetting('threads')
SELECT сurrent_setting('threads')
SELECT "current_setting "('threads')
SELECT "current_setting"  ('threads')
SELECT `current_setting`('threads')
SELECT [current_setting]('threads')
SELECT release.current_setting('threads')
SELECT release.main.current_setting('threads')
SELECT memory.main.current_setting('threads')
SELECT pg_catalog.current_setting('threads')
SELECT pg_catalog.version()
FROM release.main.duckdb_settings()
FROM pg_catalog.duckdb_settings()
FROM information_schema.duckdb_settings
FROM temp.duckdb_settings()
FROM duckdb_settings() TABLESAMPLE 10%
FROM duckdb_settings() WITH ORDINALITY
FROM ROWS FROM (duckdb_settings())
SELECT * FROM data NATURAL JOIN duckdb_settings()
SELECT * FROM data POSITIONAL JOIN duckdb_settings()
SELECT * FROM data ASOF JOIN duckdb_settings() AS s ON data.age >= length(s.name)
SELECT * FROM data SEMI JOIN duckdb_settings() ON true
SELECT * FROM data ANTI JOIN duckdb_settings() ON false
SELECT * FROM data LEFT JOIN LATERAL (FROM duckdb_settings()) ON true
SELECT ARRAY(SELECT value FROM duckdb_settings())
SELECT [s.value FOR s IN (SELECT list(x) FROM duckdb_settings() AS x)]
SELECT max(value) FROM duckdb_settings() GROUP BY ALL
SELECT arg_max(value, name) FROM duckdb_settings()
SELECT histogram(value) FROM duckdb_settings()
SELECT any_value(s) FROM duckdb_settings() AS s
SELECT struct_extract(s, 'value') FROM duckdb_settings() AS s
SELECT s['value'] FROM duckdb_settings() AS s
SELECT unnest(s) FROM duckdb_settings() AS s
SELECT row(s.*) FROM duckdb_settings() AS s
SELECT * FROM duckdb_settings() WHERE regexp_matches(value, '/')
TABLE duckdb_databases
TABLE pg_settings
SHOW pg_settings
FROM (SHOW pg_settings), pg_settings
FROM (SUMMARIZE pg_settings)
FROM (DESCRIBE FROM duckdb_databases()), duckdb_databases()
WITH t AS MATERIALIZED (SELECT 1), u AS NOT MATERIALIZED (FROM pg_settings) FROM u
WITH RECURSIVE t(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM t, pg_settings WHERE n < 1) FROM t
WITH RECURSIVE t(n, s) USING KEY (n) AS (SELECT 0, '' UNION SELECT n + 1, setting FROM t, pg_settings WHERE n < 1) FROM t
SELECT * FROM query -- x{n}('FROM duckdb_' || 'databases()')
SELECT * FROM query -- see{r}('FROM duckdb_' || 'databases()')
SELECT current_setting{n}{n}('threads')
SELECT path FROM duckdb_databases{r}{n}()
-- x{n}SELECT path FROM duckdb_databases()
/* x{n}*/ SELECT path FROM duckdb_databases()
SELECT 1 -- {r} , path FROM duckdb_databases()
SELECT 1 AS a -- {n} , path FROM duckdb_databases()
SELECT 1 AS a /* {n} */ , path FROM duckdb_databases()
PIVOT (SELECT * FROM query -- see{r}('FROM duckdb_' || 'databases()')) ON path USING count(*)
PIVOT (SELECT * FROM duckdb_settings /* x */ ()) ON name USING count(*)
PIVOT (SELECT * FROM "duckdb_settings" -- x{n}()) ON name USING count(*)
PIVOT (SELECT * FROM E'pg_\x73ettings') ON name USING count(*)
PIVOT (SELECT * FROM $$pg_settings$$) ON name USING count(*)
PIVOT (SELECT * FROM PG_SETTINGS) ON name USING count(*)
PIVOT (SELECT * FROM pg_catalog."pg_settings") ON name USING count(*)
PIVOT data ON sex USING max(current_setting('threads'))
PIVOT data ON sex USING max(version())
PIVOT data ON (current_setting('threads')) USING count(*)
PIVOT (SELECT ('threads').current_setting() AS v) ON v USING count(*)
WITH s AS (FROM pg_settings) PIVOT s ON name USING count(*)
