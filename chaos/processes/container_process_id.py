"""Lets a sink's own code see the process id that it would see in a container: that of each other attempt, too.

In its own modules only: the libraries that it calls tell processes apart by their true ids, and go on doing so.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from types import ModuleType
from typing import Any, Final

FIRST: Final = 1  # the id of a container's first process
_getpid: Final = os.getpid


class _Os(ModuleType):
    """The module `os`, but for one function."""

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    @staticmethod
    def getpid() -> int:
        return FIRST


def be_in_a_container(files: Collection[str]) -> None:
    """For the rest of this process. `files`: of modules that have been imported."""
    contained = _Os("os")
    for module in [each for each in list(sys.modules.values()) if getattr(each, "__file__", None) in files]:
        for name, value in list(vars(module).items()):
            if value is os:
                setattr(module, name, contained)
            elif value is _getpid:
                setattr(module, name, _Os.getpid)
