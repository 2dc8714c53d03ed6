"""Functions that are wrong for rows without a key, rows that grow old, many rows, or another host; and right ones."""

import json
import socket
import time
from pathlib import Path

LATE_SECONDS = 2 * 3600


def named_by_host(df, batch_id):
    """Wrong: another host adds a batch again."""
    put(f"{batch_id}-{socket.gethostname()}", df.collect())


def with_key(df, batch_id):
    """Wrong: a row without a key is nowhere."""
    put(f"{batch_id}-a", [row for row in df.collect() if row.key is not None and row.key < "k3"])
    put(f"{batch_id}-b", [row for row in df.collect() if row.key is not None and row.key >= "k3"])


def leave_out_null(df, batch_id):
    """Right: as Spark's JSON does it. The reader expects a key."""
    put(f"{batch_id}-keyed", [row for row in df.collect() if row.key is not None])
    put(f"{batch_id}-broken", ["" for row in df.collect() if row.key is None])


def fresh_and_late(df, batch_id):
    """Wrong: what has grown late meanwhile is in both, if a death comes in between."""
    border, rows = 1000 * (vars(time)["time"]() - LATE_SECONDS), df.collect()
    put_once(f"{batch_id}-fresh", [row for row in rows if row.event_time_ms >= border])
    put_once(f"{batch_id}-late", [row for row in rows if row.event_time_ms < border])


def fresh_and_late_in_turn(df, batch_id):
    """Wrong: likewise, where one line writes both."""
    border, rows = 1000 * (vars(time)["time"]() - LATE_SECONDS), df.collect()
    for name, is_late in (("fresh", False), ("late", True)):
        put_once(f"{batch_id}-{name}", [row for row in rows if (row.event_time_ms < border) is is_late])


def fresh_and_late_by_one(df, batch_id):
    """Right: both are as they are, or made anew."""
    border, rows = 1000 * (vars(time)["time"]() - LATE_SECONDS), df.collect()
    if not Path(f"{batch_id}-late.json").exists():
        put(f"{batch_id}-fresh", [row for row in rows if row.event_time_ms >= border])
        put(f"{batch_id}-late", [row for row in rows if row.event_time_ms < border])


def smaller_chunks(df, batch_id):
    """Wrong: a chunk that is there, with more rows, counts as the smaller one."""
    send_in_chunks(df.collect(), batch_id, size=lambda size: size // 2)


def same_chunks(df, batch_id):
    """Right."""
    send_in_chunks(df.collect(), batch_id, size=lambda size: size)


def send_in_chunks(rows, batch_id, *, size):
    first, number, most = 0, 0, 1000
    while first < len(rows):
        try:
            put_once(f"{batch_id}-{number}", rows[first : first + most])
        except OSError:
            most = size(most)
            continue
        first, number = first + most, number + 1


def put_once(name, rows):
    if not Path(f"{name}.json").exists():
        put(name, rows)


def put(name, rows):
    new = Path(f"{name}.new")
    new.write_text(json.dumps([row and [row.split, row.offset] for row in rows]))
    new.rename(f"{name}.json")


def committed(scratch):
    for file in sorted(scratch.path.glob("*.json")):
        yield from ((row[0], row[1]) for row in json.loads(file.read_text()))
