"""Each anomaly that the oracle defines, shown by the smallest observation that has it, and by one that has not."""

from __future__ import annotations

import pytest

from sinkproof.ledger import Ledger
from sinkproof.oracle import Observation, judge
from sinkproof.reference_engine.sources import GeneratedInput
from sinkproof.sink_adapters.protocol import Row

ROWS = [(0, 0), (0, 1), (1, 0), (1, 1)]


@pytest.fixture
def ledger() -> Ledger:
    """Two splits of two rows; both rows of a split have the same key."""
    return Ledger(
        GeneratedInput(lambda split, offset: Row(split, offset, f"k{split}", "v"), splits=2, rows_per_split=2)
    )


def oracles(ledger: Ledger, seen: Observation, **options: object) -> list[str]:
    return [anomaly.oracle for anomaly in judge(ledger, seen, **options)]  # type: ignore[arg-type]


def test_every_row_once_in_any_order_is_right(ledger: Ledger) -> None:
    assert [] == oracles(ledger, Observation(committed=[(1, 1), (0, 1), (1, 0), (0, 0)]))


def test_a_missing_row_is_loss_and_is_named(ledger: Ledger) -> None:
    (anomaly,) = judge(ledger, Observation(committed=[(0, 0), (0, 1), (1, 1)]))
    assert ("O1", ((1, 0),), ()) == (anomaly.oracle, anomaly.lost, anomaly.extra)


def test_a_repeated_row_is_a_duplicate_and_is_named_as_often_as_it_is_too_many(ledger: Ledger) -> None:
    (anomaly,) = judge(ledger, Observation(committed=[*ROWS, (0, 1), (0, 1)]))
    assert ("O2", (), ((0, 1), (0, 1))) == (anomaly.oracle, anomaly.lost, anomaly.extra)


def test_a_row_that_was_never_there_is_a_duplicate_too(ledger: Ledger) -> None:
    assert ["O2"] == oracles(ledger, Observation(committed=[*ROWS, (7, 7)]))


def test_loss_and_duplicates_are_told_apart_in_one_run(ledger: Ledger) -> None:
    assert ["O1", "O2"] == oracles(ledger, Observation(committed=[(0, 0), (0, 0), (0, 1), (1, 1)]))


def test_a_row_seen_before_its_checkpoint_was_complete_is_early(ledger: Ledger) -> None:
    assert ["O3"] == oracles(ledger, Observation(committed=ROWS, early=[((0, 1), 3)]))


def test_a_row_met_again_by_a_following_reader_is_not_exactly_once(ledger: Ledger) -> None:
    assert ["O3"] == oracles(ledger, Observation(committed=ROWS, seen=[*ROWS, (0, 0)]))
    assert [] == oracles(ledger, Observation(committed=ROWS, seen=ROWS))


def test_rows_of_one_key_in_another_order_are_disorder_where_order_is_claimed(ledger: Ledger) -> None:
    swapped = Observation(committed=[(0, 1), (0, 0), (1, 0), (1, 1)])
    assert ["O5"] == oracles(ledger, swapped, ordered=True)
    assert [] == oracles(ledger, swapped, ordered=False)
    assert [] == oracles(ledger, Observation(committed=[(1, 0), (0, 0), (1, 1), (0, 1)]), ordered=True)


def test_a_job_that_does_not_finish_has_not_recovered(ledger: Ledger) -> None:
    assert ["O6"] == oracles(ledger, Observation(committed=ROWS, finished=False, failure="it raised"))


def test_what_lingers_is_residue(ledger: Ledger) -> None:
    (anomaly,) = judge(ledger, Observation(committed=ROWS, residue=("staging/7",)))
    assert "O7" == anomaly.oracle
    assert "staging/7" in anomaly.why


def test_what_a_zombie_changes_is_named_with_its_rows(ledger: Ledger) -> None:
    (added,) = judge(ledger, Observation(committed=ROWS, zombie_added=[("sink[0]", (0, 1))]))
    (removed,) = judge(ledger, Observation(committed=ROWS, zombie_removed=[("sink[1]", (1, 1))]))
    assert ("O9", ((0, 1),)) == (added.oracle, added.extra)
    assert ("O9", ((1, 1),)) == (removed.oracle, removed.lost)


def test_an_upsert_is_right_with_the_last_row_of_each_key(ledger: Ledger) -> None:
    assert [] == oracles(ledger, Observation(committed=[(1, 1), (0, 1)]), rows="upsert")
    assert ["O1", "O2"] == oracles(ledger, Observation(committed=[(1, 1), (0, 0)]), rows="upsert")
