"""Writes the certificate step by step, so that an interrupted run leaves a readable one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sinkproof.reports.document import (
    FILE_NAME,
    SCHEMA,
    VERDICTS,
    CanaryResult,
    Document,
    Measurement,
    SubjectResult,
    write_errors,
)
from sinkproof.reports.json_files import json_text, plain, replace_file


class CertificateWriter:
    """Keeps `folder/certificate.json` readable at every moment of a run.

    Each call replaces the file by an atomic rename. Until `finish` the verdict is "unknown" and `complete` is false,
    so that the file of a killed run says that it is incomplete.
    """

    def __init__(
        self,
        folder: Path,
        *,
        clock: Callable[[], float],
        environment: Mapping[str, object] | None = None,
        command: str = "",
        date: str = "",
        glossary: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """`command`: repeats the run. `date`: when it began. `glossary`: a sentence for each word, by its kind."""
        self.path = folder / FILE_NAME
        self._clock, self._started = clock, clock()
        self._document: Document = {
            "schema": SCHEMA,
            "verdict": "unknown",
            "complete": False,
            "environment": plain(environment or {}),
            "command": plain(command),
            "date": date,
            "glossary": plain(glossary or {}),
            "seconds": 0.0,
            "notes": [],
            "failures": [],
            "measurements": [],
            "unkept": [],
            "canaries": [],
            "subjects": [],
        }
        self._write()

    def canaries(self, results: Sequence[CanaryResult]) -> None:
        """All at once: to write the document anew for each took a second."""
        self._document["canaries"] += plain(results)
        self._write()

    def subject(self, result: SubjectResult) -> None:
        """Adds a subject, or replaces its earlier entry: call it once per finished shell."""
        subjects: list[Document] = self._document["subjects"]
        names = [subject["name"] for subject in subjects]
        value = plain(result)
        if value["name"] in names:
            subjects[names.index(value["name"])] = value
        else:
            subjects.append(value)
        self._write()

    def note(self, text: str) -> None:
        """A sentence about the run as a whole, such as why it was interrupted."""
        self._append("notes", text)

    def measured(self, measurement: Measurement) -> None:
        self._append("measurements", measurement)

    def failure(self, why: str, *, origin: str, details: str = "") -> None:
        """A task without a result. `origin`: "ours", "input" (bad arguments) or "subject"."""
        self._append("failures", {"why": why, "whose": origin, "details": details})

    def unkept(self, why: Sequence[str]) -> None:
        """Which results are not kept for later commands, and why."""
        self._document["unkept"] = plain(why)
        self._write()

    def finish(self, verdict: str) -> Document:
        """The last call: the run has ended with this verdict. Returns what was written; do not change it."""
        assert verdict in VERDICTS, verdict
        self._document["verdict"] = verdict
        self._document["complete"] = True
        self._write()
        return self._document

    def _append(self, key: str, value: object) -> None:
        self._document[key].append(plain(value))
        self._write()

    def _write(self) -> None:
        self._document["seconds"] = round(max(0.0, self._clock() - self._started), 3)
        text = json_text(self._document)
        next_step = "Free some space or name another folder with --out"
        with write_errors(f"cannot write the certificate {self.path}", next_step=next_step):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self.path, text + "\n")
