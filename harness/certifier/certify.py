"""The main command: tries the canaries, then every subject in every shell, and writes the certificate as it grows."""

from __future__ import annotations

import os
import platform
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sinkproof.campaign.fan_out.hub_connection import FanOut
from sinkproof.campaign.task import ShellOutcome, Task
from sinkproof.canaries.inside_services import INSIDE_SERVICE
from sinkproof.certifier.claim_verdicts import judge_subject, unknown_from_the_start
from sinkproof.certifier.glossary import glossary
from sinkproof.certifier.kept_or_run import kept_or_run
from sinkproof.certifier.not_examined import ended_early
from sinkproof.certifier.result_store import ResultStore, opened
from sinkproof.certifier.subject_progress import SubjectProgress
from sinkproof.certifier.task_processes import Failure
from sinkproof.chaos.clock import now, utc_now
from sinkproof.chaos.entry_points import packages, refuse_what_cannot_be_used
from sinkproof.chaos.services.spark_cluster.standalone_spark import hosts_in
from sinkproof.judging.verdict_and_exit_codes import Verdict, merge
from sinkproof.reports.certificate_file import CertificateWriter
from sinkproof.reports.document import Document, DocumentError, Measurement, ShellResult
from sinkproof.reports.progress import SILENT, Progress
from sinkproof.subject.contract import Contract, ContractError
from sinkproof.subject.loading import load, load_to_read
from sinkproof.subject.scratch import sweep_folders_of_the_dead
from sinkproof.subject.service_options import DEFAULT_SERVICES, ServiceOptions

if TYPE_CHECKING:
    from sinkproof.campaign.fan_out.fan_out_cluster import FannedOut

SHELLS: Final = ("simulated", "process", "spark")
WITHOUT_SPARK: Final = ("simulated", "process")
POINTS_LISTED_MOST: Final = 6
SLOW_SECONDS: Final = 1.0  # per schedule; with a process for each attempt, a schedule takes a tenth of it
CONTROL_SECONDS: Final = 1.0  # for each control in each shell, before a certificate
CONTROL_SECONDS_IN_FULL: Final = 5.0  # the same for `sinkproof canaries`
# The budget of `--budget least`: a campaign ends when nothing is missing any more that the verdict needs.
LEAST_SECONDS: Final = 1.0
CANARIES_UNTRIED: Final = "the canaries were not tried yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`store`: a folder that keeps results for later commands; None: nothing is kept. `fresh`: nothing that was kept
    is used.
    """

    shells: Sequence[str] = WITHOUT_SPARK
    budget_seconds: float = 30.0  # per subject and shell; more while something is missing that a verdict needs
    budget_holds: bool = False  # it is wall time of a subject in all its shells, and never exceeded
    plan_seconds: float = 0.0  # more for a user's sink in processes, until all stages are run or it is convicted
    seed: int = 0
    canaries: bool = True
    store: Path | None = None
    fresh: bool = False
    cores: int = field(default_factory=lambda: os.cpu_count() or 1)
    soak_seconds: float = 0  # random schedules per subject, in the simulated shell, after everything else
    hang_seconds: float = 10.0  # a longer call to the sink counts as hung
    master: str = "local[6,100000]"  # of Spark; a slot for each subtask of the job
    measurements: Sequence[Measurement] = ()  # shown beside the verdicts
    services: ServiceOptions = DEFAULT_SERVICES
    fan_out: str = ""  # a Spark master: its executors run a part of the schedules
    strict: bool = False  # UPHELD only if nothing is left of what was to be run


def environment() -> dict[str, Any]:
    from importlib.metadata import version

    return {
        "sinkproof": version("sinkproof"),
        "python": platform.python_version(),
        "optimized": bool(sys.flags.optimize),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        **({"registered by": packages()} if packages() else {}),
    }


def command_line(locators: Sequence[str], options: Options) -> str:
    """The command that repeats this run in the same folder."""
    words = ["sinkproof", "certify", *locators]
    if tuple(options.shells) != WITHOUT_SPARK:
        words += ["--on", options.shells[0] if len(options.shells) == 1 else "all"]
    words += ["--seed", str(options.seed)] if options.seed else []
    if options.budget_holds or options.budget_seconds == LEAST_SECONDS:
        words += ["--budget", f"{options.budget_seconds:g}s" if options.budget_holds else "least"]
    words += ["--master", options.master] if hosts_in(options.master) else []
    words += ["--fan-out", options.fan_out] if options.fan_out else []
    flags = {"--strict": options.strict, "--fresh": options.fresh, "--no-canaries": not options.canaries}
    words += [flag for flag, is_set in flags.items() if is_set]
    return shlex.join(words)


def certify(
    locators: Sequence[str],
    out: Path,
    *,
    options: Options = Options(),
    progress: Progress = SILENT,
) -> Document:
    """Certifies each subject, writes the certificate to `out` and returns it.

    Raises ContractError for a bad subject.
    """
    refuse_what_cannot_be_used()
    sweep_folders_of_the_dead()
    subjects = {locator: SubjectProgress(load_to_read(locator), strict=options.strict) for locator in locators}
    with ExitStack() as stack:
        elsewhere = None
        if options.fan_out:
            from sinkproof.campaign.fan_out.fan_out_cluster import fanned_out

            elsewhere = stack.enter_context(fanned_out(options.fan_out, locators, progress=progress))
        return _certify(subjects, out, options=options, elsewhere=elsewhere, progress=progress)


def _certify(
    subjects: Mapping[str, SubjectProgress],
    out: Path,
    *,
    options: Options,
    elsewhere: FannedOut | None,
    progress: Progress,
) -> Document:
    locators = [*subjects]
    writer = CertificateWriter(
        out,
        clock=now,
        environment={**environment(), "seed": options.seed, "budget_seconds": options.budget_seconds},
        command=command_line(locators, options),
        date=utc_now().isoformat(timespec="seconds"),
        glossary=glossary(),
    )
    for measurement in options.measurements:
        writer.measured(measurement)
    for subject in subjects.values():
        for unknown in unknown_from_the_start(subject.contract):
            progress.say(unknown)
    with _readable_when_interrupted(writer, subjects), opened(options.store, fresh=options.fresh) as store:
        tasks = _tasks(locators, options, access=elsewhere.access if elsewhere else None)
        if elsewhere:
            writer.note(elsewhere.said)
        blind = _try_everything(writer, subjects, tasks, store=store, options=options, progress=progress)
        if not options.canaries:
            writer.note("the canaries were not tried: nothing vouches for the certifier itself")
        for reason in blind:
            writer.note(reason)
        verdicts = {name: _write_verdict(writer, subject, doubts=blind) for name, subject in subjects.items()}
        if not blind:
            store.keep([task for task in tasks if verdicts.get(task.locator, Verdict.UNKNOWN) is not Verdict.UNKNOWN])
        writer.unkept(store.unkept)
        return writer.finish(merge(verdicts.values()).value)


def _try_everything(
    writer: CertificateWriter,
    subjects: Mapping[str, SubjectProgress],
    tasks: Sequence[Task],
    *,
    store: ResultStore,
    options: Options,
    progress: Progress,
) -> list[str]:
    """Writes the result of each task as it arrives. Returns why the certifier is blind; empty if it is not."""
    blind: list[str] = []
    doubts = [CANARIES_UNTRIED] if options.canaries else []
    trials = [task for task in tasks if not task.locator]

    def contract_of(task: Task) -> Contract | None:
        return subjects[task.locator].contract if task.locator else None

    if not trials:
        store.lock.close()
    given = kept_or_run(tasks, store, contract_of=contract_of, progress=progress, cores=options.cores)
    with closing(given) as results:
        for task, result in results:
            if task.locator:
                _take_subject(writer, subjects[task.locator], result, doubts=doubts)
                continue
            trials.remove(task)
            reasons = _take_canaries(writer, task, result)
            blind += reasons
            store.keep([] if reasons else [task])
            if not trials:
                store.lock.close()  # another command may use them
    if store.discarded:
        writer.note(store.discarded)
    return blind


@contextmanager
def _readable_when_interrupted(writer: CertificateWriter, subjects: Mapping[str, SubjectProgress]) -> Iterator[None]:
    """An interrupted run leaves a readable certificate: violations stand, everything else is UNKNOWN."""
    try:
        yield
    except BaseException as ending:  # Ctrl-C, SIGTERM or a defect of sinkproof
        what = "interrupted" if isinstance(ending, KeyboardInterrupt) else type(ending).__name__
        why = f"ended before it was complete: {what}"
        with suppress(DocumentError):
            known = (replace(subject, ended_before=[]) for subject in subjects.values())  # no budget has ended it
            verdicts = [_write_verdict(writer, subject, doubts=[why]) for subject in known]
            writer.ended_early(why, verdict=merge(verdicts).value)
        raise


def _tasks(locators: Sequence[str], options: Options, *, access: FanOut | None = None) -> list[Task]:
    """The subjects first, so that their findings are seen at once."""
    return [
        *(
            Task(
                locator=locator,
                shell=shell,
                budget_seconds=_seconds_of_a_shell(options, cores=1 if _state_shared_by(locator) else options.cores),
                budget_holds=options.budget_holds,
                plan_seconds=options.plan_seconds if _is_users_sink(locator) else 0.0,
                seed=options.seed,
                hang_seconds=options.hang_seconds,
                soak_seconds=options.soak_seconds if shell == "simulated" else 0,
                master=options.master,
                alone=len(options.shells) == 1,
                canaries=options.canaries,
                cores=max(1, options.cores // len(locators)),
                shares_state=_state_shared_by(locator),
                services=options.services,
                fan_out=access,
            )
            for locator in locators
            for shell in shells_of(locator, options.shells)
        ),
        *(canary_task(shell) for shell in _canary_shells(options)),
    ]


def _canary_shells(options: Options) -> list[str]:
    """Where canaries are tried before the certificate."""
    inside = [INSIDE_SERVICE] if options.services.inside_service and "process" in options.shells else []
    return [*options.shells, *inside] if options.canaries else []


def _seconds_of_a_shell(options: Options, *, cores: int) -> float:
    """A budget that holds is shared by the shells that cannot run at the same time. `cores`: for the subject's."""
    one_after_the_other = ceil(len(options.shells) / cores) if options.budget_holds else 1
    return options.budget_seconds / one_after_the_other


def _is_users_sink(locator: str) -> bool:
    contract = load(locator)
    return contract.kind == "sink" and not contract.is_ours


def _state_shared_by(locator: str) -> str:
    """The module of a user's contract that keeps something elsewhere, which may have one name in all its runs."""
    contract = load(locator)
    keeps_elsewhere = not contract.is_ours and (contract.offers("setup") or contract.offers("teardown"))
    return locator.rpartition(":")[0] if contract.kind == "foreach_batch" or keeps_elsewhere else ""


def shells_of(locator: str, shells: Sequence[str]) -> Sequence[str]:
    """The shells in which this subject can run. Raises ContractError if there is none."""
    given = load(locator).given
    can: Sequence[str] = getattr(given, "shells", SHELLS)
    if tuple(shells) == WITHOUT_SPARK and getattr(given, "every_shell_by_default", False):
        return can
    found = [shell for shell in shells if shell in can]
    if not found:
        wanted = ", ".join(shells)
        raise ContractError(f"{locator} does not run in {wanted}. Name a shell of {', '.join(can)} with --on")
    return found


def canary_task(shell: str, *, control_seconds: float = CONTROL_SECONDS) -> Task:
    return Task(locator="", shell=shell, budget_seconds=control_seconds)


def _take_canaries(writer: CertificateWriter, task: Task, result: Any) -> list[str]:
    """Writes the kill table. Returns why the certifier is blind; empty if it is not."""
    if isinstance(result, Failure):
        writer.failure(result.why, origin="ours", details=result.details)
    else:
        writer.canaries(result)
    return blindness(task, result)


def blindness(task: Task, result: Any) -> list[str]:
    """After one escaped canary or one convicted control, nothing that this certifier upholds can be trusted."""
    if isinstance(result, Failure):
        return [f"the canaries could not be tried in the {task.shell} shell: {result.why}"]
    blind = []
    for canary in result:
        if canary.convicted is canary.control:
            what = "the correct control" if canary.control else "the canary"
            how = "was convicted" if canary.control else "escaped"
            blind.append(f"{what} {canary.name!r} {how} in the {task.shell} shell: {canary.why or 'nothing was found'}")
    return blind


def _take_subject(
    writer: CertificateWriter, subject: SubjectProgress, result: ShellOutcome | Failure, *, doubts: Sequence[str]
) -> None:
    if isinstance(result, Failure):
        if result.why not in subject.unknowns:
            subject.unknowns.append(result.why)
        writer.failure(result.why, origin=result.origin, details=result.details)
    else:
        subject.shells.append(result.result)
        subject.ran(until=now(), seconds=result.result.seconds)
        subject.findings += result.findings
        subject.unknowns += [why for why in result.unknowns if why not in subject.unknowns]
        subject.deferred += [result.deferred] if result.deferred else []
        subject.lines_passed |= result.lines_passed
        subject.lines_struck |= result.lines_struck
        subject.add_code(result)
        subject.add_comparison(result)
        if result.ended_before and not result.unknowns:
            subject.ended_before.append((result.result.shell, result.ended_before))
        elif result.never_struck and not result.unknowns:
            subject.unknowns.append(_missed(result.never_struck, result.result))
    subject.shells.sort(key=lambda shell: SHELLS.index(shell.shell))
    _write_verdict(writer, subject, doubts=doubts)


def _missed(points: Sequence[str], shell: ShellResult) -> str:
    """Which points no fault struck, and what took so long."""
    some, more = ", ".join(points[:POINTS_LISTED_MOST]), len(points) - POINTS_LISTED_MOST
    why = f"in the {shell.shell} shell no fault ever struck at {some}" + (f" and {more} more" if more > 0 else "")
    each = shell.seconds / max(shell.schedules_run, 1)
    if each < SLOW_SECONDS or all(stage.finished or stage.skipped for stage in shell.stages):
        return why
    return (
        f"{why}. There was time for {shell.schedules_run} schedules, as each took {each:.1f} s. Give it a larger "
        "--budget, or name in `libraries` what each attempt takes long to import"
    )


def _write_verdict(writer: CertificateWriter, subject: SubjectProgress, *, doubts: Sequence[str] = ()) -> Verdict:
    """Writes the verdict on one subject. `doubts`: while there are any, nothing is upheld; violations stand."""
    result = judge_subject(replace(subject, unknowns=[*subject.unknowns, *ended_early(subject), *doubts]))
    writer.subject(result)
    return Verdict(result.verdict)
