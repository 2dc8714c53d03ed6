"""What with_helper.py leaves its work to."""

import json
from pathlib import Path

OUT = Path("out")


def write_marked(rows, batch_id):
    """Wrong: a batch that was begun counts as written."""
    marker = Path(f"seen-{batch_id}")
    if marker.exists():
        return
    marker.touch()
    with OUT.open("a") as out:
        out.writelines(json.dumps([row.split, row.offset]) + "\n" for row in rows)
