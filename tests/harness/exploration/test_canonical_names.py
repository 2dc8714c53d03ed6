"""Names in the text of a state: what is taken for the same, and what is not."""

from __future__ import annotations

from sinkproof.chaos.canonical_names import FINDABLE_IDS, by_distance, canonical, name_drawn, rank_generations


def test_generations_are_renamed_by_rank_and_drawn_names_by_appearance() -> None:
    assert "a-G000 b-G001 a-G000 1700001" == rank_generations("a-700003 b-700011 a-700003 1700001")
    one, other = "f0" * 16, "0a" * 16
    assert name_drawn(f"{one}/{other}.{one}") == name_drawn(f"{other}/{one}.{other}")
    assert name_drawn(f"{one} {one}") != name_drawn(f"{one} {other}")
    assert canonical(f"{one}-700001") == canonical(f"{other}-700009")
    assert "550e8400" in name_drawn("550e8400"), "eight digits may be a date"


def test_a_checkpoint_that_will_come_again_is_named_by_its_distance() -> None:
    assert by_distance("9003 9004", last=9003) == by_distance("9007 9008", last=9007)
    assert by_distance("9003 9004", last=9003) != by_distance("9003 9005", last=9003), (
        "the next checkpoint reuses 9004, but not yet 9005"
    )
    assert by_distance("9001", last=9000) != by_distance("9002", last=9000)


def test_only_the_order_of_earlier_checkpoints_counts() -> None:
    assert by_distance("9001 9002 9003", last=9003) == by_distance("9001 9004 9006", last=9006)
    assert by_distance("9001 9002", last=9002) != by_distance("9002 9001", last=9002)
    assert by_distance("9003 9004", last=9004) != by_distance("9004 9005", last=9004)


def test_checkpoint_ids_are_found_with_leading_zeros_and_nothing_longer_is_one() -> None:
    assert "part-C+1-0 C+0" == by_distance("part-00009002-0 9001", last=9001)
    for other in ("19001", "90011", "90", "9101", "1709001"):
        assert other == by_distance(other, last=FINDABLE_IDS), other


def test_generations_that_begin_as_high_as_findable_ids_are_found_as_well() -> None:
    assert "sink-0-G000-C+1" == canonical(by_distance(f"sink-0-{700_001 + FINDABLE_IDS}-9001", last=FINDABLE_IDS))
