"""`sinkproof run count` as a user runs it: bad arguments, Ctrl-C, and death."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.shared.event_log import EventLogReader
from sinkproof.pipeline.output_folder import locked
from sinkproof.reference_engine.shells.spark.process_fault_points import descendants, parents_of_all

from .conftest import assert_counted_exactly, keys_of, write_rows

COMMAND_ROWS = 10_000  # of each file: some seconds in batches of 20
SECONDS = 60.0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--rows", "rows", "--key", "user", "--sink", "files/none"], "there is no sink 'files/none'"),
        (["--rows", "rows", "--key", "user", "--sink", "memory/plain"], "loses its rows when the process ends"),
        (["--rows", "rows", "--key", "usr"], "no column 'usr'.*Did you mean 'user'"),
        (["--rows", "rows"], "--key COLUMN"),
        (["--rows", "nowhere.jsonl", "--key", "user"], "there is no 'nowhere.jsonl'"),
        (["--key", "user"], "--rows PATH .* or --generate ROWS"),
        (["--generate", "10", "--checkpoint-interval", "soon"], "not a time of at least 1ms"),
    ],
)
def test_bad_arguments_end_with_3_and_say_what_to_do(
    arguments: list[str],
    words: str,
    rows: Path,
    sinkproof_command: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    answer = sinkproof_command("run", "count", *arguments, "--out", "out")
    assert (3, "") == (answer.returncode, answer.stdout)
    assert re.search(words, answer.stderr, re.DOTALL)
    assert "Traceback" not in answer.stderr


def test_a_missing_java_is_said_with_how_to_get_one(
    rows: Path,
    sinkproof_command: Callable[..., subprocess.CompletedProcess[str]],
    command_environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(command_environment, "JAVA_HOME", str(rows))
    answer = sinkproof_command("run", "count", "--generate", "10", "--out", "out")
    assert 3 == answer.returncode
    assert re.search(r"sinkproof: Spark needs Java \d+ or newer.*no bin/java", answer.stderr)
    assert "Traceback" not in answer.stderr


# -- the command itself ----------------------------------------------------------------------------


@pytest.fixture
def command(
    rows: Path, tmp_path: Path, command_environment: dict[str, str]
) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Starts `sinkproof run count`, with batches so small that it can be stopped while it runs."""
    started: list[subprocess.Popen[str]] = []
    write_rows(rows, COMMAND_ROWS)
    arguments = ["--rows", str(rows), "--key", "user", "--batch-rows", "20", "--out", "out", "--json"]

    def start() -> subprocess.Popen[str]:
        started.append(
            subprocess.Popen(
                [sys.executable, "-m", "sinkproof", "run", "count", *arguments],
                cwd=tmp_path,
                env=command_environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def printed_by(process: subprocess.Popen[str]) -> Any:
    """What it says in the end."""
    printed, complaint = process.communicate()
    assert printed, f"exit {process.returncode}: {complaint}"
    return json.loads(printed)


def wait_for_rows(process: subprocess.Popen[str], out: Path, *, more_than: int) -> None:
    """Until a checkpoint of this very command covers rows that earlier ones did not."""
    poll, deadline = select.poll(), Deadline(SECONDS)
    descriptor = os.pidfd_open(process.pid)
    poll.register(descriptor, select.POLLIN)
    before = {(out / ".sinkproof" / "events").stat().st_ino} if (out / ".sinkproof" / "events").exists() else set()
    while not poll.poll(20) and not deadline.over:
        if covered_rows(out, but=before) > more_than:
            os.close(descriptor)
            return
    pytest.fail(f"it ended, or took too long: {process.communicate()}")


def covered_rows(out: Path, *, but: set[int]) -> int:
    events = out / ".sinkproof" / "events"
    if not events.exists() or events.stat().st_ino in but:
        return 0
    reader = EventLogReader(events)
    rows = [each["rows"] for each in reader.new() if each["what"] == "complete"]
    reader.close()
    return max(rows, default=0)


def all_end(pids: list[int]) -> bool:
    """Whether these processes are gone in time."""
    deadline = Deadline(10.0)
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        ended = poll.poll(1000 * deadline.left)
        os.close(descriptor)
        if not ended:
            return False
    return True


@pytest.mark.slow
def test_ctrl_c_when_all_is_done_changes_nothing(
    rows: Path, tmp_path: Path, command_environment: dict[str, str]
) -> None:
    """It arrives while Spark is being shut down."""
    script = """
import os, signal, sys
from sinkproof.cli.main import main
from sinkproof.reference_engine.shells.spark import driver_supervisor

class Interrupted(driver_supervisor.Cluster):
    def close(self):
        os.kill(os.getpid(), signal.SIGINT)
        super().close()

driver_supervisor.Cluster = Interrupted
main()
"""
    arguments = ["run", "count", "--rows", str(rows), "--key", "user", "--out", "out", "--json"]
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, cwd=tmp_path, env=command_environment, capture_output=True, text=True)
    assert 0 == done.returncode, done.stderr
    assert "complete" == json.loads(done.stdout)["state"]


@pytest.mark.slow
def test_ctrl_c_stops_with_a_checkpoint_and_sigkill_loses_nothing(
    command: Callable[[], subprocess.Popen[str]], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with locked(out):
        second = command()
        assert f"another command (process {os.getpid()})" in second.communicate()[1]
        assert 3 == second.returncode
    stopped = command()
    wait_for_rows(stopped, out, more_than=0)
    stopped.send_signal(signal.SIGINT)
    printed = printed_by(stopped)
    assert (130, "stopped", True) == (stopped.returncode, printed["state"], 0 < printed["rows"] < 80_000)

    killed = command()
    wait_for_rows(killed, out, more_than=printed["rows"])
    below = descendants(killed.pid, parents_of_all())
    killed.kill()
    killed.communicate()
    assert 5 <= len(below)
    assert all_end(below)

    last = command()
    printed = printed_by(last)
    assert (0, "complete", 2 * COMMAND_ROWS, True) == (
        last.returncode,
        printed["state"],
        printed["rows"],
        printed["rows_before"] > 0,
    )
    assert_counted_exactly(out, keys_of(COMMAND_ROWS))
