"""The comparison table for terminals, and in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import TextWrapper
from typing import Final

from sinkproof.reports import report_facts as facts
from sinkproof.reports.markdown import escaped
from sinkproof.reports.table_facts import (
    EMPTY,
    FIGURES,
    Pair,
    Table,
    cell,
    expected,
    failures,
    figure,
    grades,
    left_out,
    machine,
    method,
    on,
    summary,
    symbol,
)

WIDTH: Final = 120
HEAD: Final = ("pair\n", "expected\n", "measured\n", "crash\nes", "seen\nafter", *(column.short for column in FIGURES))


def render(table: Table) -> str:
    """Without colours: symbols show the verdicts."""
    lines = [f"{facts.SYMBOLS[table['verdict']]} {summary(table)}", ""]
    lines += _aligned([*_matrix(table)], right_from=99)
    for target in table["targets"]:
        if target["measured"]:
            lines += ["", f"{target['name']}: {target['what']}", ""]
            lines += _aligned([*_heads(), *map(_line, on(table, target["name"]))], right_from=3)
    lines += _list("not as it should be", failures(table))
    lines += _list("late: what a recovery after the target's own time limit finds", _timeouts(table))
    lines += _list("no pair", [f"{each['strategy']} on {each['target']}: {each['why']}" for each in table["invalid"]])
    lines += _list("what a target must offer", [_offer(each) for each in table["strategies"]])
    lines += _list("how it was measured", [*method(table), *left_out(table)])
    lines += ["", *_wrapped(f"machine: {', '.join(machine(table))}")]
    return "\n".join(map(facts.visible, lines)) + "\n"


def markdown(table: Table) -> str:
    lines = [f"### {facts.SYMBOLS[table['verdict']]} Strategies and targets: {summary(table)}", ""]
    lines += _rows(_matrix(table))
    head = [
        "pair",
        "",
        *(what for what, _, _ in expected(table["pairs"][0])),
        "crashes",
        *(column.title for column in FIGURES),
    ]
    for target in table["targets"]:
        if target["measured"]:
            lines += ["", f"**{escaped(target['name'])}**: {escaped(target['what'])}", ""]
            lines += _rows([head, *map(_cells, on(table, target["name"]))])
    for title, said in (
        ("Not as it should be", failures(table)),
        ("No pair", [f"{each['strategy']} on {each['target']}: {each['why']}" for each in table["invalid"]]),
        ("What a target must offer", [_offer(each) for each in table["strategies"]]),
        ("How it was measured", [*method(table), *left_out(table), f"machine: {', '.join(machine(table))}"]),
    ):
        lines += ["", f"**{title}**", "", *(f"- {escaped(each)}" for each in said)] if said else []
    return "\n".join(lines) + "\n"


def _matrix(table: Table) -> Iterable[list[str]]:
    """The grades of every strategy on every target, after a heading."""
    yield ["strategy", *(target["name"] for target in table["targets"])]
    for strategy in table["strategies"]:
        name = strategy["name"]
        yield [name, *(grades(cell(table, name, target["name"])) for target in table["targets"])]


def _heads() -> list[list[str]]:
    return [list(line) for line in zip(*(head.split("\n") for head in HEAD), strict=True)]


def _line(pair: Pair) -> list[str]:
    found = pair["measured"]
    grade = pair["expected"]["grade"]
    if found is None:
        return [pair["name"], grade, "not measured"]
    seen = {0: "0", 1: "1"}.get(found["visible_after_checkpoints"], "?")
    figures = [figure(column, pair) for column in FIGURES]
    return [pair["name"], grade, f"{found['grade']} {symbol(pair)}", str(found["crashes"]), seen, *figures]


def _cells(pair: Pair) -> list[str]:
    """Measured beside expected, where something was expected."""
    both = [f"{found} (expected: {wanted})" for _, wanted, found in expected(pair)]
    found = pair["measured"]
    figures = [figure(column, pair) for column in FIGURES]
    return [pair["name"], symbol(pair), *both, str(found["crashes"]) if found else EMPTY, *figures]


def _timeouts(table: Table) -> list[str]:
    """Only pairs where something expires, or should."""
    late = [(pair["name"], *expected(pair)[2][1:]) for pair in table["pairs"] if pair["measured"]]
    usual = [(name, wanted, found) for name, wanted, found in late if "lost" in f"{wanted} {found}"]
    rest = ["all others: nothing expires"] if len(usual) < len(late) else []
    return [f"{name}: {found} (expected: {wanted})" for name, wanted, found in usual] + rest


def _offer(strategy: Pair) -> str:
    return f"{strategy['name']}: {', '.join(strategy['offers'])}"


def _list(title: str, said: Sequence[str]) -> list[str]:
    return ["", f"{title}:", *(line for each in said for line in _wrapped(each, indent="  "))] if said else []


def _wrapped(text: str, *, indent: str = "") -> list[str]:
    """Further lines are indented more than the first. Commands and names are never broken."""
    lines = TextWrapper(width=WIDTH, break_long_words=False, break_on_hyphens=False)
    lines.initial_indent, lines.subsequent_indent = indent, f"{indent}  "
    return lines.wrap(text)


def _aligned(rows: Sequence[Sequence[str]], *, right_from: int) -> list[str]:
    """`right_from`: the first column of right-aligned numbers."""
    count = max(map(len, rows))
    full = [[*row, *[""] * (count - len(row))] for row in rows]
    widths = [max(len(row[at]) for row in full) for at in range(count)]
    return [
        "  ".join(
            text.rjust(width) if at >= right_from else text.ljust(width)
            for at, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in full
    ]


def _rows(rows: Iterable[Sequence[str]]) -> list[str]:
    head, *rest = ([escaped(text) for text in row] for row in rows)
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rest)]
