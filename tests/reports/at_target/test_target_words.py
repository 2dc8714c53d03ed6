"""A change of the target in words, and how often rows were visible."""

from __future__ import annotations

from typing import Any

from sinkproof.reports.at_target import target_words


def change(**others: Any) -> dict[str, Any]:
    return {"call": "", "did": [], "appeared": [], "again": [], "vanished": [], "goes_on": False, **others}


def test_a_change_names_the_call_its_effects_and_the_rows() -> None:
    rows = [[1, 10], [1, 9], [0, 2]]
    text = target_words.sentence(change(call="open", did=["creates a"], appeared=rows, again=[[1, 9]], goes_on=True))
    assert "goes on: open: creates a; 2 rows appear: 0:2, 1:10; 1 row appears once more: 1:9" == text
    assert "commit: nothing" == target_words.sentence(change(call="commit"))


def test_long_lists_are_cut_and_counted() -> None:
    many = change(did=[f"creates {number}" for number in range(9)], vanished=[[0, number] for number in range(9)])
    assert (
        "creates 0, creates 1, creates 2, creates 3, and 5 more; 9 rows vanish: 0:0, 0:1, 0:2, 0:3, …"
        == target_words.sentence(many)
    )


def test_rows_that_were_seen_equally_often_are_one_line() -> None:
    rows = [
        {"row": [0, 1], "sent": "k=v", "when_struck": 1, "in_the_end": 2},
        {"row": [0, 2], "sent": "", "when_struck": 1, "in_the_end": 2},
        {"row": [0, 3], "sent": "k=w", "when_struck": 0, "in_the_end": 0},
    ]
    assert [
        "0:1 k=v, 0:2: visible once when the fault struck, twice in the end",
        "0:3 k=w: not visible when the fault struck, not in the end",
    ] == target_words.seen(rows)


def test_only_rows_that_come_back_or_go_are_wrong() -> None:
    assert not target_words.is_wrong(change(appeared=[[0, 1]]))
    assert target_words.is_wrong(change(appeared=[[0, 1]], again=[[0, 1]]))
    assert target_words.is_wrong(change(vanished=[[0, 1]]))
