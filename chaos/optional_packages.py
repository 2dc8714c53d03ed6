"""The command that installs the libraries of an extra.

It names the libraries: to add an extra to a package that is installed, pip would look for that package in an index, and
this one is in none.
"""

from __future__ import annotations

import re
import shlex
from importlib import metadata

DISTRIBUTION = "sinkproof"


def install_command(extra: str) -> str:
    """`pip install 'obstore>=0.12'`, from the metadata of what is installed."""
    try:
        required = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:  # a folder on PYTHONPATH
        required = []
    parts = [requirement.partition(";") for requirement in required]
    libraries = [library.strip() for library, _, marker in parts if re.search(rf"extra == ([\"']){extra}\1", marker)]
    return shlex.join(["pip", "install", *(libraries or [f".[{extra}]"])])
