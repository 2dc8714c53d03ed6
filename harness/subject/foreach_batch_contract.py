"""The contract of a foreachBatch function: `write_batch(df, batch_id)`, and `committed(scratch)` in its module."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from sinkproof.subject.claims import Claim
from sinkproof.subject.contract import ContractError
from sinkproof.subject.source_files import OwnCode, made_unique, names_in_points
from sinkproof.subject.user_code import user_code

EXAMPLE: Final = """
    def write_batch(df, batch_id): ...     # what you give to foreachBatch; relative paths are in scratch.path
    def committed(scratch): ...            # -> (split, offset, key, value) of every row that an independent reader sees
"""
AROUND_RUNS: Final = ("setup", "teardown")  # called with the scratch, where the function keeps something elsewhere


class ForeachBatchContract:
    """The function's module has `committed`, and perhaps `claims` and `rows`.

    The default claim is EFFECTIVELY_ONCE, because Spark allows no more: the function writes before the batch is
    recorded in the checkpoint, so readers can see rows early.
    """

    shells = ("simulated", "spark")
    every_shell_by_default = True

    def __init__(self, locator: str, function: Callable[[Any, int], Any]) -> None:
        module = sys.modules[function.__module__]
        self.write_batch = function
        self.claims = getattr(module, "claims", Claim.EFFECTIVELY_ONCE)
        self.rows: Any = getattr(module, "rows", "append")
        self.file = Path(inspect.getfile(function)).resolve()
        left_out = getattr(module, "not_struck", ())
        self.files = made_unique(names_in_points(user_code([function]), left_out=left_out))  # their lines are points
        self.own_code = OwnCode(
            files=self.files,
            given={function.__qualname__: tuple(filter(None, [self.files.get(str(self.file))]))},
            names=frozenset({function.__name__}),
        )
        self.place = (
            f"{self.file}:{function.__qualname__}"  # by which another process finds it, in any working directory
        )
        self.committed: Any = getattr(module, "committed", None)
        if not callable(self.committed):
            raise ContractError(
                f"{locator}: {self.file.name} has no function committed(scratch), which says what was "
                f"delivered. A foreachBatch function is certified in a module like this:\n{EXAMPLE}"
            )
        for name in AROUND_RUNS:
            if callable(call := getattr(module, name, None)):
                setattr(self, name, call)


def active_spark() -> Any:
    """The context of Spark that runs in this process; None: there is none."""
    return getattr(getattr(sys.modules.get("pyspark"), "SparkContext", None), "_active_spark_context", None)


def of_function(locator: str, function: Callable[..., Any], *, spark_before: Any = None) -> ForeachBatchContract:
    """Raises ContractError unless it takes (df, batch_id) and can be found by name. `spark_before`: that ran before its
    module was imported.
    """
    try:
        inspect.signature(function).bind(None, 0)
    except TypeError as error:
        raise ContractError(
            f"{locator}: a function is certified as one for foreachBatch, which is called with a DataFrame and the "
            f"batch's id, but: {error}. It looks like this:\n{EXAMPLE}"
        ) from error
    if "<locals>" in function.__qualname__:
        raise ContractError(f"{locator}: it is defined inside a function. Move it to the top level of its module")
    if active_spark() not in (None, spark_before):
        raise ContractError(
            f"{locator}: importing the module starts Spark. Put that below if __name__ == '__main__': the function is "
            "given DataFrames of a session that is not yours"
        )
    return ForeachBatchContract(locator, function)
