"""Every report shows the essential facts of one realistic certificate, without colour, script or network."""

from __future__ import annotations

import copy
import re
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest

from sinkproof.reports import document as certificate
from sinkproof.reports import facts, junit, markdown, page, terminal
from sinkproof.reports import sample as sample_certificate
from sinkproof.reports.document import Event
from sinkproof.reports.sample import NAME_HOSTILE, REPLAY, sample

RENDERERS = {
    "terminal": terminal.render,
    "narrow terminal": lambda document: terminal.render(document, width=60),
    "page": page.render,
    "junit": junit.render,
    "markdown": markdown.render,
}


def bare() -> dict[str, Any]:
    """The sample reduced to the promised keys."""
    document = sample()
    definitions = certificate.schema()["$defs"]

    def cut(value: dict[str, Any], kind: str) -> dict[str, Any]:
        return {name: value[name] for name in definitions[kind]["required"]}

    for key in ("complete", "notes"):
        del document[key]
    document["canaries"] = [cut(canary, "canary") for canary in document["canaries"]]
    document["subjects"] = [cut(subject, "subject") for subject in document["subjects"]]
    for subject in document["subjects"]:
        subject["shells"] = [cut(item, "shell") for item in subject["shells"]]
        subject["findings"] = [cut(item, "finding") for item in subject["findings"]]
    return document


class Balanced(HTMLParser):
    """Raises where tags do not nest; keeps tags, attributes and the text."""

    VOID = frozenset({"meta", "link", "br", "hr", "img"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        expected = self.open.pop() if self.open else "nothing"
        if expected != tag:
            raise ValueError(f"</{tag}> at {self.getpos()} closes <{expected}>")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def parsed(html: str) -> Balanced:
    parser = Balanced()
    parser.feed(html)
    parser.close()
    if parser.open:
        raise ValueError(f"never closed: {parser.open}")
    return parser


def readable(name: str, text: str) -> str:
    """What a person reads: entities and escapes resolved, blanks as one."""
    if name == "page":
        text = "".join(parsed(text).texts)
    elif name == "junit":
        root = ElementTree.fromstring(text)
        text = " ".join([*root.itertext(), *(value for item in root.iter() for value in item.attrib.values())])
    elif name == "markdown":
        text = text.replace("\\", "")
    return " ".join(text.split())


def test_the_sample_keeps_to_the_schema_and_so_does_what_is_promised_of_it() -> None:
    for document in (sample(), bare()):
        certificate.validate(document)
        with pytest.raises(certificate.DocumentError):
            certificate.validate({**document, "subjects": [{}]})


@pytest.mark.parametrize("name", RENDERERS)
def test_every_report_says_who_failed_how_and_how_to_see_it_again(name: str) -> None:
    text = readable(name, RENDERERS[name](sample()))
    for fact in (
        "files/two-phase",
        NAME_HOSTILE,
        "O2",
        "0:0, 0:1",
        "10",
        REPLAY,
        "committed again by the next attempt",
    ):
        assert fact in text, fact


@pytest.mark.parametrize("name", ["terminal", "narrow terminal", "page", "markdown"])
def test_every_report_for_people_says_verdicts_grades_and_canaries_in_words(name: str) -> None:
    text = readable(name, RENDERERS[name](sample())).lower()
    for fact in ("✓ upheld", "✗ violated", "? unknown", "at-least-once", "exactly_once"):
        assert fact in text, fact
    assert "6 of 6 convicted of their own sin, 1 of 1 controls acquitted" in text
    assert "3 subjects: 1 violated, 1 unknown, 1 upheld" in text
    assert "proven" not in text


@pytest.mark.parametrize("name", RENDERERS)
def test_every_report_is_a_pure_function_that_leaves_the_document_alone(name: str) -> None:
    document = sample()
    before = copy.deepcopy(document)
    assert RENDERERS[name](document) == RENDERERS[name](document)
    assert before == document


@pytest.mark.parametrize("name", RENDERERS)
def test_every_report_can_be_made_from_the_promised_keys_alone(name: str) -> None:
    assert REPLAY in readable(name, RENDERERS[name](bare()))


@pytest.mark.parametrize("name", RENDERERS)
def test_every_report_can_be_made_of_a_run_that_was_killed_at_once(name: str) -> None:
    document = {**sample(), "complete": False, "verdict": "unknown", "subjects": [], "canaries": []}
    text = readable(name, RENDERERS[name](document)).lower()
    assert "the run did not come to its end" in text
    assert "unknown" in text


@pytest.mark.parametrize("name", RENDERERS)
def test_no_report_obeys_control_characters(name: str) -> None:
    document = sample()
    document["subjects"][1]["why"] = "beware \x1b[2J\x00 of this"
    document["subjects"][1]["findings"][1]["why"] = "beware \x1b[2J\x00 of this"
    text = RENDERERS[name](document)
    assert "\x1b" not in text
    assert "\x00" not in text
    assert r"beware \x1b[2J\x00 of this" in readable(name, text).replace("x1b[2Jx00", r"\x1b[2J\x00")


def test_an_escaped_canary_is_named_in_every_report() -> None:
    document = {**sample(), "verdict": "unknown"}
    document["canaries"][0]["convicted"] = False
    for name, render in RENDERERS.items():
        text = readable(name, render(document))
        assert "a canary escaped: marker after data (simulated)" in text, name


def test_the_terminal_shows_the_struck_line_and_never_breaks_the_replay_command() -> None:
    for width in (40, 60, 100, 200):
        text = terminal.render(sample(), width=width)
        assert any(line.endswith(REPLAY) for line in text.splitlines()), width
        assert "my_sink.py:42" in text
    assert "4,812" in text


@pytest.mark.parametrize("width", [60, 150])
def test_the_terminal_says_what_was_expected_beside_what_was_measured(width: int) -> None:
    text = terminal.render(sample(), width=width)
    assert "exactly-once (expected)" in text
    assert "(expected exactly-once)" in text


def test_the_terminal_keeps_to_its_width_but_for_replay_commands() -> None:
    for width in (60, 80, 110, 160):
        lines = terminal.render(sample(), width=width).splitlines()
        assert [] == [line for line in lines if len(line) > width and "replay" not in line], width


def test_the_terminal_says_the_same_without_colour_as_with_it() -> None:
    colored = terminal.render(sample(), width=120, color=True)
    assert "\x1b[" in colored
    assert terminal.render(sample(), width=120) == re.sub(r"\x1b\[[0-9;]*m", "", colored)


def test_the_page_is_balanced_and_alone_in_the_world() -> None:
    html = page.render(sample())
    found = parsed(html)
    assert "<!DOCTYPE html>" == html.splitlines()[0]
    for word in ("http://", "https://", "<script", "@import", "url("):
        assert word not in html, word
    links = [value for _, name, value in found.attributes if name in ("href", "src", "srcset", "action", "data")]
    assert [] == [link for link in links if not link.startswith("#") and link != "data:,"]
    assert not any(name.startswith("on") for _, name, _ in found.attributes)


def test_the_page_escapes_what_it_is_told() -> None:
    html = page.render(sample())
    assert NAME_HOSTILE not in html
    assert "Evil&lt;b&gt;&amp;&#34;Sink" in html
    harmless = sample()
    harmless["subjects"][1]["name"] = "harmless"
    assert parsed(page.render(harmless)).tags == parsed(html).tags


def test_the_page_has_headings_captions_and_scopes() -> None:
    found = parsed(page.render(sample()))
    assert 1 == found.tags.count("h1")
    assert found.tags.count("table") == found.tags.count("caption")
    scoped = {value for tag, name, value in found.attributes if (tag, name) == ("th", "scope")}
    assert {"col", "row", "colgroup"} == scoped
    scoped_count = sum(1 for tag, name, _ in found.attributes if (tag, name) == ("th", "scope"))
    assert found.tags.count("th") == scoped_count
    identities = [value for _, name, value in found.attributes if name == "id"]
    assert len(identities) == len(set(identities))
    targets = {value for tag, name, value in found.attributes if (tag, name) == ("a", "href")}
    assert targets <= {f"#{identity}" for identity in identities}


def test_the_page_shows_grid_timeline_and_canaries_in_words_and_symbols() -> None:
    text = readable("page", page.render(sample()))
    for fact in (
        "✗24 breaks a claim",
        "○24 never struck",
        "△24 a flaw that no claim covers",
        "18 lines of two_phase.py",
    ):
        assert fact in text, fact
    for fact in (
        "⚡struck: commit.after: kill",
        "0.211",
        "marker after data",
        "os.replace(pending, final)",
        "212 states",
    ):
        assert fact in text, fact


def test_the_grid_has_known_steps_in_order_and_lines_file_by_file() -> None:
    grid = facts.grid(facts.filled(sample())["subjects"][0])
    assert (
        ("simulated", "kill"),
        ("simulated", "lose"),
        ("simulated", "stop"),
        ("process", "kill"),
        ("process", "stop"),
    ) == grid.columns
    assert [*sample_certificate.POINTS, "18 lines of two_phase.py"] == [row.label for row in grid.rows]
    assert facts.Cell(outcome="upheld", runs=18 * 24) == grid.rows[-1].cells[0]


def test_the_gravest_outcome_stands_for_many() -> None:
    cells = [facts.Cell(outcome=name, runs=1) for name in ("upheld", "unfired", "violated", "finding")]
    assert facts.Cell(outcome="violated", runs=4) == facts.worst(cells)
    assert facts.Cell(outcome="none", runs=0) == facts.worst([])


def test_a_long_timeline_keeps_its_strikes_and_says_what_it_left_out() -> None:
    events = [certificate.plain(Event(at=at, actor="sink[0]", what=str(at), struck=at == 250)) for at in range(500)]
    shown = page.moments(events)
    assert ["250"] == [moment.what for moment in shown if moment.struck]
    assert "499" == shown[-1].what
    assert 500 == sum(moment.left_out or 1 for moment in shown)
    assert len(shown) <= page.EVENTS_SHOWN


def test_junit_fails_what_is_violated_and_errs_what_is_unknown() -> None:
    root = ElementTree.fromstring(junit.render(sample()))
    cases = {(case.get("classname"), case.get("name")): case for case in root.iter("testcase")}
    failed = [case.get("name") for case in cases.values() if case.find("failure") is not None]
    assert ["NO_DUPLICATES", "commit.after"] == failed
    failure = cases[f"sinkproof.{NAME_HOSTILE}.process", "commit.after"].find("failure")
    assert failure is not None
    assert REPLAY in (failure.text or "")
    erred = [case.get("name") for case in cases.values() if case.find("error") is not None]
    assert ["NO_LOSS"] == erred
    assert ("2", "1") == (root.get("failures"), root.get("errors"))
    assert str(len(cases)) == root.get("tests")


def test_junit_skips_a_step_that_was_not_reached_and_errs_where_no_fault_ever_struck() -> None:
    document = sample()
    for outcome in document["subjects"][1]["shells"][0]["outcomes"]:
        outcome["outcome"] = "unfired" if outcome["point"] == "abort.after" else outcome["outcome"]
    cases = {
        (case.get("classname"), case.get("name")): [child.tag for child in case]
        for case in ElementTree.fromstring(junit.render(document)).iter("testcase")
    }
    assert ["error"] == cases[f"sinkproof.{NAME_HOSTILE}.process", "abort.after"]
    assert ["skipped"] == cases["sinkproof.--command './my-sink --flag'.process", "commit.before"]


def test_junit_of_a_run_without_a_verdict_is_never_green() -> None:
    document = {
        **sample(),
        "verdict": "unknown",
        "complete": False,
        "subjects": [certificate.plain(sample_certificate.upheld())],
    }
    root = ElementTree.fromstring(junit.render(document))
    assert "1" == root.get("errors")


def test_markdown_cannot_be_broken_by_a_name() -> None:
    document = sample()
    document["subjects"][1]["name"] = "a|b `c` @team <img>"
    row = next(line for line in markdown.render(document).splitlines() if "VIOLATED" in line and line.startswith("|"))
    assert r"| a\|b \`c\` @" in row
    assert "@team" not in row
    assert r"\<img\>" in row
