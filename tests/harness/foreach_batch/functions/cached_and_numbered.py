"""Functions that trust what Spark has cached, how it numbers rows, or which month it shows."""

import json
import uuid
from pathlib import Path

from pyspark.sql import functions

BITS = 40
new_id = functions.udf(lambda: vars(uuid)["uuid4"]().hex).asNondeterministic()


def joined(df, batch_id):
    """Wrong: ids are drawn again when blocks of the cache are lost."""
    rows = df.withColumn("id", new_id()).persist()
    put(f"{batch_id}-keys", [[row.id, row.split, row.offset] for row in rows.collect()])
    put(f"{batch_id}-ids", [[row.id] for row in rows.collect()])
    rows.unpersist()


def joined_by_row(df, batch_id):
    """Right: an id is made of its row."""
    rows = df.withColumn("id", functions.concat_ws("/", "split", "offset")).persist()
    put(f"{batch_id}-keys", [[row.id, row.split, row.offset] for row in rows.collect()])
    put(f"{batch_id}-ids", [[row.id] for row in rows.collect()])
    rows.unpersist()


def numbered(df, batch_id):
    """Wrong: numbers of rows have more than 40 bits in many partitions."""
    rows = df.withColumn("id", functions.lit(batch_id << BITS) + functions.monotonically_increasing_id()).collect()
    known = json.loads(Path("rows.json").read_text()) if Path("rows.json").exists() else {}
    put("rows", {**known, **{row.id: [row.split, row.offset] for row in rows}})


def by_month(df, batch_id):
    """Wrong: a batch that comes again in the next month has another name."""
    rows = df.withColumn("month", functions.date_format(functions.current_timestamp(), "yyyy-MM")).collect()
    put_all(f"{rows[0].month}-{batch_id}", rows)


def by_batch(df, batch_id):
    """Right: the month is no part of a name."""
    rows = df.withColumn("month", functions.date_format(functions.current_timestamp(), "yyyy-MM")).collect()
    put_all(str(batch_id), rows)


def put_all(name, rows):
    put(f"{name}-ids", [[name]])
    put(f"{name}-keys", [[name, row.split, row.offset] for row in rows])


def put(name, content):
    new = Path(f"{name}.new")
    new.write_text(json.dumps(content))
    new.rename(f"{name}.json")


def committed(scratch):
    if (scratch.path / "rows.json").exists():
        yield from json.loads((scratch.path / "rows.json").read_text()).values()
    for keys in sorted(scratch.path.glob("*-keys.json")):
        ids = Path(str(keys).replace("-keys", "-ids"))
        known = {found for [found] in json.loads(ids.read_text())} if ids.exists() else set()
        yield from ([split, offset] for found, split, offset in json.loads(keys.read_text()) if found in known)
