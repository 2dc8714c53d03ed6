"""`make zoo-under-load`: members of the zoo, drawn by a seed, are certified on a quiet machine and on a busy one.

Each is certified at the default budget, first alone, then beside busy loops; where UNKNOWN names a budget, once more
with that. Exit status: 1 if one is UPHELD here and VIOLATED there, a wrong one UPHELD or a right one VIOLATED anywhere,
or if the budgets that were named decided less than nine times in ten.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.support.named_budget import named_budget
from tests.support.zoo_campaigns import locator_of
from tests.zoo.verdicts import RIGHT, WRONG

BUSY_LOOPS = 8
DECIDING_LEAST = 22 / 24  # of the budgets that UNKNOWN names
BUSY_LOOP = "while True: pass"


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    loops = [subprocess.Popen([sys.executable, "-c", BUSY_LOOP]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def certify(member: str, *options: str) -> dict[str, Any]:
    """The subject of the certificate. What was kept on a quiet machine says nothing about a busy one."""
    command = [str(Path(sys.executable).with_name("sinkproof")), "certify", locator_of(member), "--fresh"]
    done = subprocess.run(
        [*command, "--no-canaries", "--quiet", "--json", *options], capture_output=True, text=True, check=False
    )
    if not done.stdout:
        raise SystemExit(f"{member}: no certificate, exit status {done.returncode}: {done.stderr}")
    (subject,) = json.loads(done.stdout)["subjects"]
    return dict(subject)


def judged(member: str) -> list[str]:
    """The verdict, and after UNKNOWN the one of the budget that it named."""
    subject = certify(member)
    verdicts = [str(subject["verdict"])]
    if verdicts == ["unknown"] and (named := named_budget(subject["why"])):
        verdicts.append(str(certify(member, "--budget", f"{named:g}s")["verdict"]))
    return verdicts


def trouble(drawn: Sequence[str], quiet: Sequence[list[str]], busy: Sequence[list[str]]) -> Iterator[str]:
    """What must not be, one sentence each."""
    for member, *verdicts in zip(drawn, quiet, busy, strict=True):
        seen = {each for some in verdicts for each in some}
        if {"upheld", "violated"} <= seen:
            yield f"{member} is UPHELD and VIOLATED"
        elif member in WRONG and "upheld" in seen:
            yield f"{member} is wrong, and UPHELD"
        elif member in RIGHT and "violated" in seen:
            yield f"{member} is right, and VIOLATED"
    again = [verdicts[1] for verdicts in (*quiet, *busy) if verdicts[1:]]
    decided = sum(verdict != "unknown" for verdict in again)
    if again and decided < DECIDING_LEAST * len(again):
        yield f"{decided} of {len(again)} budgets that UNKNOWN named decided"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--members", type=int, default=24)
    chosen = parser.parse_args()
    drawn = Random(chosen.seed).sample([*RIGHT, *WRONG], chosen.members)
    print(f"seed {chosen.seed}: {len(drawn)} members of the zoo, alone and beside {BUSY_LOOPS} busy loops", flush=True)
    quiet, busy = [], []
    for member in drawn:
        quiet.append(judged(member))
        with busy_loops(BUSY_LOOPS):
            busy.append(judged(member))
        kind = "right" if member in RIGHT else "wrong"
        print(f"{member:44}{kind}  alone {' > '.join(quiet[-1]):22}  busy {' > '.join(busy[-1])}", flush=True)
    found = list(trouble(drawn, quiet, busy))
    print(*found or ["no verdict differs"], sep="\n")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
