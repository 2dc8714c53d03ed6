"""Armed faults are visible to every process at once, and each is injected once, whichever process dies in between."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path

import pytest

from sinkproof.chaos.schedule import Fault, parse
from sinkproof.chaos.shared.armed_fault import BYTES, ArmedFaults

FORKING = multiprocessing.get_context("fork")
FIRST, SECOND = parse("sink[1].commit.after#2=kill checkpoint.notify#3=lose").faults


def test_nothing_is_armed_in_a_new_file(tmp_path: Path) -> None:
    armed = ArmedFaults(tmp_path / "armed")
    assert armed.next() is None
    assert (0, 0) == armed.position


def test_faults_are_taken_in_order_and_each_once(tmp_path: Path) -> None:
    armed = ArmedFaults(tmp_path / "armed")
    armed.arm((FIRST, SECOND))
    assert [FIRST, FIRST] == [armed.next(), armed.next()]
    assert [FIRST, SECOND] == [armed.take(), armed.take()]
    assert armed.next() is None
    assert (1, 2) == armed.position


def test_another_process_reads_the_armed_faults_and_their_position(tmp_path: Path) -> None:
    armed, reader = ArmedFaults(tmp_path / "armed"), ArmedFaults(tmp_path / "armed")
    assert reader.next() is None
    armed.arm((FIRST, SECOND))
    assert FIRST == reader.next()
    armed.take()
    assert SECOND == reader.next()
    armed.arm((FIRST,))
    assert FIRST == reader.next()
    armed.arm(())
    assert reader.next() is None


def test_a_process_that_dies_of_a_fault_has_taken_it(tmp_path: Path) -> None:
    armed = ArmedFaults(tmp_path / "armed")
    armed.arm((FIRST, SECOND))

    def victim() -> None:
        ArmedFaults(tmp_path / "armed").take()
        os.kill(os.getpid(), signal.SIGKILL)

    process = FORKING.Process(target=victim)
    process.start()
    process.join()
    assert -signal.SIGKILL == process.exitcode
    assert SECOND == armed.next()
    assert (1, 1) == armed.position


def test_a_shorter_list_replaces_all_of_a_longer_one(tmp_path: Path) -> None:
    armed = ArmedFaults(tmp_path / "armed")
    armed.arm((FIRST, SECOND, FIRST))
    armed.arm((SECOND,))
    assert [SECOND, None] == [armed.take(), armed.next()]


def test_a_list_that_is_too_long_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    armed = ArmedFaults(tmp_path / "armed")
    armed.arm((FIRST,))
    many = tuple(Fault("sink[0]", "commit.after", number, "kill") for number in range(1, BYTES // 20))
    with pytest.raises(ValueError, match="too many to be armed at once"):
        armed.arm(many)
    assert FIRST == armed.next()
