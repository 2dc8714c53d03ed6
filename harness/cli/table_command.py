"""`sinkproof table`: compares every strategy on every target, expected values beside measured ones."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sinkproof.chaos.clock import now
from sinkproof.cli.service_flags import service_options
from sinkproof.judging.verdict_and_exit_codes import Verdict
from sinkproof.reports.document import DocumentError, replace_file, write_errors

if TYPE_CHECKING:
    from sinkproof.subject.service_options import ServiceOptions

TARGETS = ("memory", "files", "kafka", "cassandra")
EMBEDDED = ("memory", "files")
FORMATS = ("text", "markdown", "json", "html")


@click.command()
@click.argument("pairs", nargs=-1)
@click.option(
    "--on",
    "chosen",
    type=click.Choice(TARGETS),
    multiple=True,
    help="Measure the pairs of this target. May be repeated.",
)
@click.option(
    "--all", "everything", is_flag=True, help="Measure all targets. Services that they need are started and ended."
)
@click.option(
    "--registered", is_flag=True, help="List the pairs, their claims and expected grades, and measure nothing."
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="The form in which the table is printed.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option(
    "--from",
    "kept",
    type=click.Path(path_type=Path),
    help="Measure nothing, and render this table.json of an earlier --out.",
)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="A folder for all four forms.")
@service_options("services")
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
    services: ServiceOptions,
    quiet: bool,
) -> None:
    """Compare the strategies: measure each on every target, and show the results beside what is expected.

    PAIRS are registered pairs. Without PAIRS and options: those on memory and files, which need no service and take
    half a minute. Exit status 0 if everything is as expected, 1 if not, 2 if something could not be measured.
    """
    kind = "json" if as_json else kind
    if registered:
        _list(as_json=kind == "json")
        return
    wanted = TARGETS if everything else chosen or [_target(pair) for pair in pairs] or EMBEDDED
    document = _measured(wanted, pairs, services=services, quiet=quiet) if kept is None else _kept(kept)
    if out is not None:
        _write(document, out)
    click.echo(_render(document, kind), nl=kind == "json")
    sys.exit(Verdict(document["verdict"]).exit_code)


def _measured(
    wanted: Sequence[str], pairs: Sequence[str], *, services: ServiceOptions, quiet: bool
) -> Mapping[str, Any]:
    from sinkproof.table.table_document import table as measured

    return measured(
        [name for name in TARGETS if name in wanted], pairs=pairs, report=_Talk(quiet=quiet), services=services
    )


def _kept(path: Path) -> Mapping[str, Any]:
    from sinkproof.table.table_document import SCHEMA

    try:
        document: Mapping[str, Any] = json.loads(path.read_bytes())
        if document["schema"] != SCHEMA:
            raise ValueError(f"its schema is {document['schema']!r}")
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise DocumentError(
            f"{path} is not a table of sinkproof",
            evidence=str(error),
            next_step="Name a table.json that --out has written",
        ) from error
    return document


def _target(pair: str) -> str:
    from sinkproof.table.expected_and_empty_cells import EVERY_PAIR, cell_of

    if pair not in EVERY_PAIR:
        raise click.BadParameter(f"there is no pair {pair!r}. Known: {', '.join(EVERY_PAIR)}", param_hint="PAIRS")
    return cell_of(pair).target


class _Talk:
    """Prints a line when a pair begins, and then one every few seconds."""

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
    with write_errors(f"cannot write the table below {out}", next_step="Name another folder with --out"):
        out.mkdir(parents=True, exist_ok=True)
        for name, kind in names.items():
            replace_file(out / name, _render(document, kind))


def _list(*, as_json: bool) -> None:
    from sinkproof.table.expected_and_empty_cells import EVERY_PAIR

    rows = [
        {"name": name, "claims": list(pair.claims), "grade": pair.grade, "what": pair.sentence}
        for name, pair in EVERY_PAIR.items()
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    for row in rows:
        click.echo(f"{row['name']:26} {row['grade']:18} {' + '.join(row['claims'])}\n{'':26} {row['what']}")
