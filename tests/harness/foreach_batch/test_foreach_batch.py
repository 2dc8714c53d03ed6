"""foreachBatch functions: crashed at every line, in a simulated query and in a real one."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import sinkproof
from sinkproof.certifier.pytest_snippet import as_test
from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.points import is_line
from sinkproof.chaos.schedule import STANDARD, parse
from sinkproof.foreach_batch.batch_state_machine import TRANSITIONS, BatchEvent, BatchPhase, MicroBatches
from sinkproof.foreach_batch.certifying_query import (
    AFTER_COMMIT,
    BATCHES,
    BEFORE_COMMIT,
    ROWS,
    anomalies_of,
    named_query,
)
from sinkproof.foreach_batch.followed_schedules import follow
from sinkproof.foreach_batch.simulated_batches import CrashState, SimulatedQuery
from sinkproof.foreach_batch.streaming_driver_supervisor import Experiment
from sinkproof.judging.oracle import Observation
from sinkproof.subject.contract import ContractError
from sinkproof.subject.loading import load

from ...support.explored_functions import FUNCTIONS, explored, wrong


def text_at(schedule: str) -> str:
    """The source line that a schedule's only fault names."""
    number = int(parse(schedule).faults[0].point.rpartition(":")[2].rstrip(")"))
    return (FUNCTIONS / "without_spark.py").read_text().splitlines()[number - 1].strip()


# -- the state machine -----------------------------------------------------------------------------


def test_a_batch_is_planned_written_and_committed() -> None:
    query = MicroBatches()
    for event in (BatchEvent.PLAN, BatchEvent.WRITE, BatchEvent.COMMIT):
        query = query.after(event)
    assert MicroBatches(1, BatchPhase.COMMITTED) == query


def test_only_a_recorded_batch_does_not_run_again() -> None:
    planned, written = MicroBatches(2, BatchPhase.PLANNED), MicroBatches(2, BatchPhase.WRITTEN)
    assert planned == planned.after(BatchEvent.CRASH) == written.after(BatchEvent.CRASH)
    assert MicroBatches(2) == MicroBatches(2).after(BatchEvent.CRASH)


def test_a_lost_commit_brings_its_batch_back() -> None:
    assert MicroBatches(1, BatchPhase.PLANNED) == MicroBatches(2).after(BatchEvent.LOSE_COMMIT)


def test_an_event_outside_the_table_raises() -> None:
    with pytest.raises(KeyError):
        MicroBatches().after(BatchEvent.COMMIT)
    assert {phase for phase, event in TRANSITIONS if event is BatchEvent.CRASH} == set(BatchPhase)


# -- simulated -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_appending_function_repeats_a_batch_that_was_not_recorded(query: Callable[[str], SimulatedQuery]) -> None:
    found = wrong(explored(query("append"), sequences=False))
    assert ["O2"] == found[f"{BEFORE_COMMIT}#2=kill-job"]
    assert {"O2"} == {oracle for oracles in found.values() for oracle in oracles}


@pytest.mark.slow
def test_a_replacing_function_is_correct_after_any_sequence_of_crashes(query: Callable[[str], SimulatedQuery]) -> None:
    exploration = explored(query("replace"))
    assert {} == wrong(exploration)
    assert exploration.complete
    deepest = max(len(judged.first.faults) for judged in exploration.states.values())
    assert deepest >= 2


@pytest.mark.slow
def test_a_marker_before_its_rows_loses_them_and_the_line_is_named(query: Callable[[str], SimulatedQuery]) -> None:
    found = wrong(explored(query("mark_first"), sequences=False))
    lines = {text_at(schedule) for schedule in found if is_line(parse(schedule).faults[0].point)}
    assert "append(df, batch_id)" in lines
    assert "marker.touch()" not in lines
    assert {"O1"} == {oracle for oracles in found.values() for oracle in oracles}


@pytest.mark.slow
def test_a_loss_that_needs_two_crashes_is_found(query: Callable[[str], SimulatedQuery]) -> None:
    exploration = explored(query("forget_when_asked_twice"))
    found = wrong(exploration)
    assert found
    first = min(found, key=lambda schedule: len(parse(schedule).faults))
    assert 2 == len(parse(first).faults)
    assert not exploration.complete
    ending, _, _ = follow(query("forget_when_asked_twice"), parse(first))
    assert found[first] == [anomaly.oracle for anomaly in anomalies_of(ending, "append")]


@pytest.mark.slow
def test_values_that_a_repeated_batch_alters_are_found(query: Callable[[str], SimulatedQuery]) -> None:
    exploration = explored(query("alter_when_repeated"), sequences=False)
    assert {"key": 2, "value": 3} == exploration.fields
    found = wrong(exploration)
    assert ["O12"] == found[f"{BEFORE_COMMIT}#2=kill-job"]
    assert {"O12"} == {oracle for oracles in found.values() for oracle in oracles}


def test_the_error_of_a_function_names_its_line(query: Callable[[str], SimulatedQuery]) -> None:
    exploration = explored(query("fail"))
    assert "with batch 1 the function raised ValueError at without_spark.py:" in exploration.base.failure
    assert '(raise ValueError("no batch 1, please"))' in exploration.base.failure
    assert not any(judged.ending for judged in exploration.states.values())


@pytest.mark.slow
def test_a_function_that_does_not_recover_is_convicted(query: Callable[[str], SimulatedQuery]) -> None:
    exploration = explored(query("fail_again"), sequences=False)
    assert anomalies_of(exploration.base, "append")[0].oracle == "O3"  # only early without crashes, as each function is
    assert ["O1", "O6"] == wrong(exploration)[f"{BEFORE_COMMIT}#1=kill-job"]


@pytest.mark.parametrize(("ordered", "found"), [(True, ["O5"]), (False, [])])
def test_the_order_of_rows_is_judged_where_it_is_claimed(found: list[str], *, ordered: bool) -> None:
    backwards = Observation(committed=[*reversed(named_query(STANDARD).ledger.expected)])
    assert found == [anomaly.oracle for anomaly in anomalies_of(backwards, "append", ordered=ordered)]


@pytest.mark.parametrize(("function", "found"), [("put_first", True), ("keep", False)])
def test_rows_in_another_order_are_found(query: Callable[..., SimulatedQuery], function: str, *, found: bool) -> None:
    exploration = explored(query(function, module="in_order"), sequences=False)
    oracles = {anomaly.oracle for judged in exploration.states.values() for anomaly in judged.anomalies}
    assert found is ("O5" in oracles)


def test_a_lost_commit_and_a_crash_before_it_leave_the_same_state(query: Callable[[str], SimulatedQuery]) -> None:
    states = [
        follow(query("replace"), parse(schedule))[1]
        for schedule in (f"{BEFORE_COMMIT}#2=kill-job", f"{AFTER_COMMIT}#2=lose")
    ]
    assert MicroBatches(1, BatchPhase.PLANNED) == states[0].query == states[1].query
    assert states[0].target == states[1].target


def test_a_fault_without_its_point_is_not_injected(query: Callable[[str], SimulatedQuery]) -> None:
    ending, state, _ = follow(query("replace"), parse(f"{BEFORE_COMMIT}#99=kill-job"))
    assert ((), ROWS) == (state.faults, len(ending.committed))


def test_states_that_differ_in_random_names_only_are_one() -> None:
    def state(uuid: str, *, text: str = "x") -> CrashState:
        return CrashState(target={"out": None, f"out/part-0-{uuid}.json": text.encode()})

    one, other = "2535e841-aeaf-44cd-8f66-7cad51440959", "fea5abd3-5cb8-4907-a3f6-d10ef524a03f"
    assert state(one).key == state(other).key
    assert state(one).key != state(one, text="y").key


# -- refused subjects ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("def write(df, batch_id): pass", "has no function committed(scratch)"),
        ("def write(df): pass\ndef committed(scratch): return []", "called with a DataFrame and the batch's id"),
        ("committed = print\ndef outer():\n    def write(df, batch_id): pass\n    return write\nwrite = outer()",
         "defined inside a function"),
    ],
)  # fmt: skip
def test_an_unusable_function_is_refused_with_the_next_step(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / f"job_{abs(hash(text))}.py"
    file.write_text(text)
    with pytest.raises(ContractError, match="(?s)" + reason.replace("(", r"\(").replace(")", r"\)")):
        load(f"{file}:write")


@pytest.mark.slow
def test_the_process_shell_alone_is_refused(sinkproof_command: Callable[..., Any]) -> None:
    done = sinkproof_command("certify", f"{FUNCTIONS}/replacing.py:write_batch", "--on", "process", "--no-canaries")
    assert 3 == done.returncode
    assert "does not run in process. Name a shell of simulated, spark" in done.stderr


@pytest.mark.slow
def test_without_java_the_command_that_installs_it_is_named(
    command_environment: dict[str, str], tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "sinkproof", "certify", f"{FUNCTIONS}/replacing.py:write_batch", "--no-canaries"]
    environment = {**command_environment, "JAVA_HOME": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert 3 == done.returncode
    assert f"Spark needs Java 17 or newer, but JAVA_HOME is {tmp_path}, where there is no bin/java" in done.stderr


# -- replay --as-test ------------------------------------------------------------------------------


def printed(schedule: str, subject: str) -> Callable[[], None]:
    """The function of the module that `--as-test` prints."""
    names: dict[str, Any] = {}
    exec(compile(as_test(sinkproof.replay(schedule, subject), shell="simulated"), "printed", "exec"), names)
    (test,) = [value for name, value in names.items() if name.startswith("test_")]
    return test


def test_a_printed_test_passes_on_a_correct_sink() -> None:
    assert printed("sink[0].write.after#2=kill", "files/two-phase")() is None


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["no-fault", "sink[0].write.after#99=kill"])
def test_a_printed_test_fails_on_a_wrong_sink_and_without_an_injected_fault(schedule: str) -> None:
    test = printed(schedule, "sinkproof.canaries.two_phase:PublishesInSnapshot")
    with pytest.raises(AssertionError, match=r"Verdict\.(VIOLATED|UNKNOWN)"):
        test()


# -- with Spark ------------------------------------------------------------------------------------


def test_experiments_begin_with_the_second_batch_and_the_last_line() -> None:
    trail = [(0, point, batch) for batch in range(3) for point in ("line(a.py:1)", "line(a.py:2)", BEFORE_COMMIT)]
    faults = Experiment(trail=trail).experiments()
    expected = [f"{AFTER_COMMIT}#2=lose", f"{BEFORE_COMMIT}#2=kill-job", "line(a.py:2)#2=kill-job"]
    assert expected == [str(fault) for fault in faults[:3]]


EXPECTED = {  # job -> verdict, the oracle that convicts it, the line that is named
    "appending": ("violated", {"O2"}, {'rows.write.mode("append").json("out")'}),
    "replacing": ("upheld", set(), set()),
    "skipping": ("violated", {"O1"}, {'df.select("split", "offset", "value").write.mode("append").json("out")'}),
}


@pytest.mark.slow
@pytest.mark.longer
@pytest.mark.parametrize("names", [("replacing",), ("appending", "skipping")], ids=" ".join)
def test_jobs_are_judged_alike_in_both_shells_by_real_kills(names: tuple[str, ...], tmp_path: Path) -> None:
    """By the command line, as users do."""
    for name in names:
        shutil.copy(FUNCTIONS / f"{name}.py", tmp_path)
    subjects = [f"{name}.py:write_batch" for name in names]
    command = [sys.executable, "-m", "sinkproof", "certify", *subjects, "--no-canaries", "--quiet", "--budget", "least"]
    done = subprocess.run([*command, "--out", "out"], cwd=tmp_path, capture_output=True, text=True)
    assert (names != ("replacing",)) == done.returncode, done.stderr
    certificate = json.loads((tmp_path / "out/certificate.json").read_text())
    for subject in certificate["subjects"]:
        check_subject(subject)
    assert [] == orphaned_javas()


def check_subject(subject: dict[str, Any]) -> None:
    verdict, oracles, lines = EXPECTED[subject["name"].partition(".")[0]]
    assert verdict == subject["verdict"], subject["why"]
    shells = {shell["shell"]: shell for shell in subject["shells"]}
    assert {"simulated", "spark"} == set(shells)
    for shell in shells:
        found = [each for each in subject["findings"] if each["claimed"] and each["shell"] == shell]
        assert oracles == {each["oracle"] for each in found}
        between_lines = [each for each in found if each["schedule"].endswith(("=kill-job", "=lose"))]
        assert lines == {each["line"]["text"] for each in between_lines if "syscall(" not in each["schedule"]}
        usual = [each for each in found if " " not in each["schedule"]]  # one death; other jobs have larger batches
        assert {len(each["lost"] + each["extra"]) for each in usual} <= {ROWS // BATCHES}
    assert 0 == shells["simulated"]["kills"]
    simulated = shells["simulated"]
    assert simulated["lines_total"] >= simulated["lines_reached"] + simulated["lines_covered"] > 0
    assert shells["spark"]["kills"] >= 2
    assert {AFTER_COMMIT: 1, BEFORE_COMMIT: 1} == shells["spark"]["kills_by_point"]
    assert shells["simulated"]["closure"]["complete"] is (verdict == "upheld")


def orphaned_javas() -> list[int]:
    """JVMs of a parent that has ended; they have ten seconds to end."""
    deadline = Deadline(10)
    while (left := list(_orphaned_javas())) and not deadline.over:
        os.sched_yield()
    return left


def _orphaned_javas() -> Iterator[int]:
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_text()
        except OSError:
            continue  # it has just ended
        match = re.search(r"/sinkproof-(\d+)-", command) if "java" in command.partition("\0")[0] else None
        if match and not Path("/proc", match[1]).exists():
            yield int(process.name)


@pytest.mark.longer
def test_a_finding_is_replayed_as_a_test_on_real_streaming(
    sinkproof_command: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    shutil.copy(FUNCTIONS / "appending.py", tmp_path)
    arguments = ("replay", f"{AFTER_COMMIT}#2=lose", "appending.py:write_batch")
    on_spark = sinkproof_command(*arguments, "--on", "spark")
    assert 1 == on_spark.returncode, on_spark.stderr
    assert 'struck at appending.py:9: rows.write.mode("append").json("out")' in on_spark.stdout
    printed = sinkproof_command(*arguments, "--as-test")
    (tmp_path / "test_printed.py").write_text(printed.stdout)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_printed.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert 1 == done.returncode
    assert "4 rows more than there should be: (0, 2), (0, 3), (1, 2), (1, 3)" in done.stdout
