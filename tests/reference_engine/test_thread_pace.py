"""A thread that waits for long goes on when two calls were answered, whatever of the standard library it waits in."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from sinkproof.reference_engine.shells.process.thread_pace import is_of_library

WAITS = """
import queue, threading, time
from sinkproof.reference_engine.shells.process.thread_pace import ImpatientThreads

class Calls:
    answers, is_called = 0, False

calls, begun, told = Calls(), threading.Event(), threading.Event()
ImpatientThreads(calls)
met = []

filled = queue.Queue()
filled.put("row")

def got(rows, *given, **named):
    try:
        return rows.get(*given, **named)
    except queue.Empty:
        return "empty"

def met_on_condition():
    condition = threading.Condition()
    with condition:
        return condition.wait_for(lambda: False, timeout=1000)

def work():
    begun.set()
    met.append({waits})
    told.set()

threading.Thread(target=work, daemon=True).start()
begun.wait()
while not told.wait(0.01):
    calls.answers += 1
print(met)
"""


@pytest.mark.parametrize(
    ("waits", "met"),
    [
        ("threading.Event().wait(1000)", "False"),
        ("threading.Event().wait(timeout=1000)", "False"),
        ("vars(time)['sleep'](1000)", "None"),
        ("got(queue.Queue(), timeout=1000)", "'empty'"),
        ("got(queue.Queue(), True, 1000)", "'empty'"),
        ("got(filled, True, 1000)", "'row'"),
        ("met_on_condition()", "False"),
    ],
)
def test_its_time_is_over_early(waits: str, met: str) -> None:
    script = WAITS.format(waits=waits)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert f"[{met}]" == done.stdout.strip()


SLEEPS = """
import sys, time
from time import monotonic_ns, sleep
from sinkproof.reference_engine.shells.process.thread_pace import HurriedSleep

class Calls:
    answers, is_called = 0, True

truly = time.clock_gettime
began = truly(time.CLOCK_MONOTONIC)
clocks = {name: vars(time)[name]() for name in ("time", "monotonic", "perf_counter", "time_ns", "perf_counter_ns")}
imported = monotonic_ns()
HurriedSleep(Calls())
sleep(200)
vars(time)["sleep"](200)
lasted = {name: vars(time)[name]() - shown for name, shown in clocks.items()} | {"imported": monotonic_ns() - imported}
print({name: round(each / 1e9 if isinstance(each, int) else each, -1) for name, each in lasted.items()})
print(truly(time.CLOCK_MONOTONIC) - began < 100)
"""


@pytest.mark.slow
def test_what_sleeps_in_a_hurry_finds_that_its_time_has_passed_on_every_clock() -> None:
    done = subprocess.run([sys.executable, "-c", SLEEPS], capture_output=True, text=True, timeout=60, check=True)
    names = ("time", "monotonic", "perf_counter", "time_ns", "perf_counter_ns", "imported")
    assert [str(dict.fromkeys(names, 400.0)), "True"] == done.stdout.splitlines()


LAZY = """
import sys, types
from sinkproof.reference_engine.shells.process.thread_pace import PACES

class Calls:
    answers, is_called = 0, True

lazy = types.ModuleType("lazy")
def imports(name):
    sys.modules["imported"] = types.ModuleType("imported")
    raise AttributeError(name)
lazy.__getattr__ = imports
sys.modules["lazy"], sys.modules["no module"] = lazy, object()
PACES[sys.argv[1]](Calls())
print("imported" in sys.modules)
"""


@pytest.mark.slow
@pytest.mark.parametrize("pace", ["impatient", "hurried"])
def test_modules_that_import_others_when_they_are_asked_for_a_name_are_not_asked(pace: str) -> None:
    done = subprocess.run([sys.executable, "-c", LAZY, pace], capture_output=True, text=True, timeout=60, check=True)
    assert "False" == done.stdout.strip()


def test_threads_that_an_installed_library_has_made_for_its_own_code_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their time passes as usual: a driver that waits for a reply to its heartbeat would take the server for dead."""
    installed = tmp_path / "site-packages"
    installed.mkdir()
    (installed / "driver.py").write_text(
        "import threading\n\n\nclass Heartbeat(threading.Thread):\n    def beat(self):\n        pass\n"
    )
    monkeypatch.syspath_prepend(str(installed))
    driver: Any = importlib.import_module("driver")
    of_driver = (
        driver.Heartbeat(),
        threading.Thread(target=driver.Heartbeat().beat),
        threading.Timer(1, driver.Heartbeat),
    )
    own = threading.Thread(target=tmp_path.exists), threading.Timer(1, print), threading.Thread()
    assert [True] * 3 + [False] * 3 == [is_of_library(thread) for thread in (*of_driver, *own)]


BEATS = """
import threading
from driver import Heartbeat
from sinkproof.reference_engine.shells.process.thread_pace import ImpatientThreads

class Calls:
    answers, is_called = 0, False

calls = Calls()
ImpatientThreads(calls)
replied, never = threading.Event(), threading.Event()
heartbeat, own = Heartbeat(), threading.Thread(target=lambda: print("own", never.wait(60)))
heartbeat.replied = replied
heartbeat.start()
own.start()
calls.answers = 2
own.join()
replied.set()
heartbeat.join()
"""


@pytest.mark.slow
def test_a_driver_waits_for_its_reply_though_other_threads_are_impatient(tmp_path: Path) -> None:
    installed = tmp_path / "site-packages"
    installed.mkdir()
    (installed / "driver.py").write_text(
        "import threading\n\n\nclass Heartbeat(threading.Thread):\n    def run(self):\n"
        "        print('driver', self.replied.wait(60))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run(
        [sys.executable, "-c", BEATS], capture_output=True, text=True, timeout=60, check=True, env=environment
    )
    assert ["own False", "driver True"] == done.stdout.splitlines()
