"""Why no claim of a subject can be upheld, although nothing was found: what was not examined."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from pathlib import Path
from typing import Final

from sinkproof.campaign.campaign_budget import plan_of
from sinkproof.campaign.coverage import lines_to_strike, too_few_struck
from sinkproof.certifier.subject_progress import SubjectProgress, kinds_at_lines, statements_never_run
from sinkproof.certifier.time_not_examined import CALLED, always_at_true_time, expiring
from sinkproof.reports.document import OutwardCalls, ShellResult
from sinkproof.subject.source_files import source_line, users_files
from sinkproof.subject.static_analysis.bounded_loops import loops_that_give_up
from sinkproof.subject.static_analysis.reachable_lines import (
    MARK,
    Duty,
    lines_of_handlers,
    statements_that_suppress,
    statements_that_swallow,
)
from sinkproof.subject.static_analysis.shared_mappings import shared_mappings_in

FAULT_WORDS: Final = {"kill": "struck", "stop": "struck by a stop", "pause": "struck by a pause"}
NO_CALL: Final = (
    "no error was tried at calls to the target, because none is known: name them by context.reach(), see CONTRACT.md"
)
NO_CALL_OF_FUNCTION: Final = (
    "no error was tried at calls to the outside, because none is known: errors strike Spark's jobs, files, SQLite, and "
    "what Python sends over TCP, by `socket` or `ssl`"
)
INTERIOR_UNSEEN: Final = (
    "this command died and stopped between requests and replies only: what a death inside its calls leaves was not "
    "examined"
)
KEPT_ELSEWHERE: Final = (
    "it changes files outside of its folder that other runs find as it leaves them, so that no run shows what happens "
    "without them; keep all of it below SINKPROOF_SCRATCH:"
)
NO_OUTWARD_CALL: Final = (
    "no system call was seen that changes its folder or sends to a socket, so how its rows get out is not known"
)
INTERIOR_OF_NATIVE_CODE: Final = "interior of native code not explored"
RESERVE: Final = 3.0  # the schedules that are left may take longer than those before, and may lead to others


def not_examined(subject: SubjectProgress) -> str:
    """What was left out of the examination, so that no claim can be upheld; empty if nothing was."""
    reasons = [
        _unseen_interior(subject),
        _unseen_inside_service(subject),
        _left_over(subject),
        _never_asked_to_end(subject),
        _never_struck_code(subject),
        _never_run(subject),
        _never_run_out(subject),
        _unstruck(subject),
        _unstruck_children(subject),
        _unfailed(subject),
        _swallowed(subject),
        expiring(subject),
        always_at_true_time(subject),
        _mapped(subject),
        _left_if_strict(subject),
    ]
    return "; ".join(reason for reason in reasons if reason)


def ended_early(subject: SubjectProgress) -> Iterator[str]:
    """In which shell the budget left out a stage without which nothing is upheld."""
    for shell, stage in subject.ended_before:
        yield (
            f"the budget ended in the {shell} shell before its stage {stage!r}; give it a larger --budget: "
            f"{_budget_for(subject)} should suffice"
        )


def beside_upheld(subject: SubjectProgress) -> Iterator[str]:
    """What is said beside UPHELD."""
    if left := len(statements_never_run(subject, Duty.EXCEPTIONAL)):
        yield f"statements for exceptions that never ran: {left}"
    if subject.contract.kind == "sink" and not (subject.contract.is_ours or subject.calls_passed):
        yield NO_CALL
    yield from _alone_on_its_target(subject)
    if subject.contract.kind == "foreach_batch":
        yield from (f"{name} names SIGTERM, which no driver got" for name in _files_naming(subject, b"SIGTERM"))
    for shell in subject.shells:
        if shell.outward is not None and shell.outward.native and shell.outward.unwatched:
            yield f"{INTERIOR_OF_NATIVE_CODE}: {shell.outward.unwatched}"
        if shell.outward is not None and shell.outward.peers:
            yield (
                f"what {', '.join(shell.outward.peers)} did inside with what it was sent was not examined, nor what "
                "expires there: its clock was not moved"
            )


def _alone_on_its_target(subject: SubjectProgress) -> Iterator[str]:
    """Names that a sink makes of its `sink_id` keep it apart from others, or do not: no job had two."""
    contract = subject.contract
    if contract.kind != "sink" or contract.is_ours or contract.offers("second_sink"):
        return
    for name in _files_naming(subject, b"sink_id"):
        yield f"{name} names sink_id, and no second sink wrote to the same target: the contract has no second_sink"


def _unseen_interior(subject: SubjectProgress) -> str:
    """What may have changed outside of a sink without a death before it; empty if nothing."""
    outward = next((shell.outward for shell in subject.shells if shell.outward is not None), None)
    if subject.contract.kind != "command":
        return _unseen_native_code(subject, outward)
    if outward is None:
        return NO_OUTWARD_CALL
    if outward.unwatched:
        return f"{INTERIOR_UNSEEN}, because {outward.unwatched}"
    if outward.unseen:
        return f"changes outside may have been missed: {'; '.join(outward.unseen)}"
    if outward.kept_elsewhere:
        return f"{KEPT_ELSEWHERE} {', '.join(outward.kept_elsewhere)}"
    if not outward.calls:
        return NO_OUTWARD_CALL
    if outward.left_total:
        return (
            f"{outward.left_total} faults at outward calls did not strike, such as {outward.left[0]}; give it a larger "
            f"--budget: {_budget_for(subject)} may suffice"
        )
    return ""


def _unseen_inside_service(subject: SubjectProgress) -> str:
    """What was not struck of a service that was to be killed inside; empty if nothing."""
    inside = next((shell.inside for shell in subject.shells if shell.inside is not None), None)
    if inside is None:
        return ""
    if inside.unwatched:
        return f"the service was to be killed inside, and was not, because {inside.unwatched}"
    if not inside.calls:
        return f"{inside.service} was to be killed inside, and no outward call of its data folder was seen"
    if inside.not_back:
        return f"{inside.service} did not start again, and what it has kept is not known: {inside.not_back[0]}"
    if inside.left_total:
        return f"{inside.service} was not killed before {inside.left_total} of its calls, such as {inside.left[0]}"
    return ""


def _unseen_native_code(subject: SubjectProgress, outward: OutwardCalls | None) -> str:
    """Libraries that others have written are taken for what they are where the kernel offers no watch; the user's own
    native code is not.
    """
    if outward is None:
        return ""
    if outward.unwatched and outward.native_modules:
        return f"{INTERIOR_OF_NATIVE_CODE} ({', '.join(outward.native_modules)}), because {outward.unwatched}"
    if outward.left_total:
        return (
            f"{outward.left_total} of {outward.calls} kills before outward calls of native code did not strike, such "
            f"as {outward.left[0]}; give it a larger --budget: {_budget_for(subject)} may suffice"
        )
    return ""


def _unstruck(subject: SubjectProgress) -> str:
    """Why too few executed lines were crashed; empty if enough were. A sink's bug sits between two of its lines."""
    after_errors = lines_of_handlers(subject.own_code.files)
    is_function = subject.contract.kind == "foreach_batch"
    by_kind = {"kill": subject.lines_struck}
    if not subject.contract.is_ours:
        by_kind = {kind: subject.lines_by_kind[kind] for kind in kinds_at_lines(subject)}
    for kind, struck in by_kind.items():
        lines = lines_to_strike(subject.lines_passed, kind, after_errors=after_errors, of_function=is_function)
        if left := too_few_struck(lines, struck):
            return (
                f"{len(left)} of {len(lines)} executed lines were not {FAULT_WORDS[kind]} in any shell, such as "
                f"{left[0]}; give it a larger --budget: {_budget_for(subject)} should suffice"
            )
    return ""


def _unstruck_children(subject: SubjectProgress) -> str:
    """Where the kernel offers no watch, nothing strikes a process that an attempt has forked."""
    left = sorted(subject.lines_of_children - subject.lines_passed)
    whys = [shell.outward.unwatched for shell in subject.shells if shell.outward is not None]
    if not left or "" in whys:
        return ""
    return f"{left[0]} is executed by a forked child, of which nothing was struck{''.join(f': {w}' for w in whys[:1])}"


def _unfailed(subject: SubjectProgress) -> str:
    """Which kinds of calls to the target never failed; empty if each did, before its effect and after it."""
    left = sorted(subject.calls_passed - subject.calls_failed)
    if not left or subject.contract.is_ours or subject.contract.kind not in CALLED:
        return ""
    point, kind = left[0]
    side = "before" if kind == "error" else "after"
    more = f" and {len(left) - 1} more" if left[1:] else ""
    if subject.contract.kind == "foreach_batch":
        return f"no error was tried {side} the call at {point}{more}; run it --on simulated as well"
    return (
        f"no error was tried {side} the call at {point}{more}; give it a larger --budget: {_budget_for(subject)} may "
        "suffice"
    )


def _swallowed(subject: SubjectProgress) -> str:
    """Where errors may be swallowed of calls that no fault knows; empty if a call is known, or nothing is swallowed."""
    if subject.calls_passed or subject.contract.is_ours or subject.contract.kind not in CALLED:
        return ""
    swallowing = statements_that_swallow(subject.own_code.files)
    no_call = NO_CALL if subject.contract.kind == "sink" else NO_CALL_OF_FUNCTION
    for point in statements_never_run(subject, Duty.EXCEPTIONAL):
        if point in swallowing:
            return f"{no_call}; and {point}, which handles an error and raises none, never ran"
    for point in sorted(statements_that_suppress(subject.own_code.files) & subject.lines_passed):
        return f"{no_call}; and {point} suppresses errors"
    return ""


def _mapped(subject: SubjectProgress) -> str:
    """Where its own code stores in mapped files; empty if nowhere."""
    if subject.contract.is_ours or subject.contract.kind not in CALLED:
        return ""
    for place in shared_mappings_in(subject.own_code.files, subject.lines_passed):
        return (
            f"{place} maps a file to write through memory: what a death in the middle of one statement leaves of its "
            "bytes was not examined. Write them by calls such as os.pwrite, which are struck"
        )
    return ""


def _left_if_strict(subject: SubjectProgress) -> str:
    """What `--strict` asks for besides: every statement, each kind at every executed line, each stage to its end."""
    if not subject.strict:
        return ""
    handlers = statements_never_run(subject, Duty.EXCEPTIONAL)
    unstruck = sorted(
        line
        for line in subject.lines_passed
        if any(line not in subject.lines_by_kind[kind] for kind in kinds_at_lines(subject))
    )
    stages = [
        f"{stage.name} ({shell.shell} shell)"
        for shell in subject.shells
        for stage in shell.stages
        if not (stage.finished or stage.skipped)
    ]
    left = (
        ("statements for exceptions never ran", handlers),
        ("executed lines were not killed, stopped and paused each", unstruck),
        ("stages were not run to their end", stages),
    )
    parts = [f"{len(names)} {what}, such as {names[0]}" for what, names in left if names]
    return f"--strict: {'; '.join(parts)}; give it a larger --budget" if parts else ""


def _never_asked_to_end(subject: SubjectProgress) -> str:
    """Where its code may handle SIGTERM; empty if the process shell has looked, which sees whether it does."""
    if subject.contract.kind != "sink" or any(shell.shell == "process" for shell in subject.shells):
        return ""
    files = _files_naming(subject, b"SIGTERM")
    return next((f"{name} names SIGTERM, which no process got; run it --on process as well" for name in files), "")


def _files_naming(subject: SubjectProgress, word: bytes) -> Iterator[str]:
    return (name for path, name in subject.own_code.files.items() if word in Path(path).read_bytes())


def _never_struck_code(subject: SubjectProgress) -> str:
    """Which of the classes and functions that the user gave has no line that was a point; empty if each has one."""
    passed = {line.removeprefix("line(").rpartition(":")[0] for line in subject.lines_passed}
    for name, files in subject.own_code.given.items():
        if not files:
            return (
                f"{name} has no Python file that is struck (`not_struck` takes it out, or it is native), so nothing "
                "was injected inside it: between two of its calls only. Name the Python packages that do the work in "
                "`packages`, if there are any"
            )
        if passed.isdisjoint(file.replace(" ", "%20") for file in files):
            return f"none of the lines of {name} ({', '.join(files)}) was a point; run it --on process as well"
    return ""


def _never_run(subject: SubjectProgress) -> str:
    """Which statements that a call can lead to no run has executed; empty if each was."""
    left = statements_never_run(subject, Duty.NORMAL)
    if not left:
        return ""
    others = f" and {len(left) - 1} more" if left[1:] else ""
    return (
        f"no run has executed {_place(left[0], subject)}{others}, to which calls of the sink can lead: what it does "
        "was not examined. Let the contract reach it with smaller limits, take its module out by `not_struck`, or mark "
        f"it `# {MARK}`"
    )


def _never_run_out(subject: SubjectProgress) -> str:
    """Which loop gives up silently after a number of tries, and never did; empty if none."""
    if subject.contract.is_ours or subject.contract.kind != "sink":
        return ""
    loops = loops_that_give_up(users_files(subject.own_code))
    for head in sorted((loops.keys() & subject.lines_passed) - subject.loops_run_out):
        return (
            f"{_place(head, subject)} goes on silently when it has tried often enough, and no run let it come to that: "
            f"what is lost then was not examined. Raise an error there, or mark the line `# {MARK}`"
        )
    return ""


def _place(point: str, subject: SubjectProgress) -> str:
    line = source_line(point, subject.own_code.files)
    return point if line is None else f"{line.file}:{line.number} ({line.text})"


def _budget_for(subject: SubjectProgress) -> str:
    """From the rate of the shell with real deaths: for what is left of its bound, for each line and kind, and for the
    stages without which it does not end, as long as those before were. All shells share a budget.
    """
    shell = max(subject.shells, key=lambda shell: (shell.kills_judged > 0, shell.seconds))
    lines = sum(len(subject.lines_passed - struck) for struck in subject.lines_by_kind.values())
    begun = [stage.run for stage in shell.stages if stage.run]
    left = lines + shell.schedules_in_bound - shell.schedules_judged
    left += ceil(len(_required_and_not_begun(shell)) * sum(begun) / max(len(begun), 1))
    seconds = sum(each.seconds for each in subject.shells) * (1 + RESERVE * left / max(shell.schedules_run, 1))
    return f"{ceil(seconds / 10) * 10}s"


def _required_and_not_begun(shell: ShellResult) -> list[str]:
    plan = plan_of(shell.shell)
    last = max((number for number, stage in enumerate(plan, 1) if stage.required), default=0)
    done = {stage.name for stage in shell.stages if stage.run or stage.finished or stage.skipped}
    planned = {stage.name for stage in shell.stages}
    return [stage.name for stage in plan[:last] if stage.name in planned - done]


def _left_over(subject: SubjectProgress) -> str:
    """Why crashes that the simulated shell deferred are still missing. Only real kills can replace them."""
    if not subject.deferred or any(shell.kills_judged for shell in subject.shells):
        return ""
    real = "spark" if subject.contract.kind == "foreach_batch" else "process"
    ran = any(shell.shell == real for shell in subject.shells)
    return subject.deferred[0] + ("" if ran else f"; run it --on {real} as well")
