"""The simulated scheduler of the bench: slots help until what is serial takes as long as they do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from fan_out_bench import Serial, makespan

TASKS = [0.25] * 1024  # exact in binary


@pytest.mark.parametrize("slots", [1, 4, 64, 256])
def test_without_a_serial_part_slots_divide_the_time(slots: int) -> None:
    assert sum(TASKS) / slots == makespan(TASKS, slots=slots, batch=1, serial=Serial(campaign=0.0, hub=0.0))


@pytest.mark.parametrize("serial", [Serial(campaign=0.125, hub=0.0), Serial(campaign=0.0, hub=0.125)])
def test_no_number_of_slots_is_faster_than_what_is_serial(serial: Serial) -> None:
    few, many = (makespan(TASKS, slots=slots, batch=1, serial=serial) for slots in (1, 256))
    assert sum(TASKS) <= few < sum(TASKS) + 1
    assert 0.125 * len(TASKS) <= many <= 0.125 * len(TASKS) + 1


def test_a_long_batch_at_the_end_is_waited_for() -> None:
    assert 8.0 == makespan([0.25] * 7 + [8.0], slots=8, batch=1, serial=Serial(campaign=0.0, hub=0.0))
