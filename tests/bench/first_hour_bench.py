"""The first hour in `make bench`: how long the README's commands take, in seconds of the wall and of the processors.

The wrong sink is certified on a new machine, canaries included; the right one after it, when the canaries are kept; and
once more with a budget; at last by default, and the same again with nothing changed, with the memory of both. The wall
is that of this machine and its load; processor seconds show what an idle one needs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from tempfile import TemporaryDirectory
from threading import Event, Thread
from time import monotonic
from typing import Any

from sinkproof.chaos.processes.process_table import descendants, parents_of_all

PROJECT = Path(__file__).parents[2]
sys.path.insert(0, str(PROJECT / "tests/house"))
from test_docs import blocks  # noqa: E402

SUBJECT = "orders_contract.py:Contract"
BUDGET_SECONDS = 10
COMMAND_SECONDS = 2  # its start, and the report in the end
LOOKS_EVERY_SECONDS = 0.25  # at the memory of all processes of a command


def measure() -> list[dict[str, Any]]:
    with TemporaryDirectory() as folder:
        return list(_rows(Path(folder)))


def table(rows: list[dict[str, Any]]) -> list[str]:
    lines = [f"{'the first hour':52}{'wall':>8}{'CPU':>8}{'aim':>8}"]
    return lines + [f"{row['what']:52}{row['value']:>8}{row['cpu_s'] or '-':>8}{row['aim']:>8}" for row in rows]


def _rows(folder: Path) -> Iterator[dict[str, Any]]:
    text = (PROJECT / "README.md").read_text(encoding="utf-8")
    files = [
        (block.mark.removeprefix("file "), block.code)
        for block in blocks("README.md", text)
        if block.mark.startswith("file ")
    ]
    for name, code in reversed(files):  # the first of a name, the wrong one, is what stays
        (folder / name).write_text(code, encoding="utf-8")
    words, finding, wall, cpu = _certify(folder, "least")
    yield _row("first words", words, None, 1)
    yield _row("first finding of the wrong sink", finding, None, 2)
    yield _row("verdict on the wrong sink, canaries new", wall, cpu, 60)
    for name, code in files:
        (folder / name).write_text(code, encoding="utf-8")
    _, _, wall, cpu = _certify(folder, "least")
    yield _row("verdict on the right sink, canaries kept", wall, cpu, 20)
    for budget, shells in ((BUDGET_SECONDS, ()), (5, ("--on", "process")), (15, ("--on", "process"))):
        _, _, wall, cpu = _certify(folder, f"{budget}s", "--fresh", "--no-canaries", *shells)
        document = json.loads((folder / ".sinkproof/latest/certificate.json").read_text(encoding="utf-8"))
        seconds = document["subjects"][0]["seconds"]
        where = "process shell" if shells else "both shells"
        yield _row(f"a subject with a budget of {budget} s, {where}", seconds, cpu, 1.1 * budget)
        yield _row("the whole command", wall, cpu, 1.1 * budget + COMMAND_SECONDS)
    for what, aim in (("the right sink by default", 180), ("the same again, nothing changed", 3)):
        with _memory() as seen:
            _, _, wall, cpu = _certify(folder, "", "--no-canaries")
        yield _row(what, wall, cpu, aim)
        yield {"what": f"{what}: all its processes", "value": max(seen), "unit": "MiB", "cpu_s": None, "aim": 500}


def _certify(folder: Path, budget: str, *more: str) -> tuple[float, float, float, float]:
    """Seconds until the first words, the first finding and the end, and of the processors."""
    command = [sys.executable, "-m", "sinkproof", "certify", SUBJECT, *(["--budget", budget] if budget else []), *more]
    environment = {name: value for name, value in os.environ.items() if name != "SINKPROOF_FRESH"}
    before, began = _processor_seconds(), monotonic()
    words = finding = 0.0
    with subprocess.Popen(
        command, cwd=folder, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
    ) as run:
        assert run.stderr is not None
        for line in run.stderr:
            words = words or monotonic() - began
            if line.startswith("✗".encode()):
                finding = finding or monotonic() - began
    return words, finding, monotonic() - began, _processor_seconds() - before


@contextmanager
def _memory() -> Iterator[list[int]]:
    """MiB of all processes that this one has started, shared pages counted once, as they are seen meanwhile."""
    seen, over = [0], Event()

    def look() -> None:
        while not over.wait(LOOKS_EVERY_SECONDS):
            seen.append(sum(map(_pss_kib, descendants(os.getpid(), parents_of_all()))) >> 10)

    looking = Thread(target=look)
    looking.start()
    try:
        yield seen
    finally:
        over.set()
        looking.join()


def _pss_kib(pid: int) -> int:
    with suppress(OSError):  # it is gone
        return int(Path(f"/proc/{pid}/smaps_rollup").read_text().partition("Pss:")[2].split()[0])
    return 0


def _processor_seconds() -> float:
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _row(what: str, seconds: float, cpu: float | None, aim: float) -> dict[str, Any]:
    return {"what": what, "value": round(seconds, 1), "unit": "s", "cpu_s": cpu and round(cpu, 1), "aim": aim}


if __name__ == "__main__":
    print("\n".join(table(measure())))
