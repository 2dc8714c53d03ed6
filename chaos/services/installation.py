"""The files that one version of a service runs from: a Java, the jars, and optionally a container image of both."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    java: str
    libs: str  # the folder of the jars
    options: tuple[str, ...] = ()  # of the JVM
    image: str = ""  # of the containers that it runs in, which has these files at the same paths; "": no container
