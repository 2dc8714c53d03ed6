"""The newest name says which batches are there. Wrong: as a text, 100 comes before 99."""

import json
from pathlib import Path

from without_spark import line


def name_by_two_digits(df, batch_id):
    name = f"part-{batch_id:02d}"
    if name > max((file.name for file in Path().glob("part-*")), default=""):
        new = Path("new")
        new.write_text("".join(map(line, df.collect())))
        new.rename(name)


def committed(scratch):
    for file in scratch.path.glob("part-*"):
        yield from map(json.loads, file.read_text().splitlines())
