"""A change of the target in words, and how often rows were visible."""

from __future__ import annotations

from typing import Any

import pytest

from sinkproof.reports import markdown, page, terminal
from sinkproof.reports.at_target import target_words
from sinkproof.reports.at_target.target_record import TargetChange
from sinkproof.reports.json_files import plain

from ...support.sample_certificate import sample


def change(**others: Any) -> dict[str, Any]:
    return {**plain(TargetChange(at=0.0, place=0, actor="sink[0]", generation=1)), **others}


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


def test_rows_that_were_cut_are_counted_all_the_same() -> None:
    rows = [[0, number] for number in range(50)]
    mixed = change(appeared=rows, again=rows[:20], appeared_total=70, again_total=20, vanished=rows, vanished_total=90)
    assert (
        "50 rows appear: 0:20, 0:21, 0:22, 0:23, …; 20 rows appear once more: 0:0, 0:1, 0:2, 0:3, …; "
        "90 rows vanish: 0:0, 0:1, 0:2, 0:3, …" == target_words.sentence(mixed)
    )
    assert "30 rows appear; 60 rows appear once more: 0:0, 0:1, 0:2, 0:3, …" == target_words.sentence(
        change(appeared=rows, again=rows, appeared_total=90, again_total=60)
    )


def test_rows_seen_again_that_are_not_among_those_that_appeared_are_said() -> None:
    """Both lists of such a certificate were cut."""
    assert "1 row appears: 0:1; 1 row appears once more: 0:9" == target_words.sentence(
        change(appeared=[[0, 1]], again=[[0, 9]])
    )


@pytest.mark.parametrize("render", [terminal.render, markdown.render, page.render])
def test_reports_say_what_was_not_recorded_and_count_what_was_cut(render: Any) -> None:
    document = sample()
    target = document["subjects"][1]["findings"][1]["target"]
    assert "not recorded" not in render(document)
    target["left_out"] = ["3 changes after the first 120"]
    text = render(document)
    assert "not recorded: 3 changes after the first 120" in " ".join(text.split())
    if render is page.render:
        assert ">+10<" in text
        target["changes"][0]["appeared_total"] = 70
        assert ">+70<" in render(document)
