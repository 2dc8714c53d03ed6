"""The day that Spark sees is another one after an outage, where a function asks Spark for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sinkproof.foreach_batch.spark_clock import SETTING, day_of_spark


class Session:
    """The settings of a session."""

    def __init__(self) -> None:
        self.conf, self.settings = self, {SETTING: "UTC"}

    def get(self, name: str) -> str:
        return self.settings[name]

    def set(self, name: str, value: str) -> None:
        self.settings[name] = value


@pytest.mark.parametrize(
    ("code", "zones"),
    [
        ("df.withColumn('day', current_date())", ("-11:00", "+13:00")),
        ("df.selectExpr('current_timestamp() AS at')", ("-11:00", "+13:00")),
        ("datetime.now()", ("UTC", "UTC")),
    ],
)
def test_a_day_passes_where_the_code_asks_spark_for_it(code: str, zones: tuple[str, str], tmp_path: Path) -> None:
    file = tmp_path / "function.py"
    file.write_text(code)
    session: Any = Session()
    seen = []
    for is_next in (False, True):
        with day_of_spark(session, [str(file)], is_next=is_next):
            seen.append(session.get(SETTING))
        assert "UTC" == session.get(SETTING)
    assert zones == tuple(seen)
