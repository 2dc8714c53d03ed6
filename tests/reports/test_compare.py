"""Differences between two certificates, and whether the second one is worse."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sinkproof.reports.compare import Comparison, compare, render

from ..support.sample_certificate import NAME_HOSTILE, REPLAY, sample

Edit = Callable[[dict[str, Any]], None]


def changed(edit: Edit) -> Comparison:
    """The sample beside what an edit makes of it."""
    after = sample()
    edit(after)
    return compare(sample(), after)


def changed_subjects(comparison: Comparison) -> list[str]:
    return [f"{item.name}: {change.what}" for item in comparison.subjects for change in item.changes]


def falls(document: dict[str, Any]) -> None:
    broken = copy.deepcopy(document["subjects"][1])
    document["subjects"][0] = {**broken, "name": "files/two-phase"}


def test_a_certificate_is_no_worse_than_itself() -> None:
    same = changed(lambda document: None)
    assert [] == [*same.worse, *same.run, *same.canaries, *changed_subjects(same)]
    assert "3 subjects the same\n\nThe second certificate is not worse than the first.\n" == render(same)


def test_a_fallen_verdict_or_grade_makes_it_worse_and_is_printed_with_its_replay_command() -> None:
    fallen = changed(falls)
    assert "files/two-phase: verdict: upheld → violated" in fallen.worse
    assert "files/two-phase: grade: exactly-once → at-least-once" in fallen.worse
    assert "files/two-phase: O2 against a claim: not found → found" in fallen.worse
    text = render(fallen)
    assert "new: O2 (breaks a claim) at commit.after=kill: rows 0:0 to 0:9 were committed again" in text
    assert REPLAY in text
    assert "2 subjects the same" in text


def test_the_other_way_round_it_is_better_and_the_findings_are_gone() -> None:
    after = sample()
    falls(after)
    mended = compare(after, sample())
    assert ["files/two-phase"] == [item.name for item in mended.subjects if item.better]
    assert not [reason for reason in mended.worse if "verdict" in reason or "grade" in reason]
    assert ["O2", "O7"] == sorted(finding.oracle for finding in mended.subjects[0].findings_gone)


@pytest.mark.parametrize(
    ("before", "after", "worse"),
    [
        ("upheld", "unknown", True),
        ("unknown", "violated", True),
        ("violated", "unknown", False),
        ("unknown", "upheld", False),
    ],
)
def test_violated_is_worse_than_unknown_and_unknown_than_upheld(before: str, after: str, *, worse: bool) -> None:
    first, second = {**sample(), "verdict": before}, {**sample(), "verdict": after}
    assert worse is bool(compare(first, second).worse)


@pytest.mark.parametrize(
    ("before", "after", "worse"),
    [
        ("exactly-once", "effectively-once", True),
        ("exactly-once", "unknown", True),
        ("unknown", "broken", True),
        ("broken", "unknown", False),
        ("at-least-once", "exactly-once", False),
    ],
)
def test_an_unknown_grade_is_worse_than_every_grade_but_broken(before: str, after: str, *, worse: bool) -> None:
    first, second = sample(), sample()
    first["subjects"][0]["grade"], second["subjects"][0]["grade"] = before, after
    assert worse is bool(compare(first, second).worse)


def forget_subject(document: dict[str, Any]) -> None:
    del document["subjects"][0]


def skip_step(document: dict[str, Any]) -> None:
    document["subjects"][0]["shells"][0]["points_reached"].remove("commit.after")


def open_closure(document: dict[str, Any]) -> None:
    document["subjects"][0]["shells"][0]["closure"]["complete"] = False


def skip_shell(document: dict[str, Any]) -> None:
    del document["subjects"][0]["shells"][1]


def let_canary_escape(document: dict[str, Any]) -> None:
    document["canaries"][0]["convicted"] = False


def convict_control(document: dict[str, Any]) -> None:
    document["canaries"][-1]["convicted"] = True


def try_no_canary(document: dict[str, Any]) -> None:
    document["canaries"] = []


def be_killed(document: dict[str, Any]) -> None:
    document["complete"] = False


CODE = {"file": "sink.py", "executed": 40, "killed": 38, "covered": 2, "stopped": 38, "paused": 38}
STAGES = [{"name": "kill at each step", "run": 9, "finished": True}, {"name": "pairs", "run": 4, "planned": 9}]


def looked_at() -> dict[str, Any]:
    """The sample with stages, and with code of the user's."""
    document = sample()
    document["subjects"][0]["code"] = [CODE]
    document["subjects"][0]["shells"][0]["stages"] = STAGES
    return document


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        ({"paused": 37}, "sink.py: executed lines never paused: 2 → 3"),
        ({"killed": 37}, "sink.py: executed lines never killed: 0 → 1"),
        ({"never_run": [7]}, "sink.py: statements that never ran: 0 → 1"),
        ({"excluded": [7, 8]}, "sink.py: statements left out by a mark: 0 → 2"),
        ({"executed": 30, "killed": 28, "stopped": 28, "paused": 28}, ""),  # the sink has become shorter
        ({"executed": 50, "killed": 48, "stopped": 48, "paused": 50}, ""),
    ],
)
def test_less_of_the_code_looked_at_is_worse(edit: dict[str, Any], reason: str) -> None:
    after = looked_at()
    after["subjects"][0]["code"] = [{**CODE, **edit}]
    assert ([f"files/two-phase: {reason}"] if reason else []) == compare(looked_at(), after).worse


@pytest.mark.slow
def test_a_file_that_is_no_longer_struck_is_worse_and_one_that_was_renamed_is_not() -> None:
    without, renamed = looked_at(), looked_at()
    without["subjects"][0]["code"] = []
    renamed["subjects"][0]["code"] = [{**CODE, "file": "sink_on_disk.py"}]
    assert ["files/two-phase: sink.py: 40 executed lines before, nothing now"] == compare(looked_at(), without).worse
    assert [] == compare(looked_at(), renamed).worse


@pytest.mark.parametrize(
    ("stages", "reason"),
    [
        ([{**STAGES[0], "run": 3}, {**STAGES[1], "run": 1}], ""),  # numbers of runs change with the load
        ([{**STAGES[0], "finished": False, "planned": 20}, STAGES[1]], "'kill at each step': finished → 9 of 20"),
        ([{"name": "kill at each step", "skipped": "rescales = False"}], "finished → skipped: rescales = False"),
        ([STAGES[1]], "'kill at each step': finished before, nothing now"),
    ],
)
def test_a_stage_that_is_no_longer_finished_is_worse(stages: list[dict[str, Any]], reason: str) -> None:
    after = looked_at()
    after["subjects"][0]["shells"][0]["stages"] = stages
    worse = compare(looked_at(), after).worse
    assert bool(reason) is bool(worse)
    assert all(reason in each for each in worse)


def drop_claim(document: dict[str, Any]) -> None:
    del document["subjects"][0]["claims"][-1]


def strike_fewer_lines(document: dict[str, Any]) -> None:
    document["subjects"][0]["shells"][0]["lines_reached"] -= 1


def look_inside_no_more(document: dict[str, Any]) -> None:
    document["subjects"][0]["shells"][0].update(lines_reached=None, lines_total=None)


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (drop_claim, "files/two-phase: NO_RESIDUE: claimed, upheld before, nothing now"),
        (strike_fewer_lines, "files/two-phase: simulated shell, executed lines without a fault: 0 → 1"),
        (
            look_inside_no_more,
            "files/two-phase: simulated shell, executed lines without a fault: 0 before, nothing now",
        ),
        (forget_subject, "files/two-phase: certified: upheld, exactly-once before, nothing now"),
        (skip_step, "files/two-phase: simulated shell, steps with a fault (no longer commit.after): 20 → 19"),
        (
            open_closure,
            "files/two-phase: simulated shell, closure of whole-job crashes: "
            "212 states, complete → 212 states, not complete",
        ),
        (skip_shell, "files/two-phase: process shell: 4,812 schedules before, nothing now"),
        (let_canary_escape, "marker after data in simulated: convicted → escaped"),
        (convict_control, "two-phase in process: acquitted → convicted"),
        (
            try_no_canary,
            "canaries: 6 of 6 convicted of their own sin, 1 of 1 controls acquitted, in 0.92 s → none were tried",
        ),
        (be_killed, "the run: finished → did not finish"),
    ],
)
def test_a_certificate_with_less_coverage_is_worse(edit: Edit, reason: str) -> None:
    assert [reason] == list(changed(edit).worse)


def fault_elsewhere(document: dict[str, Any]) -> None:
    """The same flaw, found in another attempt at another time."""
    finding = document["subjects"][1]["findings"][1]
    finding["schedule"] = finding["schedule"].replace("sink[0]", "sink[1]").replace("#1", "#7")


def more_schedules(document: dict[str, Any]) -> None:
    document["subjects"][0]["shells"][0]["schedules_run"] *= 3


def new_unclaimed_flaw(document: dict[str, Any]) -> None:
    finding = {**document["subjects"][1]["findings"][0], "oracle": "O9"}
    document["subjects"][0]["findings"].append(finding)


def new_upheld_subject(document: dict[str, Any]) -> None:
    document["subjects"].append({**document["subjects"][0], "name": "files/masked"})


@pytest.mark.parametrize("edit", [fault_elsewhere, more_schedules, new_unclaimed_flaw, new_upheld_subject])
def test_a_mere_difference_is_not_worse(edit: Edit) -> None:
    assert [] == list(changed(edit).worse)


def test_the_same_flaw_in_another_attempt_is_no_new_finding() -> None:
    assert not changed(fault_elsewhere).subjects[1].findings_new


def test_more_schedules_and_unclaimed_flaws_are_listed() -> None:
    assert ["files/two-phase: simulated shell, schedules"] == changed_subjects(changed(more_schedules))
    assert "new: O9 (not claimed) at begin.after=kill" in render(changed(new_unclaimed_flaw))


def test_the_text_escapes_control_characters() -> None:
    def poison(document: dict[str, Any]) -> None:
        document["subjects"][1]["findings"][1].update(oracle="O1", why="beware \x1b[2J")

    text = render(changed(poison))
    assert "\x1b" not in text
    assert NAME_HOSTILE in text


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate, and one that is worse."""
    worse = sample()
    falls(worse)
    for name, document in (("good", sample()), ("bad", worse)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "certificate.json").write_text(json.dumps(document))
    return tmp_path / "good", tmp_path / "bad"


def test_the_command_exits_with_one_when_the_second_is_worse(sinkproof_command: Any, two: tuple[Path, Path]) -> None:
    good, bad = map(str, two)
    done = sinkproof_command("compare", good, bad)
    assert (1, "") == (done.returncode, done.stderr)
    assert "files/two-phase: verdict: upheld → violated" in done.stdout
    back = sinkproof_command("compare", bad, good, "--json")
    assert 0 == back.returncode
    assert ["files/two-phase"] == [item["name"] for item in json.loads(back.stdout)["subjects"] if item["changes"]]


def test_the_command_names_a_certificate_that_it_cannot_read(
    sinkproof_command: Any, two: tuple[Path, Path], tmp_path: Path
) -> None:
    damaged = tmp_path / "damaged.json"
    damaged.write_text('{"schema": "sinkproof/certif')
    for place, why in (
        (tmp_path / "nowhere", "there is no readable certificate at"),
        (damaged, "is damaged"),
    ):
        done = sinkproof_command("compare", str(two[0]), str(place))
        assert (3, "") == (done.returncode, done.stdout)
        assert why in done.stderr
        assert "Traceback" not in done.stderr
