"""Numbers as words: counts, percents, times, and what was run beside what is kept."""

from __future__ import annotations


def percent(part: int, whole: int) -> int:
    """Whole percents; 100 only for all of it."""
    return 100 if part >= whole else 100 * part // whole


def count(number: int) -> str:
    return f"{number:,}"


def plural(number: int, noun: str) -> str:
    ending = "" if number == 1 else "es" if noun.endswith("sh") else "s"
    return f"{count(number)} {noun}{ending}"


def judged(run: int, kept: int, noun: str) -> str:
    """`30 schedules`; `2 schedules and 28 kept ones`, where an earlier command has run the others."""
    return plural(run, noun) + (f" and {plural(kept, 'kept one')}" if kept else "")


def beside(run: int, kept: int) -> str:
    """The same in a cell of a table."""
    return count(run) + (f" (+{count(kept)} kept)" if kept else "")


def seconds_text(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
