"""Which Java Spark would use, whether it will do, and how to get one that does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from importlib import metadata
from typing import Final

JAVA_LEAST: Final = 17
JAVA_ANSWERS_SECONDS: Final = 20.0  # a cold one on a busy machine takes 2
INSTALLERS: Final = {  # the first that exists is named
    "apt-get": "apt-get install -y openjdk-17-jre-headless",
    "dnf": "dnf install -y java-17-openjdk-headless",
    "apk": "apk add openjdk17-jre-headless",
    "pacman": "pacman -S --noconfirm jre17-openjdk-headless",
    "brew": "brew install openjdk@17",
}


class SparkUnavailable(Exception):
    """PySpark or a Java that it can use is missing; the message names the one command that installs it."""


def java_problem() -> str:
    """Why Spark cannot have a Java, and the one command that mends it; "" if `java` is new enough."""
    java = find_java()
    if java is None:
        home = os.environ.get("JAVA_HOME")
        found = f"JAVA_HOME is {home}, where there is no bin/java" if home else "no `java` was found on the PATH"
    elif (version := java_version(java)) is None:
        found = f"`{java} -version` does not say which version it is"
    elif _major(version) < JAVA_LEAST:
        found = f"{java} is version {version}"
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
        raise SparkUnavailable("pyspark is not installed. Run: pip install 'sinkproof[spark]'") from error
    if problem := java_problem():
        raise SparkUnavailable(problem)


def find_java() -> str | None:
    """The places that Spark's own start script checks."""
    if home := os.environ.get("JAVA_HOME"):
        return shutil.which("java", path=os.path.join(home, "bin"))
    return shutil.which("java")


@cache
def java_version(java: str) -> str | None:
    """As it says itself: 17.0.15, 1.8.0_392; None if it says nothing of the kind."""
    try:
        answer = subprocess.run(
            [java, "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=JAVA_ANSWERS_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "([^"]+)"', answer.stderr + answer.stdout)
    return found[1] if found else None


def _major(version: str) -> int:
    numbers = [int(number) for number in re.findall(r"\d+", version)]
    return numbers[1] if numbers[:1] == [1] and len(numbers) > 1 else (numbers or [0])[0]


def quoted(value: object) -> str:
    """For Spark's own splitting of options."""
    text = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"' if re.search(r"[\s'\"\\]", text) else text
