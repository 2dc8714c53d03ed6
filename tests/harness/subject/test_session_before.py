"""A session of Spark that ran before a function was imported was not started by its module."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sinkproof.subject.contract import ContractError
from sinkproof.subject.loading import load

FUNCTION = "def write(df, batch_id):\n    pass\n\n\ndef committed(scratch):\n    return []\n"
STARTS = f"import sys\nsys.modules['pyspark'].SparkContext._active_spark_context = object()\n{FUNCTION}"


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Any:
    context = SimpleNamespace(_active_spark_context=object())
    monkeypatch.setitem(sys.modules, "pyspark", SimpleNamespace(SparkContext=context))  # type: ignore[arg-type]
    return context


def test_a_function_is_loaded_beside_it(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text(FUNCTION)
    assert "foreach_batch" == load(f"{tmp_path}/beside.py:write").kind


def test_one_that_an_import_starts_is_refused(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "starts_one.py").write_text(STARTS)
    with pytest.raises(ContractError, match="importing the module starts Spark"):
        load(f"{tmp_path}/starts_one.py:write")
