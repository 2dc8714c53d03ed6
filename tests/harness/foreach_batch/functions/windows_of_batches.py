"""Numbers in the code count batches: a ring of files, and logs that are compacted now and then."""

import json
from itertools import chain
from pathlib import Path

from without_spark import line

SLOTS = 16
EACH = 15


def keep_sixteen(df, batch_id):
    """Wrong: the seventeenth batch replaces the first."""
    publish(f"part-{batch_id % SLOTS}", map(line, df.collect()))


def compact(df, batch_id):
    """Wrong: after a death among the last statements the next sum lacks the parts that are gone."""
    publish(f"part-{batch_id}", map(line, df.collect()))
    if batch_id % EACH == EACH - 1:
        parts = [part for part in parts_before(batch_id) if part.exists()]
        publish(f"sum-{batch_id}", [part.read_text() for part in parts])
        for part in parts:
            part.unlink()


def compact_and_keep(df, batch_id):
    """Right: the parts stay, and the reader leaves them out where there is their sum."""
    publish(f"part-{batch_id}", map(line, df.collect()))
    if batch_id % EACH == EACH - 1:
        publish(f"all-{batch_id}", [part.read_text() for part in parts_before(batch_id)])


def parts_before(last):
    return [Path(f"part-{number}") for number in range(last - EACH + 1, last + 1)]


def publish(name, lines):
    new = Path("new")
    new.write_text("".join(lines))
    new.rename(name)


def committed(scratch):
    def found(name):
        return {int(file.name.rpartition("-")[2]): file for file in scratch.path.glob(f"{name}-*")}

    whole = found("all")
    held = set(chain.from_iterable(range(last - EACH + 1, last + 1) for last in whole))
    parts = [file for number, file in found("part").items() if number not in held]
    for file in (*whole.values(), *found("sum").values(), *parts):
        yield from map(json.loads, file.read_text().splitlines())
