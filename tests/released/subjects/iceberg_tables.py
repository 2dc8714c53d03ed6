"""Rows in an Iceberg table: the snapshot that adds them names the writer and the checkpoint in its summary.

Right: OneSnapshot. Wrong: TwoSnapshots, RetriedByTheLibrary.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from rows_until_complete import SCHEMA, RowsUntilComplete, as_table

from sinkproof import Claim, Scratch

NAME = "published.rows"


def catalog_of(scratch: Scratch) -> Catalog:
    folder = scratch.path
    return SqlCatalog("local", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")


class AppendsOnce(RowsUntilComplete):
    def publish(self, writer: str, checkpoint_id: int, rows: Any) -> None:
        name = f"{writer}-{checkpoint_id}"
        while True:
            table = self.target.load_table(NAME)
            if any(snapshot.summary["checkpoint"] == name for snapshot in table.snapshots()):
                return
            try:
                self.to_append(table).append(as_table(rows), snapshot_properties={"checkpoint": name})
                return
            except CommitFailedException:  # the table has another snapshot since: look again
                continue

    def to_append(self, table: Table) -> Table:
        """The very table that was looked at: any later snapshot is a conflict."""
        return table


class OneSnapshot:
    """Right: by default, pyiceberg would answer a conflict by a commit on the newest snapshot, without the check."""

    claims = Claim.EXACTLY_ONCE
    make: Any = AppendsOnce
    properties: ClassVar = {"commit.retry.num-retries": "0"}

    def setup(self, scratch: Scratch) -> None:
        catalog = catalog_of(scratch)
        catalog.create_namespace("published")
        catalog.create_table(NAME, schema=SCHEMA, properties=self.properties)

    def sink(self, scratch: Scratch) -> Any:
        return self.make(catalog_of(scratch))

    def committed(self, scratch: Scratch) -> Iterator[Any]:
        table = catalog_of(scratch).load_table(NAME).scan().to_arrow()
        yield from zip(table["split"].to_pylist(), table["offset"].to_pylist(), strict=True)


class LoadsAgain(AppendsOnce):
    def to_append(self, table: Table) -> Table:
        return self.target.load_table(NAME)


class TwoSnapshots(OneSnapshot):
    """Wrong: the table is loaded anew after the check, so that a snapshot in between is no conflict."""

    make = LoadsAgain


class RetriedByTheLibrary(OneSnapshot):
    """Wrong: pyiceberg retries on a snapshot in which the sink has not looked."""

    properties: ClassVar = {}
