"""An error of a subject as text for a report, whatever its own methods do."""

from __future__ import annotations

import linecache
import re
import traceback
from typing import Final

CHARACTERS_MOST: Final = 4000
MESSAGE_MOST: Final = 300  # of one line
COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")  # libraries of Rust put them into messages


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
    """Shortened if it is huge, without colours, and without characters that no encoding has."""
    text = COLOURS.sub("", text)
    if len(text) > CHARACTERS_MOST:
        text = f"{text[:CHARACTERS_MOST]}… ({len(text):,} characters)"
    return text.encode(errors="backslashreplace").decode()


def describe_error(error: BaseException, files: dict[str, str]) -> str:
    """The error with the innermost line of the function's own file."""
    lines = message_of(error).strip().splitlines() or [""]
    first = (f"{lines[0]} {lines[-1]}" if lines[0].endswith(":") else lines[0])[:MESSAGE_MOST]  # the cause is below
    places = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    own = [(file, line) for file, line in places if file in files]
    if not own:
        return f"{type(error).__name__}: {first}"
    file, line = own[-1]
    text = linecache.getline(file, line).strip()
    return f"{type(error).__name__} at {files[file]}:{line} ({text}): {first}"
