"""Functions that keep rows in SQLite, so that statements and commits can fail."""

import sqlite3
from contextlib import closing, suppress

FILE = "rows.db"
TABLES = """
    CREATE TABLE IF NOT EXISTS rows (split, place);
    CREATE TABLE IF NOT EXISTS progress (batch PRIMARY KEY);
"""


def opened():
    connection = sqlite3.connect(FILE)
    connection.executescript(TABLES)
    return closing(connection)


def rows_of(df):
    return [(row.split, row.offset) for row in df.collect()]


def is_done(connection, batch_id):
    return connection.execute("SELECT 1 FROM progress WHERE batch = ?", (batch_id,)).fetchone()


def once(df, batch_id):
    """The rows and the progress in one transaction."""
    with opened() as connection, connection:
        if not is_done(connection, batch_id):
            connection.executemany("INSERT INTO rows VALUES (?, ?)", rows_of(df))
            connection.execute("INSERT INTO progress VALUES (?)", (batch_id,))


def in_two_transactions(df, batch_id):
    with opened() as connection:
        if not is_done(connection, batch_id):
            connection.executemany("INSERT INTO rows VALUES (?, ?)", rows_of(df))
            connection.commit()
            connection.execute("INSERT INTO progress VALUES (?)", (batch_id,))
            connection.commit()


def swallow_commit(df, batch_id):
    with opened() as connection:
        if not is_done(connection, batch_id):
            connection.executemany("INSERT INTO rows VALUES (?, ?)", rows_of(df))
            connection.execute("INSERT INTO progress VALUES (?)", (batch_id,))
            with suppress(sqlite3.Error):
                connection.commit()


def swallow_statement(df, batch_id):
    with opened() as connection, connection:
        if not is_done(connection, batch_id):
            with suppress(sqlite3.Error):
                connection.executemany("INSERT INTO rows VALUES (?, ?)", rows_of(df))
            connection.execute("INSERT INTO progress VALUES (?)", (batch_id,))


def committed(scratch):
    with closing(sqlite3.connect(scratch.path / FILE)) as connection:
        connection.executescript(TABLES)
        yield from connection.execute("SELECT split, place FROM rows").fetchall()
