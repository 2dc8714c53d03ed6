"""The input and the result of one worker process of a certification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sinkproof.campaign.fan_out.hub_connection import FanOut
from sinkproof.exploration.judged_runs import JudgedRun
from sinkproof.judging.altered_rows import NO_RUN
from sinkproof.reports.document import Finding, ShellResult
from sinkproof.subject.service_options import DEFAULT_SERVICES, ServiceOptions
from sinkproof.subject.source_files import OwnCode


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """`locator`: of a subject; "" for the canaries, where each control gets the budget."""

    locator: str
    shell: str
    budget_seconds: float
    budget_holds: bool = False  # it is never exceeded, whatever is missing by then
    plan_seconds: float = 0.0  # in the process shell, while the sink is not convicted: for the whole plan
    seed: int = 0
    hang_seconds: float = 10.0  # of one call to a sink in a process of its own
    schedule: str = ""  # to be replayed; "": the whole campaign
    master: str = "local[6,100000]"  # of Spark: slots for the widest certifying job, and one to spare
    soak_seconds: float = 0  # of random schedules, when the campaign in the simulated shell has ended
    alone: bool = False  # no other shell injects faults at this subject's lines
    canaries: bool = True  # those of foreachBatch functions are tried in the session of the function
    cores: int = 1  # that it may use
    shares_state: str = ""  # tasks with one name never run at the same time
    services: ServiceOptions = DEFAULT_SERVICES
    again: Sequence[JudgedRun] = ()  # of a kept result: only these are run, and compared
    fan_out: FanOut | None = None  # where its schedules run besides this machine
    journal: str = ""  # file that records what the subject's processes read; "": nothing is recorded

    @property
    def name(self) -> str:
        return self.locator or "canaries"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAgain:
    """The runs of a kept result that were repeated."""

    seconds: float
    kills: int
    differing: str = ""  # the first schedule that ended in another way


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellOutcome:
    """The result of one subject in one shell."""

    result: ShellResult
    findings: Sequence[Finding]
    unknowns: Sequence[str]  # the job came to nothing, nothing was committed
    never_struck: Sequence[str]  # protocol steps
    ended_before: str = ""  # the first stage without which nothing is upheld, and for which no time was left
    deferred: str = ""  # why this shell has left the deaths of attempts and jobs to the process shell
    lines_passed: frozenset[str] = frozenset()
    lines_of_children: frozenset[str] = frozenset()  # executed by processes that attempts forked
    lines_struck: frozenset[str] = frozenset()  # by a death
    lines_by_kind: Mapping[str, frozenset[str]] = field(
        default_factory=dict
    )  # kill, stop, pause: where it was injected
    lines_covered: frozenset[str] = frozenset()  # killed in equal runs only
    calls_passed: frozenset[tuple[str, str]] = frozenset()  # (point, kind): how calls to the target can fail
    calls_failed: frozenset[tuple[str, str]] = frozenset()
    loops_run_out: frozenset[str] = frozenset()  # heads of those that give up after a number of tries
    own_code: OwnCode = field(default_factory=OwnCode)
    not_compared: str = NO_RUN  # why keys or values of rows were not; empty: both were
    judged: Sequence[JudgedRun] = ()  # runs that can be repeated
