"""Errors of subjects as text for a report."""

from __future__ import annotations

from sinkproof.chaos.error_text import CHARACTERS_MOST, described, message_of


class WithoutText(Exception):
    def __str__(self) -> str:
        raise ValueError


def test_colours_of_a_terminal_are_left_out() -> None:
    assert "OSError: No such file: a" == described(OSError("\x1b[31mNo such file\x1b[0m: \x1b[1;4ma\x1b[m"))


def test_a_huge_text_is_shortened() -> None:
    text = message_of(ValueError("x" * 2 * CHARACTERS_MOST))
    assert text.startswith("x" * CHARACTERS_MOST + "…")
    assert text.endswith("(8,000 characters)")


def test_an_error_without_a_text_is_named() -> None:
    assert "WithoutText: (its text cannot be had: ValueError)" == described(WithoutText())


def test_what_no_encoding_has_is_escaped() -> None:
    assert r"a\udcff" == message_of(ValueError("a\udcff"))
