"""Every report shows the essential facts of one realistic certificate, without colour, script or network."""

from __future__ import annotations

import copy
import html
import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest

from sinkproof.reports import certificate_file, compare, junit, markdown, page, terminal
from sinkproof.reports import document as certificate
from sinkproof.reports.ci import badge, github_annotations, sarif
from sinkproof.reports.document import Bounds, CodeCoverage, InsideService, OutwardCalls, PowerLosses, StageResult
from sinkproof.reports.json_files import plain

from ..support import sample_certificate
from ..support.sample_certificate import NAME_HOSTILE, REPLAY, sample

RENDERERS = {
    "terminal": terminal.render,
    "narrow terminal": lambda document: terminal.render(document, width=60),
    "page": page.render,
    "junit": junit.render,
    "markdown": markdown.render,
}


def bare(*, parts: bool = False) -> dict[str, Any]:
    """The sample reduced to the promised keys. `parts`: and to the parts that may be missing, with theirs."""
    schema, document = certificate_file.schema(), sample()
    watched = {"outward": OutwardCalls(calls=3), "power": PowerLosses(losses=2), "inside": InsideService(calls=3)}
    for shell in (shell for subject in document["subjects"] for shell in subject["shells"]):
        shell.update(plain(watched | {"bounds": Bounds(rows=7), "stages": [StageResult(name="kill at each step")]}))
    document["subjects"][0]["code"] = [plain(CodeCoverage(file="a.py", executed=3, killed=2, stopped=1, paused=0))]

    def cut(value: Any, of: dict[str, Any]) -> Any:
        if isinstance(value, list):
            return [cut(each, of.get("items", of)) for each in value]
        kinds = [each["$ref"].rpartition("/")[2] for each in (of, *of.get("anyOf", ())) if "$ref" in each]
        if not kinds or not isinstance(value, dict):
            return value
        kind = schema["$defs"][kinds[0]]
        return cut_keys(value, kind)

    def cut_keys(value: dict[str, Any], kind: dict[str, Any]) -> dict[str, Any]:
        kept = {key: of for key, of in kind["properties"].items() if key in kind["required"] or (parts and is_part(of))}
        return {key: cut(value[key], of) for key, of in kept.items() if key in value}

    return cut_keys(document, schema)


def is_part(of: dict[str, Any]) -> bool:
    """One, a list of them, or null."""
    return "$ref" in of or any(map(is_part, (*of.get("anyOf", ()), *([of["items"]] if of.get("items") else []))))


class Balanced(HTMLParser):
    """Raises where tags do not nest; keeps tags, attributes and the text."""

    VOID = frozenset({"meta", "link", "br", "hr", "img", "wbr"})
    ENDS_CELLS = frozenset({"td", "th", "tr"})  # HTML lets a cell end where the next one begins: the grid is large

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if self.open and self.open[-1] in ("td", "th") and tag in self.ENDS_CELLS:
            self.open.pop()
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        expected = self.open.pop() if self.open else "nothing"
        if expected in ("td", "th") and tag == "tr":
            expected = self.open.pop()
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


def test_the_sample_and_its_promised_keys_satisfy_the_schema() -> None:
    for document in (sample(), bare(), bare(parts=True)):
        certificate_file.validate(document)
        with pytest.raises(certificate.DocumentError):
            certificate_file.validate({**document, "subjects": [{}]})


@pytest.mark.parametrize("name", RENDERERS)
def test_every_report_names_the_failed_subject_the_evidence_and_the_replay_command(name: str) -> None:
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
def test_every_readable_report_has_verdicts_grades_and_canaries_in_words(name: str) -> None:
    text = readable(name, RENDERERS[name](sample())).lower()
    for fact in ("✓ upheld", "✗ violated", "? unknown", "at-least-once", "exactly_once"):
        assert fact in text, fact
    assert "6 of 6 convicted of their own sin, 1 of 1 controls acquitted" in text
    assert "3 subjects: 1 violated, 1 unknown, 1 upheld" in text
    assert "proven" not in text


@pytest.mark.parametrize("name", RENDERERS)
def test_every_report_is_a_pure_function_that_does_not_change_the_document(name: str) -> None:
    document = sample()
    before = copy.deepcopy(document)
    assert RENDERERS[name](document) == RENDERERS[name](document)
    assert before == document


@pytest.mark.parametrize("name", RENDERERS)
def test_every_report_can_be_made_from_the_promised_keys_alone(name: str) -> None:
    assert REPLAY in readable(name, RENDERERS[name](bare()))
    assert REPLAY in readable(name, RENDERERS[name](bare(parts=True)))


@pytest.mark.parametrize("parts", [False, True])
def test_so_can_what_services_read(parts: bool) -> None:
    document, now = bare(parts=parts), datetime(2026, 2, 1, tzinfo=UTC)
    for render in (badge.render, badge.endpoint):
        assert "violated" in render(document, now=now, old_days=7)
    document["subjects"][1]["findings"][1]["claim"] = "NO_DUPLICATES"  # without it there is nothing to tell them
    for text in (sarif.render(document), github_annotations.render(document), github_annotations.summary(document)):
        assert "committed again by the next attempt" in text
    assert "files/two-phase" in compare.render(compare.compare(document, sample()))


@pytest.mark.parametrize("name", RENDERERS)
def test_every_report_can_be_made_of_a_run_that_was_killed_at_its_start(name: str) -> None:
    document = {**sample(), "complete": False, "verdict": "unknown", "subjects": [], "canaries": []}
    text = readable(name, RENDERERS[name](document)).lower()
    assert "the run did not finish" in text
    assert "unknown" in text


@pytest.mark.parametrize("name", RENDERERS)
def test_every_report_escapes_control_characters(name: str) -> None:
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
    assert [0, 1] == [page.render(each).count("<details open><summary>The kill") for each in (sample(), document)]


def test_the_page_has_balanced_tags_and_is_self_contained() -> None:
    html = page.render(sample())
    found = parsed(html)
    assert "<!DOCTYPE html>" == html.splitlines()[0]
    for word in ("http://", "https://", "@import", "url("):
        assert word not in html, word
    links = [value for _, name, value in found.attributes if name in ("href", "src", "srcset", "action", "data")]
    assert [] == [link for link in links if not link.startswith("#") and link != "data:,"]
    assert not any(name.startswith("on") for _, name, _ in found.attributes)
    assert 1 == found.tags.count("script")


def test_the_page_escapes_text_from_the_document() -> None:
    html = page.render(sample())
    assert NAME_HOSTILE not in html
    assert "Evil&lt;b&gt;&amp;&#34;Sink" in html
    harmless = sample()
    harmless["subjects"][1]["name"] = "harm/less:name"
    assert parsed(page.render(harmless)).tags == parsed(html).tags


def test_the_page_has_headings_captions_and_scopes() -> None:
    found = parsed(page.render(sample()))
    assert 1 == found.tags.count("h1")
    assert found.tags.count("table") == found.tags.count("caption")
    scoped = {value for tag, name, value in found.attributes if (tag, name) == ("th", "scope")}
    assert {"col", "row", "rowgroup"} == scoped
    scoped_count = sum(1 for tag, name, _ in found.attributes if (tag, name) == ("th", "scope"))
    assert found.tags.count("th") == scoped_count
    identities = [value for _, name, value in found.attributes if name == "id"]
    assert len(identities) == len(set(identities))
    targets = {value for tag, name, value in found.attributes if (tag, name) == ("a", "href")}
    assert targets <= {f"#{identity}" for identity in identities}


def test_the_page_shows_grid_timeline_and_canaries_in_words_and_symbols() -> None:
    html = page.render(sample())
    text = readable("page", html)
    for title, sign in (
        ("24 breaks a claim", "✗"),
        ("24 never injected", "○"),
        ("24 unclaimed flaw", "△"),
        ("432 upheld", "✓"),
    ):
        assert re.search(rf'title="{title}">(<a href=#findings-1 [^>]+>)?{sign}', html), title
    for fact in (
        "⚡ kill at commit.after",
        "0.026",
        "10 rows too many: 0:0, 0:1, 0:2, 0:3, …",
        "generation 2 begins",
        "declines checkpoint 3",
        "checkpoint 4 is complete",
        "notify_complete.before",
        "lines of two_phase.py",
        "marker after data",
        "os.replace(pending, final)",
        "212 states · complete · depth 4 · merges audited 20 · shifts 1, 8, 97",
        sample_certificate.SENTENCE,
        "1,310,000 rows",
        "sinkproof certify files/two-phase",
        "the transaction is committed; the sink has not noted it",
    ):
        assert fact in text, fact


def test_markdown_cannot_be_broken_by_a_name() -> None:
    document = sample()
    document["subjects"][1]["name"] = "a|b `c` @team <img>"
    row = next(line for line in markdown.render(document).splitlines() if "VIOLATED" in line and line.startswith("|"))
    assert r"| a\|b \`c\` @" in row
    assert "@team" not in row
    assert r"\<img\>" in row


def test_the_page_of_twelve_subjects_stays_small() -> None:
    document = sample()
    everywhere, rare = ("kill-job", "kill", "stop", "error", "delay"), [f"fault-{number}" for number in range(20)]
    wide = certificate.plain(sample_certificate.shell("simulated", faults=everywhere))
    wide["outcomes"] += [
        {"point": point, "fault": fault, "runs": 3, "outcome": "finding"}
        for point in sample_certificate.POINTS[:4]
        for fault in rare
    ]
    wrong = {**document["subjects"][1], "shells": [wide, *document["subjects"][1]["shells"]]}
    document["subjects"] = [{**wrong, "name": f"files/{number}"} for number in range(12)]
    assert len(page.render(document).encode()) < 310_000


def test_unknown_words_are_shown_unchanged() -> None:
    document = sample()
    subject = document["subjects"][1]
    subject["shells"][0]["outcomes"].append(
        {"point": "teleport", "fault": "solar-flare", "runs": 3, "outcome": "finding"}
    )
    subject["shells"][0]["closure"]["luck"] = 7
    subject["findings"][1]["timeline"].append({"at": 9.5, "actor": "the janitor", "what": "swept", "struck": False})
    document["canaries"][0]["root_cause"] = "R99"
    text = readable("page", page.render(document))
    for word in ("teleport", "solar-flare", "luck 7", "the janitor: swept", "R99"):
        assert word in text, word


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        ({"run": 1400, "planned": 1400, "finished": True}, "1,400"),
        ({"run": 0, "planned": 0, "finished": True}, "nothing to run"),
        ({"run": 8, "planned": 20, "finished": False}, "8 of 20"),
        ({"run": 20, "planned": 0, "finished": False}, "20 so far; more are found as it runs"),
        ({"run": 20, "planned": 0, "finished": False, "cut": "no time"}, "20 run: no time"),
        ({"run": 0, "planned": 0, "finished": False}, "not reached"),
        ({"run": 0, "planned": 0, "finished": False, "skipped": "no service <here>"}, "skipped: no service <here>"),
    ],
)
def test_the_page_shows_how_far_each_stage_of_a_campaign_came(stage: dict[str, Any], words: str) -> None:
    document = sample()
    document["subjects"][0]["shells"][0]["stages"] = [{"name": "kill & pause", "skipped": "", **stage}]
    (row,) = re.findall(r'<tr><th scope="row">kill &amp; pause</th><td>(.*?)</td>', page.render(document))
    assert words == html.unescape(row)


def test_terminal_page_and_markdown_say_what_of_the_code_was_struck_and_what_never_ran() -> None:
    document = sample()
    struck = {"executed": 1200, "killed": 1200, "stopped": 7, "paused": 8, "handlers_never_run": [], "excluded": [3]}
    document["subjects"][0]["code"] = [{"file": "a_sink.py", "never_run": [*range(40, 54)], **struck}]
    for name in ("terminal", "page", "markdown"):
        text = " ".join(readable(name, RENDERERS[name](document)).replace("\\", "").split())
        assert "a_sink.py: 1,200 lines executed, 1,200 killed, 7 stopped, 8 paused" in text, name
        assert "never ran: 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51 and 2 more; left out by a mark: 3" in text
        assert "exceptions" not in text.partition("a_sink.py")[2].partition("left out")[0]


@pytest.mark.parametrize("name", ["terminal", "page", "markdown"])
def test_reports_show_how_often_rows_were_visible_and_the_change_that_repeated_them(name: str) -> None:
    text = " ".join(html.unescape(RENDERERS[name](sample())).replace("\\", "").split())
    assert "0:0 k0=v0, 0:1 k0=v1: visible once when the fault struck, twice in the end" in text
    assert "creates part-0-2; 10 rows appear once more: 0:0, 0:1, 0:2, 0:3, …" in text
