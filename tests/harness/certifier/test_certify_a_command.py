"""`sinkproof certify --command ... --reader ...`: certifies a sink that is another program."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

needs_watch = pytest.mark.usefixtures("watch_of_system_calls")
pytestmark = pytest.mark.slow
Run = Callable[..., subprocess.CompletedProcess[str]]

# Rows stay in the state until their checkpoint is complete. Each checkpoint of each subtask becomes one file, by one
# rename, under a fixed name. `--early` publishes in the snapshot, `--forgets` ignores the restored state, `--appends`
# adds rows to one file and notes that in another one. `--halves` writes each file in two parts, and none that is there.
SINK = r"""
import base64, json, os, sys
folder, subtask, wrong = os.environ["SINKPROOF_SCRATCH"], os.environ["SINKPROOF_SUBTASK"], sys.argv[1:]
rows, pending = [], {}
def publish(subtask, checkpoint_id):
    part = f"{folder}/{subtask}-{checkpoint_id}"
    if "--appends" in wrong:
        if not os.path.exists(f"{part}.noted"):
            with open(f"{folder}/{subtask}.rows", "a") as file:
                file.writelines(json.dumps(row) + "\n" for row in pending.pop(checkpoint_id))
            open(f"{part}.noted", "w").close()
        return
    if "--halves" in wrong:
        text = "".join(json.dumps(row) + "\n" for row in pending.pop(checkpoint_id)).encode()
        if not os.path.exists(f"{part}.rows"):
            with open(f"{part}.rows", "wb", buffering=0) as file:
                file.write(text[:5])
                file.write(text[5:])
        return
    with open(f"{part}.{os.environ['SINKPROOF_GENERATION']}", "w") as file:
        file.writelines(json.dumps(row) + "\n" for row in pending.pop(checkpoint_id))
    os.rename(file.name, f"{part}.rows")
for line in sys.stdin:
    request, reply = json.loads(line), {"ok": True}
    checkpoint_id = str(request.get("checkpoint_id"))
    match request["call"]:
        case "open":
            for restored in [] if "--forgets" in wrong else request["restored"]:
                pending = json.loads(base64.b64decode(restored["state"]))
                for older in list(pending):
                    publish(restored["subtask"], older)
        case "write":
            rows += [[row["split"], row["offset"]] for row in request["rows"]]
        case "snapshot":
            pending[checkpoint_id], rows = rows, []
            reply["state"] = base64.b64encode(json.dumps(pending).encode()).decode()
            if "--early" in wrong:
                publish(subtask, checkpoint_id)
        case "notify_complete":
            for older in [older for older in pending if int(older) <= int(checkpoint_id)]:
                publish(subtask, older)
        case "settle" | "notify_aborted" | "end_of_input" | "close":
            reply = {"error": {"type": "unsupported"}}
    print(json.dumps(reply), flush=True)
"""
READER = """sh -c 'for part in "$SINKPROOF_SCRATCH"/*.rows; do if [ -e "$part" ]; then cat "$part"; fi; done'"""


@pytest.fixture
def programs(tmp_path: Path) -> tuple[str, str]:
    """The command line of the sink and that of its reader."""
    (tmp_path / "sink.py").write_text(SINK)
    return shlex.join([sys.executable, "-S", "-E", str(tmp_path / "sink.py")]), READER


def certify(run: Run, sink: str, reader: str, *more: str) -> tuple[int, dict[str, Any]]:
    options = ("--no-canaries", "--json", "--quiet", "--hang", "5s", *more)
    done = run("certify", "--command", sink, "--reader", reader, *options)
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout)["subjects"][0]


@pytest.mark.longer
@needs_watch
def test_a_right_command_is_upheld_and_the_certificate_counts_its_outward_calls(
    sinkproof_command: Run, programs: tuple[str, str]
) -> None:
    status, subject = certify(sinkproof_command, *programs)
    assert ("upheld", 0) == (subject["verdict"], status), subject["why"]
    assert (programs[0], "exactly-once") == (subject["name"], subject["grade"])
    assert [] == subject["findings"]
    (shell,) = subject["shells"]
    assert "process" == shell["shell"]
    assert shell["lines_total"] is None
    assert not [point for point in shell["points_known"] if point.startswith(("line(", "syscall("))]
    outward = shell["outward"]
    assert 0 < outward["calls"] == outward["killed"] < shell["kills"]
    assert 0 < outward["recovery_calls"] == outward["recovery_killed"]
    assert ([], [], "") == (outward["left"], outward["unseen"], outward["unwatched"])


@needs_watch
def test_a_command_that_is_wrong_inside_its_commit_is_convicted_and_the_call_is_named(
    sinkproof_command: Run, programs: tuple[str, str]
) -> None:
    status, subject = certify(sinkproof_command, f"{programs[0]} --appends", programs[1], "--budget", "least")
    assert ("violated", 1) == (subject["verdict"], status)
    finding = next(finding for finding in subject["findings"] if finding["oracle"] == "O2")
    assert "syscall(openat *-*.noted)" in finding["schedule"]
    assert subject["shells"][0]["outward"]["calls"] > 0
    again = sinkproof_command(*shlex.split(finding["replay"])[1:])
    assert 1 == again.returncode, again.stderr
    assert "O2: " in again.stdout
    nowhere = sinkproof_command("replay", "sink[0].syscall(rename x)#1=kill", *shlex.split(finding["replay"])[3:])
    assert "the replay is void: it has not met this call at its place" in nowhere.stdout


@needs_watch
def test_a_line_that_was_torn_by_a_death_is_a_violation_and_no_failure_of_the_reader(
    sinkproof_command: Run, programs: tuple[str, str]
) -> None:
    subject = json.dumps({"command": f"{programs[0]} --halves", "reader": programs[1], "claims": ["EXACTLY_ONCE"]})
    torn = sinkproof_command(
        "replay", "sink[0].syscall(write *-*.rows)#2=kill", f"command:{subject}", "--on", "process"
    )
    assert 1 == torn.returncode, torn.stdout + torn.stderr
    assert "O1: the committed view cannot be read any more: the reader printed a line that is no [split" in torn.stdout


@pytest.mark.parametrize(
    ("flag", "oracle"), [("--early", "O3"), pytest.param("--forgets", "O1", marks=pytest.mark.longer)]
)
def test_a_wrong_command_is_convicted_and_its_replay_is_violated_again(
    sinkproof_command: Run, programs: tuple[str, str], flag: str, oracle: str
) -> None:
    status, subject = certify(sinkproof_command, f"{programs[0]} {flag}", programs[1], "--budget", "least")
    assert ("violated", 1) == (subject["verdict"], status)
    finding = next(finding for finding in subject["findings"] if finding["oracle"] == oracle)
    again = sinkproof_command(*shlex.split(finding["replay"])[1:])
    assert 1 == again.returncode, again.stderr
    assert f"{oracle}: " in again.stdout


def shell(program: str) -> str:
    return shlex.join(["sh", "-c", program])


@pytest.mark.parametrize(
    ("reader", "expected"),
    [
        (
            shell("echo 0,1"),
            "the reader printed a line that is no [split, offset] or [split, offset, key, value]: '0,1'",
        ),
        (shell("echo the table is gone >&2; exit 4"), "the reader failed with status 4: the table is gone"),
    ],
)
def test_a_failing_reader_is_named(
    sinkproof_command: Run, programs: tuple[str, str], reader: str, expected: str
) -> None:
    status, subject = certify(sinkproof_command, programs[0], reader, "--budget", "least")
    assert ("unknown", 2) == (subject["verdict"], status)
    assert expected in subject["why"]


@pytest.mark.parametrize(
    ("sink", "expected"),
    [
        (
            "cat >/dev/null; echo no licence >&2; exit 3",
            "it did not answer in time (killed by SIGKILL); no reply",
        ),
        ("echo no licence >&2; exit 3", "it exited by itself (exit status 3); its last words: no licence"),
        ("read line; echo hello; read line", "it answered with garbage (killed by SIGKILL); its reply to open is none"),
    ],
)
def test_a_command_that_fails_without_faults_is_unknown(
    sinkproof_command: Run, programs: tuple[str, str], sink: str, expected: str
) -> None:
    status, subject = certify(sinkproof_command, shell(sink), programs[1], "--budget", "least", "--hang", "1s")
    assert ("unknown", 2) == (subject["verdict"], status)
    assert expected in subject["why"]
    assert [] == subject["findings"]
