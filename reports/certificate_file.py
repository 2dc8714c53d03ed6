"""Writes a certificate step by step, so that an interrupted run leaves a readable one; reads and checks one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args, get_type_hints

import msgspec

from sinkproof.reports.document import (
    FILE_NAME,
    SCHEMA,
    VERDICTS,
    CanaryResult,
    Document,
    DocumentError,
    Measurement,
    SubjectResult,
    VerdictWord,
    write_errors,
)
from sinkproof.reports.json_files import PROMISED, Seconds, json_text, plain, replace_file, says
from sinkproof.reports.watched_calls import Texts

DATE: Final = r"^(\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d\+00:00)?$"
INCOMPLETE: Final = {  # what __post_init__ checks
    "if": {"required": ["complete"], "properties": {"complete": {"const": False}}},
    "then": {"properties": {"verdict": {"enum": ["unknown", "violated"]}}},
}


class TaskFailure(msgspec.Struct, frozen=True, kw_only=True, rename={"origin": "whose"}):
    """A task without a result"""

    why: Annotated[str, says("one line")]
    origin: Annotated[
        Literal["ours", "input", "subject"], says("where the cause lies: sinkproof, bad arguments, or the subject")
    ]
    details: Annotated[str, says("may be a traceback")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """The result of one run of `sinkproof certify`; every report is a pure function of it. Required keys are a public
    promise; the others may be missing. Unknown keys are to be ignored.
    """

    schema: Literal["sinkproof/certificate/1"]
    verdict: Annotated[VerdictWord, says("violated beats unknown beats upheld")]
    environment: Annotated[
        Mapping[str, Any], says("versions, machine, seed and other facts that help to repeat the run; free keys")
    ]
    seconds: Annotated[Seconds, says("duration of the run")]
    canaries: Annotated[Sequence[CanaryResult], says("sinks that are wrong on purpose, and their correct controls")]
    subjects: Annotated[Sequence[SubjectResult], says("the sinks that were certified")]
    complete: Annotated[bool, says("false: the run has not finished, or was killed")] = True
    command: Annotated[str, says("the command that repeats the run")] = ""
    date: Annotated[str, says("when the run began, in UTC, as in 2026-01-31T12:00:00+00:00", pattern=DATE)] = ""
    glossary: Annotated[
        Mapping[str, Mapping[str, str]],
        says("a sentence for each word in use, by its kind: points, faults, oracles, claims, root_causes"),
    ] = field(default_factory=dict)
    unkept: Annotated[Texts, says("results of this run that are not kept for later ones, and why")] = ()
    measurements: Annotated[Sequence[Measurement], says("no verdict depends on them")] = ()
    notes: Annotated[Texts, says("sentences about the run as a whole")] = ()
    failures: Annotated[Sequence[TaskFailure], says("tasks without a result")] = ()

    def __post_init__(self) -> None:
        if not self.complete and self.verdict == "upheld":
            raise ValueError("`verdict` is 'upheld' although `complete` is false")
        if self.date:
            datetime.fromisoformat(self.date)  # the pattern lets days pass that no month has


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
        """A sentence about the run as a whole."""
        self._append("notes", text)

    def ended_early(self, why: str, *, verdict: str) -> None:
        """The last call of a run that was interrupted: what was violated by then is."""
        self._document["verdict"] = verdict
        self.note(why)

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
        next_step = "Name another folder with --out, or free some space"
        with write_errors(f"cannot write the certificate {self.path}", next_step=next_step):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self.path, text + "\n")


def load(folder_or_file: Path | str) -> Document:
    """The document in a run's folder, or in this file, checked."""
    path = Path(folder_or_file)
    path = path / FILE_NAME if path.is_dir() else path
    try:
        document = msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise DocumentError(
            f"there is no readable certificate at {path}",
            evidence=error.strerror or str(error),
            next_step=f"Name a folder that `sinkproof certify` wrote, or its {FILE_NAME}",
        ) from error
    except (ValueError, RecursionError) as error:
        raise DocumentError(
            f"the certificate {path} is damaged",
            evidence=str(error),
            next_step="Run `sinkproof certify` again: it writes the file whole or not at all",
        ) from error
    validate(document, source=str(path))
    return dict(document)


def validate(document: object, *, source: str = "the document") -> None:
    """Raises DocumentError with the first place where the document breaks the published schema."""
    found = document.get("schema") if isinstance(document, Mapping) else None
    if found != SCHEMA:
        raise DocumentError(
            f"{source} is not a certificate that this sinkproof reads",
            evidence=f"its schema is {found!r}, not {SCHEMA!r}",
            next_step="Read it with the sinkproof that wrote it, or certify again",
        )
    try:
        broken = next(_promises_broken(msgspec.convert(document, Certificate), document), None)
    except msgspec.ValidationError as error:
        broken = str(error)
    if broken:
        raise DocumentError(
            f"{source} does not keep to its schema {SCHEMA}",
            evidence=broken,
            next_step="If sinkproof wrote it like this, that is a bug in sinkproof: please report it",
        )


def _promises_broken(part: Any, given: Any, *, at: str = "$") -> Iterator[str]:
    """Promised keys that are missing: msgspec takes the default of a class for them."""
    if isinstance(part, list):
        for place, each in enumerate(part):
            yield from _promises_broken(each, given[place], at=f"{at}[{place}]")
    elif part is not None:
        promises, parts = _promises_and_parts(part.__class__)
        yield from (f"Object missing required field `{key}` - at `{at}`" for key in promises - given.keys())
        for key in parts & given.keys():
            yield from _promises_broken(getattr(part, key), given[key], at=f"{at}.{key}")


@cache
def _promises_and_parts(part: type) -> tuple[frozenset[str], frozenset[str]]:
    """Its keys that are promised, and those that hold parts: one, or a list."""
    hints = get_type_hints(part, include_extras=True)
    said = {
        key: [meta.extra_json_schema or {} for meta in getattr(of, "__metadata__", ())] for key, of in hints.items()
    }
    promises = frozenset(key for key, each in said.items() if any(PROMISED in extra for extra in each))
    return promises, frozenset(key for key, of in get_type_hints(part).items() if any(map(is_dataclass, get_args(of))))


@cache
def schema() -> Document:
    """The published JSON Schema (2020-12) of the document."""
    _, parts = msgspec.json.schema_components([Certificate], ref_template="#/$defs/{name}")
    for part in parts.values():
        keys, needed = part["properties"], part["required"]
        part["required"] = [key for key in keys if keys[key].pop(PROMISED, False) or key in needed]
        part["description"] = " ".join(part["description"].split())
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:sinkproof:certificate:1",
        **parts.pop("Certificate"),
        "title": "sinkproof certificate",
        **INCOMPLETE,
        "$defs": parts,
    }
