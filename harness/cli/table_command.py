"""`sinkproof table`: every strategy on every target, expected beside measured."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from sinkproof.chaos.clock import now
from sinkproof.cli.option_services import containers
from sinkproof.judging.verdict import Verdict
from sinkproof.reports.document import DocumentError, replace_file

TARGETS = ("memory", "files", "kafka", "cassandra")
EMBEDDED = ("memory", "files")
FORMATS = ("text", "markdown", "json", "html")


@click.command()
@click.argument("pairs", nargs=-1)
@click.option("--on", "chosen", type=click.Choice(TARGETS), multiple=True, help="Measure this target; any number.")
@click.option("--all", "everything", is_flag=True, help="Measure all of them; what they need is started, and ended.")
@click.option("--registered", is_flag=True, help="Only list the pairs, what each claims, and the grade expected.")
@click.option("--format", "kind", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("--from", "kept", type=click.Path(path_type=Path), help="Measure nothing: a table.json of --out again.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="A folder for all four forms.")
@containers
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def table(
    pairs: tuple[str, ...],
    chosen: tuple[str, ...],
    *,
    everything: bool,
    registered: bool,
    kind: str,
    as_json: bool,
    kept: Path | None,
    out: Path | None,
    quiet: bool,
) -> None:
    """Compare the ways to deliver: measure every strategy on every target, beside what is expected of it.

    PAIRS are registered ones. Without any, and without options: those on memory and files, which need no service, and
    take half a minute. Exit status 0 if everything is as expected, 1 if not, 2 if something could not be measured.
    """
    kind = "json" if as_json else kind
    if registered:
        _list(as_json=kind == "json")
        return
    wanted = TARGETS if everything else chosen or [_target(pair) for pair in pairs] or EMBEDDED
    document = _measured(wanted, pairs, quiet=quiet) if kept is None else _kept(kept)
    if out is not None:
        _write(document, out)
    click.echo(_render(document, kind), nl=kind == "json")
    sys.exit(Verdict(document["verdict"]).exit_code)


def _measured(wanted: Sequence[str], pairs: Sequence[str], *, quiet: bool) -> Mapping[str, Any]:
    from sinkproof.table.table_document import table as measured

    return measured([name for name in TARGETS if name in wanted], pairs=pairs, told=_Talk(quiet=quiet))


def _kept(path: Path) -> Mapping[str, Any]:
    from sinkproof.table.table_document import SCHEMA

    try:
        document: Mapping[str, Any] = json.loads(path.read_bytes())
        if document["schema"] != SCHEMA:
            raise ValueError(f"its schema is {document['schema']!r}")
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise DocumentError(
            f"{path} is no table of ours", evidence=str(error), next_step="Name a table.json that --out has written"
        ) from error
    return document


def _target(pair: str) -> str:
    from sinkproof.table.expectations import EVERY_PAIR, place

    if pair not in EVERY_PAIR:
        raise click.BadParameter(f"there is no pair {pair!r}. Known: {', '.join(EVERY_PAIR)}", param_hint="PAIRS")
    return place(pair).target


class _Talk:
    """One line for each pair when it begins, and then one now and then."""

    EVERY_SECONDS = 5.0

    def __init__(self, *, quiet: bool) -> None:
        self.quiet, self.pair, self.next = quiet, "", 0.0

    def __call__(self, pair: str, what: str) -> None:
        if self.quiet or (pair == self.pair and now() < self.next):
            return
        self.pair, self.next = pair, now() + self.EVERY_SECONDS
        click.echo(f"{pair}: {what}", err=True)


def _render(document: Mapping[str, Any], kind: str) -> str:
    from sinkproof.reports import table_page, table_text

    if kind == "json":
        return json.dumps(document, indent=1)
    render = {"text": table_text.render, "markdown": table_text.markdown, "html": table_page.render}[kind]
    return render(document)


def _write(document: Mapping[str, Any], out: Path) -> None:
    names = {"table.txt": "text", "table.md": "markdown", "table.json": "json", "table.html": "html"}
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, kind in names.items():
            replace_file(out / name, _render(document, kind))
    except OSError as error:
        raise DocumentError(
            f"cannot write the table below {out}", evidence=str(error), next_step="Name another folder with --out"
        ) from error


def _list(*, as_json: bool) -> None:
    from sinkproof.table.expectations import EVERY_PAIR

    rows = [
        {"name": name, "claims": list(pair.claims), "grade": pair.grade, "what": pair.sentence}
        for name, pair in EVERY_PAIR.items()
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    for row in rows:
        click.echo(f"{row['name']:26} {row['grade']:18} {' + '.join(row['claims'])}\n{'':26} {row['what']}")
