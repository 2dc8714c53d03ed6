"""Every row of the semantics, demonstrated: every check holds, and the facts and outcomes show the point of the row."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from sinkproof.explain.demonstration import Demonstration, Scene
from sinkproof.explain.s26_comparison import MEASURED
from sinkproof.explain.semantics_rows import demonstrate


def shown(row: str) -> Demonstration:
    """The demonstration, after asserting that all its checks hold."""
    found = demonstrate(row)
    failed = [check for scene in found.scenes for check in scene.checks if not check.holds]
    assert [] == failed
    assert found.holds
    assert [] == [scene.title for scene in found.scenes if not scene.checks]
    return found


def scene_of(found: Demonstration, title: str) -> Scene:
    return next(scene for scene in found.scenes if title in scene.title)


def facts_of(scene: Scene) -> list[Any]:
    return [fact.value for fact in scene.facts]


@pytest.mark.row("S01")
def test_s01_shows_wrong_results_and_right_ones_on_the_same_input() -> None:
    found = shown("S01")
    wrong = [scene for scene in found.scenes if scene.title.endswith(": wrong")]
    assert 3 == len(wrong)
    assert "the result of row 2 is lost; row 3=50, expected 100" in wrong[0].outcome
    assert all("expected" in scene.outcome for scene in wrong)
    assert "every result is right" == scene_of(found, "With barriers").outcome


@pytest.mark.row("S02")
def test_s02_shows_every_barrier_on_every_channel() -> None:
    [scene] = shown("S02").scenes
    channels = [items for items in facts_of(scene) if "1" in items]
    assert 4 == len(channels)
    assert [["1", "2", "3"]] * 4 == [[item for item in items if item in "123"] for items in channels]


@pytest.mark.row("S03")
def test_s03_shows_held_rows_right_behind_the_barrier() -> None:
    found = shown("S03")
    steps = [step.what for step in scene_of(found, "In a running job").steps]
    barrier = next(at for at, what in enumerate(steps) if what.startswith("barrier 1 -> "))
    assert ["snapshot 1"] == steps[barrier + 1 : barrier + 2]
    assert steps[barrier + 2].startswith("processes the held")


@pytest.mark.row("S04")
def test_s04_shows_exactly_the_repeated_rows_and_the_wrong_count() -> None:
    tracked, aligned = shown("S04").scenes
    assert "is processed twice; count a=" in tracked.outcome
    assert "every row is processed once" in aligned.outcome
    assert "S05" in demonstrate("S04").lesson, "the meaning of texts that say unaligned checkpoints lose exactly-once"


@pytest.mark.row("S05")
def test_s05_shows_rows_in_flight_replayed_and_ignored() -> None:
    found = shown("S05")
    flying = facts_of(scene_of(found, "overtakes rows"))[-1]
    assert flying
    assert flying == facts_of(scene_of(found, "ignore"))[0]
    assert "lost; count" in scene_of(found, "ignore").outcome


@pytest.mark.row("S06")
def test_s06_shows_that_only_the_decision_counts() -> None:
    found = shown("S06")
    assert "restored from checkpoint 1;" in scene_of(found, "right before").outcome
    assert "restored from checkpoint 2;" in scene_of(found, "right after").outcome


@pytest.mark.row("S07")
def test_s07_shows_each_reason_and_that_nothing_is_left() -> None:
    found = shown("S07")
    reasons = [scene for scene in found.scenes if "checkpoint 2 was aborted" in scene.outcome]
    assert 3 == len(reasons)
    for scene in reasons:
        files, left = facts_of(scene)
        assert files
        assert [] == left["after"]


@pytest.mark.row("S08")
def test_s08_shows_the_contents_of_a_checkpoint_and_the_message_about_a_damaged_one() -> None:
    found = shown("S08")
    assert [{0: 2, 1: 2}, {"a": 3, "b": 1}, ["sink-0-700001-1"]] == facts_of(found.scenes[0])
    [message] = facts_of(scene_of(found, "One byte"))
    assert "is damaged and passed over" in message


@pytest.mark.row("S09")
def test_s09_shows_the_phases_in_their_order() -> None:
    found = shown("S09")
    assert [["trigger", "snapshot", "acknowledged", "complete", "notified"]] == facts_of(found.scenes[0])


OPTIONS = (
    "checkpoint_interval checkpointing_mode checkpoint_storage unaligned_checkpoints aligned_checkpoint_timeout "
    "force_unaligned_checkpoints checkpoint_id_of_ignored_in_flight_data externalized_checkpoint_cleanup "
    "max_concurrent_checkpoints min_pause_between_checkpoints checkpoint_timeout tolerable_checkpoint_failure_number"
)


@pytest.mark.row("S10")
@pytest.mark.parametrize("option", OPTIONS.split())
def test_s10_shows_the_effect_of_every_option(option: str) -> None:
    text = " ".join(fact.says for scene in s10_scenes() for fact in scene.facts)
    assert {"checkpointing_mode": "at_least_once"}.get(option, f"{option}=") in text or f"{option}:" in text


@cache
def s10_scenes() -> tuple[Scene, ...]:
    return shown("S10").scenes


@pytest.mark.row("S11")
def test_s11_shows_strategies_that_give_up_and_strategies_that_recover() -> None:
    found = shown("S11")
    ends = {fact.says.split(":")[0]: fact.value[1] for fact in found.scenes[0].facts}
    assert {"none": False, "fixed delay": True, "failure rate": True, "exponential": True} == ends


@pytest.mark.row("S12")
def test_s12_shows_the_rows_that_only_the_final_checkpoint_brings() -> None:
    found = shown("S12")
    assert "the final checkpoint 3 brings (0,4) (1,4)" == found.scenes[0].outcome


@pytest.mark.row("S13")
def test_s13_shows_offset_2_and_count_2_and_the_third_row_next() -> None:
    found = shown("S13")
    assert [2, 2] == facts_of(found.scenes[0])[0]
    assert "resumes at row (0,2) and counts it as 3" in found.scenes[0].outcome


@pytest.mark.row("S14")
def test_s14_shows_three_ways_to_hand_the_same_rows_over() -> None:
    found = shown("S14")
    assert [0, 12, 24] == [rows for _, rows in facts_of(found.scenes[0])]
    assert "arrived, in order: (0,0) (0,1), barrier 1," in found.scenes[1].outcome


@pytest.mark.row("S15")
def test_s15_shows_flat_memory_and_the_variants_without_credits() -> None:
    found = shown("S15")
    flat, growing, _ = facts_of(scene_of(found, "hundred times slower"))
    assert flat[0] == flat[1]
    assert growing[1] > 1.8 * growing[0]
    assert 5 == len(scene_of(found, "without credits").facts)


@pytest.mark.row("S16")
def test_s16_shows_open_windows_that_survive_a_crash() -> None:
    held, _ = facts_of(scene_of(shown("S16"), "crash"))
    assert held


@pytest.mark.row("S17")
def test_s17_shows_that_recovery_ignores_the_offsets_of_the_group() -> None:
    found = shown("S17")
    before, after = facts_of(found.scenes[0])[0]
    assert before != after
    assert "lost: (0,3)" in scene_of(found, "before the rows").outcome
    assert "repeated: (0,2)" in scene_of(found, "some time later").outcome


@pytest.mark.row("S18")
def test_s18_shows_the_pending_transactions_that_the_checkpoint_covers() -> None:
    pending, covered = facts_of(scene_of(shown("S18"), "transactions pending"))
    assert 0 < len(covered) < len(pending)


@pytest.mark.row("S19")
def test_s19_shows_one_key_per_row_and_several() -> None:
    right, wrong = shown("S19").scenes
    assert [1, 2] == [len(facts_of(scene)[-1]) for scene in (right, wrong)], "keys of one row in the table"


@pytest.mark.row("S20")
def test_s20_shows_the_two_holes_and_what_closes_them() -> None:
    found = shown("S20")
    holes = [scene.outcome for scene in found.scenes if "hole:" in scene.title]
    closed = [scene.outcome for scene in found.scenes if scene.title.startswith("Both closed")]
    assert [2, 3] == [len(holes), len(closed)]
    assert all("is sent again" in outcome for outcome in holes)
    assert all(outcome.startswith("none is repeated") for outcome in closed)


@pytest.mark.row("S21")
def test_s21_shows_the_warning_and_the_stated_loss() -> None:
    found = shown("S21")
    assert facts_of(scene_of(found, "a warning"))[0]
    assert "of a complete checkpoint are gone" in scene_of(found, "a stated loss").outcome


@pytest.mark.row("S22")
def test_s22_shows_the_life_of_a_file() -> None:
    steps = [step.what for step in shown("S22").scenes[0].steps if step.lane == "target"]
    assert ["open", "pending", "jsonl"] == [path.rpartition(".")[2] for path in steps[:3]]


@pytest.mark.row("S23")
def test_s23_shows_the_reuse_defect_and_the_blocked_reader_beside_the_right_runs() -> None:
    found = shown("S23")
    assert "are there twice" in scene_of(found, "a pool of two").outcome
    assert "nothing changes" in scene_of(found, "a transactional id for").outcome
    assert "gets 0 of 16" in scene_of(found, "blocks every reader").outcome
    assert "gets 16 of 16" in scene_of(found, "found and aborted").outcome


@pytest.mark.row("S24")
def test_s24_shows_rows_written_twice_but_visible_once_and_wrong_counters() -> None:
    found = shown("S24")
    assert "each once" in found.scenes[0].outcome
    assert "counted twice: a=6, expected 4" in found.scenes[2].outcome


@pytest.mark.row("S25")
def test_s25_shows_hidden_rows_in_four_targets() -> None:
    crashes = [scene for scene in shown("S25").scenes if "a crash before the marker" in scene.title]
    assert 4 == len(crashes)
    for scene in crashes:
        covered, others = facts_of(scene)[1]
        assert covered
        assert others


@pytest.mark.slow
@pytest.mark.row("S26")
def test_s26_measures_every_pair_in_memory_and_files() -> None:
    [scene] = shown("S26").scenes
    rows = [fact.value for fact in scene.facts if isinstance(fact.value, dict) and not fact.varies]
    assert len(MEASURED) == len(rows) > 10
    assert all(row["crashes"] > 15 for row in rows)


@pytest.mark.row("S27")
def test_s27_shows_an_exact_state_beside_a_repeated_output() -> None:
    plain, transactional = shown("S27").scenes
    assert facts_of(plain)[-1] == facts_of(transactional)[-1], "the state"
    assert "are repeated" in plain.outcome
    assert "none is repeated" in transactional.outcome
