"""The certificate document: its schema, its atomic writes, and the errors for damaged files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from sinkproof.reports import document as certificate
from sinkproof.reports.certificate_writer import CertificateWriter
from sinkproof.reports.document import CanaryResult, DocumentError, SubjectResult
from sinkproof.reports.json_files import json_text

SUBJECT_KEYS_PROMISED = {"name", "verdict", "grade", "expected_grade", "claims", "shells", "findings"}


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
    found = certificate.load(tmp_path / "run")
    assert ("unknown", False) == (found["verdict"], found["complete"])


def test_every_step_leaves_a_readable_certificate(tmp_path: Path) -> None:
    writer = writer_in(tmp_path)
    writer.canaries([CanaryResult(name="marker after data", root_cause="R1", convicted=True, seconds=0.1)])
    assert ["marker after data"] == [canary["name"] for canary in certificate.load(tmp_path)["canaries"]]
    writer.subject(subject("files/two-phase"))
    writer.note("interrupted by SIGTERM")
    found = certificate.load(tmp_path)
    assert ("unknown", False) == (found["verdict"], found["complete"])
    assert ["interrupted by SIGTERM"] == found["notes"]


def test_finish_states_the_verdict_and_the_duration(tmp_path: Path) -> None:
    writer = writer_in(tmp_path)
    writer.subject(subject("files/two-phase"))
    finished = writer.finish("upheld")
    found = certificate.load(tmp_path / "certificate.json")
    assert ("upheld", True, 15.0) == (found["verdict"], found["complete"], found["seconds"])
    assert found == finished


def test_a_subject_written_again_replaces_itself_and_keeps_its_place(tmp_path: Path) -> None:
    writer = writer_in(tmp_path)
    writer.subject(subject("one", verdict="unknown"))
    writer.subject(subject("two"))
    writer.subject(subject("one", verdict="violated"))
    found = certificate.load(tmp_path)["subjects"]
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
    assert "sink-\\udcff.py:Mine" == certificate.load(tmp_path)["subjects"][0]["name"]


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
    assert [{"name": "soak", "value": "1,000 rows", "note": ""}] == certificate.load(tmp_path)["measurements"]


def test_the_builders_write_the_promised_keys_and_only_documented_ones() -> None:
    documented = certificate.schema()["$defs"]
    kinds: dict[str, type[Any]] = {
        "canary": CanaryResult,
        "subject": SubjectResult,
        "claim": certificate.ClaimResult,
        "shell": certificate.ShellResult,
        "closure": certificate.ClosureResult,
        "outcome": certificate.PointOutcome,
        "finding": certificate.Finding,
        "event": certificate.TimelineEvent,
        "line": certificate.SourceLine,
    }
    for name, kind in kinds.items():
        assert set(documented[name]["properties"]) == {part.name for part in fields(kind)}, name
    assert set(documented["subject"]["required"]) == SUBJECT_KEYS_PROMISED


def test_the_schema_is_itself_a_valid_schema_and_every_key_is_described() -> None:
    import jsonschema  # type: ignore[import-untyped, unused-ignore]

    jsonschema.Draft202012Validator.check_schema(certificate.schema())
    for name, definition in certificate.schema()["$defs"].items():
        for key, value in definition.get("properties", {}).items():
            assert {"description", "$ref"} & set(value), f"{name}.{key}"


def test_a_document_with_only_the_promised_keys_is_valid() -> None:
    certificate.validate(minimal())
    for key in minimal():
        with pytest.raises(DocumentError):
            certificate.validate({name: value for name, value in minimal().items() if name != key})


def test_unknown_keys_are_ignored() -> None:
    certificate.validate({**minimal(), "weather": "fine"})
    with pytest.raises(DocumentError):
        certificate.validate({**minimal(), "verdict": "fine"})


def test_an_incomplete_run_cannot_be_upheld() -> None:
    with pytest.raises(DocumentError, match="does not keep to its schema"):
        certificate.validate({**minimal(), "complete": False, "verdict": "upheld"})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is damaged"),
        (b'{"schema": "sinkproof/certif', "is damaged"),
        (b"\xff\xfe", "is damaged"),
        (b"[" * 100_000, "is damaged"),
        (b'{"seconds": NaN}', "NaN is not a JSON number"),
        (b"[]", "its schema is None"),
        (b'{"schema": "sinkproof/certificate/9"}', "its schema is 'sinkproof/certificate/9'"),
        (b'{"schema": "sinkproof/certificate/1"}', "does not keep to its schema"),
        (json.dumps({**minimal(), "verdict": "proven"}).encode(), r"at \$.verdict: 'proven'"),
    ],
)
def test_a_damaged_or_foreign_certificate_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "certificate.json").write_bytes(content)
    with pytest.raises(DocumentError, match=said) as caught:
        certificate.load(tmp_path)
    assert caught.value.next_step


def test_a_missing_certificate_is_refused_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="no readable certificate") as caught:
        certificate.load(tmp_path)
    assert str(tmp_path / "certificate.json") in caught.value.what
