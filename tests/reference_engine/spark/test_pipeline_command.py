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
from sinkproof.chaos.processes.process_table import descendants, parents_of_all
from sinkproof.chaos.shared.event_log import EventLogReader
from sinkproof.pipeline.output_folder import PipelineError, locked
from sinkproof.reference_engine.checkpointing.coordinator import CheckpointRecord
from sinkproof.reference_engine.checkpointing.object_storage import ObjectCheckpointStorage
from sinkproof.reference_engine.checkpointing.object_store import open_objects
from sinkproof.sink_adapters.protocol import Fenced
from tests.support.object_stores import S3Server, s3_server

from .conftest import assert_counted_exactly, keys_of, write_rows

COMMAND_ROWS = 10_000  # of each file: some seconds in batches of 20
SECONDS = 300.0
SECONDS_LONGER = 600.0


@pytest.mark.slow
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
        (["--generate", "10", "--checkpoints", "my-folder"], "is no URL. Write s3://BUCKET/FOLDER"),
        (["--generate", "10", "--checkpoints", "pigeon://coop"], "pigeon://coop cannot be opened"),
        (
            ["--generate", "10", "--checkpoints", "file:///tmp/x"],
            "is a folder and no object store: leave --checkpoints",
        ),
        (["--generate", "10", "--checkpoints", "s3://[x"], "Invalid IPv6 URL"),
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


@pytest.mark.slow
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
) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts `sinkproof run count`, with batches so small that it can be stopped while it runs; with options more."""
    started: list[subprocess.Popen[str]] = []
    write_rows(rows, COMMAND_ROWS)
    arguments = ["--rows", str(rows), "--key", "user", "--batch-rows", "20", "--out", "out", "--json"]

    def start(*options: str) -> subprocess.Popen[str]:
        started.append(
            subprocess.Popen(
                [sys.executable, "-m", "sinkproof", "run", "count", *arguments, *options],
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


def wait_for_rows(process: subprocess.Popen[str], out: Path, *, more_than: int, seconds: float = SECONDS) -> None:
    """Until a checkpoint of this very command covers rows that earlier ones did not."""
    poll, deadline = select.poll(), Deadline(seconds)
    descriptor = os.pidfd_open(process.pid)
    poll.register(descriptor, select.POLLIN)
    before = {(out / ".sinkproof" / "events").stat().st_ino} if (out / ".sinkproof" / "events").exists() else set()
    while not poll.poll(20) and not deadline.over:
        if covered_rows(out, but=before) > more_than:
            os.close(descriptor)
            return
    pytest.fail(f"it ended, or took too long: {process.communicate()}")


def wait_for_checkpoint(process: subprocess.Popen[str], storage: ObjectCheckpointStorage, *, after: int) -> None:
    deadline = Deadline(SECONDS_LONGER)
    with os.fdopen(os.pidfd_open(process.pid)) as descriptor:
        while max(storage.complete(), default=0) <= after:
            if deadline.over or select.select([descriptor], [], [], 0.02)[0]:
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
@pytest.mark.longer
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
@pytest.mark.longer
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


@pytest.mark.slow
@pytest.mark.longer
def test_checkpoints_on_s3_outlive_the_command_and_fence_a_second_coordinator(
    s3: S3Server,
    bucket_url: str,
    command: Callable[..., subprocess.Popen[str]],
    tmp_path: Path,
    command_environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A rival claims a generation while the job runs: its coordinator is fenced, and its successor fences the rival."""
    out, options = (
        tmp_path / "out",
        ("--checkpoints", bucket_url, "--checkpoint-interval", "500ms", "--batch-rows", "5"),
    )
    for name, value in s3.environment.items():
        monkeypatch.setitem(command_environment, name, value)
    killed = command(*options)
    wait_for_rows(killed, out, more_than=0, seconds=SECONDS_LONGER)
    rival = ObjectCheckpointStorage(open_objects(bucket_url))
    rival.claim_generation()
    before = rival.latest()
    assert before is not None
    wait_for_checkpoint(killed, rival, after=before.checkpoint_id)
    kept = {name: rival.store(before.checkpoint_id + 1, name, state) for name, state in before.states.items()}
    with pytest.raises(Fenced):
        rival.decide(before._replace(checkpoint_id=before.checkpoint_id + 1, states=kept))
    killed.kill()
    killed.communicate()

    elsewhere = command()
    assert (3, "") == (elsewhere.wait(), elsewhere.stdout.read() if elsewhere.stdout else None)
    last = command(*options)
    printed = printed_by(last)
    assert (0, "complete", 2 * COMMAND_ROWS) == (last.returncode, printed["state"], printed["rows"])
    assert printed["rows_before"] > 0
    assert not (out / ".sinkproof" / "checkpoints").exists()
    assert_counted_exactly(out, keys_of(COMMAND_ROWS))


def test_checkpoints_of_another_job_are_not_continued(bucket_url: str, tmp_path: Path) -> None:
    """On another machine the folder is new, and the offsets are those of other input."""
    job = {"command": "count", "sink": "files/two-phase", "key": "user", "input": "files"}
    storage = ObjectCheckpointStorage(open_objects(bucket_url))
    with locked(tmp_path / "one", checkpoints=bucket_url) as folder:
        for _ in range(2):
            folder.refuse_another_at_url(job, storage)
        with pytest.raises(
            PipelineError, match=rf"{bucket_url} belongs to another job: its key was 'user', and now is"
        ):
            folder.refuse_another_at_url({**job, "key": "country"}, storage)
    with (
        locked(tmp_path / "two", checkpoints=bucket_url) as folder,
        pytest.raises(PipelineError, match=r"its output was .*one', and now is .*two'.* or name another URL"),
    ):
        folder.refuse_another_at_url(job, storage)


def test_checkpoints_are_not_continued_where_their_rows_are_gone(bucket_url: str, tmp_path: Path) -> None:
    """The folder on a new machine has the same name, and no row of what was committed before."""
    job = {"command": "count", "sink": "files/two-phase", "key": "user", "input": "files"}
    storage = ObjectCheckpointStorage(open_objects(bucket_url))
    storage.claim_generation()
    kept = storage.store(1, "sink[0]", {"sink": b"s"})
    storage.decide(CheckpointRecord(1, False, {"sink[0]": kept}, {"sink": 1}))
    with locked(tmp_path / "out", checkpoints=bucket_url) as folder:
        with pytest.raises(PipelineError, match=r"continues a job that has put its rows into .*out, and"):
            folder.refuse_another_at_url(job, storage)
        folder.keep(job)
        folder.refuse_another_at_url(job, storage)


def test_another_machine_goes_on_under_the_name_of_the_job(bucket_url: str, tmp_path: Path) -> None:
    """By this name its transactions are found and fenced; the folder there is new."""
    job = {"command": "etl", "sink": "two-phase", "key": "", "input": "topic in", "output": "topic out"}
    storage = ObjectCheckpointStorage(open_objects(bucket_url))
    with locked(tmp_path / "one", checkpoints=bucket_url) as folder:
        assert folder.earlier() is None
        folder.refuse_another_at_url({**job, "name": "etl-1", "begins": {0: 7}}, storage)
    with locked(tmp_path / "two", checkpoints=bucket_url) as folder:
        earlier = folder.earlier()
        assert earlier is not None
        assert ("etl-1", {"0": 7}) == (earlier["name"], earlier["begins"])
        folder.refuse_another_at_url({**job, "name": "etl-1"}, storage)
        with pytest.raises(PipelineError, match="has begun on another machine under the name 'etl-1'"):
            folder.refuse_another_at_url({**job, "name": "etl-2"}, storage)


@pytest.mark.slow
def test_a_store_without_fencing_ends_the_command_before_spark_starts(
    sinkproof_command: Callable[..., subprocess.CompletedProcess[str]],
    monkeypatch: pytest.MonkeyPatch,
    command_environment: dict[str, str],
) -> None:
    with s3_server(ignores_conditions=True) as server:
        for name, value in server.environment.items():
            monkeypatch.setitem(command_environment, name, value)
        url = server.make_bucket("old-gateway")
        answer = sinkproof_command("run", "count", "--generate", "10", "--out", "out", "--checkpoints", url)
    assert (3, "") == (answer.returncode, answer.stdout)
    assert re.search(
        r"s3://old-gateway/checkpoints cannot keep checkpoints: of 2 creations .* succeeded", answer.stderr
    )
    assert "Name a store that honours conditional creation" in answer.stderr
