"""Points while a program is at work that was started by `subprocess`: there it may lose the process that feeds it."""

from __future__ import annotations

import inspect
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from typing import Any, Final

STARTED: Final = "program.start"
FED: Final = "program.input"
FIRST_PART_MOST: Final = 4096  # a pipe holds more, so that a program which reads late blocks nothing


@contextmanager
def program_points(reach: Callable[[str], None]) -> Iterator[None]:
    """`reach` is called when a program was started, and when it was sent the first part of an input that it gets whole
    (`subprocess.run(input=...)`): a part only, so that it is no complete input in most formats.
    """
    kind: Any = subprocess.Popen
    start, communicate = kind.__init__, kind.communicate
    signature = inspect.signature(communicate)

    @wraps(start)
    def starting(self: Any, *arguments: Any, **options: Any) -> None:
        start(self, *arguments, **options)
        reach(STARTED)

    @wraps(communicate)
    def feeding(self: Any, *arguments: Any, **options: Any) -> Any:
        given = signature.bind(self, *arguments, **options)
        whole = given.arguments.get("input")
        if whole and self.stdin and not self._communication_started:
            sent = min(len(whole) - len(whole) // 2, FIRST_PART_MOST)
            with suppress(BrokenPipeError):  # the program has ended without reading it, which the other call ignores
                self.stdin.write(whole[:sent])
                self.stdin.flush()
            reach(FED)
            given.arguments["input"] = whole[sent:]
        return communicate(*given.args, **given.kwargs)

    kind.__init__, kind.communicate = starting, feeding
    try:
        yield
    finally:
        kind.__init__, kind.communicate = start, communicate
