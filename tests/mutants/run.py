"""`make mutants`: one-line breakages of the engine and the strategies, each of which a certification must notice.

A mutant is the package in a folder of its own with one line changed. `sinkproof certify` runs on it (no unit test
does), simulated or on Spark, with the canaries off: what must notice it is the certification of the registry.
A mutant is caught when the run is not UPHELD at the expected grade. Survivors fail the command.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from mutant import Mutant
from mutant_list import MUTANTS

ROOT = Path(__file__).resolve().parents[2]
PARTS = {
    "harness": "",
    "chaos": "chaos",
    "reference_engine": "reference_engine",
    "sink_adapters": "sink_adapters",
    "reports": "reports",
}
BUDGETS = ("2s", "20s")  # most are noticed at once; survivors are certified again for longer
LIMIT_SECONDS = 240


@dataclass(frozen=True)
class Outcome:
    mutant: Mutant
    caught: bool
    how: str


def lay_out(folder: Path) -> Path:
    """The package as it is imported: harness at the top, the other folders below it."""
    package = folder / "sinkproof"
    for part, place in PARTS.items():
        shutil.copytree(ROOT / part, package / place, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    return package


def place_of(package: Path, file: str) -> Path:
    top, _, rest = file.partition("/")
    return package / PARTS[top] / rest


def apply(package: Path, mutant: Mutant) -> str | None:
    """Changes the one line; says what is wrong with the mutant if its line is not there exactly once."""
    path = place_of(package, mutant.file)
    text = path.read_text()
    if text.count(mutant.old) != 1:
        return f"{mutant.file} holds {mutant.old!r} {text.count(mutant.old)} times, not once"
    path.write_text(text.replace(mutant.old, mutant.new))
    return None


def certify(folder: Path, subjects: tuple[str, ...], *, shell: str, budget: str) -> tuple[int, str]:
    """Exit status of a certification of these subjects by the package in the folder, and what it says."""
    command = [sys.executable, "-m", "sinkproof", "certify", *subjects, "--on", shell, "--no-canaries"]
    command += ["--quiet", "--fresh", "--budget", budget, "--out", str(folder / "out"), "--json"]
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False
    )
    return done.returncode, done.stdout or done.stderr


def describe(status: int, said: str) -> str:
    if status not in (0, 1, 2):
        return f"exit status {status}: {said.strip().splitlines()[-1] if said.strip() else 'it said nothing'}"
    document = json.loads(said)
    for subject in document["subjects"]:
        if subject["verdict"] != "upheld":
            first = next((finding for finding in subject["findings"] if finding["claimed"]), None)
            how = f"{first['oracle']} [{first['schedule']}]" if first else subject["why"]
            return f"{subject['verdict']} {subject['name']}: {how}"
        if subject["grade"] != subject["expected_grade"]:
            return f"{subject['name']} measured {subject['grade']}, expected {subject['expected_grade']}"
    return ""


def budgets(shell: str) -> tuple[str, ...]:
    """On Spark a short one ends before it began."""
    return BUDGETS if shell == "simulated" else BUDGETS[-1:]


def try_mutant(mutant: Mutant) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="sinkproof-mutant-") as name:
        folder = Path(name)
        wrong = apply(lay_out(folder), mutant)
        if wrong:
            return Outcome(mutant, False, f"NOT APPLIED: {wrong}")
        how = ""
        for budget in budgets(mutant.shell):
            try:
                how = how or describe(*certify(folder, mutant.subjects, shell=mutant.shell, budget=budget))
            except subprocess.TimeoutExpired:
                how = f"no verdict within {LIMIT_SECONDS} s"
        return Outcome(mutant, bool(how), how or "SURVIVED")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="only mutants with one of these words in their name")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    chosen = parser.parse_args()
    mutants = [each for each in MUTANTS if not chosen.names or any(word in each.name for word in chosen.names)]
    for shell in sorted({mutant.shell for mutant in mutants}):
        subjects = tuple(sorted({subject for each in mutants if each.shell == shell for subject in each.subjects}))
        with tempfile.TemporaryDirectory(prefix="sinkproof-mutant-") as name:
            lay_out(Path(name))
            unchanged = describe(*certify(Path(name), subjects, shell=shell, budget=budgets(shell)[0]))
        if unchanged:
            print(f"the unchanged package does not pass, so mutants cannot be judged: {unchanged}")
            return 1
    survivors = 0
    with ThreadPoolExecutor(chosen.jobs) as pool:
        for outcome in pool.map(try_mutant, mutants):
            survivors += not outcome.caught
            mark = "caught  " if outcome.caught else "SURVIVED"
            print(f"{mark} {outcome.mutant.name}: {outcome.how[:150]}", flush=True)
    print(f"{len(mutants) - survivors} of {len(mutants)} mutants caught")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
