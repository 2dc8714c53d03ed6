"""A replay as a pytest function, to be kept in the user's project as a regression test."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sinkproof.certifier.replay import Replay

NAME_CHARACTERS_MOST: Final = 60
DOCSTRING_CHARACTERS_MOST: Final = 400


def as_test(replayed: Replay, *, shell: str) -> str:
    """The text of a module. Its test fails while the schedule breaks a claim, and if the schedule never fires."""
    schedule, locator = str(replayed.run_result.schedule), replayed.contract.locator
    found = "; ".join(f"{each.oracle}: {each.why}" for each in replayed.run_result.anomalies) or "nothing was wrong"
    said = f"When it was printed: {found}"[:DOCSTRING_CHARACTERS_MOST]
    return f'''"""Printed by `sinkproof replay --as-test`; run it where `{_plain(locator)}` is found."""

import sinkproof


def test_{_name(locator)}_with_{_name(schedule)}():
    """{_plain(said)}."""
    replayed = sinkproof.replay(
        {_quoted(schedule)},
        {_quoted(locator)},
        shell={_quoted(shell)},
    )
    assert replayed.verdict is sinkproof.Verdict.UPHELD, (replayed.verdict, replayed.document["anomalies"])'''


def _name(text: str) -> str:
    words = re.sub(r"\W+", "_", text.rpartition("/")[2], flags=re.ASCII).strip("_").lower()
    return words[:NAME_CHARACTERS_MOST].rstrip("_")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _plain(text: str) -> str:
    """ASCII text that can stand in a docstring."""
    return text.replace("\\", "/").replace('"', "'").encode("ascii", "replace").decode()
