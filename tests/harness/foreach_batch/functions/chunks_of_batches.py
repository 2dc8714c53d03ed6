"""A file for each chunk of a batch, named by the numbers of both: from the twelfth batch on, names may meet."""

import json
from pathlib import Path

from without_spark import line

CHUNK = 7  # rows


def name_without_separator(df, batch_id):
    """Wrong: the eleventh chunk of batch 1 and the first one of batch 11 have one name."""
    write_chunks(df, lambda chunk: f"part-{batch_id}{chunk}")


def name_with_separator(df, batch_id):
    write_chunks(df, lambda chunk: f"part-{batch_id}-{chunk}")


def write_chunks(df, named):
    rows = sorted(map(line, df.collect()))
    for first in range(0, len(rows), CHUNK):
        new = Path("new")
        new.write_text("".join(rows[first : first + CHUNK]))
        new.rename(named(first // CHUNK))


def committed(scratch):
    for part in scratch.path.glob("part-*"):
        yield from map(json.loads, part.read_text().splitlines())
