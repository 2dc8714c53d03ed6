"""Sentences that stand beside a verdict: the sizes it holds for, the lines that never ran, what was left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from sinkproof.reports.document import Document
from sinkproof.reports.report_facts import Totals, beside, count, is_done, plural

LINES_LISTED_MOST: Final = 12
STAGES_NAMED: Final = 3  # of those that were not reached
LINES_BESIDE: Final = {  # key of a file's coverage -> what its line numbers are
    "of_children": "executed by forked children, of which only system calls were struck",
    "never_run": "never ran",
    "handlers_never_run": "handle or raise exceptions, and never ran",
    "excluded": "left out by a mark",
}
SIZES: Final[Sequence[Mapping[str, str]]] = (  # a line each: key of the bounds -> noun
    {"sources": "source subtask", "sinks": "sink subtask", "rows": "row", "bytes": "byte", "keys": "key"},
    {"checkpoints": "checkpoint", "checkpoints_pending": "pending checkpoint", "restarts": "restart"},
)
WALL: Final = "wall clock"
NOT_REACHED: Final = "not reached"


def beside_the_verdict(subject: Document) -> list[str]:
    """What every report says of a subject, whatever its verdict."""
    return [*bounds_lines([subject]), *code_lines(subject), *caveat_lines(subject)]


def bounds_lines(subjects: Iterable[Document]) -> list[str]:
    """The sizes that every verdict on these subjects holds for, in three lines; none where nothing was run.

    Each is the largest of some run: there may be none with all of them.
    """
    largest = [bounds for bounds in map(_largest, subjects) if bounds]
    if not largest:
        return []
    least = {key: min(each[key] for each in largest) for key in largest[0] if key != "clocks"}
    clocks = [moved for moved in largest[0]["clocks"] if all(moved in each["clocks"] for each in largest)]
    parts = [[plural(least[key], noun) for key, noun in line.items() if least[key]] for line in SIZES]
    first, second = (", ".join(part) for part in parts)
    return [
        f"holds for up to {first}, each in some run",
        *([f"and up to {second}, each in some run"] if second else []),
        f"clocks moved: {_clocks_text(clocks)}",
    ]


def _clocks_text(moved: Iterable[str]) -> str:
    """`moved`: a clock, and the job or the fault that moves it, as in "context.clock: outage"."""
    by: dict[str, list[str]] = {}
    for clock, how in (each.split(": ", 1) for each in moved):
        by.setdefault(clock, []).append(how)
    parts = [f"{clock} ({', '.join(how)})" for clock, how in by.items()]
    return "; ".join([*parts, *([] if WALL in by else [f"the {WALL} never"])])


def _largest(subject: Document) -> Document:
    """Of all its shells."""
    found = [shell["bounds"] for shell in subject["shells"] if shell["bounds"] and shell["bounds"]["rows"]]
    if not found:
        return {}
    sizes = {key: max(each[key] for each in found) for line in SIZES for key in line}
    return {**sizes, "clocks": list(dict.fromkeys(moved for each in found for moved in each["clocks"]))}


def caveats(subject: Document) -> Mapping[tuple[str, str], str]:
    """What of the bound was left out, by shell and stage. A campaign that ends sooner has all of these, and more."""
    return {
        (shell["shell"], stage["name"]): stage_coverage(stage)
        for shell in subject["shells"]
        for stage in shell["stages"]
        if not is_done(stage)
    }


def caveat_lines(subject: Document) -> list[str]:
    """What was not compared, what an earlier command has run, and one for each shell."""
    left: dict[str, tuple[list[str], list[str]]] = {}
    for (shell, stage), how in caveats(subject).items():
        begun, others = left.setdefault(shell, ([], []))
        if how == NOT_REACHED:
            others.append(stage)
        else:
            begun.append(f"{stage} ({how})")
    compared = [subject["not_compared"]] if subject["not_compared"] else []
    kept = [
        f"{plural(shell['schedules_run'], 'schedule')} run in the {shell['shell']} shell, and "
        f"{count(shell['schedules_kept'])} kept since {shell['kept_since']}"
        for shell in subject["shells"]
        if shell["kept_since"]
    ]
    return [*compared, *kept] + [
        f"not run to the end, {shell} shell: {'; '.join(begun)}{'. ' if begun and others else ''}"
        f"{'Not reached: ' if others else ''}{_first_of(others)}"
        for shell, (begun, others) in left.items()
    ]


def _first_of(stages: Sequence[str]) -> str:
    """The page and the certificate have all of them."""
    more = len(stages) - STAGES_NAMED
    named = "; ".join(stages[: STAGES_NAMED if more > 1 else None])
    return f"{named}; and {plural(more, 'further stage')}" if more > 1 else named


def code_lines(subject: Document) -> list[str]:
    """One sentence for each file of a user's sink: what was struck there, and what never ran. Of a command: at which of
    its system calls. Of a long job: how many faults it survived.
    """
    sentences = [line for shell in subject["shells"] for line in shell["long_jobs"]]
    sentences += [line for shell in subject["shells"] if shell["outward"] for line in _outward_lines(shell["outward"])]
    sentences += [line for shell in subject["shells"] if shell["inside"] for line in _inside_lines(shell["inside"])]
    sentences += [_power_line(shell["power"]) for shell in subject["shells"] if shell["power"]]
    for file in subject["code"]:
        struck = ", ".join(f"{count(file[kind])} {kind}" for kind in ("killed", "stopped", "paused"))
        struck += f", {count(file['covered'])} covered by an equal crash" if file["covered"] else ""
        parts = [f"{file['file']}: {plural(file['executed'], 'line')} executed, {struck}"]
        parts += [f"{what}: {_line_numbers(file[key])}" for key, what in LINES_BESIDE.items() if file.get(key)]
        sentences.append("; ".join(parts))
    return sentences


def _outward_lines(outward: Document) -> list[str]:
    calls = _each(outward["killed"], outward["calls"], "outward call")
    if outward["native"]:
        calls += " made by native code"
        calls += f" ({count(outward['calls_alike'])} more are the same ones again)" if outward["calls_alike"] else ""
    more = outward["recovery_calls"]
    recoveries = f", and of their recoveries' {count(more)}" if more else ""
    if outward["recovery_killed"] < more:
        recoveries = f", and {count(outward['recovery_killed'])} of their recoveries' {count(more)}"
    others = [f"{kind} at {count(names)}" for kind, names in outward["struck"].items() if kind != "kill" and names]
    faults = f"; of {plural(len(outward['names']), 'different call')}: {', '.join(others)}" if others else ""
    lines = [f"killed before {calls}{recoveries}{faults}"] if outward["calls"] else []
    unwatched = "interior of native code not explored" if outward["native"] else "system calls were not watched"
    lines += [f"{unwatched}: {outward['unwatched']}"] if outward["unwatched"] else []
    elsewhere = ", ".join(outward["elsewhere"])
    lines += [f"among them what it changes outside of its folder: {elsewhere}"] if elsewhere else []
    peers = ", ".join(outward["peers"])
    lines += [f"it connects to {peers}, where nothing was struck inside, and no clock moved"] if peers else []
    return [*lines, *outward["unseen"]]


def _inside_lines(inside: Document) -> list[str]:
    """Of an external system that was killed between two of its own writes."""
    if inside["unwatched"]:
        return [f"the service was not killed inside: {inside['unwatched']}"]
    steps = ", ".join(f"{step} {count(calls)}" for step, calls in inside["steps"].items())
    calls, restart = _each(inside["killed"], inside["calls"], "outward call"), inside["restart_calls"]
    settings = f" with {', '.join(inside['settings'])}" if inside["settings"] else ""
    lines = [
        f"{inside['service']}{settings} killed before {calls} between a request to pre-commit, commit or abort and its "
        f"settlement ({steps})"
    ]
    if restart:
        different = f"; different ones: {count(len(inside['restart_names']))}"
        lines[0] += f", and before {_each(inside['restart_killed'], restart, 'outward call')} of its restart{different}"
    if inside["left_total"]:
        lines.append(f"not met again: {', '.join(inside['left'])}, of {count(inside['left_total'])} in all")
    if inside["not_back"]:
        lines.append(f"it did not start again after {plural(inside['not_back_total'], 'run')}: {inside['not_back'][0]}")
    if inside["background"]:
        lines.append(f"not killed before what it does without a request: {', '.join(inside['background'])}")
    return [*lines, *inside["unseen"]]


def _power_line(power: Document) -> str:
    if power["unwatched"]:
        return f"no power was lost: {power['unwatched']}"
    losses = _each(power["struck"], power["losses"], "place")
    return (
        f"power lost at {losses}, in {plural(len(power['kinds']), 'order')} of writing; {count(power['took'])} times "
        "something was gone that was not forced"
    )


def _each(done: int, whole: int, noun: str) -> str:
    return f"each of {plural(whole, noun)}" if done >= whole else f"{count(done)} of {plural(whole, noun)}"


def _line_numbers(numbers: Sequence[int]) -> str:
    more = len(numbers) - LINES_LISTED_MOST
    listed = ", ".join(map(str, numbers[:LINES_LISTED_MOST]))
    return f"{listed} and {more} more" if more > 0 else listed


def stage_coverage(stage: Document) -> str:
    """How far a stage of a campaign came: `14`, `14 of 20`, `14 so far`, or why it was skipped."""
    run, planned = stage["run"], stage["planned"]
    if stage["skipped"]:
        return f"skipped: {stage['skipped']}"
    if stage["finished"]:
        return count(run) if run else "nothing to run"
    if not run:
        return stage["cut"] or NOT_REACHED
    far = f"{count(run)} of {count(planned)}" if run < planned else f"{count(run)} so far; more are found as it runs"
    return f"{count(run)} run: {stage['cut']}" if stage["cut"] else far


def schedules_text(numbers: Totals) -> str:
    """There is no "of": states and schedules are found while a campaign runs."""
    judged = beside(numbers.schedules_run, numbers.schedules_kept)
    return judged if numbers.is_whole else f"{judged} so far"


def points_text(numbers: Totals) -> str:
    more = f" (+{numbers.points_covered} equal)" if numbers.points_covered else ""
    return f"{numbers.points_reached}/{numbers.points_total} found{more}"


def closure_facts(closure: Document) -> list[str]:
    """What the document says of a closure besides its sentence: depth, audits and other keys."""
    details = [
        f"{name.replace('_', ' ')} {_plain_value(value)}"
        for name, value in closure.items()
        if name not in ("states", "complete", "why", "of", "sentence") and value not in (None, "", [], {})
    ]
    return [plural(closure["states"], "state"), "complete" if closure["complete"] else "not complete", *details]


def closure_lines(document: Document) -> list[str]:
    """How many closures are complete, by kind of fault and sentence; of the others, depth and why they stopped."""
    complete: dict[tuple[str, str], list[Document]] = {}
    open_ends: dict[str, list[str]] = {}
    for subject in document["subjects"]:
        for closure in (closure for shell in subject["shells"] for closure in shell["closures"]):
            if closure["complete"]:
                complete.setdefault((closure["of"], closure["sentence"]), []).append(closure)
            else:
                depth = f"depth {closure['depth']}, " if closure["depth"] else ""
                why = closure["why"] or "no reason given"
                open_ends.setdefault(closure["of"], []).append(f"{subject['name']} ({depth}{why})")
    lines = [
        f"{plural(len(group), 'closure')} of {of} complete, "
        f"{plural(sum(closure['states'] for closure in group), 'state')}{': ' if sentence else ''}{sentence}"
        for (of, sentence), group in complete.items()
    ]
    return lines + [f"not complete, of {of}: {'; '.join(each)}" for of, each in open_ends.items()]


def _plain_value(value: object) -> str:
    return ", ".join(map(_plain_value, value)) if isinstance(value, list) else str(value)
