"""How a user writes a time to spend: 60, 60s, 5m, 1h; or `least`."""

from __future__ import annotations

from typing import Final

LEAST: Final = "least"
SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}


def seconds_in(text: str) -> float:
    """Raises ValueError, with a sentence for the user."""
    number, factor = (text[:-1], SECONDS[text[-1]]) if text[-1:] in SECONDS else (text, 1.0)
    try:
        seconds = float(number) * factor
    except ValueError:
        raise ValueError(f"{text!r} is not a time. Write seconds, or 30s, 5m, 1h") from None
    if not 0 < seconds < float("inf"):
        raise ValueError(f"{text!r} is not a time to spend")
    return seconds
