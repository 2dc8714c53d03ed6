"""Keys and values that sinks, targets and readers mistake for others."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from datetime import datetime

import pytest

from sinkproof.reference_engine.dataflow.key_groups import key_group, owner_of_group
from sinkproof.sink_adapters.protocol import Row
from sinkproof.workload.job_names import EDGE_CASE_VALUES_JOB, SHARED_KEYS_JOB
from sinkproof.workload.job_plans import SECOND_SINK
from sinkproof.workload.jobs import input_of
from sinkproof.workload.ledger import Ledger
from sinkproof.workload.rows import BATCHES_PER_CHECKPOINT, EDGE_CASE_VALUES, SINKS

Place = tuple[int, int]  # sink, checkpoint


def rows_by_place() -> dict[Place, list[Row]]:
    source = input_of(EDGE_CASE_VALUES_JOB)
    found: dict[Place, list[Row]] = {}
    for row in Ledger(source).rows.values():
        checkpoint = row.offset // (BATCHES_PER_CHECKPOINT * source.batch_rows)
        found.setdefault((owner_of_group(key_group(row.key), SINKS), checkpoint), []).append(row)
    return found


def keys_by_place() -> dict[Place, set[str]]:
    return {place: {row.key for row in rows} for place, rows in rows_by_place().items()}


def hash_of_java(key: str) -> int:
    number = 0
    for unit in key.encode("utf-16-be").decode("latin-1")[1::2]:
        number = (31 * number + ord(unit)) % (1 << 32)
    return number


@pytest.mark.parametrize(
    "digest",
    [
        lambda key: zlib.crc32(key.encode()),
        lambda key: zlib.adler32(key.encode()),
        hash_of_java,
        lambda key: hashlib.md5(key.encode()).hexdigest()[:10],
        lambda key: hashlib.sha1(key.encode()).hexdigest()[:10],
        lambda key: hashlib.sha256(key.encode()).hexdigest()[:10],
    ],
    ids=["crc32", "adler32", "java", "md5", "sha1", "sha256"],
)
def test_two_keys_of_one_sink_and_checkpoint_have_one_short_digest(digest: Callable[[str], object]) -> None:
    assert any(len({*map(digest, keys)}) < len(keys) for keys in keys_by_place().values())


@pytest.mark.parametrize(
    ("summer_hours", "until"),  # then clocks are set back by one hour
    [
        (2, "2024-10-27T01:00+00:00"),
        (-4, "2024-11-03T06:00+00:00"),
        (-7, "2024-11-03T09:00+00:00"),
        (11, "2024-04-06T16:00+00:00"),
    ],
    ids=["Berlin", "New York", "Los Angeles", "Sydney"],
)
def test_two_event_times_of_one_sink_and_checkpoint_have_one_local_time(summer_hours: int, until: str) -> None:
    end, hour = datetime.fromisoformat(until).timestamp(), 3_600
    alike = []
    for rows in rows_by_place().values():
        seconds = {row.event_time_ms // 1000 for row in rows if abs(row.event_time_ms // 1000 - end) < hour}
        local = {second + hour * (summer_hours - (second >= end)) for second in seconds}
        alike.append(len(local) < len(seconds))
    assert any(alike)


@pytest.mark.parametrize(
    "key", ["", ".", "..", ".a", "007", "7", "1e3", "1000", "0", "NA", "NaN", "__proto__", "constructor"]
)
def test_keys_that_mean_something_elsewhere_come(key: str) -> None:
    assert any(key in keys for keys in keys_by_place().values())


def test_every_unusual_value_comes() -> None:
    values = {row.value for row in Ledger(input_of(EDGE_CASE_VALUES_JOB)).rows.values()}
    assert {*EDGE_CASE_VALUES} == values
    assert len(EDGE_CASE_VALUES) == len(values)


def test_rows_of_both_splits_are_equal_but_for_the_split_and_have_keys_of_digits() -> None:
    rows = Ledger(input_of(SHARED_KEYS_JOB)).rows
    for (split, offset), row in rows.items():
        assert row == rows[1 - split, offset]._replace(split=split)
        assert row.key.isdigit()
        assert row.key != str(int(row.key))


def test_the_id_of_the_second_sink_begins_with_that_of_the_first() -> None:
    assert SECOND_SINK.startswith("sink-")
