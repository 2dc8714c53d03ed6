"""The certificate document: its parts as frozen values, read back with clear errors; certificate_writer.py writes it.

`certificate.json` is the truth of a run; every report is a pure function of it. A part is a value here and a plain
JSON object there, with the same keys; what each key means stands in `certificate.schema.json`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final

from sinkproof.reports.at_target.target_record import RowId as RowId
from sinkproof.reports.at_target.target_record import TargetRecord as TargetRecord
from sinkproof.reports.json_files import plain as plain
from sinkproof.reports.json_files import replace_file as replace_file
from sinkproof.reports.watched_calls import InsideService as InsideService
from sinkproof.reports.watched_calls import OutwardCalls as OutwardCalls
from sinkproof.reports.watched_calls import PowerLosses as PowerLosses

SCHEMA: Final = "sinkproof/certificate/1"
FILE_NAME: Final = "certificate.json"
VERDICTS: Final = ("upheld", "violated", "unknown")
GRADES: Final = ("exactly-once", "effectively-once", "at-least-once", "at-most-once", "broken", "unknown")
OUTCOMES: Final = ("upheld", "violated", "unfired", "finding")

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
    """One line of a timeline: `at` seconds on the shell's clock; `struck`: a fault was injected here."""

    at: float
    actor: str
    what: str
    struck: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLine:
    """`function`: the one around it, by its qualified name. `path`: of the file in its repository; empty: in none."""

    file: str
    number: int
    text: str = ""
    around: Sequence[str] = ()  # this line and those around it, with their numbers
    function: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One way in which a subject went wrong, with the schedule that shows it. `claimed`: it breaks a claim."""

    oracle: str
    claimed: bool
    shell: str
    schedule: str
    why: str
    replay: str
    lost: Sequence[RowId] = ()
    extra: Sequence[RowId] = ()
    lost_total: int | None = None  # where `lost` was cut short; None: it was not
    extra_total: int | None = None
    contents: Sequence[str] = ()  # "split:offset key=value" of some lost or superfluous rows, as they were sent
    claim: str | None = None  # the claim that the oracle belongs to
    root_cause: str | None = None
    timeline: Sequence[TimelineEvent] = ()
    steps: Sequence[
        str
    ] = ()  # the last points that the victim of the last fault passed, in order; the fault was injected at the last one
    effects: Sequence[str] = ()  # what the sinks did at the target after the last fault, in order
    target: TargetRecord | None = None  # of the same run, made once more: each change, and which attempt made it
    line: SourceLine | None = None  # the source line that was executed when the last fault was injected
    traceback: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PointOutcome:
    """One cell of the grid: the worst outcome of `runs` schedules with the first fault `fault` at `point`."""

    point: str
    fault: str
    runs: int
    outcome: str
    covered: int = 0  # other crashes there, that leave a state equal to one from which a run was made

    def __post_init__(self) -> None:
        assert self.outcome in OUTCOMES, self.outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosureResult:
    """Every sequence `of` these faults, if `complete`; otherwise `why` it is not. None: not counted."""

    states: int
    complete: bool
    why: str = ""
    of: str = "whole-job crashes"
    sentence: str = ""  # what a complete closure may claim, word for word
    depth: int | None = None  # consecutive crashes
    merges_audited: int | None = None
    merges_differing: int | None = None
    shifts: Sequence[int] = ()  # by which every state was run again with other checkpoint ids


@dataclass(frozen=True, slots=True, kw_only=True)
class StageResult:
    """One stage of a campaign: how many of its schedules ran, or why it was skipped, or what it left out."""

    name: str
    run: int = 0
    planned: int = 0  # before the first of them ran; 0: the stage finds its schedules while it runs
    finished: bool = False
    skipped: str = ""
    cut: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The largest of each in one run that was judged; 0: not known. `clocks`: which one was moved, and
    by which job or fault, as in "context.clock: outage".
    """

    sources: int = 0
    sinks: int = 0
    rows: int = 0
    bytes: int = 0
    keys: int = 0
    checkpoints_pending: int = 0
    restarts: int = 0
    clocks: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeCoverage:
    """One file of a user's sink, in all shells. Executed lines, and at how many of them each kind of fault struck;
    numbers of the first lines of statements that calls can lead to and that no run has executed.
    """

    file: str
    executed: int
    killed: int
    stopped: int
    paused: int
    covered: int = 0  # not killed: a whole-job crash there leaves a state equal to one from which a run was made
    never_run: Sequence[int] = ()
    handlers_never_run: Sequence[int] = ()  # these only handle or raise an exception
    excluded: Sequence[int] = ()  # the user has marked these


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellResult:
    """The campaign of one shell on one subject. Lines are None where the interior was not explored."""

    shell: str
    schedules_run: int
    schedules_in_bound: int
    kills: int
    seconds: float
    points_reached: Sequence[str] = ()
    points_total: int = 0
    lines_reached: int | None = None
    lines_total: int | None = None
    schedules_kept: int = 0  # run by an earlier command, and not by this one; what follows counts them, too
    kills_kept: int = 0
    kept_since: str = ""  # when that was; empty: nothing is kept
    schedules_joined: int = 0  # of those run: ended in a state from which an earlier run had gone on
    points_covered: Sequence[str] = ()  # not struck: a crash there leaves a state that was run from
    lines_covered: int = 0
    bounds: Bounds | None = None
    closure: ClosureResult | None = None
    closures: Sequence[ClosureResult] = ()  # of other faults, such as a partial death between two whole-job crashes
    points_known: Sequence[str] = ()
    kills_by_point: Mapping[str, int] = field(default_factory=dict)
    outcomes: Sequence[PointOutcome] = ()
    rows_committed: int = 0
    notes: Sequence[str] = ()
    stages: Sequence[StageResult] = ()
    outward: OutwardCalls | None = None  # of a command, or of native code
    power: PowerLosses | None = None
    inside: InsideService | None = None  # an external system was to be killed inside

    @property
    def schedules_judged(self) -> int:
        return self.schedules_run + self.schedules_kept

    @property
    def kills_judged(self) -> int:
        return self.kills + self.kills_kept


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimResult:
    claim: str
    verdict: str
    why: str

    def __post_init__(self) -> None:
        assert self.verdict in VERDICTS, self.verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectResult:
    """One sink and its verdict. `claimed`: as its contract wrote it, combinations by their own name."""

    name: str
    verdict: str
    grade: str
    why: str
    seconds: float | None = None  # of the wall, in all shells; None: not known
    expected_grade: str | None = None
    claimed: Sequence[str] = ()
    claims: Sequence[ClaimResult] = ()
    not_compared: str = ""  # why keys or values of rows were not; empty: they were
    code: Sequence[CodeCoverage] = ()  # of a user's sink
    shells: Sequence[ShellResult] = ()
    findings: Sequence[Finding] = ()

    def __post_init__(self) -> None:
        assert self.verdict in VERDICTS, self.verdict
        assert self.grade in GRADES, self.grade
        assert self.expected_grade is None or self.expected_grade in GRADES, self.expected_grade


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryResult:
    """A sink that is wrong on purpose, or its correct `control`, which must not be convicted."""

    name: str
    root_cause: str
    convicted: bool  # for its own sin: any other conviction is an escape
    seconds: float
    oracle: str | None = None
    schedule: str | None = None
    shell: str | None = None
    control: bool = False
    why: str = ""
    kept_since: str = ""  # when an earlier command has tried it; empty: this one has


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A number shown beside the verdict, such as the rate of a benchmark or the rows of a soak."""

    name: str
    value: str
    note: str = ""


def line_of(finding: Mapping[str, Any]) -> SourceLine:
    """The line that was struck; an empty one where it is not known."""
    given = finding["line"] or {"file": "", "number": 0}
    return SourceLine(**{key: given[key] for key in SourceLine.__dataclass_fields__ if key in given})


def load(folder_or_file: Path | str) -> Document:
    """The document in a run's folder, or in this file, checked against the schema."""
    path = Path(folder_or_file)
    path = path / FILE_NAME if path.is_dir() else path
    try:
        document = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse_constant)
    except OSError as error:
        raise DocumentError(
            f"there is no readable certificate at {path}",
            evidence=error.strerror or str(error),
            next_step=f"Name a folder that `sinkproof certify` wrote, or its {FILE_NAME}",
        ) from error
    except (ValueError, RecursionError) as error:
        raise DocumentError(
            f"{path} is no certificate, or a damaged one",
            evidence=str(error),
            next_step="Run `sinkproof certify` again: it writes the file whole or not at all",
        ) from error
    validate(document, source=str(path))
    return dict(document)


def validate(document: object, *, source: str = "the document") -> None:
    """Raises DocumentError with the first place where the document breaks the published schema."""
    found = document.get("schema") if isinstance(document, Mapping) else None
    if found != SCHEMA:
        raise DocumentError(
            f"{source} is not a certificate that this sinkproof reads",
            evidence=f"its schema is {found!r}, not {SCHEMA!r}",
            next_step="Read it with the sinkproof that wrote it, or certify again",
        )
    import jsonschema  # type: ignore[import-untyped, unused-ignore]

    validator = jsonschema.Draft202012Validator(schema())
    error = jsonschema.exceptions.best_match(validator.iter_errors(document))
    if error is not None:
        raise DocumentError(
            f"{source} does not keep to its schema {SCHEMA}",
            evidence=f"at {error.json_path}: {error.message[:300]}",
            next_step="If sinkproof wrote it like this, that is a bug in sinkproof: please report it",
        )


@cache
def schema() -> Document:
    """The published JSON Schema (2020-12) of the document."""
    text = resources.files(__package__ or "sinkproof.reports").joinpath("certificate.schema.json").read_text("utf-8")
    return dict(json.loads(text))


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")
