"""Derives what every form of the comparison table shows: sentences, columns and their text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from sinkproof.reports import report_facts as facts
from sinkproof.reports.document import GRADES

Table = Mapping[str, Any]  # a document of the schema sinkproof/table/1
Pair = Mapping[str, Any]
EMPTY: Final = "—"
NOT_MEASURED: Final = "not measured"
VISIBLE: Final = {0: "at once", 1: "with its checkpoint"}
VERDICTS: Final = {
    "upheld": "every pair that was measured delivers what is expected of it",
    "violated": "not every pair delivers what is expected of it",
    "unknown": "not every pair could be measured",
}


class Column(NamedTuple):
    """A measured figure of each pair, and its format."""

    key: str
    short: str  # for a terminal; two lines
    title: str
    text: Callable[[float], str]


def _megabytes(count: float) -> str:
    return f"{count / (1 << 20):.1f}"


def _milliseconds(count: float) -> str:
    return f"{count:.1f}" if count < 10 else f"{count:.0f}"


FIGURES: Final = (
    Column("visible_ms_p50", "p50\nms", "ms until visible, p50", _milliseconds),
    Column("visible_ms_p95", "p95\nms", "ms until visible, p95", _milliseconds),
    Column("rows_per_second", "rows/s\n", "rows/s", lambda count: f"{count:,.0f}"),
    Column("memory_bytes_peak", "peak\nMiB", "peak memory, MiB", _megabytes),
    Column(
        "requests_per_row",
        "requests\n/1,000",
        "requests per 1,000 rows",
        lambda count: f"{max(1, round(1000 * count)):,}",
    ),
    Column("extra_bytes_per_row", "extra\nB/row", "extra bytes per row", lambda count: f"{count:,.0f}"),
)


def figure(column: Column, pair: Pair) -> str:
    found = (pair["measured"] or {}).get(column.key)
    return EMPTY if found is None else column.text(found)


def symbol(pair: Pair) -> str:
    if pair["measured"] is None:
        return facts.SYMBOLS["unknown"]
    return facts.SYMBOLS["violated" if pair["differences"] else "upheld"]


def expected(pair: Pair) -> list[tuple[str, str, str]]:
    """(what, expected, measured) of each property with an expectation."""
    wanted, found = pair["expected"], pair["measured"] or {}
    return [
        ("guarantee", wanted["grade"], found.get("grade", EMPTY)),
        (
            "visible",
            visible(wanted["visible_after_checkpoints"]),
            visible(found["visible_after_checkpoints"]) if found else EMPTY,
        ),
        ("recovery after the target's time limit", wanted["timeout"], found.get("timeout", EMPTY)),
    ]


def visible(checkpoints: int) -> str:
    return VISIBLE.get(checkpoints, f"after {checkpoints} checkpoints")


def cell(table: Table, strategy: str, target: str) -> list[Pair]:
    """The pairs in one cell of the table; empty where no pair is possible."""
    return [pair for pair in table["pairs"] if (pair["strategy"], pair["target"]) == (strategy, target)]


def on(table: Table, target: str) -> list[Pair]:
    return [pair for pair in table["pairs"] if pair["target"] == target]


def grades(pairs: Sequence[Pair]) -> str:
    """The text of a cell: the measured grades, or that nothing was measured."""
    if not pairs:
        return EMPTY
    measured = [pair for pair in pairs if pair["measured"]]
    if not measured:
        return NOT_MEASURED
    bad = any(pair["differences"] for pair in measured)
    found = dict.fromkeys(pair["measured"]["grade"] for pair in measured)
    return f"{', '.join(found)} {facts.SYMBOLS['violated' if bad else 'upheld']}"


def measured_grades(table: Table) -> list[str]:
    """Each once, the strongest first."""
    found = {pair["measured"]["grade"] for pair in table["pairs"] if pair["measured"]}
    return [*(grade for grade in GRADES if grade in found), *sorted(found.difference(GRADES))]


def summary(table: Table) -> str:
    measured = [pair for pair in table["pairs"] if pair["measured"]]
    agree = sum(not pair["differences"] for pair in measured)
    crashes = sum(pair["measured"]["crashes"] for pair in measured)
    return (
        f"{agree} of {facts.plural(len(measured), 'pair')} measured as expected, "
        f"after {facts.plural(crashes, 'crash')}, in {facts.seconds_text(table['seconds'])}"
    )


def left_out(table: Table) -> list[str]:
    """Targets that were not measured in this run, and the command that measures them."""
    names = [target["name"] for target in table["targets"] if not target["measured"]]
    return [f"{name} was not measured in this run: sinkproof table --on {name}" for name in names]


def failures(table: Table) -> list[str]:
    """Pairs that could not be measured, and differences from what was expected."""
    found = []
    for pair in table["pairs"]:
        if pair["why_not_measured"]:
            found.append(f"{pair['name']} could not be measured: {pair['why_not_measured']}")
        found += [f"{pair['name']}: {difference}" for difference in pair["differences"]]
    return found


def machine(table: Table) -> list[str]:
    return [f"{name} {value}" for name, value in table["machine"].items()]


def method(table: Table) -> list[str]:
    """How the figures were measured, needed to compare them."""
    conditions = table["conditions"]
    reads = [pair["measured"]["look_ms"] for pair in table["pairs"] if pair["measured"]]
    reader = f" One read of the output takes {min(reads):.1f} to {max(reads):.0f} ms." if reads else ""
    return [
        "guarantee: one crash at each step of the coordinator and of one sink, of the job and of a process in turn; "
        "files and memory are simulated, all others are killed by SIGKILL",
        "ms until visible: from handing a row to the sink until an independent reader sees it, with a checkpoint every "
        f"{conditions['checkpoint_interval_ms']} ms.{reader}",
        f"rows/s: one sink in a process of its own, checkpoints of {conditions['rows_of_a_checkpoint']:,} rows, the "
        f"median of all that completed in the time; each row is {conditions['row_bytes']} bytes",
        f"peak memory: additional memory for a checkpoint of {conditions['rows_held']:,} rows until it is taken",
        "requests: effects on files, statements, messages, counted where they are sent",
        "extra bytes: of a row, sent to the target and into checkpoints, beyond its own; compressed ones are fewer",
        "figures of another machine cannot be compared with these; the ratios between strategies of one run can",
    ]
