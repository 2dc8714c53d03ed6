"""The certificate document: its schema, its atomic writes, and the errors for damaged files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from copy import deepcopy
from functools import reduce
from itertools import count, product
from operator import getitem
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped, unused-ignore]
import pytest

from sinkproof.reports import certificate_file
from sinkproof.reports import document as certificate
from sinkproof.reports.certificate_file import CertificateWriter
from sinkproof.reports.document import CanaryResult, DocumentError, SubjectResult
from sinkproof.reports.json_files import json_text, plain

from ..support.sample_certificate import sample

PROMISED = {  # a key less, and readers of certificates break; a key more, and earlier certificates are not read
    "CanaryResult": "name root_cause convicted seconds oracle schedule",
    "SubjectResult": "name verdict grade expected_grade claims shells findings",
    "ClaimResult": "claim verdict why",
    "CodeCoverage": "file executed killed stopped paused never_run handlers_never_run excluded",
    "ShellResult": "shell schedules_run schedules_in_bound kills seconds points_reached points_total lines_reached"
    " lines_total closure",
    "Bounds": "sources sinks rows bytes keys checkpoints checkpoints_pending restarts clocks",
    "ClosureResult": "states complete why",
    "PointOutcome": "point fault runs outcome",
    "StageResult": "name run planned finished skipped",
    "OutwardCalls": "calls killed recovery_calls recovery_killed",
    "PowerLosses": "losses struck took",
    "InsideService": "service calls killed restart_calls restart_killed",
    "Finding": "oracle claimed shell schedule why replay lost extra",
    "TimelineEvent": "at actor what struck",
    "SourceLine": "file number text",
    "TargetChange": "at place actor generation",
    "RowSeen": "row when_struck in_the_end",
    "TargetRecord": "changes rows before after rows_before rows_after",
    "Measurement": "name value",
    "TaskFailure": " ".join(("why", "whose")),
}


def ticking() -> Iterator[float]:
    return map(float, count(100, 5))


def writer_in(folder: Path) -> CertificateWriter:
    return CertificateWriter(folder, clock=ticking().__next__, environment={"python": "3.11", "seed": 7})


def subject(name: str, *, verdict: str = "upheld") -> SubjectResult:
    return SubjectResult(name=name, verdict=verdict, grade="exactly-once", why="because")


def minimal() -> dict[str, object]:
    """Nothing but the promised top-level keys."""
    return {
        "schema": certificate.SCHEMA,
        "verdict": "unknown",
        "environment": {},
        "seconds": 0,
        "canaries": [],
        "subjects": [],
    }


def test_a_new_certificate_is_unknown_and_incomplete_before_anything_was_done(tmp_path: Path) -> None:
    writer_in(tmp_path / "run")
    found = certificate_file.load(tmp_path / "run")
    assert ("unknown", False) == (found["verdict"], found["complete"])


def test_every_step_leaves_a_readable_certificate(tmp_path: Path) -> None:
    writer = writer_in(tmp_path)
    writer.canaries([CanaryResult(name="marker after data", root_cause="R1", convicted=True, seconds=0.1)])
    assert ["marker after data"] == [canary["name"] for canary in certificate_file.load(tmp_path)["canaries"]]
    writer.subject(subject("files/two-phase"))
    writer.note("interrupted by SIGTERM")
    found = certificate_file.load(tmp_path)
    assert ("unknown", False) == (found["verdict"], found["complete"])
    assert ["interrupted by SIGTERM"] == found["notes"]


def test_what_was_violated_when_a_run_was_interrupted_is_its_verdict(tmp_path: Path) -> None:
    writer = writer_in(tmp_path)
    writer.subject(subject("one", verdict="violated"))
    writer.ended_early("interrupted by SIGTERM", verdict="violated")
    found = certificate_file.load(tmp_path)
    assert ("violated", False) == (found["verdict"], found["complete"])
    assert ["interrupted by SIGTERM"] == found["notes"]


def test_finish_states_the_verdict_and_the_duration(tmp_path: Path) -> None:
    writer = writer_in(tmp_path)
    writer.subject(subject("files/two-phase"))
    finished = writer.finish("upheld")
    found = certificate_file.load(tmp_path / "certificate.json")
    assert ("upheld", True, 15.0) == (found["verdict"], found["complete"], found["seconds"])
    assert found == finished


def test_a_subject_written_again_replaces_itself_and_keeps_its_place(tmp_path: Path) -> None:
    writer = writer_in(tmp_path)
    writer.subject(subject("one", verdict="unknown"))
    writer.subject(subject("two"))
    writer.subject(subject("one", verdict="violated"))
    found = certificate_file.load(tmp_path)["subjects"]
    assert [("one", "violated"), ("two", "upheld")] == [(item["name"], item["verdict"]) for item in found]


def test_a_failed_write_keeps_the_certificate_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = writer_in(tmp_path)
    before = (tmp_path / "certificate.json").read_bytes()

    def no_space(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", no_space)
    with pytest.raises(DocumentError, match="No space left on device"):
        writer.finish("upheld")
    assert before == (tmp_path / "certificate.json").read_bytes()
    assert ["certificate.json"] == [path.name for path in tmp_path.iterdir()]


def test_an_error_about_a_folder_has_a_next_step(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DocumentError, match="cannot write the certificate") as caught:
        writer_in(tmp_path / "file")
    assert "--out" in caught.value.next_step


def test_text_that_utf8_cannot_hold_is_escaped(tmp_path: Path) -> None:
    writer_in(tmp_path).subject(subject("sink-\udcff.py:Mine"))
    assert "sink-\\udcff.py:Mine" == certificate_file.load(tmp_path)["subjects"][0]["name"]


def test_rows_and_cells_are_one_line_each_and_are_read_back_equal() -> None:
    rows = [[0, offset] for offset in range(50)]
    value = {
        "short": [1, 2],
        "rows": rows,
        "text": 'ü "quoted"\n' * 20,
        "empty": [],
        "nothing": None,
        "deep": {"a": rows},
    }
    text = json_text(value)
    assert value == json.loads(text)
    assert ' "short": [1, 2],' in text.splitlines()
    assert "  [0, 49]" in text.splitlines()
    assert 112 == len(text.splitlines())


def test_a_measurement_is_part_of_the_certificate(tmp_path: Path) -> None:
    writer = writer_in(tmp_path)
    writer.measured(certificate.Measurement(name="soak", value="1,000 rows"))
    assert [{"name": "soak", "value": "1,000 rows", "note": ""}] == certificate_file.load(tmp_path)["measurements"]


def test_the_promised_keys_of_each_part_are_these() -> None:
    found = {name: " ".join(part["required"]) for name, part in certificate_file.schema()["$defs"].items()}
    assert PROMISED == found


@pytest.mark.slow
def test_the_loader_refuses_what_the_published_schema_refuses_and_names_the_place() -> None:
    """The sample without one of its keys, or with a value of another kind there: for each key of each part."""
    published, whole = jsonschema.Draft202012Validator(certificate_file.schema()), shortened(sample())
    places = {tuple(each for each in path if isinstance(each, str)): path for path in paths(whole)}
    legal: Counter[bool] = Counter()
    for path, change in product(places.values(), (None, [-1])):
        document = changed(deepcopy(whole), path, change)
        legal[keeps := published.is_valid(document)] += 1
        with nullcontext() if keeps else pytest.raises(DocumentError, match=rf"\W{path[-1]}\W"):
            certificate_file.validate(document)
    assert legal[True] > 30
    assert legal[False] > 100


def shortened(value: Any) -> Any:
    """Lists hold two elements at most."""
    if isinstance(value, dict):
        return {key: shortened(each) for key, each in value.items()}
    return [*map(shortened, value[:2])] if isinstance(value, list) else value


def paths(value: Any, *, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the promised and the other keys of all parts are."""
    free = {"schema", "environment", "glossary", "kills_by_point", "steps"}
    if isinstance(value, list):
        yield from (path for place, each in enumerate(value) for path in paths(each, at=(*at, place)))
    elif isinstance(value, dict):
        yield from ((*at, key) for key in value.keys() - free)
        yield from (path for key in value.keys() - free for path in paths(value[key], at=(*at, key)))


def changed(document: Any, path: tuple[Any, ...], change: Any) -> Any:
    """Without this key, or with another value there."""
    parent = reduce(getitem, path[:-1], document)
    parent[path[-1]] = change
    if change is None:
        del parent[path[-1]]
    return document


def test_the_schema_is_itself_a_valid_schema_and_every_key_is_described() -> None:
    jsonschema.Draft202012Validator.check_schema(certificate_file.schema())
    for name, definition in certificate_file.schema()["$defs"].items():
        for key, value in definition.get("properties", {}).items():
            assert {"description", "$ref"} & set(value), f"{name}.{key}"


def test_a_command_prints_the_schema(sinkproof_command: Any) -> None:
    done = sinkproof_command("schema")
    assert (0, plain(certificate_file.schema())) == (done.returncode, json.loads(done.stdout))


def test_a_document_with_only_the_promised_keys_is_valid() -> None:
    certificate_file.validate(minimal())
    for key in minimal():
        with pytest.raises(DocumentError):
            certificate_file.validate({name: value for name, value in minimal().items() if name != key})


def test_unknown_keys_are_ignored() -> None:
    certificate_file.validate({**minimal(), "weather": "fine"})
    with pytest.raises(DocumentError):
        certificate_file.validate({**minimal(), "verdict": "fine"})


@pytest.mark.parametrize(
    "date", ["2026-99-99T12:00:00+00:00", "2026-02-30T12:00:00+00:00", "0000-01-01T12:00:00+00:00"]
)
def test_a_date_is_one_of_the_calendar(date: str) -> None:
    certificate_file.validate({**minimal(), "date": "2028-02-29T23:59:59+00:00"})
    with pytest.raises(DocumentError, match="does not keep to its schema"):
        certificate_file.validate({**minimal(), "date": date})


@pytest.mark.parametrize("schedule", ["", " "])
def test_a_finding_has_a_schedule(schedule: str) -> None:
    document = sample()
    document["subjects"][1]["findings"][0]["schedule"] = schedule
    assert not jsonschema.Draft202012Validator(certificate_file.schema()).is_valid(document)
    with pytest.raises(DocumentError, match=r"\.schedule"):
        certificate_file.validate(document)


def test_an_incomplete_run_cannot_be_upheld() -> None:
    with pytest.raises(DocumentError, match="does not keep to its schema"):
        certificate_file.validate({**minimal(), "complete": False, "verdict": "upheld"})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is damaged"),
        (b'{"schema": "sinkproof/certif', "is damaged"),
        (b"\xff\xfe", "is damaged"),
        (b"[" * 100_000, "is damaged"),
        (b'{"seconds": NaN}', r"malformed: invalid character \(byte 12\)"),
        (b"[]", "its schema is None"),
        (b'{"schema": "sinkproof/certificate/9"}', "its schema is 'sinkproof/certificate/9'"),
        (b'{"schema": "sinkproof/certificate/1"}', "does not keep to its schema"),
        (json.dumps({**minimal(), "verdict": "proven"}).encode(), r"'proven' - at `\$.verdict`"),
    ],
)
def test_a_damaged_or_foreign_certificate_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "certificate.json").write_bytes(content)
    with pytest.raises(DocumentError, match=said) as caught:
        certificate_file.load(tmp_path)
    assert caught.value.next_step


def test_a_missing_certificate_is_refused_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="no readable certificate") as caught:
        certificate_file.load(tmp_path)
    assert str(tmp_path / "certificate.json") in caught.value.what
