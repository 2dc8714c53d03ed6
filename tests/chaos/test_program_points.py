"""Where a program may lose the process that feeds it."""

from __future__ import annotations

import subprocess
from itertools import count

import pytest

from sinkproof.chaos.program_points import FED, STARTED, program_points

COUNT = ["wc", "-c"]


@pytest.mark.parametrize(
    ("whole", "text", "points"),
    [(b"x" * 100_000, False, [STARTED, FED]), ("\N{SNOWMAN}y\n", True, [STARTED, FED]), (b"", False, [STARTED])],
)
def test_a_program_gets_all_of_its_input_with_points_before_and_within(
    whole: bytes | str, text: bool, points: list[str]
) -> None:
    passed: list[str] = []
    with program_points(passed.append):
        counted = subprocess.run(COUNT, input=whole, text=text, stdout=subprocess.PIPE, check=True)
    assert (len(whole.encode() if isinstance(whole, str) else whole), points) == (int(counted.stdout), passed)


def test_a_program_has_a_part_of_its_input_when_its_starter_dies_there() -> None:
    class Died(BaseException):
        """As a death does, it leaves the call."""

    def die(point: str) -> None:
        if point == FED:
            raise Died

    with program_points(die), subprocess.Popen(COUNT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as counting:
        with pytest.raises(Died):
            counting.communicate(b"12345")
        assert counting.stdin is not None
        assert counting.stdout is not None
        counting.stdin.close()
        assert 3 == int(counting.stdout.read())


def test_a_program_that_does_not_read_its_input_fails_nothing() -> None:
    with program_points(lambda point: None):
        ended = subprocess.Popen(["true"], stdin=subprocess.PIPE)
        assert next(number for number in count() if ended.poll() is not None) >= 0
        ended.communicate(b"unread")
    assert 0 == ended.returncode


def test_outside_it_subprocess_is_as_it_was() -> None:
    before = subprocess.Popen.__init__, subprocess.Popen.communicate
    with program_points(lambda point: None):
        assert before != (subprocess.Popen.__init__, subprocess.Popen.communicate)
    assert before == (subprocess.Popen.__init__, subprocess.Popen.communicate)
