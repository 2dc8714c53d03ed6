"""What nothing looks at is never upheld: sinks that are wrong there, and their right siblings, certified by default.

Two more are elsewhere: tables of released libraries in tests/released, and a campaign with less time in
../campaign/test_numbers_and_caveats.py.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from sinkproof.canaries import code_of_users as users
from sinkproof.certifier.certify import Options, certify
from sinkproof.foreach_batch.function_canaries import laid_out

from ...support.explored_functions import FUNCTIONS
from ...support.named_budget import named_budget

pytestmark = [pytest.mark.longer, pytest.mark.slow]
Locate = Callable[[Path], str]


def of_user(contract: Any) -> Locate:
    def locate(folder: Path) -> str:
        copy = folder / contract.laid_out_in / f"sinks_of_{folder.name}.py"
        copy.parent.mkdir(parents=True)
        shutil.copyfile(users.__file__, copy)
        return f"{copy}:{contract.__name__}"

    return locate


def function(name: str) -> Locate:
    def locate(folder: Path) -> str:
        laid_out(folder / "functions")
        return f"{folder / 'functions' / 'canary_functions.py'}:{name}"

    return locate


BY_DAY: Final = """\
import json, os, time
from sinkproof import Claim


class Sink:
    def __init__(self, folder):
        self.folder, self.rows, self.staged = folder, [], {}

    def open(self, context):
        self.me = f"{context.subtask}-{context.generation}"
        for _, state in context.restored:
            for name in json.loads(state).values():
                self.publish(name)

    def write(self, batch):
        self.rows += [(row.split, row.offset) for row in batch]

    def snapshot(self, checkpoint_id):
        name = self.staged[checkpoint_id] = f"{self.me}-{checkpoint_id}-{time.strftime('%Y%m%d')}"
        (self.folder / f"{name}.staged").write_text(json.dumps(self.rows))
        self.rows = []
        return json.dumps(self.staged).encode()

    def notify_complete(self, checkpoint_id):
        for older in [each for each in self.staged if each <= checkpoint_id]:
            self.publish(self.staged.pop(older))

    def publish(self, name):
        staged = self.folder / f"{MISTAKE}.staged"
        if staged.exists():
            os.rename(staged, self.folder / f"{name}.json")


class Of:
    claims = Claim.NO_LOSS | Claim.NO_DUPLICATES

    def sink(self, scratch):
        return Sink(scratch.path)

    def committed(self, scratch):
        for file in sorted(scratch.path.glob("*.json")):
            yield from json.loads(file.read_text())
"""


def by_day(name: str) -> Locate:
    """`name`: where `publish` looks for the file that was staged."""

    def locate(folder: Path) -> str:
        file = folder / f"sink_of_{folder.name}.py"
        file.write_text(BY_DAY.replace("MISTAKE", name))
        return f"{file}:Of"

    return locate


WRONG: Final[dict[str, tuple[Locate, str]]] = {  # and the reason, unless it is VIOLATED
    "in an installed package": (of_user(users.InstalledAndNotesFirst), ""),
    "in a module beside a function": (function("marks_in_helper_first"), ""),
    "in what an earlier run has left elsewhere": (function("writes_elsewhere"), "rows of an earlier run are still"),
    "in what is removed between two runs": (of_user(users.LosesWhatAnEarlierRunLeft), ""),
    "behind far more rows": (of_user(users.LosesBehindManyRows), ""),
    "in the wall clock": (by_day("name.rpartition('-')[0]}-{time.strftime('%Y%m%d')"), ""),
}
SIBLINGS: Final[dict[str, Locate]] = {
    "in an installed package": of_user(users.TwoLogsControl),
    "in a module beside a function": function("marks_in_helper_last"),
    "in what is removed between two runs of a function": lambda folder: f"{FUNCTIONS}/elsewhere_once.py:write",
    "in what is removed between two runs": of_user(users.ElsewhereControl),
    "behind far more rows": of_user(users.SpillingControl),
    "in the wall clock": by_day("name"),
}


def certified(locator: str, folder: Path, *, budget_seconds: float = Options().budget_seconds) -> Any:
    options = Options(canaries=False, budget_seconds=budget_seconds)
    (subject,) = certify([locator], folder / "out", options=options)["subjects"]
    return subject


@pytest.mark.parametrize("where", WRONG)
def test_what_is_wrong_is_not_upheld(where: str, tmp_path: Path) -> None:
    locate, reason = WRONG[where]
    subject = certified(locate(tmp_path), tmp_path)
    assert ("unknown" if reason else "violated") == subject["verdict"], subject["why"]
    assert reason in subject["why"]


@pytest.mark.parametrize("where", SIBLINGS)
def test_a_right_sibling_is_upheld_by_default_or_with_the_budget_that_is_named(where: str, tmp_path: Path) -> None:
    locator = SIBLINGS[where](tmp_path)
    subject = certified(locator, tmp_path)
    if named := named_budget(subject["why"]):
        subject = certified(locator, tmp_path / "again", budget_seconds=named)
    assert "upheld" == subject["verdict"], subject["why"]
