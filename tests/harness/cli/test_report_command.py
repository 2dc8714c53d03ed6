"""`sinkproof report`: forms for continuous integration, waivers beside them, and the exit status."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sinkproof.reports.ci.github_annotations import SUMMARY_BYTES_MOST

from ...support.sample_certificate import NAME_HOSTILE, sample

Call = Callable[..., tuple[int, str, str]]
WAIVER = f"""
[[tool.sinkproof.waivers]]
subject = '{NAME_HOSTILE}'
claim = "NO_DUPLICATES"
cause = "R1"
reason = "moves to a transaction"
owner = "data team"
expiry = 9999-12-31
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With the certificate of a violated subject."""
    document = {**sample(), "subjects": [sample()["subjects"][1]]}
    (tmp_path / "run").mkdir()
    (tmp_path / "run/certificate.json").write_text(json.dumps(document))
    return tmp_path


def waive(folder: Path, *, text: str = WAIVER) -> None:
    (folder / "pyproject.toml").write_text(text)


def test_a_waived_violation_is_printed_as_violated_and_ends_with_0(call: Call, folder: Path) -> None:
    assert 1 == call("report", "run")[0]
    waive(folder)
    status, out, err = call("report", "run")
    assert (0, "") == (status, err)
    assert "✗ VIOLATED  1 subject: 1 violated" in out
    assert out.splitlines()[-2] == "VIOLATED, 1 waived"
    assert "moves to a transaction (data team, until 9999-12-31)" in out.splitlines()[-1]


@pytest.mark.parametrize("command", [("report", "run"), ("certify", "files/plain")])
def test_a_waiver_that_cannot_be_read_ends_the_command_with_3(call: Call, folder: Path, command: Any) -> None:
    waive(folder, text=WAIVER.replace("owner", "owners"))
    status, out, err = call(*command)
    assert (3, "") == (status, out)
    assert "unknown key 'owners' (did you mean 'owner'?)" in err
    assert not (folder / ".sinkproof").exists()


def test_exit_zero_is_for_steps_after_the_one_that_told_the_verdict(call: Call, folder: Path) -> None:
    assert [1, 0] == [call("report", "run", "--format", "junit", *more)[0] for more in ((), ("--exit-zero",))]


def test_a_report_is_as_wide_as_the_terminal_and_has_colors_there_unless_they_are_refused(
    call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lines(columns: int) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(columns))
        return call("report", "run")[1].splitlines()

    monkeypatch.delenv("NO_COLOR", raising=False)
    narrow, wide = lines(60), lines(200)
    assert max(len(line) for line in narrow if "sinkproof replay" not in line and "report.html" not in line) <= 60
    assert max(map(len, wide)) > 120
    assert not any("\x1b[" in line for line in narrow), "this is no terminal"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert any("\x1b[" in line for line in lines(100))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not any("\x1b[" in line for line in lines(100))


def test_forms_for_programs_have_nothing_else_on_stdout(call: Call, folder: Path) -> None:
    waive(folder)
    status, out, err = call("report", "run", "--format", "sarif")
    (result,) = json.loads(out)["runs"][0]["results"]
    assert (0, "external") == (status, result["suppressions"][0]["kind"])
    assert err.startswith("VIOLATED, 1 waived\n")
    assert (
        "violated: at-least-once | 0.1.0 | undated"
        == json.loads(call("report", "run", "--format", "badge-json")[1])["message"]
    )
    assert call("report", "run", "--format", "badge")[1].startswith("<svg ")


def test_annotations_are_printed_and_the_summary_is_added_to_that_of_the_step(
    call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = folder / "summary.md"
    summary.write_text("# earlier\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    status, out, _ = call("report", "run", "--format", "github")
    assert (1, True) == (status, out.startswith("::error file=sinks/my_sink.py,line=42,"))
    assert summary.read_text().startswith("# earlier\n### ✗ VIOLATED")
    summary.write_text("x" * SUMMARY_BYTES_MOST)
    call("report", "run", "--format", "github")
    assert SUMMARY_BYTES_MOST == summary.stat().st_size
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(folder / "nowhere/summary.md"))
    status, _, err = call("report", "run", "--format", "github")
    assert (3, True) == (status, "Name another file with --summary" in err)


def test_an_earlier_certificate_stands_beside_the_report(call: Call, folder: Path) -> None:
    (folder / "earlier").mkdir()
    (folder / "earlier/certificate.json").write_text(json.dumps(sample()))
    _, out, _ = call("report", "run", "--against", "earlier")
    assert "Beside the earlier certificate: 2 still there" in out
    for kind in ("html", "markdown"):
        assert "still there" in call("report", "run", "--against", "earlier", "--format", kind)[1]


def test_an_earlier_certificate_that_is_missing_or_of_no_use_ends_with_3(call: Call, folder: Path) -> None:
    status, _, err = call("report", "run", "--against", "nowhere")
    assert 3 == status
    assert "nowhere" in err
    status, _, err = call("report", "run", "--against", "run", "--format", "sarif")
    assert 3 == status
    assert "--against: only for --format text, html, markdown" in err
