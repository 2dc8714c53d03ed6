"""No claim is upheld for code that was not looked at, and the reason names it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sinkproof.campaign.stage import WALL_CLOCK_STAGE
from sinkproof.certifier.certify import Options, certify
from sinkproof.certifier.claim_verdicts import judge_subject
from sinkproof.certifier.subject_progress import SubjectProgress
from sinkproof.reports.document import Bounds, PointOutcome, ShellResult, StageResult, SubjectResult
from sinkproof.subject.claims import Claim
from sinkproof.subject.contract import Contract, SubjectKind
from sinkproof.subject.source_files import OwnCode

SINK = """\
class Sink:
    def write(self, batch):
        self.rows += batch
        if len(self.rows) > 5000:
            self.spill()
        try:
            self.flush()
        except OSError:
            self.undo()

    def spill(self):
        self.rows = []

    def flush(self):
        return 1
"""
ALL = frozenset({3, 4, 5, 6, 7, 12, 15})  # lines that calls of the sink can lead to without an exception


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "my_sink.py"
    path.write_text(SINK)
    return path


def points(lines: Collection[int]) -> set[str]:
    return {f"line(my_sink.py:{number})" for number in lines}


def judged(
    file: Path,
    *,
    passed: Collection[int] = ALL,
    left_out: tuple[str, Collection[int]] = ("", ()),
    given: str = "my_sink.py",
    kind: SubjectKind = "sink",
    calls_failed: Collection[str] = ("error", "unanswered"),
    known_calls: bool = True,
    strict: bool = False,
    stages: Sequence[StageResult] = (),
    seconds: float = 1.0,
    simulated_seconds: float = 0.0,
    shell: str = "process",
    claims: Claim = Claim.NO_LOSS | Claim.LIVENESS,
    bounds: Bounds | None = None,
    **offered: object,
) -> SubjectResult:
    """`passed`: executed lines. `left_out`: where a kind of fault was not injected. `given`: the file of Sink.
    `calls_failed`: how renames failed.
    """
    given_object = SimpleNamespace(claims=claims, rows="append", write_batch=print, **offered)
    contract = Contract("my/sink", given_object, kind=kind)
    outcomes = [PointOutcome(point="write.before", fault="stop", runs=1, outcome="upheld")]
    only = ShellResult(
        shell=shell,
        schedules_run=9,
        schedules_in_bound=9,
        kills=1,
        seconds=seconds,
        outcomes=outcomes,
        rows_committed=24,
        stages=stages,
        bounds=bounds,
    )
    simulated = [replace(only, shell="simulated", kills=0, seconds=simulated_seconds)] if simulated_seconds else []
    subject = SubjectProgress(contract, [*simulated, only], strict=strict)
    subject.lines_passed = points(passed)
    name, lines = left_out
    subject.lines_by_kind = {
        each: points(passed) - points(lines if each == name else ()) for each in ("kill", "stop", "pause")
    }
    subject.lines_struck = subject.lines_by_kind["kill"]
    subject.calls_passed = {("file.rename", kind) for kind in ("error", "unanswered") if known_calls}
    subject.calls_failed = {("file.rename", kind) for kind in calls_failed}
    subject.own_code = OwnCode(
        files={str(file): "my_sink.py"}, given={"my_sink.Sink": (given,) if given else ()}, names=frozenset({"Sink"})
    )
    return judge_subject(subject)


def test_a_sink_is_upheld_when_all_of_its_code_was_struck(file: Path) -> None:
    assert ("upheld", "exactly-once") == (judged(file).verdict, judged(file).grade)


@pytest.mark.parametrize(("simulated_seconds", "unseen"), [(0.0, True), (1.0, False)])
def test_early_rows_of_a_function_are_looked_for_in_the_simulated_shell(
    file: Path, simulated_seconds: float, *, unseen: bool
) -> None:
    claims = Claim.NO_LOSS | Claim.NO_EARLY_ROWS
    result = judged(file, kind="foreach_batch", shell="spark", simulated_seconds=simulated_seconds, claims=claims)
    assert unseen is ("no reader reads between a function and the commit of its batch" in result.why)


def test_an_expiry_at_a_server_is_not_examined_unless_the_contract_stands_for_it(file: Path) -> None:
    file.write_text(SINK.replace("return 1", "self.redis.set('mark', 1, ex=60)"))
    result = judged(file)
    assert ("unknown", "unknown") == (result.verdict, result.grade)
    assert "my_sink.py:15" in result.why
    assert "sets an expiry at a server" in result.why
    assert "maintain(scratch)" in result.why
    assert "upheld" == judged(file, maintain=print).verdict
    assert "upheld" == judged(file, expires_after=60.0).verdict


@pytest.mark.parametrize(
    ("statement", "clocks", "run", "verdict"),
    [
        ("time.strftime('%F')", [], 9, "unknown"),
        ("datetime.now(UTC)", ["context.clock: outage"], 9, "unknown"),
        ("datetime.now(UTC)", ["wall clock: year-end"], 9, "upheld"),  # a run that moved it came to its end
        ("datetime.now(UTC)", [], 0, "upheld"),  # beside a service it is not moved, and the report says so
        ("time.monotonic()", [], 9, "upheld"),
    ],
)
def test_a_wall_clock_that_was_moved_in_failing_runs_only_is_not_examined(
    file: Path, statement: str, clocks: Sequence[str], run: int, verdict: str
) -> None:
    file.write_text(SINK.replace("return 1", f"return {statement}"))
    result = judged(
        file, stages=[StageResult(name=WALL_CLOCK_STAGE, run=run, finished=True)], bounds=Bounds(rows=24, clocks=clocks)
    )
    assert verdict == result.verdict
    assert (verdict == "unknown") == ("my_sink.py:15) reads the wall clock" in result.why)


def test_stores_in_a_mapped_file_are_not_examined(file: Path) -> None:
    file.write_text(SINK.replace("return 1", "self.table = mmap.mmap(self.file.fileno(), 0)"))
    result = judged(file)
    assert ("unknown", "unknown") == (result.verdict, result.grade)
    assert "my_sink.py:15) maps a file to write through memory" in result.why


def test_a_statement_that_never_ran_is_named_with_file_and_line(file: Path) -> None:
    result = judged(file, passed=ALL - {5, 12})
    assert ("unknown", "unknown") == (result.verdict, result.grade)
    assert "my_sink.py:5 (self.spill()) and 1 more" in result.why


def test_lines_that_only_handle_exceptions_may_be_left(file: Path) -> None:
    assert "upheld" == judged(file, passed=ALL).verdict  # 8 and 9 never ran


@pytest.mark.parametrize("kind", ["kill", "stop", "pause"])
def test_each_kind_has_to_strike_nine_lines_in_ten(file: Path, kind: str) -> None:
    result = judged(file, left_out=(kind, {3}))
    assert "unknown" == result.verdict
    assert "1 of 7 executed lines were not struck" in result.why
    assert "give it a larger --budget: 10s should suffice" in result.why


def test_the_budget_that_is_named_includes_required_stages_that_did_not_begin(file: Path) -> None:
    """Of 100 s for nine schedules: one for the line, and as many again for the stage."""
    begun = StageResult(name="kill at each step", run=9, planned=9, finished=True, skipped="", cut="")
    left = replace(begun, name="kill at each line, each time in a commit", run=0, planned=0, finished=False)
    needless = replace(left, name="later occurrences")
    budgets = {
        "140s": [begun, needless],
        "440s": [begun, needless, left],
    }
    for budget, stages in budgets.items():
        why = judged(file, left_out=("stop", {3}), stages=stages, seconds=100.0).why
        assert f"give it a larger --budget: {budget} should suffice" in why


def test_the_budget_that_is_named_is_that_of_all_shells(file: Path) -> None:
    begun = StageResult(name="kill at each step", run=9, planned=9, finished=True, skipped="", cut="")
    why = judged(file, left_out=("stop", {3}), stages=[begun], seconds=100.0, simulated_seconds=50.0).why
    assert "give it a larger --budget: 200s should suffice" in why


@pytest.mark.parametrize(("failed", "side"), [({"error"}, "after"), ({"unanswered"}, "before")])
def test_each_kind_of_call_has_to_fail_before_and_after_its_effect(file: Path, failed: set[str], side: str) -> None:
    result = judged(file, calls_failed=failed)
    assert "unknown" == result.verdict
    assert f"no error was tried {side} the call at file.rename; give it a larger --budget" in result.why


def test_strict_asks_for_every_statement_line_and_stage(file: Path) -> None:
    assert (
        "--strict: 1 statements for exceptions never ran, such as line(my_sink.py:9)" in judged(file, strict=True).why
    )
    everything = ALL | {8, 9}
    assert "upheld" == judged(file, passed=everything, strict=True).verdict
    done = StageResult(name="kill at each line", run=3, planned=3, finished=True, skipped="", cut="")
    assert "upheld" == judged(file, passed=everything, strict=True, stages=[done]).verdict
    left = judged(file, passed=everything, strict=True, stages=[replace(done, finished=False)])
    assert ("unknown", True) == (
        left.verdict,
        "1 stages were not run to their end, such as kill at each line" in left.why,
    )
    assert "upheld" == judged(file, passed=everything, stages=[replace(done, finished=False)]).verdict


def test_a_sink_without_known_calls_to_its_target_is_told_so_beside_upheld(file: Path) -> None:
    file.write_text(SINK.replace("            self.undo()", "            raise"))
    result = judged(file, known_calls=False)
    assert "upheld" == result.verdict
    assert "no error was tried at calls to the target, because none is known" in result.why


def test_it_is_unknown_if_an_error_of_such_a_call_may_be_swallowed(file: Path) -> None:
    result = judged(file, known_calls=False)
    assert "unknown" == result.verdict
    assert "line(my_sink.py:9), which handles an error and raises none, never ran" in result.why
    assert "upheld" == judged(file, known_calls=False, passed=ALL | {9}).verdict


def test_a_class_without_a_point_is_named(file: Path) -> None:
    assert "none of the lines of my_sink.Sink (other.py) was a point" in judged(file, given="other.py").why
    assert "my_sink.Sink has no Python file that is struck" in judged(file, given="").why


def test_claims_about_rows_of_a_command_are_unknown_and_its_liveness_is_not(file: Path) -> None:
    verdicts = {claim.claim: claim.verdict for claim in judged(file, kind="command").claims}
    assert {"NO_LOSS": "unknown", "LIVENESS": "upheld"} == verdicts


def test_the_certificate_lists_what_was_struck_and_what_never_ran(file: Path) -> None:
    (code,) = judged(file, passed=ALL - {5, 12}, left_out=("stop", {3})).code
    assert ("my_sink.py", 5, 5, 4, 5) == (code.file, code.executed, code.killed, code.stopped, code.paused)
    assert ([5, 12], [9], []) == (code.never_run, code.handlers_never_run, code.excluded)


@pytest.mark.parametrize(("kind", "verdict"), [("stop", "upheld"), ("pause", "upheld"), ("kill", "unknown")])
def test_lines_that_run_after_errors_need_a_kill_and_no_suspension(kind: str, verdict: str, file: Path) -> None:
    assert verdict == judged(file, passed=ALL | {8, 9}, left_out=(kind, {8, 9})).verdict


def test_handlers_that_never_ran_are_said_beside_upheld(file: Path) -> None:
    assert "statements for exceptions that never ran: 1" in judged(file).why


def test_a_sink_that_names_its_id_and_was_alone_has_that_said_beside_upheld(file: Path) -> None:
    assert "sink_id" not in judged(file).why
    file.write_text(SINK.replace("return 1", "self.name = self.context.sink_id"))
    result = judged(file)
    assert "upheld" == result.verdict
    assert "my_sink.py names sink_id, and no second sink wrote to the same target" in result.why
    assert "sink_id" not in judged(file, second_sink=print).why


# -- from the command's point of view ------------------------------------------------------------------

INSTALLED = """\
import json, os


class Journal:
    def __init__(self, folder):
        self.folder, self.rows, self.pending = folder, [], {}

    def open(self, context):
        self.subtask = context.subtask
        os.makedirs(self.folder / "done", exist_ok=True)
        for subtask, state in context.restored:
            for checkpoint, rows in json.loads(state):
                self.publish(f"{subtask}-{checkpoint}", rows)

    def write(self, batch):
        self.rows += [(row.split, row.offset) for row in batch]

    def snapshot(self, checkpoint_id):
        self.pending[checkpoint_id], self.rows = self.rows, []
        return json.dumps(list(self.pending.items())).encode()

    def notify_complete(self, checkpoint_id):
        for older in [each for each in self.pending if each <= checkpoint_id]:
            self.publish(f"{self.subtask}-{older}", self.pending.pop(older))

    def publish(self, name, rows):
        if (self.folder / "done" / name).exists():
            return
        (self.folder / "done" / name).touch()
        text = json.dumps(rows)
        (self.folder / f"{name}.tmp").write_text(text)
        os.replace(self.folder / f"{name}.tmp", self.folder / f"{name}.json")
"""
CONTRACT = """\
import json, sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "lib" / "site-packages"))
from journal_sink import Journal
from sinkproof import Claim


class Of:
    claims = Claim.NO_LOSS

    def sink(self, scratch):
        return Journal(scratch.path)

    def committed(self, scratch):
        for file in sorted(scratch.path.glob("*.json")):
            yield from json.loads(file.read_text())
"""


@pytest.mark.slow
def test_a_lossy_sink_in_site_packages_is_convicted_at_its_own_line(tmp_path: Path) -> None:
    """Between the marker and the file no step of the protocol lies, and no line of the contract's file."""
    site = tmp_path / "lib" / "site-packages"
    site.mkdir(parents=True)
    (site / "journal_sink.py").write_text(INSTALLED)
    (tmp_path / f"of_{tmp_path.name}.py").write_text(CONTRACT)
    options = Options(shells=("process",), budget_seconds=1.0, canaries=False, cores=1)
    document: Any = certify([f"{tmp_path}/of_{tmp_path.name}.py:Of"], tmp_path / "out", options=options)
    (subject,) = document["subjects"]
    assert "violated" == subject["verdict"], subject["why"]
    assert {"journal_sink.py"} == {each["line"]["file"] for each in subject["findings"] if each["line"]}


def test_a_handler_of_sigterm_is_left_to_the_process_shell(file: Path) -> None:
    assert "upheld" == judged(file, shell="simulated").verdict
    file.write_text(f"{SINK}\n# SIGTERM\n")
    result = judged(file, shell="simulated")
    assert "unknown" == result.verdict
    assert "my_sink.py names SIGTERM, which no process got; run it --on process as well" in result.why
    assert "upheld" == judged(file).verdict


def test_a_function_that_handles_sigterm_has_that_said_beside_upheld(file: Path) -> None:
    file.write_text(f"{SINK}\n# SIGTERM\n")
    result = judged(file, kind="foreach_batch", shell="spark")
    assert "upheld" == result.verdict, result.why
    assert "my_sink.py names SIGTERM, which no driver got" in result.why
