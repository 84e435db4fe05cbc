#!/usr/bin/env python3
"""Asks the questions of questions/ of a folder that `avicenna ... --parquet` wrote to.

    ask.py FOLDER [duckdb|clickhouse|spark] [--json]

Needs the engine's own Python module (duckdb, chdb for ClickHouse, pyspark) and nothing else. Prints how
many rows each answer has, its first ones, and how long it took.
"""
import json
import os
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent


def statements(name):
    text = (HERE / name).read_text()
    lines = [line for line in text.splitlines() if not line.startswith("--")]
    return [one.strip() for one in "\n".join(lines).split(";") if one.strip()]


def duckdb_engine():
    import duckdb

    connection = duckdb.connect()

    def ask(sql):
        cursor = connection.execute(sql)
        return [column[0] for column in cursor.description or []], cursor.fetchall()

    return "views.duckdb.sql", ask


def clickhouse_engine():
    from chdb import session

    connection = session.Session()

    def ask(sql):
        answer = connection.query(sql, "JSONCompact")
        text = str(answer) if answer is not None else ""
        if not text.strip():
            return [], []
        parsed = json.loads(text)
        return [column["name"] for column in parsed["meta"]], [tuple(row) for row in parsed["data"]]

    return "views.clickhouse.sql", ask


def spark_engine():
    from pyspark.sql import SparkSession

    session = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")

    def ask(sql):
        # Without a catalogue its views are those of a session; texts have another name.
        sql = sql.replace("REPLACE VIEW", "REPLACE TEMPORARY VIEW").replace("VARCHAR", "STRING")
        rows = session.sql(sql)
        return rows.columns, [tuple(row) for row in rows.collect()]

    return "views.spark.sql", ask


def main():
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    if not words:
        sys.exit(__doc__)
    os.chdir(words[0])
    engine = words[1] if len(words) > 1 else "duckdb"
    engines = {"duckdb": duckdb_engine, "clickhouse": clickhouse_engine, "spark": spark_engine}
    if engine not in engines:
        sys.exit(f"{engine} is none of {', '.join(engines)}")
    views, ask = engines[engine]()
    for statement in statements(views) + statements("views.sql"):
        ask(statement)
    for path in sorted((HERE / "questions").glob("*.sql")):
        begun = time.monotonic()
        names, rows = ask("".join(statements(f"questions/{path.name}")))
        seconds = time.monotonic() - begun
        if "--json" in sys.argv:
            first = [[str(value) for value in row] for row in rows[:5]]
            result = {"question": path.stem, "seconds": seconds, "rows": len(rows), "columns": names, "first": first}
            print(json.dumps(result))
            continue
        print(f"{path.read_text().splitlines()[0][3:]}  ({len(rows)} rows, {seconds:.2f} s)")
        print("  " + " | ".join(names))
        for row in rows[:5]:
            print("  " + " | ".join(str(value) for value in row))


main()
