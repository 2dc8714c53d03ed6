"""Parsing of a timeline and layout of its picture: a lane ends where a fault ends its actor; marks and labels do not
overlap."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from sinkproof.reports import report_facts as facts
from sinkproof.reports import story
from sinkproof.reports.at_target.target_record import TargetChange
from sinkproof.reports.json_files import plain
from sinkproof.reports.picture import LABELS_APART, LANE_HEIGHT, Picture, picture

from ..support.sample_certificate import sample

Entry = tuple[float, str, str, bool]


def finding(*timeline: Entry, **others: Any) -> dict[str, Any]:
    """The sample's worst one, with this timeline."""
    found = dict(facts.filled(sample())["subjects"][1]["findings"][0])
    names = ("at", "actor", "what", "struck")
    events = [dict(zip(names, each, strict=True)) for each in timeline]
    return {**found, "target": None, "timeline": events, **others}


def crash(kind: str, *, actor: str = "sink[0]", after: str = "acknowledged: 1") -> dict[str, Any]:
    """Two sinks; a fault faults one of them; the next generation begins."""
    return finding(
        (0.0, "coordinator", "generation", False),
        (0.1, "sink[0] (generation 700001)", "acknowledged: 1", False),
        (0.2, "sink[1] (generation 700001)", "acknowledged: 1", False),
        (0.3, actor if actor == "coordinator" else f"{actor} (generation 700001)", f"commit.after: {kind}", True),
        (0.4, "coordinator", "generation", False),
        (0.5, "sink[0] (generation 700002)", after, False),
    )


def pauses(shown: Picture, name: str) -> int:
    """How often this actor's lane is interrupted."""
    return len(next(lane.alive for lane in shown.lanes if lane.name == name)) - 1


@pytest.mark.parametrize(
    ("kind", "interrupted"),
    [
        ("kill", {"sink[0]"}),
        ("stop", {"sink[0]"}),
        ("error", {"sink[0]"}),
        ("kill-worker", {"sink[0]"}),
        ("kill-job", {"coordinator", "sink[0]", "sink[1]"}),
        ("lose-power", {"coordinator", "sink[0]", "sink[1]"}),
        ("rewind", {"coordinator", "sink[0]", "sink[1]"}),
        ("lose", set()),
        ("solar-flare", set()),
    ],
)
def test_a_lane_ends_where_a_fault_ends_its_actor(kind: str, interrupted: set[str]) -> None:
    shown = picture(crash(kind))
    assert interrupted == {lane.name for lane in shown.lanes if lane.name != "reader" and pauses(shown, lane.name)}


def test_a_lane_begins_again_with_the_next_generation() -> None:
    shown = picture(crash("kill"))
    lane = next(lane for lane in shown.lanes if lane.name == "sink[0]")
    assert lane.alive[0][1] == shown.faults[0].x
    assert lane.alive[1][0] == shown.bands[1].x


def test_generations_are_numbered_from_one_in_the_picture() -> None:
    assert ["generation 1", "generation 2"] == [band.name for band in picture(crash("kill")).bands]
    no_event = crash("kill", actor="coordinator")
    del no_event["timeline"][1:3]
    assert ["generation 1", "generation 2"] == [band.name for band in picture(no_event).bands]


def test_a_checkpoint_is_complete_only_after_a_complete_event() -> None:
    assert [False] == [front.complete for front in picture(crash("kill", after="opened")).fronts]
    timeline = crash("kill")
    timeline["timeline"].insert(3, {"at": 0.25, "actor": "coordinator", "what": "complete: 1", "struck": False})
    assert picture(timeline).fronts[0].complete


def test_a_checkpoint_that_was_lost_does_not_get_the_decision_of_another_with_its_id() -> None:
    shown = picture(
        finding(
            (0.0, "coordinator", "generation", False),
            (0.1, "sink[0] (generation 700001)", "acknowledged: 1", False),
            (0.2, "sink[0] (generation 700001)", "commit.after: kill-job", True),
            (0.0, "coordinator", "generation", False),
            (0.1, "sink[0] (generation 700002)", "acknowledged: 1", False),
            (0.2, "coordinator", "complete: 1", False),
        )
    )
    assert [False, True] == [front.complete for front in shown.fronts]


def test_times_rise_when_a_restarted_job_restarts_its_clock() -> None:
    timeline = story.story(finding(*((at, "sink[0]", "opened", False) for at in (0.1, 0.3, 0.0, 0.2))))
    assert [0.1, 0.3, 0.3, 0.5] == [round(each.at, 3) for each in timeline.events]


def test_an_acknowledgement_of_a_zombie_is_not_part_of_the_decision() -> None:
    timeline = crash("stop", after="acknowledged: 2")
    timeline["timeline"] += [
        {"at": 0.6, "actor": "sink[1] (generation 700001)", "what": "acknowledged: 2", "struck": False},
        {"at": 0.7, "actor": "coordinator", "what": "complete: 2", "struck": False},
    ]
    assert {(False, 2), (False, 1), (True, 1)} == {
        (front.complete, len(front.acknowledgements.split())) for front in picture(timeline).fronts
    }


def test_marks_of_one_lane_do_not_overlap_even_at_the_same_time() -> None:
    timeline = finding(*((0.001 * (index // 4), "sink[0]", f"acknowledged: {index}", False) for index in range(40)))
    places = sorted(mark.x for mark in picture(timeline).marks)
    assert min(after - before for before, after in pairwise(places)) >= 16


def test_a_long_wait_is_shortened() -> None:
    timeline = finding(*((at, "sink[0]", "acknowledged: 1", False) for at in (0.0, 0.1, 0.2, 0.3, 900.0)))
    shown = picture(timeline)
    assert shown.width < 1000
    assert [mark.x for mark in shown.marks] == sorted(mark.x for mark in shown.marks)


def test_a_label_that_would_overlap_another_stands_below_its_lane() -> None:
    before = [(0.01 * index, "sink[0]", f"acknowledged: {index}", False) for index in range(30)]
    faults = [(0.3, "sink[0]", "commit.before: kill", True), (0.31, "sink[0]", "commit.after: kill", True)]
    after = [(0.32 + 0.01 * index, "sink[0]", f"acknowledged: {index}", False) for index in range(30)]
    first, second = picture(finding(*before[:20], *faults, *after[:20])).faults
    assert first.text_y < first.y < second.text_y
    far_away = [(0.0, "sink[0]", "commit.before: kill", True), *before[1:], faults[1]]
    assert 1 == len({fault.text_y for fault in picture(finding(*far_away)).faults})


def test_the_last_fault_names_the_line_of_code() -> None:
    faults = [(0.1, "sink[0]", "commit.before: kill", True), (0.2, "sink[0]", "commit.after: kill", True)]
    labels = [fault.label for fault in picture(finding(*faults)).faults]
    assert ["kill at commit.before", "kill at commit.after, my_sink.py:42"] == labels
    at_a_line = finding((0.1, "sink[0]", "line(my_sink.py:42): kill", True))
    assert ["kill at line(my_sink.py:42)"] == [fault.label for fault in picture(at_a_line).faults]


def test_a_long_timeline_keeps_its_faults_and_both_ends_and_counts_what_it_leaves_out() -> None:
    events = [(float(at), "sink[0]", "commit.after: kill" if at == 250 else str(at), at == 250) for at in range(500)]
    timeline = story.story(finding(*events))
    assert ["commit.after"] == [each.point for each in timeline.events if each.kind == "fault"]
    assert ("0", "499") == (timeline.events[0].text, timeline.events[-1].text)
    assert 500 == sum(each.left_out + 1 for each in timeline.events)
    assert len(timeline.events) <= story.EVENTS_SHOWN
    assert [240, 238] == [each.left_out for each in timeline.events if each.left_out]
    assert [240, 238] == [count for _, count in picture(finding(*events)).gaps]


def test_a_timeline_of_faults_only_is_shortened_too() -> None:
    events = [(float(at), f"sink[{at % 4}]", "commit.after: kill", True) for at in range(900)]
    assert len(story.story(finding(*events)).events) <= story.EVENTS_SHOWN


def test_unknown_event_text_is_kept_and_shortened() -> None:
    timeline = story.story(finding((0.0, "the janitor", "swept\n" + "x" * 500, False)))
    assert ("the janitor", "other") == (timeline.events[0].actor, timeline.events[0].kind)
    assert timeline.events[0].text.startswith("swept xxx")
    assert story.WORDS_LONGEST == len(timeline.events[0].text)


def test_lanes_stand_in_the_order_of_the_protocol() -> None:
    actors = ("sink[10]", "sink[2]", "window[0]", "source[1]", "coordinator", "source[0]")
    shown = picture(finding(*((0.0, actor, "opened", False) for actor in actors)))
    names = ["coordinator", "source[0]", "source[1]", "window[0]", "sink[2]", "sink[10]", "reader"]
    assert names == [lane.name for lane in shown.lanes]
    assert [LANE_HEIGHT] * 6 == [after.y - before.y for before, after in pairwise(shown.lanes)]


@pytest.mark.parametrize(
    ("oracle", "lost", "extra", "ending"),
    [
        ("O1", [(0, 1)], [], "1 row lost: 0:1"),
        ("O4", [(0, 1)], [], "1 row hidden: 0:1"),
        ("O2", [], [(0, 1), (0, 2)], "2 rows too many: 0:1, 0:2"),
        ("O3", [], [(0, 1)], "1 row seen early or again: 0:1"),
        ("O9", [(0, 1)], [], "1 row removed: 0:1"),
        ("O9", [], [(0, 1)], "1 row added by a replaced attempt: 0:1"),
        ("O8", [(1, 1)], [(0, 1)], "1 row lost: 1:1; 1 row too many: 0:1"),
        ("O6", [], [], "O6: it never came to its end"),
    ],
)
def test_the_ending_of_a_timeline_names_lost_and_extra_rows(
    oracle: str, lost: list[Any], extra: list[Any], ending: str
) -> None:
    why = "it never came to its end"
    assert ending == story.ending(finding(oracle=oracle, lost=lost, extra=extra, extra_total=None, why=why))


def change(at: float, place: int, *, generation: int = 1, **others: Any) -> dict[str, Any]:
    """Of the target, by sink[0]."""
    return {**plain(TargetChange(at=at, place=place, actor="sink[0]", generation=generation)), **others}


def with_changes(found: dict[str, Any], *changes: dict[str, Any]) -> dict[str, Any]:
    return {**found, "target": {"changes": changes, "rows": [], "left_out": []}}


def test_changes_of_the_target_stand_between_the_events_of_the_timeline() -> None:
    found = with_changes(
        crash("kill"),
        change(0.3, 3, call="commit", did=["renames a to b"], appeared=[[0, 1]]),
        change(0.3, 4, struck=True),
        change(0.5, 6, generation=2, call="open", did=["creates c"], appeared=[[0, 1]], again=[[0, 1]]),
    )
    words = [story.sentence(each) for each in story.story(found).events]
    assert "commit: renames a to b; 1 row appears: 0:1" == words[3]
    assert "⚡ kill at commit.after" == words[4]
    assert "open: creates c; 1 row appears once more: 0:1" == words[-1]
    assert 8 == len(words)


def test_the_picture_shows_what_became_visible_and_what_a_zombie_has_overwritten() -> None:
    found = with_changes(
        crash("stop"),
        change(0.25, 3, appeared=[[0, 1], [0, 2]]),
        change(0.5, 6, generation=2, appeared=[[0, 3]]),
        change(0.6, 6, generation=1, call="commit", did=["replaces list"], vanished=[[0, 3]], goes_on=True),
    )
    shown = picture(found)
    assert [("+2", False, False), ("+1", False, False), ("-1", True, True)] == [
        (each.label, each.wrong, each.old) for each in shown.changes
    ]
    assert [(shown.faults[0].x, shown.changes[2].x)] == [(each.since, each.until) for each in shown.suspensions]
    zombie = "0.600 s, sink[0]: as generation 1, goes on: commit: replaces list; 1 row vanishes: 0:3"
    assert zombie == shown.changes[2].title
    assert shown.ending_y > shown.changes[0].label_y  # below the numbers


def test_numbers_of_rows_that_are_close_stand_below_each_other() -> None:
    many = [change(0.01 * number, 0, appeared=[[0, number]]) for number in range(55)]
    labels = picture(with_changes(finding(), *many)).changes
    crowded = [after.x - before.x < LABELS_APART for before, after in pairwise(labels)]
    assert crowded == [True] * 54
    assert all(
        before.label_y != after.label_y for (before, after), near in zip(pairwise(labels), crowded, strict=True) if near
    )
