"""Which Java Spark would use, whether it will do, and how to get one that does."""

from __future__ import annotations

import os
import re
import shutil
from importlib import metadata
from typing import Final

from sinkproof.chaos.optional_packages import install_command
from sinkproof.chaos.services.jvm import INSTALL, JAVA_LEAST, java_version, major, no_java, path_of_java

INSTALLERS: Final = {**INSTALL, "brew": "brew install openjdk@17"}  # the first that exists is named


class SparkUnavailable(Exception):
    """PySpark or a Java that it can use is missing; the message names the one command that installs it."""


def java_problem() -> str:
    """Why Spark cannot have a Java, and the one command that mends it; "" if `java` is new enough."""
    java = path_of_java()
    if java is None:
        found = no_java()
    elif not java_version(java):
        found = f"`{java} -version` does not say which version it is"
    elif major(java) < JAVA_LEAST:
        found = f"{java} is version {java_version(java)}"
    else:
        return ""
    return f"Spark needs Java {JAVA_LEAST} or newer, but {found}. {_how_to_install()}"


def _how_to_install() -> str:
    command = next((command for name, command in INSTALLERS.items() if shutil.which(name)), None)
    if command is None:
        return f"Install one, or name it with JAVA_HOME=/path/to/java-{JAVA_LEAST}"
    sudo = "" if os.geteuid() == 0 or command.startswith("brew") else "sudo "
    also = " and unset JAVA_HOME" if os.environ.get("JAVA_HOME") else ""
    return f"Run: {sudo}{command}{also}"


def check_available() -> None:
    try:
        metadata.version("pyspark")
    except metadata.PackageNotFoundError as error:
        raise SparkUnavailable(f"pyspark is not installed. Run: {install_command('spark')}") from error
    if problem := java_problem():
        raise SparkUnavailable(problem)


def quoted(value: object) -> str:
    """For Spark's own splitting of options."""
    text = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"' if re.search(r"[\s'\"\\]", text) else text
