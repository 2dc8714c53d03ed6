"""The summary for a terminal: one line per subject, then the findings, then the canaries and the verdict."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sinkproof.reports import finding_groups, story
from sinkproof.reports import report_facts as facts
from sinkproof.reports.at_target import target_words
from sinkproof.reports.ci.since_earlier import Earlier
from sinkproof.reports.coverage_text import (
    bounds_lines,
    caveat_lines,
    closure_lines,
    code_lines,
    points_text,
    schedules_text,
)
from sinkproof.reports.document import Document

STYLES: Final = {"upheld": "green", "violated": "bold red", "unknown": "bold yellow"}
WIDTH_OF_TABLE: Final = 110  # below this the eight columns wrap inside words: one block per subject reads better
WIDTH_OF_ONE_LINE: Final = 140  # below this a grade takes two lines, which leaves room for the subject's name
WIDTH_MOST: Final = 1000  # of any table, in which nothing is wrapped
NAME_LEAST: Final = 20  # columns for the name of a subject
FINDINGS_SHOWN: Final = 5  # groups per subject; the page and the document have them all
UNCLAIMED_SHOWN: Final = 2  # of those: unclaimed flaws must not hide broken claims
WIDTH_MIN: Final = 40
ROWS_SEEN_MOST: Final = 4  # of one finding


def render(
    document: Mapping[str, Any], *, width: int = 120, color: bool = False, earlier: Earlier | None = None
) -> str:
    """`width`: of the terminal. `earlier`: a certificate beside this one. Replay commands are never wrapped, so that
    they can be copied whole.
    """
    known = facts.filled(document)
    console = Console(
        file=io.StringIO(),
        width=max(width, WIDTH_MIN),
        force_terminal=color,
        no_color=not color,
        color_system="standard" if color else None,
        highlight=False,
        legacy_windows=False,
    )
    with console.capture() as capture:
        _subjects(console, known)
        for subject in known["subjects"]:
            _findings(console, subject, earlier)
        if earlier is not None:
            console.print(_text(earlier.summary(known["subjects"])))
        _conclusion(console, known)
    return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())


def _subjects(console: Console, document: Document) -> None:
    rows = [_subject_facts(subject) for subject in document["subjects"]]
    if not rows:
        return
    table = _subject_table(console, rows)
    name_least = min(NAME_LEAST, max(row["subject"].cell_len for row in rows))
    if console.width < max(WIDTH_OF_TABLE, _width_without_names(table) + name_least):
        _subject_blocks(console, rows)
    else:
        console.print(table)


def _width_without_names(table: Table) -> int:
    """What all columns but the first one need, with the space around them."""
    wide = Console(width=WIDTH_MOST)
    names = table.columns[0]
    return wide.measure(table).maximum - max(wide.measure(cell).maximum for cell in names.cells)


def _subject_table(console: Console, rows: Sequence[dict[str, Text]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=False)
    for name in rows[0]:
        right = name in ("kills", "points", "schedules", "seconds")
        table.add_column(name, justify="right" if right else "left", overflow="fold", no_wrap=name != "subject")
    always = " (" if console.width < WIDTH_OF_ONE_LINE else " (expected "
    stacked = {"claimed": (", ", ",\n"), "grade (expected)": (always, f"\n{always.lstrip()}")}
    for row in rows:
        restacked = {name: Text(row[name].plain.replace(*separators)) for name, separators in stacked.items()}
        table.add_row(*(row | restacked).values())
    return table


def _subject_blocks(console: Console, rows: Iterable[Mapping[str, Text]]) -> None:
    for row in rows:
        console.print(Text.assemble(row["verdict"], "  ", row["subject"]))
        grid = Table.grid(padding=(0, 2))
        for name, value in row.items():
            if name not in ("subject", "verdict"):
                grid.add_row(Text(f"  {name}"), value)
        console.print(grid)
        console.print()


def _subject_facts(subject: Document) -> dict[str, Text]:
    numbers = facts.totals(subject)
    return {
        "subject": _text(subject["name"]),
        "claimed": _text(", ".join(subject["claimed"]) or "nothing"),
        "grade (expected)": _text(facts.grade_text(subject)),
        "verdict": _verdict(subject["verdict"]),
        "kills": _text(facts.beside(numbers.kills, numbers.kills_kept)),
        "points": _text(points_text(numbers)),
        "schedules": _text(schedules_text(numbers)),
        "seconds": _text(f"{numbers.seconds:.1f}"),
    }


def _findings(console: Console, subject: Document, earlier: Earlier | None) -> None:
    findings = subject["findings"]
    if subject["verdict"] != "upheld" and subject["why"]:
        console.print(Text.assemble(_verdict(subject["verdict"]), f"  {facts.visible(subject['name'])}"))
        console.print(_text(f"  {subject['why']}"))
        console.print()
    groups = finding_groups.by_cause(findings)
    claimed = [group for group in groups if group[0]["claimed"]]
    unclaimed = [group for group in groups if not group[0]["claimed"]]
    shown = [*claimed[:FINDINGS_SHOWN], *unclaimed[:UNCLAIMED_SHOWN]]
    pictured = [finding for finding in facts.pictured(subject) if finding["claimed"]]
    for group in shown:
        word = earlier.words(subject, group) if earlier else ""
        _finding(console, subject, group, timeline=group[0] in pictured, word=word)
    if left := sum(map(len, groups)) - sum(map(len, shown)):
        more = facts.plural(left, "more finding")
        console.print(_text(f"{subject['name']}: {more}, in the report"))
        console.print()
    for absent in earlier.absent(subject) if earlier else ():
        console.print(_text(f"{subject['name']}: {absent.label}: {absent.text}"))
        console.print()
    for sentence in (*code_lines(subject), *caveat_lines(subject)):
        console.print(_text(f"  {subject['name']}: {sentence}"))


def _finding(console: Console, subject: Document, group: Sequence[Document], *, timeline: bool, word: str) -> None:
    """The first of a group in full, and where the others struck."""
    finding, others = group[0], group[1:]
    symbol = facts.SYMBOLS["violated" if finding["claimed"] else "finding"]
    broken = f" {finding['claim']}" if finding["claim"] else ""
    kind = ", ".join(filter(None, (facts.claimed_text(finding["claimed"]), word)))
    title = f"{symbol} {subject['name']}: {finding['oracle']}{broken} ({kind}), {finding['shell']} shell"
    console.print(Text(facts.visible(title), style="bold"))
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    also = [("also", f"{facts.plural(len(others), 'finding')} at {finding_groups.also_at(others)}")] if others else []
    source = finding_groups.lines_around(finding["line"]) if finding["line"] else []
    for name, value in [*_evidence(finding), *also]:
        text = _text(value)
        if value in source:  # indentation says more than the end of a long line
            text.no_wrap, text.overflow = True, "ellipsis"
        grid.add_row(Text(f"  {name}"), text)
    console.print(grid)
    if timeline:
        _timeline(console, finding)
    # soft_wrap: rich breaks no line here, so that a terminal copies the command in one piece.
    console.print(_text(f"  replay  {finding['replay']}"), soft_wrap=True)
    console.print()


def _timeline(console: Console, finding: Document) -> None:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True, justify="right")
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for index, (at, actor, what) in enumerate(story.words(finding)):
        event = Text.assemble((facts.visible(what), "bold" if what.startswith(story.BOLT) else ""))
        grid.add_row(Text("  time  " if index == 0 else ""), Text(at), _text(actor), event)
    console.print(grid)


def _evidence(finding: Document) -> list[tuple[str, str]]:
    found = [("why", finding["why"]), *facts.rows_named(finding)]
    target = finding["target"]
    if target:
        rows = target_words.seen(target["rows"][:ROWS_SEEN_MOST])
        found += [("rows" if not number else "", each) for number, each in enumerate(rows)]
        found += [("", each) for each in target_words.left_out(target)]
    elif finding["contents"]:
        found.append(("rows", ", ".join(finding["contents"])))
    if line := finding["line"]:
        inside = f" in {line['function']}" if line.get("function") else ""
        found.append(("line", f"{facts.line_text(line)}{inside}  {line['text'].strip()}"))
        found += [("", text) for text in finding_groups.lines_around(line)]
    if finding["steps"]:
        found.append(("after", " → ".join(finding["steps"])))
    if not target:
        found += [("then" if not number else "", each) for number, each in enumerate(finding["effects"])]
    if finding["root_cause"]:
        found.append(("likely", finding["root_cause"]))
    return [*found, ("faults", finding["schedule"])]


def _conclusion(console: Console, document: Document) -> None:
    """The sentence of each complete closure once; closures that are not complete; canaries, doubts, the verdict."""
    if closures := closure_lines(document):
        for line in closures:
            console.print(_text(line))
        console.print()
    for line in bounds_lines(document["subjects"]):
        console.print(_text(line))
    console.print(_text(f"canaries: {facts.canary_sentence(document)}"))
    for doubt in facts.doubts(document):
        console.print(_text(f"{facts.SYMBOLS['unknown']} {doubt}"))
    console.print(Text.assemble(_verdict(document["verdict"]), f"  {facts.summary(document)}"))


def _verdict(verdict: str) -> Text:
    return Text(facts.verdict_text(verdict), style=STYLES[verdict])


def _text(value: object) -> Text:
    return Text(facts.visible(value))
