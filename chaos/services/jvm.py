"""The Java and the other files that services run from; JVM options for a fast start and no files elsewhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from sinkproof.chaos.services.service import ServiceUnavailable

JAVA_LEAST: Final = 17
ANSWERS_SECONDS: Final = 20.0  # a cold start on a busy machine takes 2
INSTALL: Final = {
    "apt-get": "apt-get install -y openjdk-17-jre-headless",
    "dnf": "dnf install -y java-17-openjdk-headless",
    "apk": "apk add openjdk17-jre-headless",
    "pacman": "pacman -S --noconfirm jre17-openjdk-headless",
}
CONTAINED: Final = (
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",  # no /tmp/hsperfdata_*
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:+IgnoreUnrecognizedVMOptions",  # of a Java version without one of these options
    "-Djava.awt.headless=true",
    "-Djava.net.preferIPv4Stack=true",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """The files that one version of a service runs from."""

    java: str
    libs: str  # the folder of the jars
    options: tuple[str, ...] = ()  # of the JVM
    image: str = ""  # of the containers that it runs in, which has these files at the same paths; "": no container


def find_java() -> str:
    """The path of a suitable `java`. Raises ServiceUnavailable with the command that installs one."""
    java = path_of_java()
    if java is None:
        found = no_java()
    elif major(java) < JAVA_LEAST:
        found = f"{java} is version {java_version(java) or 'unknown'}"
    else:
        return java
    raise ServiceUnavailable(
        f"services need Java {JAVA_LEAST} or newer", evidence=found, next_step=f"Run: {how_to_install(INSTALL)}"
    )


def path_of_java() -> str | None:
    """The places that Spark's own start script checks, in its order."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=os.path.join(home, "bin") if home else None)


def no_java() -> str:
    home = os.environ.get("JAVA_HOME")
    return f"JAVA_HOME is {home}, where there is no bin/java" if home else "no `java` was found on the PATH"


def how_to_install(commands: dict[str, str]) -> str:
    """The command of the installed package manager."""
    command = next((command for name, command in commands.items() if shutil.which(name)), None)
    if command is None:
        return next(iter(commands.values()))
    return command if os.geteuid() == 0 else f"sudo {command}"


def major(java: str) -> int:
    numbers = [int(number) for number in re.findall(r"\d+", java_version(java))]
    return numbers[1] if numbers[:1] == [1] and len(numbers) > 1 else (numbers or [0])[0]


@cache
def java_version(java: str) -> str:
    """As printed by `java -version`, for instance 17.0.15; "" if there is none."""
    command = [java, "-version"]
    try:
        answer = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=ANSWERS_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r'version "([^"]+)"', answer.stderr + answer.stdout)
    return found[1] if found else ""


def class_path(libs: Path) -> str:
    """In a fixed order: an archive of classes depends on it."""
    return os.pathsep.join(sorted(map(str, libs.glob("*.jar"))))
