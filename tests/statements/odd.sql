-- Statements of odd shapes, one a line: each figure's interval holds it, or there is none and a reason. See tests/intervals/test_odd_statements.py.
-- windows over groups
SELECT sex, count(*) AS n, 100.0 * count(*) / sum(count(*)) OVER () AS pct FROM data GROUP BY sex
SELECT region, 100 * count(*) / sum(count(*)) OVER () AS pct FROM data GROUP BY region HAVING count(*) > 150
SELECT region, 100 * count(*) / sum(count(*)) OVER () AS pct FROM data GROUP BY region HAVING region = 'R1'
SELECT region, sum(count(*)) OVER () AS s FROM data GROUP BY region HAVING region < 'R4'
SELECT region, sum(count(*)) FILTER (region = 'R1') OVER () AS s FROM data GROUP BY region
SELECT sex, sum(count(*)) FILTER (WHERE sex = 'Male') OVER () AS s FROM data GROUP BY sex
SELECT region, sex, sum(count(*)) OVER (PARTITION BY region) AS s FROM data GROUP BY region, sex
SELECT region, sex, sum(count(*)) OVER (PARTITION BY region, sex) AS s FROM data GROUP BY region, sex
SELECT region, sex, sum(count(*)) OVER (PARTITION BY sex || 'x') AS s FROM data GROUP BY region, sex
SELECT region, sex, sum(count(*)) OVER (PARTITION BY region ORDER BY sex) AS s FROM data GROUP BY region, sex
SELECT region, sex, sum(count(*)) OVER (PARTITION BY region = 'R1') AS s FROM data GROUP BY region, sex
SELECT region, sum(count(*)) OVER (ORDER BY region) AS s FROM data GROUP BY region
SELECT region, sum(count(*)) OVER (ORDER BY region DESC) AS s FROM data GROUP BY region
SELECT region, sum(count(*)) OVER (ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM (SELECT * FROM data ORDER BY region) GROUP BY region
SELECT region, sum(count(*)) OVER (ORDER BY region ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS s FROM data GROUP BY region
SELECT region, sum(count(*)) OVER (ORDER BY region ROWS UNBOUNDED PRECEDING) AS s FROM data GROUP BY region
SELECT region, sum(count(*)) OVER (ORDER BY region RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS s FROM data GROUP BY region
SELECT region, sum(count(*)) OVER (ORDER BY region GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS s FROM data GROUP BY region
SELECT region, sum(count(*)) OVER (ORDER BY region ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW) AS s FROM data GROUP BY region
SELECT region, sum(count(*)) OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW) AS s FROM data GROUP BY region
SELECT region, sum(count(*)) OVER (ROWS BETWEEN CURRENT ROW AND CURRENT ROW) AS s FROM data GROUP BY region
SELECT region, sum(DISTINCT count(*)) OVER () AS s FROM data GROUP BY region
SELECT region, sum(count(*) ORDER BY region) OVER () AS s FROM data GROUP BY region
SELECT region, avg(count(*)) OVER () AS s FROM data GROUP BY region
SELECT region, max(count(*)) OVER () AS s FROM data GROUP BY region
SELECT region, min(count(*)) OVER (PARTITION BY 1) AS s FROM data GROUP BY region
SELECT region, lag(count(*)) OVER (ORDER BY region) AS s FROM data GROUP BY region
SELECT region, count(*) - lag(count(*)) OVER (ORDER BY region) AS d FROM data GROUP BY region
SELECT region, first_value(count(*)) OVER (ORDER BY region) AS s FROM data GROUP BY region
SELECT region, rank() OVER (ORDER BY count(*) DESC) AS s FROM data GROUP BY region
SELECT region, ntile(3) OVER (ORDER BY count(*)) AS s FROM data GROUP BY region
SELECT region, row_number() OVER (ORDER BY region) AS s, count(*) AS n FROM data GROUP BY region
SELECT region, percent_rank() OVER (ORDER BY count(*)) AS s FROM data GROUP BY region
SELECT region, count(*) / max(count(*)) OVER () AS s FROM data GROUP BY region
SELECT region, sum(count(*)) OVER w AS s FROM data GROUP BY region WINDOW w AS (ORDER BY region)
SELECT region, sum(count(*)) OVER w AS s FROM data GROUP BY region WINDOW w AS (PARTITION BY region)
SELECT region, sex, count(*) AS n, n / sum(n) OVER (PARTITION BY region) AS share FROM data GROUP BY region, sex
SELECT region, sex, count(*) / sum(count(*)) OVER (PARTITION BY sex) AS share FROM data GROUP BY region, sex HAVING count(*) > 80
SELECT sex, sum(sum(age)) OVER () AS s FROM data GROUP BY sex HAVING sex = 'Male'
SELECT sex, sum(age) / sum(sum(age)) OVER () AS s FROM data GROUP BY sex
SELECT sex, sum(count(age)) OVER (ORDER BY sex) AS s FROM data GROUP BY sex
SELECT region, sum(count(*)) OVER () AS s FROM data GROUP BY region LIMIT 3
SELECT region, 100 * count(*) / sum(count(*)) OVER () AS s FROM data GROUP BY region ORDER BY s DESC LIMIT 2
SELECT region, count(*) OVER () AS s FROM data GROUP BY region
SELECT region, count(*) AS n, count(*) OVER () AS s FROM data GROUP BY region HAVING count(*) > 150
SELECT region, sum(count(*)) OVER (PARTITION BY NULL) AS s FROM data GROUP BY region
SELECT region, count(*) AS n FROM data GROUP BY region QUALIFY row_number() OVER (ORDER BY count(*) DESC) <= 3
SELECT region, count(*) AS n, 1.0 * n / sum(n) OVER () AS s FROM data GROUP BY region QUALIFY n > 150
SELECT age, sum(count(*)) OVER (ORDER BY age ROWS BETWEEN 4 PRECEDING AND CURRENT ROW) AS s FROM data GROUP BY age
SELECT age, avg(count(*)) OVER (ORDER BY age RANGE BETWEEN 2 PRECEDING AND 2 FOLLOWING) AS s FROM data GROUP BY age
SELECT DISTINCT sum(count(*)) OVER () AS s FROM data GROUP BY region
SELECT region, sex, lag(count(*)) OVER (ORDER BY region) AS s FROM data GROUP BY region, sex
SELECT region, sex, sum(count(*)) OVER (ORDER BY region ROWS 1 PRECEDING) AS s FROM data GROUP BY 1, 2
SELECT region AS r, sex, row_number() OVER (PARTITION BY sex ORDER BY r) AS s FROM data GROUP BY region, sex
-- no groups at all
SELECT sex, count(*) / sum(count(*)) OVER () AS s FROM data WHERE sex = 'Neither' GROUP BY sex
SELECT sex AS k, sum(count(*)) OVER (PARTITION BY k) AS s, count(*) * count(*) AS p FROM data WHERE sex = 'Neither' GROUP BY k
SELECT age, count(*) / sum(count(*)) OVER () AS s FROM data WHERE age > 500 GROUP BY age
-- an alias that hides a column, or is called like one
SELECT age // 10 * 10 AS age, count(*) AS n FROM data GROUP BY age
SELECT age // 10 * 10 AS age, count(*) AS n FROM data GROUP BY 1
SELECT age // 10 * 10 AS age, count(*) AS n FROM data GROUP BY ALL
SELECT age // 10 * 10 AS age, avg(age) AS m FROM data GROUP BY ALL
SELECT age // 10 * 10 AS Age, count(*) AS n FROM data GROUP BY AGE ORDER BY AGE
SELECT age // 10 * 10 AS age, count(*) AS n FROM data GROUP BY data.age
SELECT sex AS region, count(*) AS n FROM data GROUP BY data.sex, region
SELECT sex AS region, region AS sex, count(*) AS n FROM data GROUP BY region, sex
SELECT sex AS region, region AS sex, count(*) AS n FROM data GROUP BY 1, 2
SELECT sex AS region, region AS sex, count(*) AS n FROM data GROUP BY ALL
SELECT upper(sex) AS sex, count(*) AS n FROM data GROUP BY sex
SELECT upper(sex) AS sex, count(*) AS n FROM data WHERE sex = 'Male' GROUP BY sex
SELECT age > 40 AS age, count(*) AS n FROM data WHERE age > 20 GROUP BY age
SELECT age + 1 AS age, count(*) AS n FROM data GROUP BY age HAVING age > 90
SELECT count(*) AS age, sex FROM data GROUP BY sex
SELECT count(*) AS sex, sex FROM data GROUP BY data.sex
SELECT avg(age) AS age, sex FROM data GROUP BY sex ORDER BY age
SELECT avg(age) AS age, age + 1 AS more, sex FROM data GROUP BY sex, age
SELECT 'x' AS sex, count(*) AS n FROM data GROUP BY sex
SELECT 1 AS age, count(*) AS n FROM data GROUP BY age
SELECT age // 50 AS a, age // 50 + 1 AS b, count(*) AS n FROM data GROUP BY 1, 2
SELECT age // 50 AS a, count(*) AS n, n * 2 AS age FROM data GROUP BY a
-- COLUMNS, *, unnest: more columns than are written
SELECT count(COLUMNS('age|sex')) FROM data
SELECT count(COLUMNS('^(age|region)$')), count(*) AS n FROM data
SELECT sex, avg(COLUMNS('^age$')), count(*) AS n FROM data GROUP BY sex
SELECT sex, count(*) AS n, min(COLUMNS(['age'])) FROM data GROUP BY sex
SELECT COLUMNS('sex'), count(*) AS n FROM data GROUP BY ALL
SELECT COLUMNS(['sex', 'region']), count(*) AS n FROM data GROUP BY ALL
SELECT avg(age) AS m, unnest([1, 2]) AS u, count(*) AS n FROM data
SELECT unnest([1, 2]) AS u, count(*) AS n FROM data
SELECT unnest({'a': 1, 'b': 2}), count(*) AS n FROM data
SELECT sex, unnest({'a': count(*), 'b': avg(age)}), count(*) AS n FROM data GROUP BY sex
SELECT sex, unnest([count(*), 2]) AS u, count(*) AS n FROM data GROUP BY sex
SELECT unnest({'s': sex}), count(*) AS n FROM data GROUP BY sex
SELECT sex, count(*) AS n, unnest(generate_series(1, 2)) AS u FROM data GROUP BY sex
SELECT *, count(*) AS n FROM (SELECT sex FROM data) GROUP BY ALL
SELECT sex, * EXCLUDE (sex, region), count(*) AS n FROM (SELECT sex, region FROM data) GROUP BY ALL
SELECT count(*COLUMNS('age')) AS n FROM data
-- CAST and rounding
SELECT CAST(avg(age) AS INTEGER) AS m FROM data
SELECT avg(age)::INT AS m, round(avg(age)) AS r FROM data
SELECT sex, avg(age)::DECIMAL(9, 1) AS m FROM data GROUP BY sex
SELECT CAST(100.0 * count(*) FILTER (sex = 'Male') / count(*) AS INT) AS pct FROM data
SELECT CAST(count(*) AS VARCHAR) AS n FROM data
SELECT CAST(count(*) AS DOUBLE) AS n FROM data
SELECT CAST(count(*) AS BOOLEAN) AS n FROM data
SELECT CAST(avg(age) AS VARCHAR) AS m FROM data
SELECT TRY_CAST(avg(age) AS TINYINT) AS m FROM data
SELECT count(*)::UTINYINT AS n FROM data WHERE age = 40
SELECT TRY_CAST(count(*) AS TINYINT) AS n, TRY_CAST(median(income) AS TINYINT) AS m FROM data
SELECT age, TRY_CAST(count(*) + 110 AS TINYINT) AS n FROM data GROUP BY age
SELECT sex, count(*) - sum(1) FILTER (sex = 'Male') AS n FROM data GROUP BY sex
SELECT CAST(avg(age) AS INT) + 0.5 AS m FROM data
SELECT 2 * CAST(avg(age) AS INT) AS m FROM data
SELECT round(avg(age), 1) AS a, round(avg(age), -1) AS b, round(count(*), -2) AS c FROM data
SELECT floor(avg(age)) AS a, ceil(avg(age)) AS b, trunc(avg(age)) AS c FROM data
SELECT round(avg(age)) / 3 AS a, round(avg(age), 1) * 10 AS b FROM data
SELECT count(*) // 7 AS a, count(*) % 7 AS b, -count(*) AS c, abs(-count(*)) AS d FROM data
SELECT count(*) / 0 AS a, 0 / count(*) AS b, count(*) ^ 2 AS c FROM data
SELECT sqrt(count(*)) AS a, ln(count(*)) AS b, greatest(count(*), 10) AS c FROM data
SELECT format('{}', count(*)) AS a, count(*) || ' people' AS b, bar(count(*), 0, 2000) AS c FROM data
SELECT sum(age)::FLOAT AS a, sum(age::FLOAT) AS b, sum(age)::HUGEINT AS c FROM data
SELECT avg((age::INT > 40)::INT) AS a FROM data
SELECT avg((age > 40)::INT) AS a, sum((age > 40)::INT)::INT AS b FROM data
-- DISTINCT and FILTER
SELECT count(DISTINCT age) AS n FROM data
SELECT sex, count(DISTINCT region) AS n, count(*) AS m FROM data GROUP BY sex
SELECT sum(DISTINCT age) AS n, avg(DISTINCT age) AS m FROM data
SELECT DISTINCT count(*) AS n FROM data GROUP BY sex
SELECT DISTINCT sex FROM data
SELECT DISTINCT ON (sex) sex, age, count(*) AS n FROM data GROUP BY sex, age ORDER BY sex, n DESC
SELECT count(*) FILTER (age > 40) AS n FROM data
SELECT count(*) FILTER (WHERE NULL) AS n FROM data
SELECT avg(age) FILTER (WHERE sex = 'Male') AS n, avg(age) FILTER (WHERE false) AS m FROM data
SELECT sum(age) FILTER (WHERE sex = 'Male') / count(*) FILTER (WHERE sex = 'Male') AS n FROM data
SELECT sex, count(*) FILTER (WHERE age > 40 AND sex = 'Male') AS n FROM data GROUP BY sex
SELECT count(CASE WHEN age > 40 THEN 1 END) AS a, count(nullif(sex, 'Male')) AS b, count(1) AS c, count(NULL) AS d FROM data
SELECT sum(CASE WHEN age > 40 THEN 1 ELSE 0 END) AS a, sum(1) AS b, sum(0) AS c, sum(NULL) AS d FROM data
SELECT approx_count_distinct(age) AS a FROM data
-- medians, modes and aggregates of text, dates and booleans
SELECT median(sex) AS m FROM data
SELECT sex, median(region) AS m, count(*) AS n FROM data GROUP BY sex
SELECT quantile_disc(sex, 0.5) AS m FROM data
SELECT quantile_cont(age, 0.5) AS a, quantile_disc(age, 0.5) AS b, quantile(age, 0.5) AS c FROM data
SELECT median(arrival_date) AS m FROM data
SELECT median(carer) AS m, avg(carer::INT) AS a FROM data
SELECT mode(sex) AS a, mode(age) AS b FROM data
SELECT min(sex) AS a, max(age) AS b, any_value(sex) AS c, first(sex) AS d FROM data
SELECT count(sex) AS a, sum(carer) AS b, count_if(carer) AS c FROM (SELECT sex, NULL AS carer FROM data)
SELECT count_if(carer) AS c, bool_and(carer) AS d, bool_or(carer) AS e FROM data
SELECT string_agg(DISTINCT sex, ',') AS a, list(DISTINCT sex) AS b, histogram(sex) AS c FROM data
SELECT arg_max(sex, age) AS a, max(age, 3) AS b FROM data
SELECT median(age + 0.5) AS a, median(-age) AS b, median(age::VARCHAR) AS c FROM data
SELECT 2 * median(age) + 1 AS a, median(age) - avg(age) AS b, median(age)::INT AS c FROM data
SELECT median(age) FILTER (WHERE sex = 'Male') / median(age) FILTER (WHERE sex = 'Female') AS r FROM data
SELECT mad(age) AS a, stddev(age) AS b, var_pop(age) AS c, skewness(age) AS d, kurtosis(age) AS e FROM data
SELECT corr(age, income) AS a, covar_pop(age, income) AS b, regr_slope(income, age) AS c FROM data
SELECT entropy(sex) AS a, approx_quantile(age, 0.5) AS b, quantile_cont(age, [0.25, 0.75]) AS c FROM data
SELECT product(1 + age / 1e6) AS a, geomean(age + 1) AS b, favg(age) AS c, fsum(age) AS d FROM data
-- list, struct and map keys; keys of expressions
SELECT [sex] AS k, count(*) AS n FROM data GROUP BY k
SELECT {'s': sex, 'r': region} AS k, count(*) AS n FROM data GROUP BY k
SELECT map([sex], [region]) AS k, count(*) AS n FROM data GROUP BY k
SELECT [sex, NULL] AS k, region, count(*) AS n FROM data GROUP BY ALL
SELECT [[age // 50]] AS k, avg(age) AS n FROM data GROUP BY k
SELECT row(sex, region) AS k, count(*) AS n FROM data GROUP BY k
SELECT list_value(age > 40) AS k, count(*) AS n FROM data GROUP BY k
SELECT CASE WHEN age > 40 THEN 'old' END AS k, count(*) AS n FROM data GROUP BY k
SELECT age / 10 AS k, count(*) AS n FROM data GROUP BY k
SELECT (age / 7)::FLOAT AS k, count(*) AS n FROM data GROUP BY k
SELECT 'nan'::DOUBLE AS k, count(*) AS n FROM data GROUP BY k
SELECT NULL AS k, count(*) AS n FROM data GROUP BY k
SELECT arrival_date, count(*) AS n FROM data GROUP BY arrival_date
SELECT date_trunc('year', arrival_date) AS k, count(*) AS n FROM data GROUP BY k
SELECT year(arrival_date) AS k, count(*) AS n FROM data GROUP BY k
SELECT sex::ENUM ('Male', 'Female') AS k, count(*) AS n FROM data GROUP BY k
SELECT sex::BLOB AS k, count(*) AS n FROM data GROUP BY k
SELECT age::DECIMAL(5, 2) AS k, count(*) AS n FROM data GROUP BY k
SELECT interval (age // 50) years AS k, count(*) AS n FROM data GROUP BY k
SELECT count(*) AS n FROM data GROUP BY sex
SELECT sex, sex AS again, count(*) AS n FROM data GROUP BY ALL
SELECT sex, sex, count(*) AS n, count(*) AS n FROM data GROUP BY sex
-- totals
SELECT region, sex, count(*) AS n FROM data GROUP BY ROLLUP (region, sex)
SELECT region, sex, count(*) AS n, avg(age) AS m FROM data GROUP BY CUBE (region, sex)
SELECT region, sex, count(*) AS n, grouping(region) AS g FROM data GROUP BY GROUPING SETS ((region), (sex), ())
SELECT region, count(*) / sum(count(*)) OVER () AS n FROM data GROUP BY ROLLUP (region)
SELECT coalesce(region, 'all') AS region, count(*) AS n FROM data GROUP BY ROLLUP (region)
SELECT coalesce(region, 'all') AS k, count(*) AS n FROM data GROUP BY ROLLUP (region)
SELECT sex, count(*) AS n FROM data GROUP BY GROUPING SETS ((sex), (sex), ())
SELECT region, count(*) AS n FROM data GROUP BY ROLLUP (region) HAVING count(*) > 300
-- subqueries, joins, sets
SELECT (SELECT count(*) FROM data) AS n
SELECT sex, count(*) AS n, (SELECT avg(age) FROM data) AS m FROM data GROUP BY sex
SELECT avg(n) AS m FROM (SELECT region, count(*) AS n FROM data GROUP BY region)
WITH a AS (SELECT sex, age FROM data) SELECT sex, avg(age) AS m FROM a GROUP BY sex
WITH data2 AS (SELECT region, count(*) AS n FROM data GROUP BY region) SELECT max(n) AS m, sum(n) AS s FROM data2
SELECT sex, count(*) AS n FROM data GROUP BY sex UNION ALL SELECT 'all', count(*) FROM data
SELECT v.w, count(*) AS n FROM data JOIN (VALUES ('Male', 2), ('Female', 3)) AS v(sex, w) USING (sex) GROUP BY v.w
SELECT sum(w) AS n FROM data JOIN (VALUES ('Male', 2), ('Female', 3)) AS v(sex, w) USING (sex)
PIVOT (SELECT sex, region FROM data) ON sex USING count(*) GROUP BY region
SELECT sex, count(*) AS n FROM data, range(3) GROUP BY sex
SELECT count(*) AS n FROM data WHERE age > (SELECT avg(age) FROM data)
FROM data SELECT sex, count(*) AS n GROUP BY ALL HAVING n > 3 ORDER BY ALL
SUMMARIZE SELECT age FROM data
SELECT sex, count(*) AS n FROM data GROUP BY sex LIMIT 0
SELECT count(*) AS n FROM data LIMIT 1 OFFSET 1
SELECT count(*) AS n, count(*) AS n_low FROM data
