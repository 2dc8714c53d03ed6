"""Functions with one line that does several things outside, by a program of its own."""

import json
import subprocess
from pathlib import Path

from without_spark import line


def copy_unless_there(df, batch_id):
    """Wrong: a copy that was begun counts as done."""
    out = Path(f"out-{batch_id}")
    if not out.exists():
        copy(df, out)


def copy_and_rename(df, batch_id):
    out = Path(f"out-{batch_id}")
    if not out.exists():
        copy(df, Path("new"))
        Path("new").rename(out)


def copy(df, to):
    Path("part").write_text("".join(line(row) for row in df.collect()))
    subprocess.run(["cp", "part", to], check=True)


def append_unless_last(df, batch_id):
    """Wrong: the first part of a large batch counts as all of it. Small ones are written by one call."""
    out, last = Path("out"), Path("out").read_text().splitlines()[-1:] if Path("out").exists() else []
    rows = df.collect()
    if last and last[0] in {line(row).strip() for row in rows}:
        return
    with out.open("a") as file:
        file.writelines(line(row) for row in rows)


def committed(scratch):
    for file in sorted(Path(scratch.path).glob("out*")):
        for text in file.read_text().splitlines():
            yield json.loads(text)
