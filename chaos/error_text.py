"""An error of a subject as text for a report, whatever its own methods do."""

from __future__ import annotations

from typing import Final

CHARACTERS_MOST: Final = 4000


def message_of(error: BaseException) -> str:
    try:
        text = str(error)
    except MemoryError:
        raise
    except BaseException as broken:  # the border to the error's own class
        return f"(its text cannot be had: {type(broken).__name__})"
    return printable(text)


def described(error: BaseException) -> str:
    return f"{type(error).__name__}: {message_of(error)}"


def printable(text: str) -> str:
    """Shortened if it is huge, and without characters that no encoding has."""
    if len(text) > CHARACTERS_MOST:
        text = f"{text[:CHARACTERS_MOST]}… ({len(text):,} characters)"
    return text.encode(errors="backslashreplace").decode()
