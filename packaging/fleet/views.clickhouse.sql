-- The tables of docs/fleet.md as views, for ClickHouse. `file` looks below the server's user_files, or
-- below the working folder of clickhouse-local and chDB; `s3` takes the same arguments for a bucket.
CREATE OR REPLACE VIEW hosts AS SELECT * FROM file('hosts/*/*.parquet', Parquet);
CREATE OR REPLACE VIEW findings AS SELECT * FROM file('findings/*/*.parquet', Parquet);
CREATE OR REPLACE VIEW vms AS SELECT * FROM file('vms/*/*.parquet', Parquet);
CREATE OR REPLACE VIEW inhibits AS SELECT * FROM file('inhibits/*/*.parquet', Parquet);
CREATE OR REPLACE VIEW exits AS SELECT * FROM file('exits/*/*.parquet', Parquet);
CREATE OR REPLACE VIEW exit_times AS SELECT * FROM file('exit_times/*/*.parquet', Parquet);
CREATE OR REPLACE VIEW trials AS SELECT * FROM file('trials/*/*.parquet', Parquet);
CREATE OR REPLACE VIEW outcomes AS SELECT * FROM file('outcomes/*/*.parquet', Parquet);
