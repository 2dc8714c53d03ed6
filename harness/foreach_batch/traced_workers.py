"""The daemon of Spark's Python workers, with the executed lines of a function's modules noted in a file.

Spark starts it in place of `pyspark.daemon` (`spark.python.daemon.module`); workers are forked from it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from sinkproof.chaos.lines import LineTracer

MODULE: Final = "sinkproof.foreach_batch.traced_workers"
VARIABLE: Final = "SINKPROOF_WORKER_LINES"


def announce(files: Mapping[str, str], notes: Path) -> dict[str, str]:
    """Environment of the JVM. `files`: as for LineTracer."""
    return {VARIABLE: json.dumps([dict(files), str(notes)])}


def workers_find(files: Collection[str]) -> dict[str, str]:
    """Setting of Spark: its workers import the function's modules by their names. `files`: absolute paths."""
    folders = dict.fromkeys(str(_outside_of_packages(Path(file).parent)) for file in files)
    return {"spark.executorEnv.PYTHONPATH": os.pathsep.join(folders)}


def _outside_of_packages(folder: Path) -> Path:
    while (folder / "__init__.py").exists():
        folder = folder.parent
    return folder


def lines_noted(notes: Path) -> set[str]:
    return set(notes.read_text().split()) if notes.exists() else set()


def main() -> None:
    from pyspark.daemon import manager

    files, notes = json.loads(os.environ[VARIABLE])
    descriptor = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    seen: set[str] = set()

    def note(point: str) -> None:
        if point not in seen:
            seen.add(point)
            os.write(descriptor, f"{point}\n".encode())

    with LineTracer(files, threads=True)(note):
        manager()


if __name__ == "__main__":
    main()
