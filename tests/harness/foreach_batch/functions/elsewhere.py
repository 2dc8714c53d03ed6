"""A table outside of the working directory, which nothing empties between two runs."""

import json


def write(df, batch_id):
    with open("../table", "a") as table:
        table.writelines(json.dumps([row.split, row.offset]) + "\n" for row in df.collect())


def committed(scratch):
    for file in sorted(scratch.path.parent.glob("table")):
        for text in file.read_text().splitlines():
            yield json.loads(text)
