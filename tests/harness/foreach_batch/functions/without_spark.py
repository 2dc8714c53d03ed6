"""Functions that need nothing of a DataFrame but its rows, so that they can be crashed without Spark."""

import hashlib
import json
import time
from contextlib import suppress
from pathlib import Path

OUT = Path("out")
TODAY = time.strftime("%Y%m%d")


def append(df, batch_id):
    with OUT.open("a") as out:
        out.writelines(line(row) for row in df.collect())


def replace(df, batch_id):
    part = Path(f"part-{batch_id}")
    part.write_text("".join(line(row) for row in df.collect()))
    part.rename(f"out-{batch_id}")


def mark_first(df, batch_id):
    marker = Path(f"seen-{batch_id}")
    if marker.exists():
        return
    marker.touch()
    append(df, batch_id)


def forget_when_asked_twice(df, batch_id):
    """A second run of a batch leaves out what is there; but a third one believes that it is the first."""
    marker, known = Path(f"begun-{batch_id}"), ""
    if marker.exists():
        known = OUT.read_text() if OUT.exists() else ""
        marker.unlink()
    else:
        marker.touch()
    with OUT.open("a") as out:
        out.writelines(line(row) for row in df.collect() if line(row) not in known)


def fail(df, batch_id):
    if batch_id == 1:
        raise ValueError("no batch 1, please")
    append(df, batch_id)


def fail_again(df, batch_id):
    """Does not come back from what its own crash has left."""
    Path(f"lock-{batch_id}").touch(exist_ok=False)
    append(df, batch_id)


def alter_when_repeated(df, batch_id):
    """Writes rows in full; the second run of a batch has other values."""
    begun, part = Path(f"begun-{batch_id}"), Path(f"part-{batch_id}")
    known = [[*row[:3], row.value.upper() if begun.exists() else row.value] for row in df.collect()]
    begun.touch()
    part.write_text("".join(json.dumps(row) + "\n" for row in known))
    part.rename(f"out-{batch_id}")


def swallow(df, batch_id):
    with suppress(Exception):
        replace(df, batch_id)


BEGUN = set()


def remember(df, batch_id):
    """What fails is not tried again by the same driver; another one remembers nothing."""
    if batch_id not in BEGUN:
        BEGUN.add(batch_id)
        replace(df, batch_id)


GATHERED = []


def gather(df, batch_id):
    """What it has gathered before a job fails is there when the same driver runs the batch again."""
    GATHERED.extend(df.collect())
    df.count()
    part = Path(f"part-{batch_id}")
    part.write_text("".join(line(row) for row in GATHERED))
    GATHERED.clear()
    part.rename(f"out-{batch_id}")


def gather_anew(df, batch_id):
    GATHERED.clear()
    gather(df, batch_id)


BROKEN = []


def stay_broken(df, batch_id):
    """As a connection does that has failed: another driver has a new one."""
    if BROKEN:
        raise OSError("closed")
    try:
        replace(df, batch_id)
    except Exception:
        BROKEN.append(batch_id)
        raise


def take_a_thousand(df, batch_id):
    part = Path(f"part-{batch_id}")
    part.write_text("".join(line(row) for row in df.collect()[:1000]))
    part.rename(f"out-{batch_id}")


def name_by_day(df, batch_id):
    part = Path(f"part-{batch_id}")
    part.write_text("".join(line(row) for row in df.collect()))
    part.rename(f"out-{time.strftime('%Y%m%d')}-{batch_id}")


def name_by_day_of_import(df, batch_id):
    part = Path(f"part-{batch_id}")
    part.write_text("".join(line(row) for row in df.collect()))
    part.rename(f"out-{TODAY}-{batch_id}")


def need_a_row(df, batch_id):
    rows = df.collect()
    Path(f"out-{rows[0].split}-{rows[0].offset}").write_text("".join(map(line, rows)))


def write_commas(df, batch_id):
    """Not quoted: what is in a value ends it."""
    part = Path(f"part-{batch_id}")
    part.write_text(
        "".join(json.dumps([row.split, row.offset, row.key, row.value.split(",")[0]]) + "\n" for row in df.collect())
    )
    part.rename(f"out-{batch_id}")


def name_by_content(df, batch_id):
    """Wrong: two batches may have the same keys and values."""
    rows = df.collect()
    digest = hashlib.sha256(json.dumps([[row.key, row.value] for row in rows]).encode()).hexdigest()
    part = Path(f"part-{batch_id}")
    part.write_text("".join(map(line, rows)))
    part.rename(f"out-{digest}")


def leave_out_known_offsets(df, batch_id):
    """Wrong: a key and an offset may be those of two rows, of which one comes in a later batch."""
    rows = [(row.offset, row.key) for row in df.collect()]
    known = [json.loads(Path(f"known-{batch}").read_text()) for batch in range(batch_id)]
    new = [row for row in df.collect() if not any([row.offset, row.key] in earlier for earlier in known)]
    Path(f"known-{batch_id}").write_text(json.dumps(rows))
    part = Path(f"part-{batch_id}")
    part.write_text("".join(map(line, new)))
    part.rename(f"out-{batch_id}")


def append_new_keys(df, batch_id):
    """Wrong: as in a join of SQL, a row without a key is never one that is there."""
    with open(f"out-{batch_id}", "a+") as file:
        file.seek(0)
        there = [json.loads(text) for text in file]
        file.writelines(line(row) for row in df.collect() if row.key is None or [row.split, row.offset] not in there)


def bury(df, batch_id):
    """Rows with unprintable values are appended to another file, which a second try does again."""
    if not Path(f"out-{batch_id}").exists():
        rows = df.collect()
        with open("out-dead", "a") as file:
            file.writelines(line(row) for row in rows if not row.value.isprintable())
        keep_printable(rows, batch_id)


def bury_by_batch(df, batch_id):
    rows = df.collect()
    Path(f"out-dead-{batch_id}").write_text("".join(line(row) for row in rows if not row.value.isprintable()))
    keep_printable(rows, batch_id)


def keep_printable(rows, batch_id):
    part = Path(f"part-{batch_id}")
    part.write_text("".join(line(row) for row in rows if row.value.isprintable()))
    part.rename(f"out-{batch_id}")


def line(row):
    return json.dumps([row.split, row.offset]) + "\n"


def committed(scratch):
    for file in sorted(Path(scratch.path).glob("out*")):
        for text in file.read_text().splitlines():
            yield json.loads(text)
