"""`sinkproof explain S07`: demonstrates a row of the semantics on the running engine."""

from __future__ import annotations

import json
import shutil
import sys

import click

from sinkproof.judging.verdict_and_exit_codes import Verdict

NARROW, WIDE = 80, 120  # characters: narrower timelines show nothing, wider ones are hard to read


@click.command()
@click.argument("row", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print what ran, what was observed and the checks as JSON.")
def explain(row: str | None, as_json: bool) -> None:
    """Show one ROW of the semantics (S01 to S27) live: what ran, the crash, the outcome, the checks.

    Without a ROW: all of them, with one sentence each. A root cause (R1 to R19): the kind of bug, its usual repair, and
    sinks with that bug beside their right siblings. Exit status 1 if the engine does not do what the row says.
    """
    from sinkproof.certifier.root_causes import REPAIRS, explained
    from sinkproof.explain.demonstration_text import render
    from sinkproof.explain.semantics_rows import ROWS, demonstrate

    if row is None:
        listed = [{"row": name, "sentence": about.sentence} for name, about in ROWS.items()]
        lines = [f"{each['row']}  {each['sentence']}" for each in listed]
        click.echo(json.dumps(listed, indent=1) if as_json else "\n".join(lines))
        return
    name = row.upper()
    if name in REPAIRS:
        click.echo(explained(name))
        return
    if name not in ROWS:
        raise click.BadParameter(
            f"there is no {row!r}: rows are {min(ROWS)} to {max(ROWS)}, root causes R1 to R{len(REPAIRS)}",
            param_hint="ROW",
        )
    shown = demonstrate(name)
    width = max(NARROW, min(WIDE, shutil.get_terminal_size((WIDE, 24)).columns))
    click.echo(json.dumps(shown.document, indent=1) if as_json else render(shown, width=width))
    sys.exit(0 if shown.holds else Verdict.VIOLATED.exit_code)
