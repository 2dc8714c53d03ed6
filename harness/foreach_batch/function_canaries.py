"""Would what is wrong be found at all? Functions that are wrong on purpose, and their correct controls.

One canary appends each batch to one folder; its control replaces a folder of the batch's own. The others are code of a
user, in modules of their own: one leaves its work to a module beside it, and dies between two lines of that; one writes
outside of the folder, where nothing puts back what an earlier run has left.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from sinkproof.chaos.schedule import COORDINATOR, Fault, Schedule
from sinkproof.foreach_batch.certifying_query import BEFORE_COMMIT, KILL, anomalies_of
from sinkproof.foreach_batch.simulated_batches import SimulatedQuery, follow
from sinkproof.subject.claims import Claim
from sinkproof.subject.contract import Contract
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch, clear_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEDULE: Final = Schedule((Fault(COORDINATOR, BEFORE_COMMIT, 2, KILL),))


def append(frame: DataFrame, batch_id: int) -> None:
    frame.write.mode("append").json("rows")


def replace(frame: DataFrame, batch_id: int) -> None:
    frame.write.mode("overwrite").json(f"rows/batch={batch_id}")


def committed(scratch: Scratch) -> Iterator[tuple[int, int]]:
    for file in sorted(Path(scratch.path, "rows").rglob("part-*.json")):
        for line in file.read_text().splitlines():
            row = json.loads(line)
            yield row["split"], row["offset"]


FUNCTIONS: Final = """\
import json
from pathlib import Path

from canary_helper import marks_first, marks_last

ELSEWHERE = Path("..", "canary-elsewhere")


def identities(frame):
    return [(row.split, row.offset) for row in frame.collect()]


def marks_in_helper_first(frame, batch_id):
    marks_first(identities(frame), batch_id)


def marks_in_helper_last(frame, batch_id):
    marks_last(identities(frame), batch_id)


def writes_elsewhere(frame, batch_id):
    with ELSEWHERE.open("a") as file:
        file.write(json.dumps(identities(frame)) + "\\n")


def committed(scratch):
    for file in sorted(scratch.path.glob("*.json")):
        yield from json.loads(file.read_text())
    if (scratch.path / ELSEWHERE).exists():
        for line in (scratch.path / ELSEWHERE).read_text().splitlines():
            yield from json.loads(line)
"""
HELPER: Final = """\
import json
from pathlib import Path


def marks_first(rows, batch_id):
    if Path(f"{batch_id}.done").exists():
        return
    Path(f"{batch_id}.done").touch()
    text = json.dumps(rows)
    Path(f"{batch_id}.json").write_text(text)


def marks_last(rows, batch_id):
    if Path(f"{batch_id}.done").exists():
        return
    text = json.dumps(rows)
    Path(f"{batch_id}.json").write_text(text)
    Path(f"{batch_id}.done").touch()
"""
NAMES: Final = ("marks_in_helper_first", "marks_in_helper_last", "writes_elsewhere")
LINES: Final = [number for number, line in enumerate(HELPER.splitlines(), 1) if "json.dumps" in line]


def laid_out(home: Path) -> dict[str, Contract]:
    """The functions in modules of their own, by name; to be called before Spark starts."""
    home.mkdir()
    for name, text in (("canary_functions.py", FUNCTIONS), ("canary_helper.py", HELPER)):
        (home / name).write_text(text)
    return {name: load(f"{home / 'canary_functions.py'}:{name}") for name in NAMES}


def blind_spots(scratch: Scratch, session: SparkSession, of_users: Mapping[str, Contract]) -> list[str]:
    """Reasons not to trust an upheld claim of this shell; empty if there is none. Leaves the scratch folder empty."""
    return [
        *_judged(_in_this_module(append), SCHEDULE, ["O2"], scratch=scratch, session=session),
        *_judged(_in_this_module(replace), SCHEDULE, [], scratch=scratch, session=session),
        *blind_to_users(scratch, session, of_users),
    ]


def blind_to_users(scratch: Scratch, session: SparkSession, of_users: Mapping[str, Contract]) -> list[str]:
    first, last = (Schedule((Fault(COORDINATOR, f"line(canary_helper.py:{line})", 2, KILL),)) for line in LINES)
    reasons = [
        *_judged(of_users[NAMES[0]], first, ["O1"], scratch=scratch, session=session),
        *_judged(of_users[NAMES[1]], last, [], scratch=scratch, session=session),
    ]
    query = SimulatedQuery(of_users[NAMES[2]], scratch, session)
    follow(query, Schedule())
    if not query.rows_left():
        reasons.append("rows that a canary has left outside of the folder were not seen")
    clear_folder(scratch.path)
    Path(scratch.path.parent, "canary-elsewhere").unlink()
    return reasons


def _judged(
    contract: Contract, schedule: Schedule, expected: Sequence[str], *, scratch: Scratch, session: SparkSession
) -> Iterator[str]:
    """Why the canary, or the control (nothing expected), was misjudged."""
    ending, state, _ = follow(SimulatedQuery(contract, scratch, session), schedule)
    clear_folder(scratch.path)
    found = [anomaly.oracle for anomaly in anomalies_of(ending, "append")]
    name = f"the {'canary' if expected else 'control'} {contract.given.write_batch.__name__}"
    if not state.faults:
        yield f"{name} was not crashed at {schedule}: no run has passed it"
    elif found != expected:
        yield f"{name} was judged {found or 'right'} at {schedule}: {ending.failure or 'the query ended'}"


def _in_this_module(function: Callable[..., Any]) -> Contract:
    given = SimpleNamespace(claims=Claim.EFFECTIVELY_ONCE, committed=committed, write_batch=function, files={})
    return Contract(function.__name__, given)
