"""Which lines of a sink's own code read the wall clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkproof.subject.static_analysis.clocks_in_code import reads_of_wall_clock


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("import time\nwritten = time.time()", [2]),
        ("import time\nday = time.strftime('%F')", [2]),
        ("from time import time_ns as stamp\nwritten = stamp()", [2]),
        ("day = datetime.date.today().isoformat()", [1]),
        ("hour = pandas.Timestamp.now()", [1]),
        ("import time\ntime.perf_counter()\ntime.monotonic()", []),
        ("day = row.day.strftime('%F')", []),
        ("moment = event.time()", []),
        ("from time import monotonic\nmonotonic()", []),
    ],
)
def test_reads_of_the_wall_clock_are_named(tmp_path: Path, code: str, lines: list[int]) -> None:
    file = tmp_path / "sink.py"
    file.write_text(code)
    executed = {f"line(sink.py:{number})" for number in range(1, 9)}
    assert [f"line(sink.py:{number})" for number in lines] == reads_of_wall_clock({str(file): "sink.py"}, executed)
