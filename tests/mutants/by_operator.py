"""Every mutation that cosmic-ray knows of the files that decide, each judged by a short certification alone.

Needs cosmic-ray (`pip install cosmic-ray`), which nothing else of this project does. Each mutant lives in a process
that is forked from this one, so that nothing is imported twice; it certifies the pairs below as `sinkproof certify`
would. Killed: it is not UPHELD at the expected grade, our own assertions fail, or it never ends.
survivors.py says why a mutant survives; the command fails if one survives without a reason.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import logging
import os
import select
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping
from difflib import ndiff
from pathlib import Path
from time import process_time

from sinkproof.campaign.campaign_budget import has_least, run_campaign
from sinkproof.campaign.coverage import CONCURRENT_READER, EVERY_STEP
from sinkproof.campaign.results import CampaignResults
from sinkproof.campaign.task import Task
from sinkproof.certifier.claim_verdicts import judge_subject
from sinkproof.certifier.subject_progress import SubjectProgress
from sinkproof.judging.fault_allowances import POWER_LOSSES
from sinkproof.reports.progress import SILENT
from sinkproof.subject.claims import Claim
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import fresh_folder

sys.path.insert(0, str(Path(__file__).parent))
from survivors import SURVIVORS

ROOT = Path(__file__).resolve().parents[2]
SUBJECTS = Path(__file__).with_name("subjects.py")
FILES: Mapping[str, tuple[str, ...]] = {
    "sink_adapters/strategies/two_phase.py": (
        "memory/two-phase",
        "files/two-phase",
        f"{SUBJECTS}:TwoPhase",
        f"{SUBJECTS}:TwoPhaseUnlisted",
    ),
    "sink_adapters/strategies/write_ahead.py": (
        "memory/write-ahead-upsert",
        "files/write-ahead",
        f"{SUBJECTS}:WriteAhead",
    ),
    "sink_adapters/strategies/masked.py": ("memory/masked", f"{SUBJECTS}:Masked"),
    "reference_engine/checkpointing/coordinator.py": (
        "memory/two-phase",
        f"{SUBJECTS}:TwoPhase",
        f"{SUBJECTS}:TwoPhaseStubborn",
    ),
}
BUDGET_SECONDS = 4.0  # of this process on a processor: a busy machine changes no outcome
BUDGET_SECONDS_MOST = 20.0
LIMIT_SECONDS = 300.0  # by the clock
UNDECIDED = "undecided: it takes longer than the budget"


def mutants(code: str) -> Iterator[tuple[str, str]]:
    """(operator, mutated code), all that there are."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator, operator_names

    for name in sorted(operator_names()):
        try:
            operator = get_operator(name)()
        except TypeError:  # it needs the name of a variable
            continue
        number = 0
        while (mutated := mutate_code(code, operator, number)) is not None:
            number += 1
            if is_code(mutated) and without_annotations(mutated) != without_annotations(code):
                yield name, mutated


def is_code(text: str) -> bool:
    """Some operators take a star of an argument list for a multiplication."""
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def without_annotations(code: str) -> str:
    """The code that is executed: annotations are not evaluated here."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            if getattr(node, name, None) is not None:
                setattr(node, name, ast.Name("Any"))
    return ast.dump(tree)


def change(file: str, code: str) -> None:
    """Executes the mutated code in place of its module, also for modules that have imported something from it."""
    module = importlib.import_module("sinkproof." + file.removesuffix(".py").replace("/", "."))
    before = {
        name: value for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__
    }
    exec(compile(code, module.__file__ or file, "exec"), vars(module))
    after = {id(value): vars(module)[name] for name, value in before.items()}
    ours = [other for name, other in list(sys.modules.items()) if name.startswith("sinkproof")]
    stale = [(other, name, value) for other in ours for name, value in list(vars(other).items()) if id(value) in after]
    for other, name, value in stale:
        setattr(other, name, after[id(value)])


def judged(locator: str) -> str:
    """How the certification notices it; empty if it does not."""
    contract, task = load(locator), Task(locator=locator, shell="simulated", budget_seconds=BUDGET_SECONDS)
    contract.is_ours = True  # other processes, where findings are confirmed, import what is not mutated
    began, power = process_time(), Claim.SURVIVES_POWER_LOSS in (contract.claims | contract.claims_simulated)

    def should_stop(results: CampaignResults) -> bool:
        found = any(finding.claimed for finding in results.findings)
        watched = (EVERY_STEP, CONCURRENT_READER) in results.coverage.cells and (
            not power or {*POWER_LOSSES} & {kind for _, kind in results.coverage.cells}
        )
        spent = process_time() - began
        done = spent > BUDGET_SECONDS and bool(watched) and has_least(results, task)
        return found or done or spent > BUDGET_SECONDS_MOST

    folder = fresh_folder()
    try:
        outcome = run_campaign(contract, task, folder=folder, progress=SILENT, should_stop=should_stop)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if process_time() - began > BUDGET_SECONDS_MOST and not any(finding.claimed for finding in outcome.findings):
        return UNDECIDED
    unknowns = [*outcome.unknowns, *(f"never struck: {step}" for step in outcome.never_struck)]
    course = SubjectProgress(contract, [outcome.result], list(outcome.findings), unknowns)
    result = judge_subject(course)
    if result.verdict == "upheld" and result.grade == contract.grade:
        return ""
    return f"{result.verdict} {result.grade}: {result.why}"


def try_one(file: str, code: str) -> str:
    """In a process of its own, which may hang."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        how = ""
        try:
            change(file, code)
            for locator in FILES[file]:
                how = how or judged(locator)
        except BaseException as error:  # whatever a mutant makes of our code is a way of being noticed
            how = f"{type(error).__name__}: {error}"
        os.write(writing, how.encode()[:2000])
        os._exit(0)
    os.close(writing)
    ready, _, _ = select.select([reading], [], [], LIMIT_SECONDS)
    how = os.read(reading, 4000).decode(errors="replace") if ready else f"no verdict within {LIMIT_SECONDS:.0f} s"
    os.close(reading)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return how


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", default=[*FILES])
    parser.add_argument("--every", type=int, default=1, help="only each n-th mutant")
    parser.add_argument("--json", dest="kept", type=Path, help="all outcomes go into this file")
    chosen = parser.parse_args()
    logging.disable()
    kept, unexplained = [], 0
    for file in chosen.files:
        code = (ROOT / file).read_text()
        if how := try_one(file, code):
            print(f"the unchanged {file} does not pass, so nothing can be said of its mutants: {how}")
            return 1
        killed = survived = undecided = 0
        for number, (operator, mutated) in enumerate(mutants(code)):
            if number % chosen.every:
                continue
            how = try_one(file, mutated)
            undecided += how == UNDECIDED
            killed, survived = killed + (how not in ("", UNDECIDED)), survived + (not how)
            lines = [line for line in ndiff(code.splitlines(), mutated.splitlines()) if line[:2] in ("- ", "+ ")]
            kept.append({"file": file, "operator": operator, "lines": lines, "how": how})
            if not how:
                why = SURVIVORS.get(file, {}).get(lines[0].removeprefix("- ").strip(), "")
                unexplained += not why
                print("\n  ".join([f"SURVIVED {file} {operator}: {why or 'no reason is known'}", *lines]), flush=True)
        print(f"{file}: {killed} of {killed + survived} killed, {undecided} undecided", flush=True)
        if chosen.kept is not None:
            chosen.kept.write_text(json.dumps(kept, indent=1))
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
