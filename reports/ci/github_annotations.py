"""For GitHub Actions: annotations at the struck lines, as workflow commands, and a summary of the step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from sinkproof.reports import markdown
from sinkproof.reports import report_facts as facts
from sinkproof.reports.ci.sarif import Reasons
from sinkproof.reports.ci.violations import Violation, violations
from sinkproof.reports.document import line_of

SHOWN_MOST: Final = 10  # of each kind: GitHub shows no more of one step
SUMMARY_BYTES_MOST: Final = 1 << 20  # of one step: GitHub refuses a larger one as a whole
CUT: Final = "\n\nCut short: a summary has 1 MiB at most. The whole is in the certificate and report.html.\n"


def render(document: Mapping[str, Any], *, waived: Reasons | None = None) -> str:
    """An error for each violation, a notice for each that is waived, a warning for each subject that is UNKNOWN."""
    found = violations(document)
    notices = [each for each in found if each.key in (waived or {})]
    errors = [each for each in found if each not in notices]
    unknown = [subject for subject in facts.filled(document)["subjects"] if subject["verdict"] == "unknown"]
    lines = [_violation("error", each, "") for each in errors[:SHOWN_MOST]]
    lines += [_violation("notice", each, f"waived: {(waived or {})[each.key]}\n") for each in notices[:SHOWN_MOST]]
    shown = unknown[:SHOWN_MOST]
    lines += [_command("warning", subject["why"], title=f"UNKNOWN: {subject['name']}") for subject in shown]
    left = {
        "more violation": len(errors[SHOWN_MOST:]) + len(notices[SHOWN_MOST:]),
        "more unknown subject": len(unknown[SHOWN_MOST:]),
    }
    more = " and ".join(facts.plural(number, what) for what, number in left.items() if number)
    lines += [f"{more}: see the summary and the certificate"] if more else []
    return "".join(f"{line}\n" for line in lines)


def _violation(level: str, violation: Violation, before: str) -> str:
    finding, line = violation.smallest, line_of(violation.smallest)
    place = {"file": line.path, "line": str(line.number)} if line.path else {}
    message = f"{before}{violation.subject} ({violation.where}): {finding['why']}\nShow it again: {finding['replay']}"
    return _command(level, message, **place, title=f"VIOLATED: {violation.claim}")


def _command(level: str, message: str, **properties: str) -> str:
    given = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{level} {given}::{_data(message)}"


def _data(text: str) -> str:
    lines = "\n".join(map(facts.visible, text.splitlines()))
    return lines.replace("%", "%25").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def summary(document: Mapping[str, Any], *, waivers: Iterable[str] = (), room: int = SUMMARY_BYTES_MOST) -> str:
    """`markdown.render` after what is said of waivers, cut at the end of a line. `room`: left of the step's limit."""
    text = "".join(f"- {markdown.escaped(line)}\n" for line in waivers) + markdown.render(document)
    data = text.encode()
    if len(data) <= room:
        return text
    kept = data[: max(0, room - len(CUT.encode()))].rpartition(b"\n")[0]
    return kept.decode() + CUT if kept else ""
