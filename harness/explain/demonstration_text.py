"""Renders a demonstration as text: sentences, a timeline with a lane for each actor, and the checks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from sinkproof.explain.demonstration import Check, Demonstration, Scene, TimelineEntry, plain

INDENT: Final = "   "
LONG_VALUE: Final = 200  # characters of a checked value that a failure shows


def render(shown: Demonstration, *, width: int) -> str:
    lines = [f"{shown.row}  {shown.sentence}"]
    for number, scene in enumerate(shown.scenes, start=1):
        lines += ["", f"{number}. {scene.title}", *_scene(scene, width=width)]
    lines += ["", *_wrapped(f"In short: {shown.lesson}", width=width, hang="")]
    if not shown.holds:
        failed = sum(not check.holds for scene in shown.scenes for check in scene.checks)
        lines.append(f"The engine does not do what the row says: {failed} checks failed, see FAILED above.")
    return "\n".join(line.rstrip() for line in lines)


def _scene(scene: Scene, *, width: int) -> list[str]:
    lines = _wrapped(f"{INDENT}ran: {scene.ran}", width=width, hang=INDENT + "     ")
    if scene.steps:
        lines += ["", *(INDENT + line for line in timeline(scene, width=width - len(INDENT))), ""]
    for fact in scene.facts:
        lines += _wrapped(f"{INDENT}- {fact.says}", width=width, hang=INDENT + "  ")
    lines += _wrapped(f"{INDENT}=> {scene.outcome}", width=width, hang=INDENT + INDENT)
    for check in scene.checks:
        lines += _wrapped(INDENT + _check(check), width=width, hang=INDENT + "       ")
    return lines


def _check(check: Check) -> str:
    if check.holds:
        return f"ok     {check.what}"
    expected, observed = _short(check.expected), _short(check.observed)
    return f"FAILED {check.what}: expected {expected}, observed {observed}"


def _short(value: Any) -> str:
    text = str(plain(value))
    return text if len(text) <= LONG_VALUE else f"{text[:LONG_VALUE]}..."


def timeline(scene: Scene, *, width: int) -> list[str]:
    """One column per lane if they fit; otherwise one line per entry, which names its lane."""
    steps = scene.steps
    lanes = list(dict.fromkeys(step.lane for step in steps))
    lanes.sort(key=lambda lane: (_rank_of_lane(lane), lane if "[" in lane else ""))
    words = {id(step): f"X {step.what}" if step.crash else step.what for step in steps}
    widths = [max(len(lane), *(len(words[id(step)]) for step in steps if step.lane == lane)) for lane in lanes]
    if 8 + sum(widths) + 2 * len(widths) > width:
        longest = max(map(len, lanes))
        return [f"{scene.unit:>6}", *(f"{step.at:6g}  {step.lane:{longest}}  {words[id(step)]}" for step in steps)]
    header = f"{scene.unit:>6}  " + "  ".join(f"{lane:{size}}" for lane, size in zip(lanes, widths, strict=True))
    lines = [header, "-" * len(header.rstrip())]
    before: float | None = None
    for at, cells in _grid(scene.steps, lanes, words):
        texts = [f"{cells.get(lane, ''):{size}}" for lane, size in zip(lanes, widths, strict=True)]
        lines.append(f"{'' if at == before else f'{at:g}':>6}  " + "  ".join(texts))
        before = at
    return lines


def _grid(
    steps: tuple[TimelineEntry, ...], lanes: list[str], words: dict[int, str]
) -> Iterator[tuple[float, dict[str, str]]]:
    """Lines of lane -> words: a later entry stands further right, or below."""
    line: dict[str, str] = {}
    at, last = -1.0, len(lanes)
    for step in steps:
        place = lanes.index(step.lane)
        if step.at != at or place <= last:
            if line:
                yield at, line
            line = {}
        line[step.lane], at, last = words[id(step)], step.at, place
    if line:
        yield at, line


def _rank_of_lane(lane: str) -> int:
    """Lanes are ordered along the flow of rows."""
    order = ("coordinator", "source", "", "sink", "target", "reader")
    return next((at for at, name in enumerate(order) if name and lane.startswith(name)), order.index(""))


def _wrapped(text: str, *, width: int, hang: str) -> list[str]:
    from textwrap import wrap

    return wrap(text, width, subsequent_indent=hang, break_long_words=False, break_on_hyphens=False)
