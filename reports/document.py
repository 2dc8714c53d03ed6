"""The certificate document, its parts as frozen values: certificate_file.py writes and reads it.

`certificate.json` is the truth of a run; every report is a pure function of it. A part is a value here and a plain
JSON object there, with the same keys. What each key means stands here alone: the published schema is made from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, get_args

from sinkproof.reports.at_target.target_record import RowId as RowId
from sinkproof.reports.at_target.target_record import TargetRecord as TargetRecord
from sinkproof.reports.json_files import Count, Seconds, promised, says
from sinkproof.reports.json_files import plain as plain
from sinkproof.reports.json_files import replace_file as replace_file
from sinkproof.reports.watched_calls import InsideService as InsideService
from sinkproof.reports.watched_calls import OutwardCalls as OutwardCalls
from sinkproof.reports.watched_calls import PowerLosses as PowerLosses
from sinkproof.reports.watched_calls import Texts

SCHEMA: Final = "sinkproof/certificate/1"
FILE_NAME: Final = "certificate.json"
VerdictWord = Literal["upheld", "violated", "unknown"]
GradeWord = Literal["exactly-once", "effectively-once", "at-least-once", "at-most-once", "broken", "unknown"]
OutcomeWord = Literal["upheld", "violated", "unfired", "finding"]
VERDICTS: Final = get_args(VerdictWord)
GRADES: Final = get_args(GradeWord)
OUTCOMES: Final = get_args(OutcomeWord)

Lines = Sequence[Annotated[int, says("from 1", ge=1)]]
Document = dict[str, Any]


class DocumentError(Exception):
    """A certificate that cannot be read or written: what happened, the evidence, the next step."""

    def __init__(self, what: str, *, evidence: str, next_step: str) -> None:
        super().__init__(f"{what}: {evidence}. {next_step}")
        self.what, self.evidence, self.next_step = what, evidence, next_step


@contextmanager
def write_errors(what: str, *, next_step: str) -> Iterator[None]:
    """Turns an OSError into a DocumentError."""
    try:
        yield
    except OSError as error:
        raise DocumentError(what, evidence=str(error), next_step=next_step) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEvent:
    """One line of a timeline"""

    at: Annotated[float, says("seconds on the shell's clock")]
    actor: Annotated[str, says("such as sink[0]")]
    what: Annotated[str, says("what it did")]
    struck: Annotated[bool, promised("a fault was injected here")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLine:
    """A line of source code"""

    file: Annotated[str, says("name of the file, as in points")]
    number: Annotated[Count, says("from 1; 0: not known")]
    text: Annotated[str, promised("the line")] = ""
    around: Annotated[Texts, says("this line and those around it, with their numbers")] = ()
    function: Annotated[str, says("the qualified name of the function around it; empty where it is not known")] = ""
    path: Annotated[str, says("the file's path in its repository; empty where it is in none")] = ""
    called_from: Annotated[Texts, says("the subject's lines on the stack below it, the nearest first")] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One failure of a subject, with the schedule that shows it"""

    oracle: Annotated[str, says("such as O1")]
    claimed: Annotated[bool, says("true: it breaks a claim; false: it only keeps the sink from a better grade")]
    shell: Annotated[str, says("where it was found")]
    schedule: Annotated[str, says("one line", pattern=r"\S")]
    why: Annotated[str, says("what went wrong, in a sentence")]
    replay: Annotated[str, says("the command that reproduces it")]
    lost: Annotated[Sequence[RowId], promised("rows that should be visible and are not")] = ()
    extra: Annotated[
        Sequence[RowId], promised("rows that are visible and should not be, one entry per superfluous copy")
    ] = ()
    lost_total: Annotated[Count | None, says("how many were lost, where `lost` was cut short")] = None
    extra_total: Annotated[Count | None, says("how many were superfluous, where `extra` was cut short")] = None
    contents: Annotated[Texts, says("split:offset key=value of some of these rows, as they were sent")] = ()
    claim: Annotated[str | None, says("the claim that the oracle belongs to")] = None
    root_cause: Annotated[str | None, says("a hint, such as R6")] = None
    timeline: Annotated[Sequence[TimelineEvent], says("what happened, in order")] = ()
    steps: Annotated[
        Texts,
        says("the last points that the victim of the last fault passed, in order; it was injected at the last one"),
    ] = ()
    effects: Annotated[
        Texts,
        says(
            "what the sinks did at the target after the last fault, in order: a line for each turn of one of them;"
            " open begins a new attempt"
        ),
    ] = ()
    target: Annotated[
        TargetRecord | None,
        says("each change of the target in the same run, made once more, and which attempt made it"),
    ] = None
    line: Annotated[SourceLine | None, says("the source line that was executed when the last fault was injected")] = (
        None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PointOutcome:
    """The outcome of the schedules that inject their first fault at this point: one cell of the grid"""

    point: Annotated[str, says("a named point, or line(file.py:42)")]
    fault: Annotated[str, says("the kind of fault, such as kill")]
    runs: Annotated[Count, says("schedules run")]
    outcome: Annotated[
        OutcomeWord,
        says(
            "the worst: violated breaks a claim; finding is a flaw that no claim covers; unfired: the fault was never"
            " injected"
        ),
    ]
    covered: Annotated[
        Count, says("other crashes there, which leave a state equal to one from which a run was made")
    ] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosureResult:
    """Every sequence of these faults, if complete"""

    states: Annotated[Count, says("distinct durable states that a crash has left and from which a run was made")]
    complete: Annotated[bool, says("the worklist became empty and the audits agreed")]
    why: Annotated[str, promised("why it is not complete")] = ""
    of: Annotated[str, says("which faults follow each other, any number of times")] = "whole-job crashes"
    sentence: Annotated[str, says("what a complete closure may claim, word for word")] = ""
    depth: Annotated[Count | None, says("the largest number of consecutive crashes that led to a new state")] = None
    merges_audited: Annotated[Count | None, says("merged states of which both were run and compared")] = None
    merges_differing: Annotated[Count | None, says("of those: how many behaved differently")] = None
    shifts: Annotated[Sequence[int], says("by which every state was run again with other checkpoint ids")] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StageResult:
    """One stage of a campaign"""

    name: Annotated[str, says("which one")]
    run: Annotated[Count, promised("schedules that ran; of a stage that explores, runs")] = 0
    planned: Annotated[
        Count,
        promised("known before the first of its schedules ran; 0: the stage finds its schedules while it runs"),
    ] = 0
    finished: Annotated[bool, promised("all of them ran")] = False
    skipped: Annotated[str, promised("why the stage does not apply; empty if it does")] = ""
    cut: Annotated[str, says("why the stage left out a part of its bound; empty: it did not, or the budget ended")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The largest of each in one run that was judged; 0: not known"""

    sources: Annotated[Count, promised("parallelism of a source")] = 0
    sinks: Annotated[Count, promised("parallelism of a sink")] = 0
    rows: Annotated[Count, promised("that the sources held")] = 0
    bytes: Annotated[Count, promised("of keys and values")] = 0
    keys: Annotated[Count, promised("distinct ones")] = 0
    checkpoints: Annotated[Count, promised("that the rows of the sources fill")] = 0
    checkpoints_pending: Annotated[Count, promised("begun, and neither complete nor aborted, at one time")] = 0
    restarts: Annotated[Count, promised("of the job")] = 0
    clocks: Annotated[
        Texts, promised('which clock was moved, and by which job or fault, as in "context.clock: outage"')
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeCoverage:
    """One file of a user's sink: which of its lines were executed and struck in any shell, and which never ran"""

    file: Annotated[str, says("as in points")]
    executed: Annotated[Count, says("lines, in any shell")]
    killed: Annotated[Count, says("lines of them, at which this fault struck")]
    stopped: Annotated[Count, says("the same")]
    paused: Annotated[Count, says("the same")]
    covered: Annotated[
        Count, says("not killed: a whole-job crash there leaves a state equal to one from which a run was made")
    ] = 0
    of_children: Annotated[Lines, says("executed by processes that attempts forked, and never struck")] = ()
    never_run: Annotated[
        Lines, promised("first lines of statements that calls can lead to and that no run has executed")
    ] = ()
    handlers_never_run: Annotated[
        Lines, promised("the same, of statements that only handle or raise an exception")
    ] = ()
    excluded: Annotated[Lines, promised("the same, of statements that are marked with pragma: no cover")] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellResult:
    """The campaign of one shell on one subject"""

    shell: Annotated[str, says("simulated, process or spark")]
    schedules_run: Annotated[Count, says("schedules run by this command and judged, fired ones only")]
    schedules_in_bound: Annotated[
        Count,
        says(
            "the schedules that ran, and those of begun stages that did not; stages that were not reached, and states"
            " that were not found, would add to it"
        ),
    ]
    kills: Annotated[Count, says("crashes that really happened; by wait status where processes die")]
    seconds: Annotated[Seconds, says("spent in this shell")]
    points_reached: Annotated[Texts, promised("protocol steps that were reached")] = ()
    points_total: Annotated[Count, promised("protocol steps known for this sink")] = 0
    lines_reached: Annotated[
        Count | None,
        promised("lines of the sink's own package at which a fault was injected; null: interior not explored"),
    ] = None
    lines_total: Annotated[
        Count | None, promised("lines of the sink's own package that were executed; null: interior not explored")
    ] = None
    schedules_kept: Annotated[
        Count,
        says(
            "judged by an earlier command under the same circumstances, and not run again by this one; every other"
            " number of this shell but schedules_run, kills and seconds counts them, too"
        ),
    ] = 0
    kills_kept: Annotated[Count, says("of those schedules")] = 0
    kept_since: Annotated[str, says("when they were run; empty: nothing is kept")] = ""
    schedules_joined: Annotated[
        Count,
        says(
            "of those that ran: ended in a state from which an earlier run had gone on, so that the rest is that run's"
        ),
    ] = 0
    points_covered: Annotated[
        Texts, says("steps not struck: a whole-job crash there leaves a state equal to one that was run from")
    ] = ()
    lines_covered: Annotated[
        Count, says("lines not struck: a whole-job crash there leaves a state equal to one that was run from")
    ] = 0
    bounds: Annotated[Bounds | None, says("the sizes that this shell has tried")] = None
    closure: Annotated[ClosureResult | None, promised("null: none was attempted")] = None
    closures: Annotated[
        Sequence[ClosureResult],
        says("of other faults, such as whole-job crashes with a partial death between two of them"),
    ] = ()
    points_known: Annotated[Texts, says("protocol steps known for this sink, in the order of the protocol")] = ()
    kills_by_point: Annotated[Mapping[str, Count], says("number of faults injected at each point, in runs")] = field(
        default_factory=dict
    )
    outcomes: Annotated[Sequence[PointOutcome], says("the grid: points by faults")] = ()
    rows_committed: Annotated[
        Count,
        says("that the reader observed in the end, over all schedules that did not end in a state of an earlier one"),
    ] = 0
    notes: Annotated[Texts, says("what this shell cannot show, or did not show in this run")] = ()
    long_jobs: Annotated[Texts, says("of each job under one fault after the other: its rows and its faults")] = ()
    stages: Annotated[Sequence[StageResult], says("of the campaign in their order, and how far each came")] = ()
    outward: Annotated[
        OutwardCalls | None, says("of a command, or of native code; null: there was none to be watched")
    ] = None
    power: Annotated[
        PowerLosses | None, says("losses of power without the contract's help; null: none was to be tried")
    ] = None
    inside: Annotated[
        InsideService | None,
        says("of an external system that was to be killed between two of its own writes; null: none was"),
    ] = None

    @property
    def schedules_judged(self) -> int:
        return self.schedules_run + self.schedules_kept

    @property
    def kills_judged(self) -> int:
        return self.kills + self.kills_kept


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimResult:
    """One claim and its verdict"""

    claim: Annotated[str, says("such as NO_LOSS")]
    verdict: Annotated[VerdictWord, says("violated beats unknown beats upheld")]
    why: Annotated[str, says("one line")]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectResult:
    """One sink and its verdict"""

    name: Annotated[str, says("a registry name, package.module:Contract, path/to/file.py:Contract, or a command")]
    verdict: Annotated[VerdictWord, says("violated beats unknown beats upheld")]
    grade: Annotated[GradeWord, says("what was measured, best first")]
    why: Annotated[str, says("the verdict's reason, one line")] = ""
    seconds: Annotated[
        float | None, says("of the wall, in all shells: what ran at the same time counts once; null: not known")
    ] = None
    expected_grade: Annotated[
        GradeWord | None, promised("what the registry expects; null for a sink that is not in it")
    ] = None
    claimed: Annotated[Texts, says("the claims as the contract wrote them, combinations by their own name")] = ()
    claims: Annotated[Sequence[ClaimResult], promised("each single claim")] = ()
    not_compared: Annotated[str, says("why keys or values of rows were not compared; empty: they were")] = ""
    code: Annotated[Sequence[CodeCoverage], says("the files of a user's sink")] = ()
    shells: Annotated[Sequence[ShellResult], promised("each shell that examined it")] = ()
    findings: Annotated[Sequence[Finding], promised("each failure that was found")] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryResult:
    """A sink that is wrong on purpose and must be convicted for its own root cause, or a correct control, which must
    not be convicted
    """

    name: Annotated[str, says("which one")]
    root_cause: Annotated[str, says("such as R1")]
    convicted: Annotated[bool, says("for its own root cause, any other is an escape; for a control: at all")]
    seconds: Annotated[Seconds, says("until its verdict")]
    oracle: Annotated[str | None, promised("the oracle that convicted it")] = None
    schedule: Annotated[str | None, promised("the schedule that convicted it")] = None
    shell: Annotated[str | None, says("the shell it ran in")] = None
    control: Annotated[bool, says("a correct sink, which must not be convicted")] = False
    why: Annotated[str, says("one line")] = ""
    kept_since: Annotated[str, says("when an earlier command has tried it; empty: this one has")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A number shown beside the verdict, such as the rate of a benchmark or the rows of a soak: no verdict needs it"""

    name: Annotated[str, says("what was measured")]
    value: Annotated[str, says("with its unit")]
    note: Annotated[str, says("one line")] = ""


def line_of(finding: Mapping[str, Any]) -> SourceLine:
    """The line that was struck; an empty one where it is not known."""
    given = finding["line"] or {"file": "", "number": 0}
    return SourceLine(**{key: given[key] for key in SourceLine.__dataclass_fields__ if key in given})
