"""What a contract says of its rows: two words, and nothing else; and the numbers that it gives of them."""

from __future__ import annotations

from decimal import Decimal
from math import inf, nan
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest

from sinkproof.subject.contract import Contract, ContractError
from sinkproof.subject.loading import load
from sinkproof.subject.scratch import Scratch


def contract(rows: Any) -> Contract:
    return Contract("sinks.py:Mine", SimpleNamespace(claims="NO_LOSS", rows=rows))


def test_what_was_not_set_up_is_not_torn_down(tmp_path: Path) -> None:
    called: list[str] = []
    given = SimpleNamespace(
        claims="NO_LOSS", setup=lambda _: called.append("setup"), teardown=lambda _: called.append("teardown")
    )
    contract, scratch = Contract("sinks.py:Mine", given), Scratch(name="once", path=tmp_path)
    for name in ("teardown", "setup", "teardown", "teardown", "setup"):
        contract.call_if_there(name, scratch)
    assert ["setup", "teardown", "setup"] == called


@pytest.mark.parametrize(("given", "rows"), [("append", "append"), ("upsert", "upsert"), (list, "append")])
def test_rows_are_appended_unless_the_contract_says_the_other_word(given: Any, rows: str) -> None:
    assert rows == contract(given).rows


@pytest.mark.parametrize("given", ["upserts", "", 1, None])
def test_another_word_is_refused(given: Any) -> None:
    with pytest.raises(ContractError, match=r"sinks.py:Mine: rows=.* must be 'append' or 'upsert'"):
        contract(given)


def test_a_function_named_rows_beside_one_for_foreach_batch_is_no_word(tmp_path: Path) -> None:
    module = tmp_path / "with_rows.py"
    module.write_text("def write(df, batch_id): ...\ndef committed(scratch): return []\ndef rows(df): return []\n")
    assert "append" == load(f"{module}:write").rows


@pytest.mark.parametrize("number", [3, True, 3.0, Decimal(3), Decimal("3.00"), numpy.int64(3), numpy.float64(3)])
def test_numbers_of_rows_are_those_that_json_and_databases_give(number: Any) -> None:
    assert [(0, int(number))] == contract("append").identities([(0, number, "key", "value")])


@pytest.mark.parametrize(
    "number", [3.5, Decimal("3.5"), inf, nan, Decimal("Infinity"), Decimal("NaN"), "3", None, b"3"]
)
def test_other_numbers_of_rows_are_refused_and_shown(number: Any) -> None:
    with pytest.raises(ContractError, match=r"pairs of integers: .*Such a row is \(1, "):
        contract("append").identities([(0, 1), (1, number), (2, 3)])
    with pytest.raises(ContractError, match=r"Such a row is \(\)"):
        contract("append").identities([(0, 1), (), (1, number)])
