"""What is wrong only when two things come together: a fault within what another one has led to, a slow thread.

Each stage convicts a sink that is wrong in this way, and acquits the same sink without the mistake.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from sinkproof.campaign.process_campaign import ProcessCampaign
from sinkproof.campaign.process_plan import PROCESS_PLAN
from sinkproof.campaign.results import CampaignResults
from sinkproof.execution.process_runner import process_runner
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch

pytestmark = pytest.mark.slow
CONTRACT: Final = """

class Of:
    claims = Claim.NO_LOSS | Claim.NO_DUPLICATES
    rescales = False

    def sink(self, scratch):
        return Sink(scratch.path)

    def committed(self, scratch):
        for file in sorted(scratch.path.glob("*.json")):
            yield from json.loads(file.read_text())
"""
COMMITS_TOGETHER: Final = (
    """\
import json, os
from sinkproof import Claim


class Sink:
    def __init__(self, folder):
        self.folder, self.rows, self.pending = folder, [], {}

    def open(self, context):
        self.context = context
        for subtask, state in context.restored:
            for checkpoint, rows in json.loads(state):
                self.publish(f"{subtask}-{[checkpoint]}", rows)

    def write(self, batch):
        self.rows += [(row.split, row.offset) for row in batch]

    def snapshot(self, checkpoint_id):
        self.pending[checkpoint_id], self.rows = self.rows, []
        return json.dumps(list(self.pending.items())).encode()

    def notify_complete(self, checkpoint_id):
        ready = [each for each in self.pending if each <= checkpoint_id]
        for some in MISTAKE:
            rows = [row for each in some for row in self.pending.pop(each)]
            self.publish(f"{self.context.subtask}-{some}", rows)

    def publish(self, name, rows):
        temporary = self.folder / f"temp-{self.context.subtask}-{self.context.generation}"
        temporary.write_text(json.dumps(rows))
        os.replace(temporary, self.folder / f"{name}.json")
"""
    + CONTRACT
)
STAGES_FILES: Final = (
    """\
import json, os
from sinkproof import Claim


class Sink:
    def __init__(self, folder):
        self.folder, self.rows, self.staged, self.aside = folder, [], {}, {}

    def open(self, context):
        self.me = f"{context.subtask}-{context.generation}"
        promised = [name for _, state in context.restored for name in json.loads(state).values()]
        for file in self.folder.glob(f"{context.subtask}SWEPT.staged"):
            is_older = int(file.stem.split("-")[1]) < context.generation
            if is_older and file.stem not in promised:
                file.unlink()
        for name in promised:
            self.publish(name)

    def write(self, batch):
        self.rows += [(row.split, row.offset) for row in batch]

    def snapshot(self, checkpoint_id):
        name = self.staged[checkpoint_id] = f"{self.me}-{checkpoint_id}"
        (self.folder / f"{name}.staged").write_text(json.dumps(self.rows))
        self.rows = []
        return json.dumps(self.staged).encode()

    def notify_aborted(self, checkpoint_id):
        ABORTED

    def take_back(self, checkpoint_id):
        staged = self.folder / f"{self.staged.pop(checkpoint_id)}.staged"
        rows = json.loads(staged.read_text())
        later = [each for each in self.staged if each > checkpoint_id]
        if later:
            self.aside[later[0]] = rows
        else:
            self.rows = rows + self.rows
        staged.unlink()

    def notify_complete(self, checkpoint_id):
        for older in [each for each in self.staged if each <= checkpoint_id]:
            if older in self.aside:
                rows = json.dumps(self.aside.pop(older))
                (self.folder / f"{self.staged[older]}-aside.json").write_text(rows)
            self.publish(self.staged.pop(older))

    def publish(self, name):
        staged = self.folder / f"{name}.staged"
        if staged.exists():
            os.rename(staged, self.folder / f"{name}.json")
"""
    + CONTRACT
)
NOTES_WHAT_IS_DONE: Final = """\
import json
from sinkproof import Claim


class Sink:
    def __init__(self, folder):
        self.folder, self.rows, self.pending = folder, [], {}

    def open(self, context):
        self.context, self.recovers = context, True
        me = f"{context.subtask}-{context.generation}"
        done = {line for file in self.folder.glob("*.done") for line in file.read_text().splitlines()}
        self.data, self.done = (open(self.folder / f"{me}.{kind}", "a") for kind in ("data", "done"))
        for subtask, state in context.restored:
            for checkpoint, rows in json.loads(state):
                if f"{subtask}-{checkpoint}" not in done:
                    self.publish(f"{subtask}-{checkpoint}", rows)
        self.recovers = False

    def write(self, batch):
        self.rows += [(row.split, row.offset) for row in batch]

    def snapshot(self, checkpoint_id):
        self.pending[checkpoint_id], self.rows = self.rows, []
        return json.dumps(list(self.pending.items())).encode()

    def notify_complete(self, checkpoint_id):
        for older in [each for each in self.pending if each <= checkpoint_id]:
            self.publish(f"{self.context.subtask}-{older}", self.pending.pop(older))

    def publish(self, name, rows):
        entries = [(self.data, json.dumps([name, rows])), (self.done, name)]
        for file, text in MISTAKE:
            file.write(text + "\\n")
            file.flush()


class Of:
    claims = Claim.NO_LOSS | Claim.NO_DUPLICATES
    rescales = False

    def sink(self, scratch):
        return Sink(scratch.path)

    def committed(self, scratch):
        lines = [line for file in scratch.path.glob("*.data") for line in file.read_text().splitlines()]
        for rows in dict(map(json.loads, lines)).values():
            yield from rows
"""
WRITES_IN_A_THREAD: Final = (
    """\
import contextlib, json, os, queue, threading
from sinkproof import Claim


class Sink:
    def __init__(self, folder):
        self.folder, self.rows, self.staged, self.queue = folder, [], {}, queue.SimpleQueue()

    def open(self, context):
        self.me = f"{context.subtask}-{context.generation}"
        threading.Thread(target=self.work, daemon=True).start()
        for _, state in context.restored:
            for name in json.loads(state).values():
                self.publish(name)

    def work(self):
        while True:
            name, rows, written = self.queue.get()
            while not written.is_set():
                with contextlib.suppress(OSError):
                    (self.folder / f"{name}.temp").write_text(json.dumps(rows))
                    os.replace(self.folder / f"{name}.temp", self.folder / f"{name}.staged")
                    written.set()

    def write(self, batch):
        self.rows += [(row.split, row.offset) for row in batch]

    def snapshot(self, checkpoint_id):
        name, written = f"{self.me}-{checkpoint_id}", threading.Event()
        self.staged[checkpoint_id] = name, written
        self.queue.put((name, self.rows, written))
        self.rows = []
        MISTAKE
        return json.dumps({older: name for older, (name, _) in self.staged.items()}).encode()

    def notify_complete(self, checkpoint_id):
        for older in [each for each in self.staged if each <= checkpoint_id]:
            name, written = self.staged.pop(older)
            written.wait()
            self.publish(name)

    def publish(self, name):
        staged = self.folder / f"{name}.staged"
        if staged.exists():
            os.rename(staged, self.folder / f"{name}.json")
"""
    + CONTRACT
)
COLLECTS_IN_A_THREAD: Final = (
    """\
import json, os, queue, threading, time
from sinkproof import Claim


class Sink:
    def __init__(self, folder):
        self.folder, self.rows, self.pending, self.queue = folder, [], {}, queue.Queue()

    def open(self, context):
        self.context = context
        threading.Thread(target=self.work, daemon=True).start()
        for subtask, state in context.restored:
            for checkpoint, rows in json.loads(state):
                self.publish(f"{subtask}-{checkpoint}", rows)

    def work(self):
        while True:
            rows = self.queue.get()
            self.rows += rows
            self.queue.task_done()

    def write(self, batch):
        self.queue.put([(row.split, row.offset) for row in batch])

    def snapshot(self, checkpoint_id):
        while MISTAKE:
            time.sleep(0.001)
        self.pending[checkpoint_id], self.rows = self.rows, []
        return json.dumps(list(self.pending.items())).encode()

    def notify_complete(self, checkpoint_id):
        for older in [each for each in self.pending if each <= checkpoint_id]:
            self.publish(f"{self.context.subtask}-{older}", self.pending.pop(older))

    def publish(self, name, rows):
        temporary = self.folder / f"temp-{self.context.subtask}-{self.context.generation}"
        temporary.write_text(json.dumps(rows))
        os.replace(temporary, self.folder / f"{name}.json")
"""
    + CONTRACT
)


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A wrong sink and its right sibling: what both replace in the source."""

    source: str
    right: dict[str, str]
    wrong: dict[str, str]
    oracle: str = "O1"


LONGER: Final = ("second faults", "threads")  # where the sink is right, and nothing ends the stage early
PAIRS: Final = {
    "faults in commits of two checkpoints": Pair(
        source=COMMITS_TOGETHER,
        right={"MISTAKE": "[[each] for each in ready]"},
        wrong={"MISTAKE": "[ready] if ready else []"},
        oracle="O2",
    ),
    "second faults within recoveries": Pair(
        source=NOTES_WHAT_IS_DONE,
        right={"MISTAKE": "entries"},
        wrong={"MISTAKE": "reversed(entries) if self.recovers else entries"},
    ),
    "aborts after the next snapshot": Pair(
        source=STAGES_FILES,
        right={"SWEPT": "-*", "ABORTED": "pass"},
        wrong={"SWEPT": "-*", "ABORTED": "self.take_back(checkpoint_id)"},
    ),
    "twelve sink subtasks": Pair(
        source=STAGES_FILES,
        right={"SWEPT": "-*", "ABORTED": "pass"},
        wrong={"SWEPT": "*", "ABORTED": "pass"},
    ),
    "threads of the sink at another pace": Pair(
        source=WRITES_IN_A_THREAD,
        right={"MISTAKE": "written.wait()"},
        wrong={"MISTAKE": "pass"},
    ),
    "threads of the sink at another pace: between two calls, and where a call polls": Pair(
        source=COLLECTS_IN_A_THREAD,
        right={"MISTAKE": "self.queue.unfinished_tasks"},
        wrong={"MISTAKE": "not self.queue.empty()"},
    ),
}


def explored(folder: Path, stage: str, words: dict[str, str]) -> CampaignResults:
    """The results of this stage alone."""
    source = PAIRS[stage].source
    for word, text in words.items():
        source = source.replace(word, text)
    file = folder / f"sink_of_{folder.name}.py"
    file.write_text(source)
    contract = load(f"{file}:Of")
    (folder / "scratch").mkdir()
    results = CampaignResults(contract=contract, shell="process")
    with process_runner(contract, Scratch(name="data", path=folder / "scratch", shell="process")) as runner:
        campaign = ProcessCampaign(runner, results, should_stop=lambda results: bool(results.findings))
        campaign.carry_out([each for each in PROCESS_PLAN if each.name == stage.partition(":")[0]])
    return results


@pytest.mark.parametrize("stage", PAIRS)
def test_the_stage_convicts_a_wrong_sink(stage: str, tmp_path: Path) -> None:
    results = explored(tmp_path, stage, PAIRS[stage].wrong)
    assert PAIRS[stage].oracle in {finding.oracle for finding in results.findings}
    assert results.coverage.stages[0].run > 0


@pytest.mark.parametrize(
    "stage", [pytest.param(each, marks=pytest.mark.longer if each.startswith(LONGER) else ()) for each in PAIRS]
)
def test_the_stage_acquits_its_right_sibling(stage: str, tmp_path: Path) -> None:
    results = explored(tmp_path, stage, PAIRS[stage].right)
    assert [] == results.findings
    assert results.coverage.stages[0].finished
    assert [] == results.coverage.unfired
