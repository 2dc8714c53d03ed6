"""Each anomaly that the oracle defines, shown by the smallest observation that has it, and by one that has not."""

from __future__ import annotations

import pytest

from sinkproof.chaos.faults import KINDS
from sinkproof.judging.checkpoint_rows import CheckpointRows
from sinkproof.judging.fault_allowances import MOVED_CLOCK, POWER_LOSSES, REWINDS, still_promised
from sinkproof.judging.oracle import Anomaly, Observation, judge
from sinkproof.reference_engine.dataflow.replayable_sources import GeneratedInput
from sinkproof.sink_adapters.protocol import Row
from sinkproof.subject.claims import Claim
from sinkproof.workload.ledger import Ledger

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


def test_loss_and_duplicates_of_one_run_are_two_anomalies(ledger: Ledger) -> None:
    assert ["O1", "O2"] == oracles(ledger, Observation(committed=[(0, 0), (0, 0), (0, 1), (1, 1)]))


def test_a_row_seen_before_its_checkpoint_was_complete_is_early(ledger: Ledger) -> None:
    assert ["O3"] == oracles(ledger, Observation(committed=ROWS, early=[((0, 1), 3)]))


def test_a_row_that_a_following_reader_receives_again_is_not_exactly_once(ledger: Ledger) -> None:
    assert ["O3"] == oracles(ledger, Observation(committed=ROWS, seen=[*ROWS, (0, 0)]))
    assert [] == oracles(ledger, Observation(committed=ROWS, seen=ROWS))


def test_rows_of_one_key_in_another_order_are_disorder_where_order_is_claimed(ledger: Ledger) -> None:
    swapped = Observation(committed=[(0, 1), (0, 0), (1, 0), (1, 1)])
    assert ["O5"] == oracles(ledger, swapped, ordered=True)
    assert [] == oracles(ledger, swapped, ordered=False)
    assert [] == oracles(ledger, Observation(committed=[(1, 0), (0, 0), (1, 1), (0, 1)]), ordered=True)


def test_a_job_that_does_not_finish_has_not_recovered(ledger: Ledger) -> None:
    assert ["O6"] == oracles(ledger, Observation(committed=ROWS, finished=False, failure="it raised"))


def test_a_leftover_is_residue(ledger: Ledger) -> None:
    (anomaly,) = judge(ledger, Observation(committed=ROWS, residue=("staging/7",)))
    assert "O7" == anomaly.oracle
    assert "staging/7" in anomaly.why


def test_a_change_by_a_zombie_is_named_with_its_rows(ledger: Ledger) -> None:
    (added,) = judge(ledger, Observation(committed=ROWS, zombie_added=[("sink[0]", (0, 1))]))
    (removed,) = judge(ledger, Observation(committed=ROWS, zombie_removed=[("sink[1]", (1, 1))]))
    assert ("O9", ((0, 1),)) == (added.oracle, added.extra)
    assert ("O9", ((1, 1),)) == (removed.oracle, removed.lost)


def test_an_upsert_is_right_with_the_last_row_of_each_key(ledger: Ledger) -> None:
    assert [] == oracles(ledger, Observation(committed=[(1, 1), (0, 1)]), rows="upsert")
    assert ["O1", "O2"] == oracles(ledger, Observation(committed=[(1, 1), (0, 0)]), rows="upsert")


@pytest.mark.parametrize(
    ("committed", "found"),
    [
        ([(1, 1), (0, 0)], ["O1", "O6"]),  # an older row of a key
        ([(1, 1), (0, 1), (0, 0)], ["O2", "O6"]),  # two rows of one key
        ([(1, 1), (0, 0), (0, 0)], ["O1", "O2", "O6"]),
        ([(1, 1), (7, 7)], ["O1", "O2", "O6"]),  # no such row was sent
    ],
)
def test_before_the_end_of_a_job_upserts_may_show_older_rows(
    committed: list[tuple[int, int]], found: list[str], ledger: Ledger
) -> None:
    assert found == oracles(ledger, Observation(committed=committed, finished=False), rows="upsert")


def test_a_checkpoint_that_is_seen_in_part_is_torn(ledger: Ledger) -> None:
    (anomaly,) = judge(ledger, Observation(committed=ROWS, torn=[(2, ((0, 1),))]))
    assert ("O4", ((0, 1),)) == (anomaly.oracle, anomaly.lost)


def test_a_marker_that_is_ahead_of_its_rows_is_named_with_them(ledger: Ledger) -> None:
    (anomaly,) = judge(ledger, Observation(committed=ROWS, claimed=[("checkpoint 2", ((1, 1),))]))
    assert ("O11", ((1, 1),)) == (anomaly.oracle, anomaly.lost)
    assert "says that checkpoint 2 is complete, but (1, 1) cannot be read" in anomaly.why


# -- which rows belong to which checkpoint ---------------------------------------------------------


def checkpoint_rows(ledger: Ledger, *complete: tuple[int, int]) -> CheckpointRows:
    """Checkpoints, each with the offset up to which it covers both splits."""
    made = CheckpointRows(ledger)
    made.complete = [(each, frozenset(row for row in ROWS if row[1] < upto)) for each, upto in complete]
    return made


def test_a_checkpoint_is_whole_if_all_or_none_of_its_rows_are_visible(ledger: Ledger) -> None:
    made = checkpoint_rows(ledger, (1, 1), (3, 2))
    for whole in ([], [(0, 0), (1, 0)], ROWS, [(0, 1), (1, 1)]):
        assert [] == list(made.torn(set(whole)))
    assert [(1, ((1, 0),))] == list(made.torn({(0, 0)}))
    assert [(1, ((1, 0),)), (3, ((0, 1),))] == list(made.torn({(0, 0), (1, 1)}))


def test_rows_that_no_complete_checkpoint_covers_make_no_checkpoint_torn(ledger: Ledger) -> None:
    assert [] == list(checkpoint_rows(ledger, (1, 1)).torn({(0, 0), (1, 0), (0, 1)}))
    assert [] == list(checkpoint_rows(ledger).torn({(0, 0)}))


def test_a_marker_may_name_only_what_is_complete_and_visible(ledger: Ledger) -> None:
    made, first = checkpoint_rows(ledger, (1, 1), (3, 2)), {(0, 0), (1, 0)}
    assert [] == list(made.overclaimed([1, 2, (0, 0), [1, 0]], first))
    assert [("checkpoint 3", ((0, 1), (1, 1)))] == list(made.overclaimed([3], first))
    assert [("checkpoint 4", ())] == list(made.overclaimed([4], set(ROWS)))
    assert [("row (1, 1)", ((1, 1),))] == list(made.overclaimed([(1, 1)], first))


# -- anomalies that a fault excuses ---------------------------------------------------------------


def left(
    kinds: list[str],
    *oracles_found: str,
    finished: bool = True,
    unreadable: str = "",
    claims: Claim = Claim.EXACTLY_ONCE,
) -> list[str]:
    found = tuple(Anomaly(oracle=oracle, why="seen") for oracle in oracles_found)
    seen = Observation(kinds=kinds, finished=finished, unreadable=unreadable)
    return [anomaly.oracle for anomaly in still_promised(found, seen, claims=claims)]


EVERY = ("O1", "O2", "O3", "O5", "O6", "O7", "O9", "O10")


@pytest.mark.parametrize("kind", sorted({*KINDS} - {*POWER_LOSSES} - REWINDS - {"drain", "expire", "clock-forward"}))
def test_most_faults_excuse_no_anomaly(kind: str) -> None:
    assert list(EVERY) == left([kind], *EVERY) == left([kind], *EVERY, finished=False)


@pytest.mark.parametrize(
    ("seen", "counts"),
    [
        (Observation(kinds=["short-write"], finished=False, has_checkpoint=False), ["O2"]),
        (Observation(kinds=["short-write"], finished=False), ["O1", "O2", "O6"]),
        (Observation(kinds=["short-write"], has_checkpoint=False), ["O1", "O2", "O6"]),
        (Observation(kinds=["kill"], finished=False, has_checkpoint=False), ["O1", "O2", "O6"]),
    ],
)
def test_a_job_that_a_full_disk_keeps_from_its_first_checkpoint_has_promised_nothing(
    seen: Observation, counts: list[str]
) -> None:
    found = tuple(Anomaly(oracle=oracle, why="seen") for oracle in ("O1", "O2", "O6"))
    assert counts == [anomaly.oracle for anomaly in still_promised(found, seen, claims=Claim.EXACTLY_ONCE)]


@pytest.mark.parametrize("kind", ["rewind", "forget"])
def test_a_rewind_excuses_all_but_a_loss_in_a_job_that_finishes(kind: str) -> None:
    assert ["O1"] == left([kind, "kill"], *EVERY)
    assert [] == left([kind], *EVERY, finished=False)


@pytest.mark.parametrize("kind", ["drain", "expire", "clock-forward", MOVED_CLOCK])
def test_a_drain_or_an_expiry_excuses_the_loss_of_a_job_that_fails(kind: str) -> None:
    assert list(EVERY) == left([kind], *EVERY)
    assert ["O2", "O3", "O9"] == left([kind], "O1", "O2", "O3", "O6", "O9", "O10", finished=False)


@pytest.mark.parametrize(
    ("kinds", "unreadable", "oracles"),
    [
        (["short-write", "kill-job"], "no JSON", ["O2", "O6"]),
        (["short-write", "kill-job"], "", ["O1", "O2", "O6"]),
        (["short-write"], "no JSON", ["O1", "O2", "O6"]),
        (["kill-job"], "no JSON", ["O1", "O2", "O6"]),
    ],
)
def test_a_reader_may_refuse_what_a_death_in_the_middle_of_a_write_has_left(
    kinds: list[str], unreadable: str, oracles: list[str]
) -> None:
    assert oracles == left(kinds, "O1", "O2", "O6", unreadable=unreadable)


@pytest.mark.parametrize("kind", ["lose-power", "lose-bytes", "lose-names"])
def test_loss_and_repeats_after_a_power_loss_are_another_claim(kind: str) -> None:
    assert ["O8", "O8", "O8"] == left([kind], "O1", "O2", "O6", "O3", "O7", "O9")
    assert ["O8"] == left([kind], "O1", "O2", claims=Claim.AT_LEAST_ONCE)
