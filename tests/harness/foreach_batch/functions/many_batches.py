"""Wrong, but not in the first five batches."""

from pathlib import Path

from without_spark import committed, line  # noqa: F401


def keep_five(df, batch_id):
    publish(f"out-{batch_id % 5}", map(line, df.collect()))


def compare_as_text(df, batch_id):
    last = Path("last")
    if last.exists() and str(batch_id) <= last.read_text():
        return
    publish(f"out-{batch_id}", map(line, df.collect()))
    publish("last", [str(batch_id)])


def compact_by_fives(df, batch_id):
    publish(f"out-{batch_id}", map(line, df.collect()))
    if batch_id % 5 == 4:
        small = sorted(Path().glob("out-?")) + sorted(Path().glob("out-??"))
        publish(f"out-all-{batch_id}", [file.read_text() for file in small])
        for file in small:
            file.unlink()


def publish(name, lines):
    new = Path("new")
    new.write_text("".join(lines))
    new.rename(name)
