"""A right sink is upheld also if its code changes the whole process, wherever that runs."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from sinkproof.chaos.error_text import CHARACTERS_MOST, described
from sinkproof.chaos.processes.fork_server import children_of
from sinkproof.chaos.schedule import Schedule
from sinkproof.execution.schedule_runner import ScheduleRunner
from sinkproof.subject.contract import ContractError
from sinkproof.subject.loading import load, load_to_read
from sinkproof.subject.scratch import Scratch

CHANGES: Final = """
import builtins, gc, locale, logging, os, random, resource, signal, socket, sys, threading, time, warnings
os.chdir("/")
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGALRM):
    signal.signal(number, lambda *_: sys.exit(9))
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGCHLD])
os.environ.clear()
os.environ.update(PYTHONHOME="/nowhere", PATH="", TMPDIR="/nowhere", SINKPROOF_SCRATCH="/nowhere")
resource.setrlimit(resource.RLIMIT_NOFILE, (30, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
socket.setdefaulttimeout(1e-6)
warnings.simplefilter("error")
logging.disable()
random.seed(0)
gc.disable()
sys.setprofile(None)
threading.settrace(None)
sys.stdout = sys.stderr = None
os.closerange(0, 2)
time.monotonic = time.sleep = builtins.print = None
sys.path.clear()
"""
SUBJECT: Final = """
import json
import os

from sinkproof import Claim
{module}

class Waits:
    def __init__(self, folder):
        self.folder, self.rows, self.pending = folder, [], {{}}

    def open(self, context):
        for _, state in context.restored:
            self.pending |= {{int(name): rows for name, rows in json.loads(state).items()}}
        self.subtask = context.subtask
        self.notify_complete(context.checkpoint_id_covered)

    def write(self, batch):
{write}
        self.rows += [(row.split, row.offset) for row in batch]

    def snapshot(self, checkpoint_id):
        self.pending[checkpoint_id], self.rows = self.rows, []
        return json.dumps(self.pending).encode()

    def notify_complete(self, checkpoint_id):
        for older in [older for older in self.pending if older <= checkpoint_id]:
            temporary = self.folder / f"temporary-{{self.subtask}}"
            temporary.write_text(json.dumps(self.pending.pop(older)))
            temporary.replace(self.folder / f"rows-{{self.subtask}}-{{older}}")


class Contract:
    claims = Claim.EXACTLY_ONCE

    def sink(self, scratch):
{sink}
        return Waits(scratch.path)

    def committed(self, scratch):
{committed}
        return [row for file in scratch.path.glob("rows-*") for row in json.loads(file.read_text())]
"""
PLACES: Final = {"module": 0, "sink": 8, "committed": 8, "write": 8}
SCHEDULE: Final = "sink[0].snapshot.after#2=kill"
Run = Callable[..., subprocess.CompletedProcess[str]]


def subject(place: str, code: str) -> str:
    nothing = dict.fromkeys(PLACES, "")
    return SUBJECT.format(**{**nothing, place: textwrap.indent(code, " " * PLACES[place])})


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_a_sink_that_changes_its_process_is_upheld(sinkproof_command: Run, tmp_path: Path, place: str) -> None:
    (tmp_path / "changes.py").write_text(subject(place, CHANGES))
    done = sinkproof_command("replay", SCHEDULE, "changes.py:Contract", "--on", "process")
    assert (0, "24 rows committed; upheld") == (done.returncode, done.stdout.splitlines()[-1]), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["simulated", "process"])
def test_a_sink_finds_what_its_import_has_changed(sinkproof_command: Run, tmp_path: Path, shell: str) -> None:
    code = subject("write", "assert (os.getcwd(), os.environ['NEEDED']) == ('/proc', '1')")
    (tmp_path / "relies.py").write_text(
        code.replace("import os\n", "import os\nos.chdir('/proc')\nos.environ['NEEDED'] = '1'\n")
    )
    done = sinkproof_command("replay", "no-fault", "relies.py:Contract", "--on", shell)
    assert (0, "24 rows committed; upheld") == (done.returncode, done.stdout.splitlines()[-1]), done.stderr


@pytest.mark.slow
def test_a_sink_that_closes_what_it_has_not_opened_is_named(sinkproof_command: Run, tmp_path: Path) -> None:
    (tmp_path / "closes.py").write_text(subject("sink", "os.closerange(3, 100)"))
    done = sinkproof_command("replay", "no-fault", "closes.py:Contract", "--on", "process")
    assert 2 == done.returncode
    assert "its code has closed file descriptors that it had not opened" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("error", ["SystemExit(3)", "GeneratorExit", "type('Odd', (BaseException,), {})()"])
def test_any_error_of_a_sink_ends_its_attempt_only(tmp_path: Path, error: str) -> None:
    """The second attempt goes on."""
    code = (
        f"if self.folder.joinpath('second').exists() is False:\n    (self.folder / 'second').touch()\n    raise {error}"
    )
    (tmp_path / "raises_once.py").write_text(subject("write", code))
    (tmp_path / "scratch").mkdir()
    scratch = Scratch(name="raises", path=tmp_path / "scratch")
    with ScheduleRunner(load(f"{tmp_path}/raises_once.py:Contract"), scratch) as runner:
        result = runner.run(Schedule())
    assert (True, 24, ()) == (result.finished, result.rows_committed, result.anomalies)
    assert 1 == sum(what == "raised" for _, _, _, what, _ in result.history)


@pytest.mark.slow
def test_a_reader_without_an_end_is_named(tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text(subject("committed", "while True:\n    yield 0, 0"))
    contract = load(f"{tmp_path}/endless.py:Contract")
    with pytest.raises(ContractError, match=r"committed\(\) does not end: it gave 20,000,000 rows"):
        contract.committed(Scratch(name="endless", path=tmp_path))


def test_what_an_import_starts_in_the_process_of_the_command_is_ended(tmp_path: Path) -> None:
    started = "import subprocess\nchild = subprocess.Popen(['sleep', '1000'])"
    (tmp_path / "starts.py").write_text(subject("module", started))
    before = children_of(os.getpid())
    assert load_to_read(f"{tmp_path}/starts.py:Contract").given.committed
    sys.modules["starts"].child.wait()
    assert before == children_of(os.getpid())


def test_a_huge_message_is_shortened() -> None:
    text = described(ValueError("x" * 10_000_000))
    assert text.endswith("… (10,000,000 characters)")
    assert len(text) < CHARACTERS_MOST + 100
