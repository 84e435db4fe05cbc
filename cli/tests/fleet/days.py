"""Thirty days of a fleet out of one: ask DuckDB to write each table once more for every day.

    days.py FROM TO DAYS

From the middle on every third host that was off is on, and its exits are a twentieth: that is what
the questions have to find.
"""
import shutil
import sys

import duckdb

source, target, days = sys.argv[1], sys.argv[2], int(sys.argv[3])
connection = duckdb.connect()
middle = days // 2
TABLES = ["hosts", "findings", "vms", "inhibits", "exits", "exit_times", "trials", "outcomes"]
SWITCHED = f"(day >= {middle} AND hash(host) % 3 = 0)"
CHANGES = {
    "hosts": f"CASE WHEN active = 'no' AND hardware = 'yes' AND {SWITCHED} THEN 'yes' ELSE active END AS active",
    "vms": f"CASE WHEN active = 'no' AND {SWITCHED} THEN 'yes' ELSE active END AS active",
    "exits": f"CASE WHEN {SWITCHED} THEN greatest(count // 20, 1) ELSE count END AS count",
}
for table in TABLES:
    changed = f"REPLACE ({CHANGES[table]}, time + to_days(day) AS time)" if table in CHANGES else "REPLACE (time + to_days(day) AS time)"
    rows = f"read_parquet('{source}/{table}/*/*.parquet', hive_partitioning = false)"
    shutil.copytree(f"{source}/{table}/dt=1970-01-01", f"{target}/{table}/dt=1970-01-01")
    if table == "exits":
        # One machine's recording becomes every machine's.
        hosts = f"(SELECT DISTINCT host AS of_host, vm AS of_vm, time AS of_time FROM read_parquet('{source}/vms/*/*.parquet', hive_partitioning = false))"
        rows = f"(SELECT r.* REPLACE (of_host AS host, of_vm AS vm, of_time AS time) FROM {rows} AS r, {hosts})"
    # A host is silent on the last day.
    silent = f"NOT (host = 'node-0007' AND day = {days - 1})"
    select = f"SELECT * {changed} FROM {rows}, (SELECT CAST(range AS INTEGER) AS day FROM range({days})) WHERE {silent}"
    dated = f"SELECT * EXCLUDE (day), strftime(time AT TIME ZONE 'UTC', '%Y-%m-%d') AS dt FROM ({select})"
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(
        f"COPY ({dated}) TO '{target}/{table}' (FORMAT parquet, COMPRESSION zstd, PARTITION_BY (dt), OVERWRITE_OR_IGNORE)"
    )
