"""Lines that forked children execute are known, whatever these do with what they have inherited."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from sinkproof.chaos.shared.lines_of_children import LINES_MOST, MarkedLines, marking

FILES = ("sink.py", "my folder/encoder.py")


@pytest.fixture
def marked() -> Iterator[MarkedLines]:
    made = MarkedLines(FILES)
    yield made
    made.close()


def test_what_several_children_mark_is_read_by_file_and_number(marked: MarkedLines) -> None:
    mark = marking([os.dup(marked.descriptor)], FILES)
    children = []
    for number in (7, 3, 7):
        children.append(os.fork())
        if not children[-1]:
            os.closerange(3, 100)
            mark(f"line(sink.py:{number})")
            mark("line(my%20folder/encoder.py:12)")
            os._exit(0)
    assert [0, 0, 0] == [os.waitpid(pid, 0)[1] for pid in children]
    assert ("line(sink.py:3)", "line(sink.py:7)", "line(my%20folder/encoder.py:12)") == marked.points()


@pytest.mark.parametrize(
    "point", ["line(other.py:3)", f"line(sink.py:{LINES_MOST})", "file.rename", "syscall(write rows.json)"]
)
def test_other_points_are_left_out(marked: MarkedLines, point: str) -> None:
    marking([os.dup(marked.descriptor)], FILES)(point)
    assert () == marked.points()


def test_nothing_is_marked_where_nothing_is_read(marked: MarkedLines) -> None:
    marking([], FILES)("line(sink.py:3)")
    assert () == marked.points()


def test_the_descriptor_of_a_writer_is_not_left_open(marked: MarkedLines) -> None:
    descriptor = os.dup(marked.descriptor)
    marking([descriptor], FILES)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
