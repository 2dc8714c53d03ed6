"""The event log: many writers, one file, whole lines; the events of dead processes stay."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path

from sinkproof.chaos.shared.event_log import EventLog, EventLogReader

FORKING = multiprocessing.get_context("fork")
WRITERS, LINES = 4, 500


def test_a_reader_gets_each_event_once_with_its_writer_and_its_time(tmp_path: Path) -> None:
    reader, log = EventLogReader(tmp_path / "events"), EventLog(tmp_path / "events")
    assert [] == reader.new()
    log.record("started", actor="sink[0]", generation=700_001)
    log.record("complete", checkpoint=1)
    first, second = reader.new()
    assert ("started", "sink[0]", 700_001, os.getpid()) == (*map(first.get, ("what", "actor", "generation", "pid")),)
    assert ("complete", 1, True) == (second["what"], second["checkpoint"], first["at"] <= second["at"])
    assert [] == reader.new()
    reader.close()


def test_an_incomplete_line_is_kept_until_its_rest_arrives(tmp_path: Path) -> None:
    reader = EventLogReader(tmp_path / "events")
    with (tmp_path / "events").open("ab", buffering=0) as file:
        file.write(b'{"what": "sta')
        assert [] == reader.new()
        file.write(b'rted"}\n{"what": ')
        assert [{"what": "started"}] == reader.new()
        file.write(b'"ended"}\n')
        assert [{"what": "ended"}] == reader.new()


def test_lines_of_many_writers_are_whole_and_survive_their_writers(tmp_path: Path) -> None:
    def writer(number: int) -> None:
        log = EventLog(tmp_path / "events")
        for line in range(LINES):
            log.record("line", writer=number, line=line, padding="x" * (line % 300))
        os.kill(os.getpid(), signal.SIGKILL)

    processes = [FORKING.Process(target=writer, args=(number,)) for number in range(WRITERS)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert {-signal.SIGKILL} == {process.exitcode for process in processes}
    events = EventLogReader(tmp_path / "events").new()
    for number in range(WRITERS):
        assert list(range(LINES)) == [each["line"] for each in events if each["writer"] == number]
