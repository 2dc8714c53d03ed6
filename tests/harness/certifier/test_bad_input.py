"""Errors of a user, a sink or a machine end in a clear message and the right exit status, and leave nothing behind."""

from __future__ import annotations

import errno
import json
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from sinkproof.certifier.waivers import WaiverCheck
from sinkproof.chaos.clock import Deadline
from sinkproof.reports.certificate_file import load

BAD = Path(__file__).parents[2].joinpath("support/bad_sinks.py")
Run = Callable[..., subprocess.CompletedProcess[str]]
Call = Callable[..., tuple[int, str, str]]

# -- arguments that cannot be used: status 3, without a run --------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            "certify files/nonsense",
            "unknown subject 'files/nonsense' (did you mean 'files/two-phase'?). Name a registered ",
        ),
        ("certify raise.py:Mine", "raise.py (did you mean 'raises.py'?)"),
        ("certify missing/mine.py:Mine", "there is no file"),
        ("certify {bad}", "alone is no subject: name its contract, as in"),
        ("certify no_such_module:Mine", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("certify {bad}:Missing", "there is no 'Missing' in"),
        ("certify {bad}:WithoutCommitted", "it has no method committed(scratch). A contract looks like this"),
        ("certify {bad}:WithoutClaims", "it claims nothing. Say what is promised, e.g. claims = Claim.EXACTLY_ONCE"),
        ("certify {bad}:ClaimsWhatIsUnknown", "known claims: NO_LOSS, NO_DUPLICATES"),
        (
            "certify {bad}:CannotBeMade",
            "made without arguments, but: RuntimeError: no configuration found. If it is a sink, `sinkproof init ",
        ),
        ("certify {bad}:Inside", "make.<locals>.Inside is defined inside a function"),
        ("certify raises.py:Mine", "importing raises.py failed: ZeroDivisionError: division by zero"),
        ("certify leaves.py:Mine", "importing leaves.py failed: SystemExit: 0"),
        ("certify exits.py:Mine", "importing exits.py failed: SystemExit: 0"),
        ("certify interrupts.py:Mine", "importing interrupts.py failed: KeyboardInterrupt"),
        ("certify odd.py:Mine", "importing odd.py failed: Odd: (its text cannot be had: ZeroDivisionError)"),
        ("certify half_a_pair.py:Mine", r"importing half_a_pair.py failed: ValueError: \udcff"),
        ("certify broken.py:Mine", "importing broken.py failed: SyntaxError"),
        ("certify --command true", "--command needs --reader"),
        ("certify --command ./missing --reader true", "--command: there is no program './missing'"),
        ("certify --command true --reader ./missing", "--reader: there is no program './missing'"),
        ("certify --command true --reader true --claims ALL", "known claims: NO_LOSS"),
        ("certify files/plain --budget soon", "'soon' is not a time. Write seconds, or 30s, 5m, 1h"),
        ("certify files/plain --budget 0", "'0' is not a time to spend"),
        ("certify files/plain --on mars", "'mars' is not one of 'simulated', 'process', 'spark', 'all'"),
        ("certify files/plain --seed x", "'x' is not a valid integer"),
        ("certify files/plain --fast", "No such option"),
        ("certify files/plain --out file/below", "cannot write the certificate file/below"),
        ("certify files/plain --out /proc/nowhere", "cannot write the certificate /proc/nowhere"),
        ("nonsense", "No such command 'nonsense'. There are: init, certify, "),
        ("certfy", "No such command 'certfy'. Did you mean 'certify'?"),
        ("replay sink[0].commit.after=kill files/plain", "cannot read 'sink[0].commit.after=kill' in the schedule"),
        ("replay sink[0].open.after#1=explode files/plain", "unknown fault kind 'explode'"),
        ("replay job=huge files/plain", "there is no job 'huge'; known: standard, sparse"),
        ("replay no-fault files/nonsense", "unknown subject"),
        ("replay no-fault {bad}:ReturnsNoSink", "object is neither a sink nor a target"),
        ("init my_sink.py", "'my_sink.py' names no class. Write path/to/file.py:Class"),
        ("init {bad}:__doc__", "it is no class of a Python file"),
        ("init {bad}:WithoutClaims", "WithoutClaims is neither a sink nor a target"),
        ("report missing", "there is no readable certificate at missing"),
        ("report file", "the certificate file is damaged: JSON is malformed"),
    ],
)
def test_unusable_arguments_are_refused(call: Call, tmp_path: Path, arguments: str, expected: str) -> None:
    (tmp_path / "file").write_text("not a folder")
    (tmp_path / "raises.py").write_text("1 / 0")
    (tmp_path / "leaves.py").write_text("raise SystemExit(0)")
    (tmp_path / "exits.py").write_text("import os; os._exit(0)")
    (tmp_path / "interrupts.py").write_text("raise KeyboardInterrupt")
    (tmp_path / "odd.py").write_text("class Odd(BaseException):\n    def __str__(self):\n        1 / 0\nraise Odd")
    (tmp_path / "half_a_pair.py").write_text(r"raise ValueError('\udcff')")
    (tmp_path / "broken.py").write_text("class Mine")
    status, out, err = call(*arguments.format(bad=BAD).split())
    assert (3, "") == (status, out)
    assert expected in err
    assert "Traceback" not in err


def test_an_unwritable_default_folder_is_refused(call: Call, tmp_path: Path) -> None:
    (tmp_path / ".sinkproof").write_text("a file")
    status, _, err = call("certify", "files/plain")
    assert 3 == status
    assert "cannot make the folder .sinkproof/" in err
    assert "Name a folder that can be written with --out" in err


# -- exit statuses: a violation stands; then failures of sinkproof, then bad input ----------------------


@pytest.mark.parametrize(
    ("verdict", "causes", "status"),
    [
        ("upheld", [], 0),
        ("violated", [], 1),
        ("unknown", [], 2),
        ("unknown", ["subject"], 2),
        ("unknown", ["input", "subject"], 3),
        ("unknown", ["input", "ours"], 4),
        ("violated", ["ours"], 1),
    ],
)
def test_the_exit_status_follows_the_verdict_and_the_failures(verdict: str, causes: list[str], status: int) -> None:
    failures = [{"why": "", "whose": each, "details": ""} for each in causes]
    document = {"verdict": verdict, "failures": failures}
    assert status == WaiverCheck(document=document, waivers=(), today=date(2026, 1, 1)).exit_status


# -- sinks that misbehave ------------------------------------------------------------------------


def certify(run: Run, names: list[str], *more: str) -> tuple[int, dict[str, Any], str]:
    """(The status, the subjects by name, stderr.)"""
    done = run("certify", *(f"{BAD}:{name}" for name in names), "--no-canaries", "--json", "--quiet", *more)
    assert "Traceback" not in done.stderr
    document = json.loads(done.stdout)
    return done.returncode, {subject["name"].split(":")[-1]: subject for subject in document["subjects"]}, done.stderr


FRUITLESS = {
    "Hangs": (
        "in the simulated shell hung: no message for 6 s while trying no-fault; it was killed",
        "it did not answer in time (killed by SIGKILL); no reply within 2 s",
        "its last words: waiting for a lock that is never released",
    ),
    "Exits": (
        "in the simulated shell ended its process (exit status 3) while trying no-fault",
        "it exited by itself (exit status 3); its last words: the licence has expired",
    ),
    "Raises": ("without any fault the job came to nothing: SinkError: ConnectionRefusedError: no server at port 1",),
    "EatsMemory": ("came to nothing: AttemptEnded: it ran out of memory", "MemoryError"),
    "LosesAllRows": ("without any fault the job came to nothing: no row was committed",),
    "SinkRaises": ("the contract's own code failed at", 'raise RuntimeError("no credentials")'),
}


@pytest.mark.slow
def test_a_sink_that_fails_without_faults_gets_no_verdict(sinkproof_command: Run) -> None:
    status, subjects, _ = certify(sinkproof_command, list(FRUITLESS), "--hang", "2s", "--budget", "least")
    assert 2 == status
    assert {(name, "unknown", "unknown", 0) for name in FRUITLESS} == {
        (name, subject["verdict"], subject["grade"], len(subject["findings"])) for name, subject in subjects.items()
    }
    missing = [(name, text, subjects[name]["why"]) for name, texts in FRUITLESS.items() for text in texts]
    assert [] == [each for each in missing if each[1] not in each[2]]


@pytest.mark.slow
def test_a_sink_that_only_fails_to_recover_is_convicted(sinkproof_command: Run) -> None:
    names = ["RaisesInRecovery", "ExitsInRecovery"]
    status, subjects, _ = certify(sinkproof_command, names, "--budget", "least")
    assert 1 == status
    words = {"RaisesInRecovery": "LookupError: no transaction of that name", "ExitsInRecovery": "log is locked"}
    for name, subject in subjects.items():
        findings = subject["findings"]
        assert {"O1", "O6"} <= {finding["oracle"] for finding in findings}
        assert all("no-fault" != finding["schedule"] for finding in findings)
        assert any(words[name] in finding["why"] for finding in findings if finding["oracle"] == "O6")


@pytest.mark.slow
def test_what_a_sink_prints_or_starts_does_no_harm(sinkproof_command: Run) -> None:
    """Neither to the certificate nor to a death; the simulated shell alone upholds nothing."""
    names = ["Prints", "StartsDaemons"]
    status, subjects, _ = certify(sinkproof_command, names, "--budget", "1s", "--on", "simulated")
    assert {name: ("unknown", []) for name in names} == {
        name: (subject["verdict"], subject["findings"]) for name, subject in subjects.items()
    }
    assert 2 == status
    for name in names:
        done = sinkproof_command("replay", "sink[0].file.rename#1=kill", f"{BAD}:{name}", "--on", "process")
        assert (0, "") == (done.returncode, done.stderr), done.stdout
        assert "24 rows committed; upheld" in done.stdout


@pytest.mark.slow
def test_a_contract_that_is_invalid_at_run_time_is_bad_input(sinkproof_command: Run) -> None:
    names = ["ReturnsNoSink", "CommittedGivesNonsense"]
    status, subjects, said = certify(sinkproof_command, names, "--on", "simulated")
    assert 3 == status
    assert "object is neither a sink nor a target" in said
    assert "committed() must give (split, offset) pairs" in said
    assert {"unknown"} == {subject["verdict"] for subject in subjects.values()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("SinkRaises", 'bad_sinks.py:201 (raise RuntimeError("no credentials"))'),
        ("Exits", "exit status 3"),
        ("Raises", "no server"),
    ],
)
def test_a_replay_survives_the_failure_of_its_sink(sinkproof_command: Run, name: str, expected: str) -> None:
    done = sinkproof_command("replay", "no-fault", f"{BAD}:{name}")
    assert 2 == done.returncode
    assert expected in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


# -- the machine ---------------------------------------------------------------------------------

LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
from sinkproof.cli.main import main
main()
"""


@pytest.mark.slow
def test_a_disk_that_fills_up_during_a_run_is_reported(tmp_path: Path, command_environment: dict[str, str]) -> None:
    """Files may not exceed 20,000 bytes; the certificate does with its first subject."""
    arguments = ["certify", "memory/two-phase", "--on", "simulated", "--no-canaries", "--budget", "1s", "--out", "out"]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, *arguments],
        cwd=tmp_path,
        env=command_environment,
        capture_output=True,
        text=True,
    )
    assert 4 == done.returncode, done.stderr
    assert f"cannot write the certificate out/certificate.json: [Errno {errno.EFBIG}]" in done.stderr
    assert "Name another folder with --out, or free some space" in done.stderr
    assert "Traceback" not in done.stderr
    assert not load(tmp_path / "out")["complete"]
    assert ["certificate.json"] == os.listdir(tmp_path / "out")


# -- interrupted or killed -------------------------------------------------------------------------


class Started:
    """A certification in its own process group and temporary folder. A variable marks its processes."""

    def __init__(self, folder: Path, environment: dict[str, str], subjects: list[str]) -> None:
        self.temporary, self.out = folder / "temporary", folder / "out"
        self.temporary.mkdir()
        self.environment = {**environment, "SINKPROOF_TEST": str(folder)}
        self.environment |= dict.fromkeys(("TMPDIR", "SINKPROOF_SCRATCH"), str(self.temporary))
        options = ["--on", "process", "--no-canaries", "--budget", "100s", "--out", str(self.out)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "sinkproof", "certify", *subjects, *options],
            cwd=folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )
        assert self.process.stderr is not None
        assert self.process.stderr.readline().startswith("certifying ")
        assert "/two-phase  " in self.process.stderr.readline()  # progress: workers run by now

    def processes(self) -> list[int]:
        mark, found = f"SINKPROOF_TEST={self.environment['SINKPROOF_TEST']}".encode(), []
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                environment = Path("/proc", name, "environ").read_bytes()
            except OSError:  # the process has just ended
                continue
            if mark in environment.split(b"\0"):
                found.append(int(name))
        return found

    def await_no_process(self) -> None:
        deadline = Deadline(60)
        while pids := self.processes():
            assert not deadline.over, f"still there: {pids}"
            for pid in pids:
                await_end(pid, deadline)


def await_end(pid: int, deadline: Deadline) -> None:
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    poll = select.poll()
    poll.register(process, select.POLLIN)
    poll.poll(int(1000 * deadline.left) + 1)
    os.close(process)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_a_readable_certificate_and_nothing_else(
    tmp_path: Path, command_environment: dict[str, str], number: signal.Signals
) -> None:
    started = Started(tmp_path, command_environment, ["files/two-phase", "memory/two-phase"])
    assert len(started.processes()) > 2
    os.killpg(started.process.pid, number)  # a terminal signals the whole process group
    printed, said = started.process.communicate()
    assert 130 == started.process.returncode
    assert "? UNKNOWN files/two-phase" in " ".join(printed.split())
    assert "ended before it was complete: interrupted" in printed
    assert (started.out / "report.html").exists()
    assert f"sinkproof: interrupted: what was found by then is in {started.out / 'certificate.json'}" in said
    assert "Traceback" not in said
    document = load(started.out)
    assert (False, "unknown") == (document["complete"], document["verdict"])
    assert "ended before it was complete" in document["notes"][-1]
    known = {subject["name"]: subject for subject in document["subjects"]}
    assert {"files/two-phase", "memory/two-phase"} == {*known}
    assert {"unknown"} == {subject["verdict"] for subject in known.values()}
    assert "ended before it was complete: interrupted" in known["files/two-phase"]["why"]
    assert all(shell["schedules_run"] for subject in known.values() for shell in subject["shells"])
    for name in known:
        ran = re.findall(rf"{name} .* ([\d,]+) schedules?\b", said)  # on a busy machine none may have begun
        shells = [shell["shell"] for shell in known[name]["shells"]]
        assert shells == ["process"] or set(ran) <= {"0"}, "what had been run is lost"
    started.await_no_process()
    assert [] == os.listdir(started.temporary)


@pytest.mark.slow
def test_after_a_kill_no_process_is_left_and_the_next_run_removes_the_folders(
    tmp_path: Path, command_environment: dict[str, str]
) -> None:
    started = Started(tmp_path, command_environment, ["files/two-phase", "memory/two-phase"])
    started.process.kill()
    started.process.communicate()
    started.await_no_process()
    assert [] != os.listdir(started.temporary)
    assert not load(started.out)["complete"]
    next_run = [sys.executable, "-m", "sinkproof", "replay", "no-fault", "memory/plain"]
    done = subprocess.run(next_run, cwd=tmp_path, env=started.environment, capture_output=True, text=True)
    assert 0 == done.returncode, done.stderr
    assert [] == os.listdir(started.temporary)
