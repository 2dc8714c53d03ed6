"""The HTML report in a real browser: with and without scripts, wide, narrow and on paper."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sinkproof.chaos.clock import Deadline

from ...support import sample_certificate
from ...support.sample_certificate import NAME_HOSTILE, REPLAY, sample

Open = Callable[..., Any]
CONTRAST = Path(__file__).with_name("contrast.js").read_text(encoding="utf-8")
PAPER = "getComputedStyle(document.documentElement).backgroundColor"
DARK, LIGHT = "rgb(19, 21, 24)", "rgb(250, 250, 247)"
WIDTHS = (390, 800, 1400)
NARROW = WIDTHS[0]


def until(page: Any, condition: str) -> None:
    """Waits for a condition, frame by frame: Playwright's own way is forbidden by the page's security policy."""
    poll = f"const poll = () => {condition} ? done(true) : requestAnimationFrame(poll)"
    assert page.evaluate(f"() => new Promise(done => {{ {poll}; poll(); }})")


@pytest.mark.parametrize("scripts", [True, False])
def test_the_page_sends_no_request_and_logs_no_error(open_page: Open, scripts: bool) -> None:
    opened = open_page(scripts=scripts)
    assert 1 == len(opened.requests)
    assert opened.requests[0].startswith("file://")
    assert [] == opened.complaints


def test_the_verdict_is_visible_without_scrolling(open_page: Open) -> None:
    opened = open_page()
    verdict = opened.page.locator(".verdict")
    assert "Violated" == verdict.inner_text()
    assert opened.box(".verdict")["y"] < 250
    assert opened.box(".verdict")["height"] >= 60
    assert "✗ violated · sinkproof certificate" == opened.page.title()


def test_the_whole_page_is_readable_without_scripts(open_page: Open) -> None:
    page = open_page(scripts=False).page
    text = page.locator("body").inner_text()
    for fact in (NAME_HOSTILE, "files/two-phase", REPLAY, "exactly-once", sample_certificate.SENTENCE, "R1"):
        assert fact in text, fact
    assert page.locator("svg.story").is_visible()
    assert not page.locator("#theme").is_visible()
    assert 0 == page.get_by_role("button", name=re.compile("Copy")).count()
    page.get_by_text("The same in words").click()
    assert page.locator(".events").get_by_text("generation 2 begins").is_visible()


def test_the_colours_follow_the_system_until_the_reader_chooses(open_page: Open) -> None:
    for scheme, paper in (("light", LIGHT), ("dark", DARK)):
        assert paper == open_page(scheme=scheme).page.evaluate(PAPER)
    page = open_page(scheme="dark").page
    deadline = Deadline(60)
    while page.evaluate(PAPER) != LIGHT:  # another process of the browser keeps the choice: it may lose one
        assert not deadline.over
        page.get_by_role("button", name="Switch to light colours").click()
        assert LIGHT == page.evaluate(PAPER)
        page.reload()
    page.get_by_role("button", name="Switch to dark colours").press("Enter")
    assert DARK == page.evaluate(PAPER)


def test_a_replay_line_is_copied_whole(open_page: Open) -> None:
    page = open_page().page
    button = page.get_by_role("button", name=f"Copy {REPLAY}").first
    button.click()
    assert REPLAY == page.evaluate("navigator.clipboard.readText()")
    assert "Copied" == button.inner_text()
    assert "Copied" == page.get_by_role("status").inner_text()


def test_the_line_is_selected_if_the_clipboard_is_not_available(open_page: Open) -> None:
    page = open_page().page
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('closed')); }")
    page.get_by_role("button", name=f"Copy {REPLAY}").first.click()
    until(page, "getSelection().toString() !== ''")
    assert REPLAY == page.evaluate("getSelection().toString()")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_enough_contrast(open_page: Open, scheme: str, width: int) -> None:
    page = open_page(scheme=scheme, width=width).page
    for summary in page.locator("summary").all():
        summary.click()
    found = page.evaluate(CONTRAST)
    assert found["texts"] > 3000
    assert [] == found["bad"]


def test_the_contrast_check_finds_a_text_with_too_little_contrast(open_page: Open) -> None:
    page = open_page().page
    page.evaluate("document.querySelector('h2').style.color = '#bbb'")
    assert ["3 subjects"] == [found[0] for found in page.evaluate(CONTRAST)["bad"]]


@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_never_scrolls_sideways(open_page: Open, width: int) -> None:
    opened = open_page(width=width)
    assert width == opened.page.evaluate("document.documentElement.scrollWidth")
    assert opened.box("h2")["x"] >= 0


def test_a_wide_table_scrolls_in_its_own_region_by_keyboard_too(open_page: Open) -> None:
    page = open_page(width=NARROW).page
    region = page.get_by_role("region", name=re.compile("^Timeline of"))
    assert region.evaluate("each => each.scrollWidth > each.clientWidth")
    region.focus()
    page.keyboard.press("End")
    region.press("ArrowRight")
    until(page, "document.activeElement.scrollLeft > 0")
    assert region.evaluate("each => each.scrollLeft") > 0


def test_the_keyboard_reaches_the_subjects_first_and_shows_where_it_is(open_page: Open) -> None:
    page = open_page().page
    page.keyboard.press("Tab")
    assert "Skip to the subjects" == page.evaluate("document.activeElement.textContent")
    assert page.get_by_text("Skip to the subjects").is_visible()
    page.keyboard.press("Enter")
    until(page, "location.hash === '#overview'")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert NAME_HOSTILE == page.evaluate("document.activeElement.textContent")
    assert "solid" == page.evaluate("getComputedStyle(document.activeElement).outlineStyle")


def test_a_click_on_a_subject_leads_to_it(open_page: Open) -> None:
    page = open_page().page
    page.get_by_role("link", name=NAME_HOSTILE).click()
    heading = page.get_by_role("heading", name=NAME_HOSTILE)
    until(page, "scrollY > 500")
    assert heading.is_visible()
    assert "subject-1" == heading.get_attribute("id")
    page.get_by_role("link", name="Back to all subjects").first.click()
    assert page.url.endswith("#overview")
    until(page, "document.querySelector('#overview').getBoundingClientRect().top >= 0")
    assert page.evaluate("document.querySelector('#overview').getBoundingClientRect().top < innerHeight")


def test_tables_pictures_and_hidden_texts_have_accessible_names(open_page: Open) -> None:
    page = open_page().page
    page.get_by_text("The kill table: ").first.click()  # folded while every canary was convicted
    picture = page.get_by_role("img", name=re.compile(r"Timeline of sink\[0\]\.commit\.after#1=kill: 10 rows too many"))
    assert 1 == picture.count()
    for name in ("Overview of all subjects", "Steps by faults for files/two-phase", "Kill table of canaries"):
        assert 1 == page.get_by_role("region", name=name).count(), name
    grid = page.get_by_role("region", name=f"Steps by faults for {NAME_HOSTILE}")
    assert 1 == grid.get_by_role("columnheader", name="commit.after", exact=True).count()
    assert "✗" == grid.get_by_title("24 breaks a claim").inner_text()
    assert 1 == page.get_by_role("heading", level=1).count()


def test_the_picture_shows_lanes_generations_checkpoints_and_the_fault(open_page: Open) -> None:
    page = open_page().page
    texts = page.locator("svg.story > text").all_text_contents()
    names = page.locator("svg.story text.name").all_text_contents()
    assert ["coordinator", "source[0]", "sink[0]", "sink[1]", "reader"] == names
    for text in (
        "generation 1",
        "generation 2",
        "kill at commit.after, my_sink.py:42",
        "10 rows too many: 0:0, 0:1, 0:2, 0:3, …",
    ):
        assert text in texts, text
    bolt, lane = page.locator("svg.story .bolt").bounding_box(), page.get_by_text("sink[0]", exact=True).bounding_box()
    assert bolt is not None
    assert lane is not None
    assert abs(bolt["y"] + bolt["height"] / 2 - lane["y"] - lane["height"] / 2) < 5
    marks = page.locator("svg.story .mark title").all_text_contents()
    assert "0.022 s, coordinator: checkpoint 1 is complete" in marks


def test_no_two_labels_of_the_picture_overlap(open_page: Open) -> None:
    page = open_page().page
    boxes = page.locator("svg.story text").evaluate_all(
        "all => all.map(each => [each.textContent, each.getBoundingClientRect()])"
        ".map(([text, box]) => [text, box.left, box.right, box.top + 3, box.bottom - 3])"
    )
    overlaps = [
        (one[0], other[0])
        for index, one in enumerate(boxes)
        for other in boxes[index + 1 :]
        if one[1] < other[2] and other[1] < one[2] and one[3] < other[4] and other[3] < one[4]
    ]
    assert len(boxes) > 15
    assert [] == overlaps


def test_on_paper_everything_is_light_and_open_and_no_button_is_left(open_page: Open) -> None:
    page = open_page(scheme="dark").page
    page.emulate_media(media="print")
    assert "rgb(255, 255, 255)" == page.evaluate(PAPER)
    assert not page.get_by_role("button").first.is_visible()
    assert page.locator(".events").get_by_text("generation 2 begins").is_visible()
    paper = page.pdf(format="A4", print_background=True)
    assert paper.startswith(b"%PDF")
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", paper)) <= 12


def test_markup_in_names_and_reasons_is_shown_as_text(open_page: Open) -> None:
    document = sample()
    evil = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    document["subjects"][1]["name"] = evil
    document["subjects"][1]["findings"][1]["why"] = evil
    document["command"] = evil
    document["subjects"][1]["findings"][1]["timeline"][5]["what"] = f"{evil}: kill"
    opened = open_page(document=document)
    assert 0 == opened.page.locator("img").count()
    assert [] == opened.complaints
    assert evil == opened.page.locator("#subject-1").inner_text()


def test_a_script_that_is_not_ours_does_not_run(open_page: Open) -> None:
    page = open_page().page
    page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.evil = 1'}))"
    )
    assert page.evaluate("window.evil === undefined")


def test_on_a_narrow_screen_the_picture_begins_with_the_fault(open_page: Open) -> None:
    opened = open_page(width=NARROW)
    fault, frame = opened.box(".story .bolt"), opened.box("figure .scroll")
    assert frame["x"] < fault["x"] < frame["x"] + frame["width"]
    until(opened.page, "document.querySelector('figure .scroll').scrollLeft > 0")
    assert frame["x"] == pytest.approx(opened.box(".story .name")["x"], abs=2), "the names of the lanes stay in sight"
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= NARROW


def test_on_a_narrow_screen_broken_cells_are_named_above_the_grid_and_lead_to_the_finding(open_page: Open) -> None:
    opened = open_page(width=NARROW)
    page = opened.page
    link = page.locator(".broken a").first
    assert "commit.after" == link.inner_text()
    link.scroll_into_view_if_needed()
    box, grid = opened.box(".broken a"), page.get_by_role("region", name=f"Steps by faults for {NAME_HOSTILE}")
    assert 0 <= box["x"]
    assert box["x"] + box["width"] <= NARROW
    assert box["y"] + box["height"] <= grid.bounding_box()["y"]
    link.click()
    assert page.url.endswith("#findings-1")
    until(page, "document.querySelector('#findings-1').getBoundingClientRect().top >= 0")
    assert "2 findings" == page.locator("#findings-1").inner_text()


def test_a_cell_that_breaks_a_claim_leads_to_the_findings(open_page: Open) -> None:
    page = open_page(width=1400).page
    page.get_by_title("24 breaks a claim").get_by_role("link").click()
    assert page.url.endswith("#findings-1")


def test_at_a_medium_width_no_cell_of_the_overview_is_cut_off(open_page: Open) -> None:
    opened = open_page(width=800)
    assert opened.page.evaluate(
        "(frame => frame.scrollWidth <= frame.clientWidth)(document.querySelector('.overview').closest('.scroll'))"
    )
