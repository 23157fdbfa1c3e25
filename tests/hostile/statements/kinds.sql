-- Other kinds of statement, alone and hidden behind harmless ones.
ATTACH '{d}/secret.duckdb' AS other
ATTACH ':memory:' AS other
ATTACH IF NOT EXISTS '{s}' AS release
DETACH release
USE memory
COPY (SELECT 1) TO '{d}/out.csv'
COPY data TO '{d}/out.parquet'
COPY data FROM '{d}/secret.csv'
COPY FROM DATABASE release TO memory
EXPORT DATABASE '{d}/out'
IMPORT DATABASE '{d}/out'
INSTALL httpfs
LOAD httpfs
LOAD '{d}/secret.duckdb'
FORCE INSTALL httpfs
UPDATE EXTENSIONS
SET threads = 1
SET SESSION threads = 1
SET GLOBAL memory_limit = '1TB'
SET enable_external_access = true
SET lock_configuration = false
SET VARIABLE x = 1
SET VARIABLE x = (SELECT max(age) FROM data)
SET search_path = 'memory'
SET schema = 'memory'
RESET lock_configuration
RESET ALL
PRAGMA version
PRAGMA user_agent
PRAGMA platform
PRAGMA enable_profiling
PRAGMA disable_optimizer
PRAGMA show_tables
PRAGMA table_info('AGE')
PRAGMA storage_info('AGE')
PRAGMA functions
PRAGMA memory_limit = '1TB'
PRAGMA enable_verification
PRAGMA force_checkpoint
PRAGMA import_database('{d}')
PRAGMA copy_database('release', 'memory')
CALL pragma_version()
CALL enable_logging(storage_path := '{d}/log')
CALL histogram_values('duckdb_databases', path)
CREATE TABLE t AS SELECT 1
CREATE TEMP TABLE data AS SELECT 1
CREATE OR REPLACE TEMP VIEW data AS SELECT 1
CREATE VIEW v AS SELECT 1
CREATE MACRO m() AS 1
CREATE TEMP MACRO sum(x) AS 1
CREATE TYPE mood AS ENUM ('a')
CREATE SEQUENCE s
CREATE SCHEMA s
CREATE INDEX i ON catalog.notes (note)
CREATE SECRET s (TYPE s3)
CREATE PERSISTENT SECRET s (TYPE s3)
DROP SECRET s
INSERT INTO catalog.notes VALUES (1, 'a', 'b')
UPDATE catalog.notes SET note = ''
DELETE FROM catalog.notes
MERGE INTO catalog.notes USING catalog.codes ON true WHEN MATCHED THEN DELETE
TRUNCATE catalog.notes
DROP VIEW "AGE"
ALTER TABLE catalog.notes ADD COLUMN x INTEGER
COMMENT ON TABLE catalog.notes IS ''
PREPARE p AS SELECT 1
EXECUTE p
DEALLOCATE p
BEGIN
COMMIT
ROLLBACK
VACUUM
ANALYZE
CHECKPOINT
KILL 1
SELECT 1; SELECT 2
SELECT 1; ATTACH ':memory:' AS other
PIVOT data ON sex; COPY (SELECT 1) TO '{d}/out.csv'
EXPLAIN COPY (SELECT 1) TO '{d}/out.csv'
EXPLAIN ANALYZE CREATE TABLE t AS SELECT 1
EXPLAIN ANALYZE DELETE FROM catalog.notes
EXPLAIN EXPLAIN SELECT 1
/* EXPLAIN */ DELETE FROM catalog.notes
WITH x AS (DELETE FROM catalog.notes RETURNING *) FROM x
WITH x AS (INSERT INTO catalog.notes VALUES (1, 'a', 'b') RETURNING *) SELECT * FROM x
SELECT $1
SELECT ?
SELECT $name
COPY (SELECT 1) TO '{s}.wal' (FORMAT csv)
COPY (SELECT 1) TO '{s}.wal'
SELECT * FROM force_checkpoint('release')
SELECT * FROM enable_logging()
SELECT * FROM enable_profiling()
SELECT * FROM duckdb_extensions()
CREATE TEMP VIEW "AGE" AS SELECT 1
CREATE MACRO noise_interval(n) AS 1
CREATE TEMP MACRO m() AS 1
CREATE FUNCTION f() AS 1
CHECKPOINT release
SELECT 1; COPY (SELECT 1) TO '{d}/out.csv'
EXPLAIN ANALYZE COPY (SELECT 1) TO '{d}/out.csv'
/* EXPLAIN */ EXPLAIN (FORMAT json) DELETE FROM catalog.notes
/* EXPLAIN */ EXPLAIN (FORMAT json) INSERT INTO catalog.notes VALUES (1, 'a', 'b')
SELECT * FROM write_log('x')
