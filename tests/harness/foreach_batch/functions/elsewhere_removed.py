"""The same table, removed between two runs."""

from elsewhere import committed, write  # noqa: F401


def append(df, batch_id):
    write(df, batch_id)


def teardown(scratch):
    (scratch.path.parent / "table").unlink(missing_ok=True)
