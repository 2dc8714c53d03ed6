"""What a subject changes of its process is there again in its next call, and nowhere else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

ACTS: Final = {  # what the subject does -> an expression that is true as long as that is so
    "os.chdir('/proc')": "os.getcwd() == '/proc'",
    "os.environ.clear()": "not os.environ and not os.getenv('PATH')",
    "os.environ.update(PATH='/none', ADDED='1')": "(os.environ['PATH'], os.environ['ADDED']) == ('/none', '1')",
    "os.umask(0o777)": "os.umask(0o777) == 0o777",
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)": "signal.getsignal(signal.SIGTERM) is signal.SIG_IGN",
    "signal.signal(signal.SIGCHLD, exit)": "signal.getsignal(signal.SIGCHLD) is exit",
    "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])": "signal.pthread_sigmask(signal.SIG_BLOCK, [])",
    "signal.alarm(100)": "signal.getitimer(signal.ITIMER_REAL)[0] > 0",
    "sys.path.clear()": "sys.path == []",
    "sys.path = ['/elsewhere']": "sys.path == ['/elsewhere']",
    "sys.meta_path.clear()": "sys.meta_path == []",
    "sys.stdout = sys.stderr = None": "sys.stdout is None",
    "sys.stdout.close()": "sys.stdout.closed",
    "sys.excepthook = None": "sys.excepthook is None",
    "sys.setrecursionlimit(5000)": "sys.getrecursionlimit() == 5000",
    "sys.setprofile(f)": "sys.getprofile() is f",
    "sys.settrace(f)": "sys.gettrace() is f",
    "threading.settrace(f)": "threading.gettrace() is f",
    "gc.disable()": "not gc.isenabled()",
    "locale.setlocale(locale.LC_ALL, 'C.UTF-8')": "locale.setlocale(locale.LC_ALL) == 'C.UTF-8'",
    "socket.setdefaulttimeout(0.001)": "socket.getdefaulttimeout() == 0.001",
    "warnings.simplefilter('error')": "warnings.filters[0][0] == 'error'",
    "resource.setrlimit(resource.RLIMIT_NOFILE, (40, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))": (
        "resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 40"
    ),
    "builtins.open = os.rename = time.monotonic = f": "builtins.open is os.rename is time.monotonic is f",
}
FOR_GOOD: Final = (
    "os.close(1)",
    "os.dup2(os.open(os.devnull, os.O_WRONLY), 2)",
    "faulthandler.dump_traceback_later(1)",
)
PROGRAM: Final = """
import builtins, faulthandler, gc, locale, os, resource, signal, socket, sys, threading, time, warnings
from sinkproof.chaos.processes.process_wide_state import ASPECTS, subjects_state

def f(*arguments):
    pass

act, check = sys.argv[1:]
files = [os.fstat(number).st_ino for number in range(3)]
before = [read() for read, _ in ASPECTS]
with subjects_state():
    with subjects_state():
        exec(act)
    assert eval(check), 'set back inside'
differ = [place for place, (read, _) in enumerate(ASPECTS) if read() != before[place]]
assert not differ, differ
assert files == [os.fstat(number).st_ino for number in range(3)]
print('as before')
with subjects_state():
    assert eval(check), 'lost'
"""


def run(act: str, *, check: str) -> Any:
    return subprocess.run([sys.executable, "-c", PROGRAM, act, check], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("act", [*ACTS, *FOR_GOOD])
def test_a_change_belongs_to_the_subject(act: str) -> None:
    done = run(act, check=ACTS.get(act, "True"))
    assert (0, "as before\n") == (done.returncode, done.stdout), done.stderr


BETWEEN_SUBJECTS: Final = """
import sys
from sinkproof.chaos.processes.process_wide_state import subjects_state

with subjects_state():
    sys.path.insert(0, '/first')
sys.path.insert(0, '/between')
with subjects_state():
    assert '/between' in sys.path and '/first' not in sys.path, sys.path
    sys.path.insert(0, '/second')
with subjects_state():
    assert sys.path[:2] == ['/second', '/between'], sys.path
"""


def test_a_path_that_was_added_between_two_subjects_is_there_for_the_second() -> None:
    done = subprocess.run([sys.executable, "-c", BETWEEN_SUBJECTS], capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stderr


FORKED: Final = """
import os
from sinkproof.chaos.processes.process_wide_state import note_before_forks, stay_in_subjects_state, subjects_state

def f(*arguments):
    pass

link, mkdir = os.link, os.mkdir
os.link = f  # by a library of this process
with subjects_state():
    assert os.link is link
    os.mkdir = f
assert (os.link, os.mkdir) == (f, mkdir)
note_before_forks()
if (pid := os.fork()) == 0:
    stay_in_subjects_state()
    os._exit((os.link, os.mkdir) != (link, f))
assert os.waitpid(pid, 0)[1] == 0, 'not as the subject left them'
"""


def test_a_forked_process_of_the_subject_has_the_functions_that_it_left() -> None:
    """Also where this process has others in their place: the forked one looks at nothing but what was noted."""
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stderr


LIBRARY: Final = """
import atexit, os
from sinkproof.canaries.controls import FolderContract


class Library:
    is_open = True

    def close(self):
        self.is_open = False

    def __del__(self):
        if self.is_open:
            os.abort()


KEPT = Library()
atexit.register(KEPT.close)


class Mine(FolderContract):
    pass
"""


def test_a_library_that_crashes_without_its_function_for_the_end_does_not_set_the_exit_status(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(LIBRARY)
    command = [sys.executable, "-m", "sinkproof", "replay", "no-fault", "mine.py:Mine", "--on", "simulated"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (0, True) == (done.returncode, "24 rows committed; upheld" in done.stdout), done.stderr


def test_a_timer_of_ours_that_goes_on_is_not_taken_for_the_subjects() -> None:
    program = """
import signal
from sinkproof.chaos.processes.process_wide_state import subjects_state

signal.setitimer(signal.ITIMER_REAL, 500)
for _ in range(3):
    with subjects_state():
        assert 490 < signal.getitimer(signal.ITIMER_REAL)[0]
    signal.setitimer(signal.ITIMER_REAL, 900)
    with subjects_state():
        assert 890 < signal.getitimer(signal.ITIMER_REAL)[0]
    signal.setitimer(signal.ITIMER_REAL, 500)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (0, "") == (done.returncode, done.stderr)
