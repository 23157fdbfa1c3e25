-- Ordinary analysis; every statement is answered.
SELECT count(*) FROM data
SELECT sex, count(*) AS n FROM data GROUP BY sex ORDER BY sex
SELECT sex, age, count(*) FROM data GROUP BY ALL ORDER BY ALL
SELECT avg(age), median(age), stddev(age) FROM data
SELECT quantile_cont(age, [0.1, 0.5, 0.9]) FROM data
SELECT sex, round(100.0 * count(*) / sum(count(*)) OVER (), 1) AS pct FROM data GROUP BY sex
SELECT age, count(*), sum(count(*)) OVER (ORDER BY age) FROM data GROUP BY age
SELECT age // 10 * 10 AS decade, count(*) FROM data GROUP BY 1
SELECT count(*) FILTER (WHERE sex = 'f') FROM data
SELECT CASE WHEN age < 18 THEN 'child' ELSE 'adult' END AS who, count(*) FROM data GROUP BY 1
SELECT sex, list(DISTINCT age ORDER BY age) FROM data GROUP BY sex
SELECT town, count(*) FROM data WHERE town IS NOT NULL GROUP BY town HAVING count(*) > 1
SELECT sex, age, count(*) FROM data GROUP BY GROUPING SETS ((sex), (age), ())
SELECT sex, age, count(*) FROM data GROUP BY ROLLUP (sex, age)
SELECT sex, age, count(*), grouping(sex) FROM data GROUP BY CUBE (sex, age)
WITH t AS (SELECT sex, count(*) AS n FROM data GROUP BY sex) SELECT max(n) - min(n) FROM t
WITH t AS MATERIALIZED (SELECT age FROM data) SELECT count(*) FROM t a, t b WHERE a.age = b.age
WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT sum(n) FROM t
SELECT * FROM (SELECT sex, count(*) AS n FROM data GROUP BY sex) AS x WHERE n > 0
SELECT sex FROM data UNION SELECT CAST(age AS VARCHAR) FROM data
SELECT age FROM data EXCEPT SELECT 7
SELECT age FROM data WHERE age IN (7, 40) LIMIT 3
SELECT age FROM data WHERE age BETWEEN 7 AND 40 ORDER BY age DESC LIMIT 2 OFFSET 1
SELECT DISTINCT sex FROM data
SELECT DISTINCT ON (sex) sex, age FROM data ORDER BY sex, age
SELECT count(DISTINCT age), approx_count_distinct(age) FROM data
SELECT corr(age, age), regr_slope(age, age), covar_pop(age, age) FROM data
SELECT histogram(age), mode(age), mad(age), entropy(sex) FROM data
SELECT arg_max(age, age), max_by(age, age), first(age ORDER BY age) FROM data
SELECT string_agg(DISTINCT sex, ', ' ORDER BY sex) FROM data
SELECT row_number() OVER (PARTITION BY sex ORDER BY age), lag(age) OVER (ORDER BY age), ntile(4) OVER (ORDER BY age) FROM data
SELECT sex FROM data QUALIFY row_number() OVER (PARTITION BY sex) = 1
SELECT upper(sex), lower(sex), length(sex), substr(sex, 1, 1), sex || '!', concat_ws('-', sex, age) FROM data LIMIT 1
SELECT regexp_replace(town, 'B(.)', 'X\1'), town LIKE 'B%', town ILIKE 'b%', town SIMILAR TO 'B.*' FROM data LIMIT 1
SELECT coalesce(age, 0), nullif(age, 7), greatest(age, 10), abs(-age), age % 7, age ^ 2, sqrt(age), ln(age + 1) FROM data LIMIT 1
SELECT CAST(age AS VARCHAR), age::DOUBLE, TRY_CAST(sex AS INTEGER), typeof(age) FROM data LIMIT 1
SELECT today(), now()::TIMESTAMP, current_date, DATE '2020-01-31' + INTERVAL 1 MONTH, date_trunc('month', DATE '2020-05-06')
SELECT extract(year FROM DATE '2020-01-31'), strftime(DATE '2020-01-31', '%d.%m.%Y'), age(DATE '2020-01-01', DATE '2019-01-01')
SELECT [x * 2 FOR x IN [1, 2, 3] IF x > 1], list_sum([1, 2]), list_transform([1], lambda x: x + 1), [1, 2, 3][2]
SELECT {'a': 1}.a, MAP {'k': 1}['k'], struct_pack(a := 1), unnest([1, 2])
SELECT '{"a": [1]}'::JSON -> 'a', json_extract('{"a": 1}', '$.a'), to_json([1, 2])
SELECT random() BETWEEN 0 AND 1, hash(1), md5('x'), uuid() IS NOT NULL
SELECT COLUMNS('AGE|SEX') FROM data LIMIT 1
SELECT min(COLUMNS(* EXCLUDE (income, town))) FROM data
SELECT * EXCLUDE (income, town) FROM data LIMIT 2
FROM data SELECT sex LIMIT 1
FROM "AGE" LIMIT 1
SELECT count(*) FROM "AGE.SEX"
FROM catalog.notes
SELECT name, noise_sd FROM catalog.tables ORDER BY table_id
SELECT * FROM catalog.columns
FROM tables_with(['AGE', 'SEX'])
FROM values_of('AGE')
FROM card_of('AGE')
SELECT label_of('SEX', sex), count(*) FROM data GROUP BY ALL
SELECT noise_interval(count(*)) FROM data
SELECT sex, noise_interval(count(*), 'SEX').low FROM data GROUP BY sex
PIVOT (SELECT sex, age FROM data) ON sex USING count(*)
PIVOT (SELECT sex, age FROM data) ON sex USING count(*) GROUP BY age ORDER BY age
PIVOT (SELECT sex, age FROM data) ON sex IN ('f', 'm') USING count(*)
UNPIVOT (SELECT min(age) AS low, max(age) AS high FROM data) ON low, high INTO NAME bound VALUE age
SUMMARIZE SELECT age, sex FROM data
DESCRIBE data
DESCRIBE SELECT age FROM data
SHOW TABLES
SHOW ALL TABLES
EXPLAIN SELECT age FROM data
EXPLAIN ANALYZE SELECT count(*) FROM data
SELECT table_name FROM information_schema.tables
SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'AGE'
SELECT tablename FROM pg_catalog.pg_tables
VALUES (1, 'a'), (2, 'b')
SELECT * FROM range(3)
SELECT * FROM generate_series(1, 3) AS g(i)
SELECT age FROM data WHERE age > (SELECT avg(age) FROM data) LIMIT 1
SELECT age FROM data AS d WHERE EXISTS (SELECT 1 FROM data AS e WHERE e.age = d.age + 1) LIMIT 1
SELECT age, (SELECT count(*) FROM data AS e WHERE e.age < d.age) AS below FROM data AS d LIMIT 1
SELECT d.age FROM data AS d JOIN (VALUES (7), (40)) AS wanted(age) USING (age) LIMIT 1
SELECT age FROM data USING SAMPLE 2 ROWS
SELECT sex, count(*) FROM data GROUP BY sex ORDER BY count(*) DESC, sex COLLATE NOCASE LIMIT 1
SELECT 'the query of a user, pg_settings and current_setting' AS version -- of duckdb_databases()
SELECT 1 AS query, 2 AS "duckdb_settings", 3 AS current_setting
WITH query AS (SELECT 1 AS path) SELECT path FROM query
PIVOT (SELECT 'a query (x)' AS version) ON version USING count(*) -- one query (of mine)
PIVOT (SELECT sex, age FROM data WHERE age > (SELECT min(age) FROM data) AND age IN (7, 40)) ON sex USING count(*)
PIVOT (SELECT sex, age FROM data WHERE NOT (age = (7)) AND (age < (99)) AND age <> ALL (SELECT 8)) ON sex USING sum(age) AS s, count(*) AS n
SELECT count(*) FROM data WHERE age = ANY (SELECT 7) OR age IS DISTINCT FROM 40 OR (age, sex) = (7, 'f') OR age NOT BETWEEN 1 AND 9
SELECT sex, count(*) FROM data WHERE age >= ALL (SELECT 7) AND NOT (sex = 'x') GROUP BY sex HAVING count(*) <> (0)
PIVOT (SELECT sex, age FROM data) ON sex USING histogram(age)
