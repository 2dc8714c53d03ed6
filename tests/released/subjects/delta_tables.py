"""Rows in a Delta table: the commit that adds them sets the transaction id of its writer to the checkpoint.

Right: OneSnapshot. Wrong: TwoSnapshots.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError
from rows_until_complete import SCHEMA, RowsUntilComplete, as_table

from sinkproof import Claim, Scratch


class AppendsOnce(RowsUntilComplete):
    def publish(self, writer: str, checkpoint_id: int, rows: Any) -> None:
        while True:
            table = DeltaTable(self.target)
            if (table.transaction_version(writer) or 0) >= checkpoint_id:
                return
            properties = CommitProperties(app_transactions=[Transaction(writer, checkpoint_id)])
            try:
                write_deltalake(self.to_write(table), as_table(rows), mode="append", commit_properties=properties)
                return
            except CommitFailedError:  # another attempt has committed for this writer since: look again
                continue

    def to_write(self, table: DeltaTable) -> DeltaTable | str:
        """The very table that was looked at: a later commit of the same writer is a conflict."""
        return table


class OneSnapshot:
    """Right."""

    claims = Claim.EXACTLY_ONCE
    make: Any = AppendsOnce

    def setup(self, scratch: Scratch) -> None:
        DeltaTable.create(str(scratch.path / "table"), schema=SCHEMA)

    def sink(self, scratch: Scratch) -> Any:
        return self.make(str(scratch.path / "table"))

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        table = DeltaTable(str(scratch.path / "table")).to_pyarrow_table()
        yield from zip(table["split"].to_pylist(), table["offset"].to_pylist(), strict=True)


class LoadsAgain(AppendsOnce):
    def to_write(self, table: DeltaTable) -> DeltaTable | str:
        return str(self.target)


class TwoSnapshots(OneSnapshot):
    """Wrong: the write loads the table anew, so that a commit since the check is no conflict."""

    make = LoadsAgain
