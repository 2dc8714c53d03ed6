"""Who checks the checker: every canary is convicted of its own sin, and no control is, in every shell and manner."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sinkproof.canaries.kill_table import CANARIES, CONTROLS, Canary, try_all, try_canary, try_control
from sinkproof.certifying import WITHOUT_SPARK
from sinkproof.claims import Claim
from sinkproof.contract import Contract
from sinkproof.sink_adapters.protocol import Context
from sinkproof.sink_adapters.registry import FilesContract
from sinkproof.tasks import Task, explore_subject

# Attempts that died in this process never close their files: that is what a death is.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
CONTROL_SECONDS = {"simulated": 3.0, "process": 5.0}


@pytest.mark.parametrize("shell", WITHOUT_SPARK)
@pytest.mark.parametrize("canary", CANARIES, ids=lambda canary: canary.name)
def test_a_canary_is_convicted_of_its_own_sin(canary: Canary, shell: str) -> None:
    result = try_canary(canary, shell)
    assert result.convicted, result.why
    assert result.oracle in canary.oracles


@pytest.mark.parametrize("shell", WITHOUT_SPARK)
@pytest.mark.parametrize(("name", "contract"), CONTROLS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_control_is_acquitted(name: str, contract: type, shell: str) -> None:
    result = try_control(name, contract, shell, seconds=CONTROL_SECONDS[shell])
    assert not result.convicted, result.why


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_on_spark_as_well() -> None:
    """In one session: starting one takes longer than most convictions."""
    results = try_all("spark", control_seconds=5.0)
    assert len(CANARIES) + len(CONTROLS) == len(results)
    assert [] == [(row.name, row.why) for row in results if row.convicted is row.control]


# -- sinks of our own adapters, broken, and deaf: they tell nobody what they pass -----------------


class Deaf:
    """A sink without points: whatever it is told to reach, it does not."""

    def __init__(self, sink: Any) -> None:
        self.sink = sink

    def open(self, context: Context) -> None:
        self.sink.open(replace(context, reach=lambda point: None))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sink, name)


class ForgetsPending(Deaf):
    def open(self, context: Context) -> None:
        super().open(replace(context, restored=(), subtasks_restored=()))


class PublishesInSnapshot(Deaf):
    def snapshot(self, checkpoint_id: int) -> bytes:
        state: bytes = self.sink.snapshot(checkpoint_id)
        self.sink.notify_complete(checkpoint_id)
        return state


class OfFiles:
    """A contract of registered pairs around another sink, on a real folder; its points are file effects, and lines."""

    def __init__(self, pair: str, make: Callable[[Any], Any]) -> None:
        self.label = f"{make.__name__} {pair}"
        self.given, self.make = FilesContract(pair.removeprefix("files/"), disk="real"), make
        for name in ("committed", "residue", "seen", "version", "canonical", "freeze", "thaw"):
            if (call := getattr(self.given, name, None)) is not None:
                setattr(self, name, call)

    claims = Claim.EXACTLY_ONCE

    def sink(self, scratch: Any) -> Any:
        return self.make(self.given.sink(scratch))


@pytest.mark.parametrize(
    ("pair", "make", "oracles"),
    [
        ("files/two-phase", ForgetsPending, {"O1", "O10"}),
        ("files/masked", ForgetsPending, {"O1", "O10"}),
        ("files/two-phase", PublishesInSnapshot, {"O3"}),
        ("files/masked", PublishesInSnapshot, {"O3"}),
        ("files/write-ahead", Deaf, {"O2"}),
        ("files/plain", Deaf, {"O2"}),
        ("files/idempotent", Deaf, {"O3"}),
    ],
)
def test_a_broken_sink_without_points_is_convicted(pair: str, make: type[Deaf], oracles: set[str]) -> None:
    contract = Contract(pair, OfFiles(pair, make))
    outcome = explore_subject(Task(locator=pair, shell="simulated", budget_seconds=1.0), contract=contract)
    assert oracles & {finding.oracle for finding in outcome.findings}, outcome.unknowns


@pytest.mark.parametrize("pair", ["files/two-phase", "files/masked"])
def test_a_correct_sink_without_points_is_acquitted(pair: str) -> None:
    contract = Contract(pair, OfFiles(pair, Deaf))
    outcome = explore_subject(Task(locator=pair, shell="simulated", budget_seconds=1.0), contract=contract)
    assert [] == [(finding.oracle, finding.schedule, finding.why) for finding in outcome.findings]
    assert [] == outcome.unknowns
    assert [point for point in outcome.result.kills_by_point if point.startswith("file.")]


# -- without assertions --------------------------------------------------------------------------

UNDER_O = """
import json, sys
from sinkproof.canaries.kill_table import try_all
assert False, "this interpreter asserts"
results = try_all(sys.argv[1], control_seconds=1.0)
print(json.dumps([[row.name, row.control, row.convicted, row.why] for row in results]))
"""


@pytest.mark.slow
@pytest.mark.timeout(300)  # the whole trial in one test: 25 s when nothing else runs
@pytest.mark.parametrize("shell", WITHOUT_SPARK)
def test_nothing_depends_on_assert(shell: str, tmp_path: Path) -> None:
    command = [sys.executable, "-O", "-c", UNDER_O, shell]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert 0 == done.returncode, done.stderr
    results = json.loads(done.stdout)
    assert len(CANARIES) + len(CONTROLS) == len(results)
    assert [] == [(name, why) for name, control, convicted, why in results if convicted is control]
