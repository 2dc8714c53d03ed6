"""What another host has otherwise is said in words."""

from __future__ import annotations

import pytest

from sinkproof.campaign.fan_out.loaded_code import LoadedCode

HERE = LoadedCode(modules={"orders": "1", "rows": "2"})


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ({"orders": "1", "rows": "2", "more": "3"}, ""),
        ({"orders": "1"}, "has no module rows"),
        ({"orders": "1", "rows": "3"}, "has another file for the module rows"),
    ],
)
def test_a_host_runs_the_same_code_if_it_has_loaded_the_same_files(there: dict[str, str], said: str) -> None:
    assert said == HERE.differs(LoadedCode(modules=there))


def test_a_host_that_cannot_load_a_subject_says_why() -> None:
    assert "cannot load a subject: no such file" == HERE.differs(LoadedCode(why="no such file"))
