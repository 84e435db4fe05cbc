-- The tables of docs/fleet.md as views, for DuckDB started in the folder that `--parquet` wrote to.
CREATE OR REPLACE VIEW hosts AS SELECT * FROM read_parquet('hosts/*/*.parquet', hive_partitioning = true, union_by_name = true);
CREATE OR REPLACE VIEW findings AS SELECT * FROM read_parquet('findings/*/*.parquet', hive_partitioning = true, union_by_name = true);
CREATE OR REPLACE VIEW vms AS SELECT * FROM read_parquet('vms/*/*.parquet', hive_partitioning = true, union_by_name = true);
CREATE OR REPLACE VIEW inhibits AS SELECT * FROM read_parquet('inhibits/*/*.parquet', hive_partitioning = true, union_by_name = true);
CREATE OR REPLACE VIEW exits AS SELECT * FROM read_parquet('exits/*/*.parquet', hive_partitioning = true, union_by_name = true);
CREATE OR REPLACE VIEW exit_times AS SELECT * FROM read_parquet('exit_times/*/*.parquet', hive_partitioning = true, union_by_name = true);
CREATE OR REPLACE VIEW trials AS SELECT * FROM read_parquet('trials/*/*.parquet', hive_partitioning = true, union_by_name = true);
CREATE OR REPLACE VIEW outcomes AS SELECT * FROM read_parquet('outcomes/*/*.parquet', hive_partitioning = true, union_by_name = true);
