"""The Spark peer: what its file sink commits, and how long it takes to go on after driver and JVM were killed."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from spark_rows import difference_in

from sinkproof.chaos.clock import Deadline, now
from sinkproof.chaos.processes.process_table import descendants, parents_of_all
from sinkproof.subject.scratch import fresh_folder

JOB = Path(__file__).with_name("structured_job.py")
ROWS_PER_BATCH = 1_000_000
WAIT_SECONDS = 90.0
LOOK_SECONDS = 0.02


class Peer:
    """The job in a process of its own; its folder outlives it."""

    def __init__(self, folder: Path, form: str) -> None:
        self.folder, self.form = folder, form
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, str(JOB), str(self.folder), self.form, str(ROWS_PER_BATCH)]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill(self) -> None:
        """Driver, JVM and whatever else it has started."""
        assert self.process is not None
        below = descendants(self.process.pid, parents_of_all())
        for pid in (self.process.pid, *below):
            with suppress(ProcessLookupError):  # it has ended by itself meanwhile
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        for pid in below:
            try:
                os.waitpid(pid, 0)  # ours by now, if orphans are adopted
            except ChildProcessError:
                continue

    def committed(self) -> int:
        """Batches that are in the metadata, which is what makes the sink exactly-once."""
        return max((_number(path) for path in self._metadata()), default=-1) + 1

    def _metadata(self) -> list[Path]:
        return sorted((self.folder / "out" / "_spark_metadata").glob("[0-9]*"), key=_number)

    def rows_per_s(self, *, after: int) -> float:
        """From the end of that batch to the end of the last one, as their files say."""
        times = [path.stat().st_mtime for path in self._metadata() if _number(path) >= after]
        return ROWS_PER_BATCH * (len(times) - 1) / (times[-1] - times[0])

    def until(self, reached: Callable[[], bool]) -> None:
        assert self.process is not None
        deadline, ended = Deadline(WAIT_SECONDS), os.pidfd_open(self.process.pid)
        try:
            while not reached():
                if select.select([ended], [], [], LOOK_SECONDS)[0] or deadline.over:
                    log = (self.folder / "log").read_text(errors="replace")[-2000:]
                    raise RuntimeError(f"Structured Streaming committed no batch in time. It wrote: {log}")
        finally:
            os.close(ended)

    def files(self) -> list[Path]:
        """What a reader that honours the metadata reads."""
        entries = [json.loads(line) for log in self._metadata() for line in log.read_text().splitlines()[1:]]
        return [Path(path.removeprefix("file://")) for path in sorted({entry["path"] for entry in entries})]


def structured_peer(form: str, *, seconds: float, restarts: int) -> dict[str, Any]:
    """Rows a second in `seconds` of a warm job, and how many full restarts a minute; `wrong`: "" if it was exact."""
    folder = fresh_folder()
    peer = Peer(folder, form)
    try:
        peer.start()
        peer.until(lambda: peer.committed() >= 2)  # the first is compiled while it runs
        before, deadline = peer.committed(), Deadline(seconds)
        peer.until(lambda: deadline.over and peer.committed() >= before + 2)
        rows_per_s = peer.rows_per_s(after=before)
        return {"rows_per_s": rows_per_s, "restarts_per_minute": restarted(peer, restarts), "wrong": wrong(peer)}
    finally:
        if peer.process is not None and peer.process.poll() is None:
            peer.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _number(path: Path) -> int:
    return int(path.name.removesuffix(".compact"))


def restarted(peer: Peer, times: int) -> float | None:
    began = now()
    for _ in range(times):
        before = peer.committed()
        peer.kill()
        peer.start()
        peer.until(lambda before=before: peer.committed() > before)  # type: ignore[misc]
    return 60 * times / (now() - began) if times else None


def wrong(peer: Peer) -> str:
    peer.kill()
    each = ROWS_PER_BATCH // 2
    return difference_in(peer.files(), {0: each * peer.committed(), 1: each * peer.committed()}, counted=False)
