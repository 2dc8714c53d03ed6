"""`python tests/harness/explain/run_row_mutants.py [S07 ...]`: each row's mutant must show, and fail tests.

A mutant is a copy of the package with one line changed. `sinkproof explain ROW --json` must print another document with
it than with the unchanged package (or end with another status), and at least one test that is marked with the row must
fail. A mutant that survives fails the command.
"""

from __future__ import annotations

import argparse
import ast
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TESTS / "mutants"), str(Path(__file__).parent)]
from row_mutants import MUTANTS  # noqa: E402
from run import ROOT, apply, lay_out, place_of  # noqa: E402

LIMIT_SECONDS = 600
LEFT_OUT = ("spark", "bench", "soak", "kafka", "services")  # folders of tests that need more than this process


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}


def explained(folder: Path, row: str) -> tuple[int, str]:
    """Exit status and document of `explain ROW --json` by the package in the folder."""
    command = [sys.executable, "-m", "sinkproof", "explain", row, "--json"]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    return done.returncode, done.stdout


def tests_of(row: str) -> Iterator[str]:
    """Ids of the tests that are marked with the row."""
    for file in sorted(TESTS.rglob("test_*.py")):
        if file.relative_to(TESTS).parts[0] in LEFT_OUT:
            continue
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            marks = {ast.unparse(mark) for mark in getattr(node, "decorator_list", ())}
            if isinstance(node, ast.FunctionDef) and f"pytest.mark.row('{row}')" in marks:
                yield f"{file}::{node.name}"


def failing(folder: Path, tests: list[str]) -> str:
    """The first test that fails with the package in the folder; nothing if none does."""
    if not tests:
        return ""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=no"]
    command += ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), *tests]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    if done.returncode == 0:
        return ""
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return (
        failed[0].split(" - ")[0].split()[1] if failed else f"pytest ended with {done.returncode}: {done.stdout[-200:]}"
    )


def try_row(row: str) -> tuple[str, bool]:
    """What happened to the row's mutant, in words, and whether both `explain` and a test noticed it."""
    with tempfile.TemporaryDirectory(prefix="sinkproof-mutant-") as name:
        folder = Path(name)
        package = lay_out(folder)
        unchanged = explained(folder, row)
        if unchanged[0] != 0:
            return f"the unchanged package does not explain it: status {unchanged[0]}", False
        changed = place_of(package, MUTANTS[row].file)
        original = changed.read_text()
        wrong = apply(package, MUTANTS[row])  # type: ignore[arg-type]
        if wrong:
            return f"NOT APPLIED: {wrong}", False
        status, document = explained(folder, row)
        shown = f"status {status}" if status else "another document" if document != unchanged[1] else ""
        every = list(tests_of(row))
        engine_tests = [test for test in every if "/explain/" not in test]
        first = ""
        for tests in (engine_tests, [test for test in every if test not in engine_tests]):
            found = first or failing(folder, tests)
            if found and not first:
                mutated = changed.read_text()
                changed.write_text(original)
                first = (
                    "" if failing(folder, [str(folder / found)]) else found
                )  # a test that fails without the mutant, too, does not count
                changed.write_text(mutated)
    seen = f"explain: {shown or 'UNCHANGED'}; tests: {first or 'NONE FAILS'}"
    return seen, bool(shown and first)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", help="only these rows")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    chosen = parser.parse_args()
    rows = [row for row in MUTANTS if not chosen.rows or row in chosen.rows]
    survivors = 0
    with ThreadPoolExecutor(chosen.jobs) as pool:
        for row, (how, noticed) in zip(rows, pool.map(try_row, rows), strict=True):
            survivors += not noticed
            mark = "noticed " if noticed else "SURVIVED"
            print(f"{mark} {row} {MUTANTS[row].defect}: {how}", flush=True)
    print(f"{len(rows) - survivors} of {len(rows)} rows notice their mutant")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
