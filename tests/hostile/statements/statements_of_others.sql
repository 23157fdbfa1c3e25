-- Other clients' statements, and how many there were.
SELECT current_query()
SELECT current_query_id()
SELECT current_connection_id()
SELECT current_transaction_id()
SELECT txid_current()
SELECT ().txid_current()
SELECT main.txid_current()
SELECT age + txid_current() FROM data
SELECT * FROM range(txid_current())
FROM duckdb_prepared_statements()
FROM pg_prepared_statements
FROM pg_catalog.pg_prepared_statements
SELECT pg_postmaster_start_time()
SELECT pg_conf_load_time()
SELECT inet_client_addr()
SELECT inet_client_port()
SELECT inet_server_addr()
SELECT pg_my_temp_schema()
SELECT pg_is_other_temp_schema(1)
SELECT pg_get_viewdef(view_oid) FROM duckdb_views()
SELECT sql FROM duckdb_views() WHERE NOT internal
SELECT schema_name, view_name FROM duckdb_views() WHERE database_name = 'memory'
SELECT * FROM duckdb_schemas() WHERE database_name = 'memory'
SELECT schema_name FROM information_schema.schemata
SELECT * FROM information_schema.tables
SELECT * FROM information_schema.views
SELECT view_definition FROM information_schema.views WHERE table_catalog IN ('memory', 'temp')
SELECT * FROM information_schema.columns WHERE table_catalog <> 'release'
SELECT definition FROM pg_views
SELECT * FROM pg_catalog.pg_class
SELECT * FROM pg_catalog.pg_namespace
SELECT sql FROM sqlite_master
SELECT sql FROM sqlite_temp_master
SELECT * FROM duckdb_types() WHERE NOT internal
SELECT * FROM duckdb_tables() WHERE database_name <> 'release'
SELECT * FROM duckdb_columns() WHERE database_name <> 'release'
SELECT * FROM duckdb_functions() WHERE NOT internal
SELECT * FROM duckdb_sequences()
SELECT * FROM duckdb_indexes()
SELECT * FROM duckdb_constraints()
SHOW TABLES
SHOW ALL TABLES
SHOW TABLES FROM memory.logical_0
DESCRIBE
DESCRIBE memory.logical_0.data
FROM memory.logical_0.data
FROM memory.logical_1.data
FROM memory.logical_2.data
SELECT * FROM logical_0.data
SUMMARIZE memory.logical_1.data
PIVOT memory.logical_0.data ON sex USING count(*)
FROM temp.main.data
FROM temp.data
FROM pragma_table_info('memory.logical_0.data')
FROM pragma_table_info('logical_1.data')
FROM pragma_show('memory.logical_0.data')
SELECT nextval('s')
SELECT currval('s')
SELECT setval('s', 1)
SELECT current_schemas(true)
SELECT current_schema()
SELECT in_search_path('memory', 'logical_0')
SELECT stats(age) FROM data
SELECT vector_type(age) FROM data
FROM duckdb_table_sample('AGE')
FROM duckdb_dependencies()
FROM duckdb_triggers()
FROM pg_depend
SELECT col_description(1, 1)
SELECT obj_description(1, 'x')
