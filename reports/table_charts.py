"""The figures of the comparison table as charts: one dot for each pair, on a logarithmic scale.

The template only draws; each chart has a description in words, and the table below it has the figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Final

from sinkproof.reports.table_facts import Pair, Table

NAMES_WIDTH: Final = 190.0  # in pixels, as everything here
PLOT_WIDTH: Final = 760.0
VALUE_WIDTH: Final = 96.0  # for the figure beside a dot
ROW_HEIGHT: Final = 19.0
GROUP_HEIGHT: Final = 30.0  # the name of a target, above its pairs
TOP: Final = 24.0
BOTTOM: Final = 12.0
DECADES_LEAST: Final = 2  # on a shorter scale noise looks like a difference


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    name: str
    grade: str
    y: float
    x: float
    x_to: float | None  # of a second dot: p95 beside p50
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    title: str
    description: str
    width: float
    height: float
    left: float
    bottom: float
    ticks: tuple[tuple[float, str], ...]
    groups: tuple[tuple[float, str], ...]
    dots: tuple[Dot, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A chart of the measured `key`, and of `key_to` if there is one. Values below `least` are drawn at `least`: a
    logarithmic scale has no zero.
    """

    title: str
    key: str
    unit: str
    better: str
    least: float
    factor: float = 1.0
    key_to: str = ""


CHARTS: Final = (
    Figure(title="Rows per second", key="rows_per_second", unit="", better="to the right is faster", least=1.0),
    Figure(
        title="Milliseconds until visible, p50 to p95",
        key="visible_ms_p50",
        key_to="visible_ms_p95",
        unit=" ms",
        better="to the left is sooner",
        least=0.1,
    ),
    Figure(
        title="Peak memory of one sink",
        key="memory_bytes_peak",
        unit=" MiB",
        better="to the left is less",
        least=0.1,
        factor=1 / (1 << 20),
    ),
    Figure(
        title="Bytes sent and kept for each row",
        key="all_bytes_per_row",
        unit=" B",
        better="to the left is less",
        least=1.0,
    ),
    Figure(
        title="Requests per 1,000 rows",
        key="requests_per_row",
        unit="",
        better="to the left is less",
        least=1.0,
        factor=1000.0,
    ),
)


def charts(table: Table) -> list[Chart]:
    """Empty where nothing was measured."""
    pairs = [pair for pair in table["pairs"] if pair["measured"]]
    shown = [figure for figure in CHARTS if any(_values(figure, pair) for pair in pairs)]
    return [_chart(figure, pairs) for figure in shown]


def _chart(figure: Figure, pairs: list[Pair]) -> Chart:
    known = {pair["name"]: _values(figure, pair) for pair in pairs}
    ranges = {name: values for name, values in known.items() if values}
    every = [max(figure.least, value) for values in ranges.values() for value in values]
    low = floor(log10(min(every)))
    high = max(ceil(log10(max(every))), low + DECADES_LEAST)

    def x(value: float) -> float:
        share = (log10(max(figure.least, value)) - low) / (high - low)
        return round(NAMES_WIDTH + PLOT_WIDTH * min(1.0, max(0.0, share)), 1)

    groups, dots, y = [], [], TOP
    target = ""
    for pair in (pair for pair in pairs if pair["name"] in ranges):
        if pair["target"] != target:
            target = pair["target"]
            y += GROUP_HEIGHT
            groups.append((y - ROW_HEIGHT + 6, target))
        values = ranges[pair["name"]]
        to = x(values[1]) if len(values) > 1 else None
        name, grade = pair["name"].partition("/")[2], pair["measured"]["grade"]
        dots.append(Dot(name=name, grade=grade, y=y, x=x(values[0]), x_to=to, text=_text(figure, values)))
        y += ROW_HEIGHT
    return Chart(
        title=figure.title,
        description=f"{figure.better}. " + "; ".join(f"{name} {_text(figure, ranges[name])}" for name in ranges),
        width=NAMES_WIDTH + PLOT_WIDTH + VALUE_WIDTH,
        height=round(y + BOTTOM, 1),
        left=NAMES_WIDTH,
        bottom=y,
        ticks=tuple((x(10.0**power), _short(10.0**power)) for power in range(low, high + 1)),
        groups=tuple(groups),
        dots=tuple(dots),
    )


def _values(figure: Figure, pair: Pair) -> tuple[float, ...]:
    """Empty where it could not be counted."""
    found = dict(pair["measured"])
    sent = found["target_bytes_per_row"]
    found["all_bytes_per_row"] = None if sent is None else sent + found["state_bytes_per_row"]
    keys = [figure.key, *([figure.key_to] if figure.key_to else [])]
    return tuple(figure.factor * found[key] for key in keys if found[key] is not None)


def _text(figure: Figure, values: tuple[float, ...]) -> str:
    below = max(values) < figure.least
    return f"below {_short(figure.least)}{figure.unit}" if below else f"{' to '.join(map(_short, values))}{figure.unit}"


def _short(value: float) -> str:
    if value >= 1_000_000:
        return f"{value / 1_000_000:.3g} M"
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"
