-- The tables of docs/fleet.md as views, for Spark started in the folder that `--parquet` wrote to.
CREATE OR REPLACE VIEW hosts AS SELECT * FROM parquet.`hosts`;
CREATE OR REPLACE VIEW findings AS SELECT * FROM parquet.`findings`;
CREATE OR REPLACE VIEW vms AS SELECT * FROM parquet.`vms`;
CREATE OR REPLACE VIEW inhibits AS SELECT * FROM parquet.`inhibits`;
CREATE OR REPLACE VIEW exits AS SELECT * FROM parquet.`exits`;
CREATE OR REPLACE VIEW exit_times AS SELECT * FROM parquet.`exit_times`;
CREATE OR REPLACE VIEW trials AS SELECT * FROM parquet.`trials`;
CREATE OR REPLACE VIEW outcomes AS SELECT * FROM parquet.`outcomes`;
