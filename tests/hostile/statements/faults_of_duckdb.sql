-- Statements on which DuckDB itself fails, and then prints its installation path.
SELECT "="(1, 'a')
SELECT "="(i, 'a') FROM range(2) AS r(i)
SELECT "<"(1, 'a')
SELECT "<="(1, 'a') FROM range(2)
SELECT ">"(age, 'a') FROM data
SELECT ">="(1, 'a')
SELECT "!="(1, 'a')
SELECT "IS DISTINCT FROM"(NULL, 'a')
SELECT "IS NOT DISTINCT FROM"(NULL, 'a')
SELECT (1)."="('a')
SELECT list_transform([1], x -> "="(x, 'a'))
PIVOT (SELECT "="(1, 'a') AS a) ON a USING count(*)
SELECT DISTINCT ON ("array_resize"(1::VARIANT, 0.5)) age FROM data
