"""Would what is wrong be found at all? Functions that are wrong on purpose, and their correct controls.

One canary appends each batch to one folder; its control replaces a folder of the batch's own. The others are code of a
user, in modules of their own: one leaves its work to a module beside it, and dies between two lines of that; one writes
outside of the folder, where nothing puts back what an earlier run has left; one swallows errors, one remembers a batch
that has failed, one takes no more than a thousand rows, one has today in the names of its files.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from sinkproof.chaos.schedule import COORDINATOR, Fault, Schedule, parse
from sinkproof.foreach_batch.certifying_query import BEFORE_COMMIT, EARLY, KILL, anomalies_of
from sinkproof.foreach_batch.followed_schedules import follow
from sinkproof.foreach_batch.simulated_batches import SimulatedQuery
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
from datetime import date
from pathlib import Path

from canary_helper import marks_first, marks_last

ELSEWHERE = Path("..", "canary-elsewhere")
BEGUN = set()


def identities(frame):
    return [(row.split, row.offset) for row in frame.collect()]


def marks_in_helper_first(frame, batch_id):
    marks_first(identities(frame), batch_id)


def marks_in_helper_last(frame, batch_id):
    marks_last(identities(frame), batch_id)


def put(name, rows):
    new = Path(f"{name}.new")
    new.write_text(json.dumps(rows))
    new.rename(f"{name}.json")


def puts(frame, batch_id):
    put(batch_id, identities(frame))


def swallows_errors(frame, batch_id):
    try:
        puts(frame, batch_id)
    except Exception:
        pass


def remembers(frame, batch_id):
    if batch_id in BEGUN:
        return
    BEGUN.add(batch_id)
    puts(frame, batch_id)


def takes_a_thousand(frame, batch_id):
    put(batch_id, identities(frame)[:1000])


def names_by_day(frame, batch_id):
    put(f"{date.today()}-{batch_id}", identities(frame))


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
CONTROL: Final = "puts"
ALSO: Final = {  # canary -> the oracle and the schedules that convict it; the control is right under each
    "swallows_errors": ("O1", "micro_batch.batch.before#2=error", "file.rename#2=error"),
    "remembers": ("O1", "file.create#2=error"),
    "takes_a_thousand": ("O1", "job=large-batches no-fault"),
    "names_by_day": ("O2", "job=outage micro_batch.commit.before#2=kill-job"),
}
AFTER_A_CRASH: Final = Schedule((Fault(COORDINATOR, "file.create", 2, KILL),))  # another driver remembers nothing
LINES: Final = [number for number, line in enumerate(HELPER.splitlines(), 1) if "json.dumps" in line]


def laid_out(home: Path) -> dict[str, Contract]:
    """The functions in modules of their own, by name; to be called before Spark starts."""
    home.mkdir()
    for name, text in (("canary_functions.py", FUNCTIONS), ("canary_helper.py", HELPER)):
        (home / name).write_text(text)
        sys.modules.pop(name.removesuffix(".py"), None)  # of an earlier certification of this process
    return {name: load(f"{home / 'canary_functions.py'}:{name}") for name in (*NAMES, CONTROL, *ALSO)}


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
    for name, (oracle, *schedules) in ALSO.items():
        for schedule in map(parse, schedules):
            reasons += _judged(of_users[name], schedule, [oracle], scratch=scratch, session=session)
            reasons += _judged(of_users[CONTROL], schedule, [], scratch=scratch, session=session)
    reasons += _judged(of_users["remembers"], AFTER_A_CRASH, [], scratch=scratch, session=session)
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
    found = [each.oracle for each in anomalies_of(ending, "append", job=schedule.job) if each.oracle != EARLY]
    name = f"the {'canary' if expected else 'control'} {contract.given.write_batch.__name__}"
    if len(state.faults) < len(schedule.faults):
        yield f"{name} was not crashed at {schedule}: no run has passed it"
    elif found != expected:
        yield f"{name} was judged {found or 'right'} at {schedule}: {ending.failure or 'the query ended'}"


def _in_this_module(function: Callable[..., Any]) -> Contract:
    given = SimpleNamespace(claims=Claim.EFFECTIVELY_ONCE, committed=committed, write_batch=function, files={})
    return Contract(function.__name__, given)
