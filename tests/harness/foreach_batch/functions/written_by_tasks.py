"""Tasks of Spark write a file for each partition: by lines, or as a whole."""

import json
import os
import time
from functools import partial
from pathlib import Path
from shutil import rmtree

from pyspark import TaskContext


def _folder(batch_id, *, anew):
    folder = Path("out").absolute() / f"batch-{batch_id}"
    if anew:
        rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder)


def append(df, batch_id):
    """Wrong: what is left of a batch is removed before it is run again, but not what is left of a task."""
    folder = _folder(batch_id, anew=True)

    def write(rows):
        with open(f"{folder}/{TaskContext.get().partitionId()}.jsonl", "a") as file:
            file.writelines(f"{json.dumps([row.split, row.offset])}\n" for row in rows)

    df.foreachPartition(write)


def replace(df, batch_id):
    """Right."""
    df.foreachPartition(_writing_files_to(_folder(batch_id, anew=True)))


def replace_by_name(df, batch_id):
    """Right; Spark's workers import this module for it."""
    df.foreachPartition(partial(_write_files_to, _folder(batch_id, anew=True)))


def _write_files_to(folder, rows):
    _writing_files_to(folder)(rows)


def spread(df, batch_id):
    """Wrong: a smaller cluster leaves files of the larger one."""
    cores = df.sparkSession.sparkContext.defaultParallelism
    df.repartition(cores).foreachPartition(_writing_files_to(_folder(batch_id, anew=False)))


def leave_out_what_is_there(df, batch_id):
    """Wrong: a smaller cluster divides the rows in another way, and leaves out parts that the larger one has done."""
    folder, cores = _folder(batch_id, anew=False), df.sparkSession.sparkContext.defaultParallelism

    def write(rows):
        if not os.path.exists(f"{folder}/{TaskContext.get().partitionId()}.jsonl"):
            _writing_files_to(folder)(rows)

    df.repartition(cores, "offset").foreachPartition(write)


def replace_partitions(df, batch_id):
    """Wrong: a batch that is run again may have fewer partitions."""
    df.foreachPartition(_writing_files_to(_folder(batch_id, anew=False)))


def replace_in_folder_of_today(df, batch_id):
    """Wrong: a batch that is run again on the next day is there twice."""
    out = str(Path("out").absolute())

    def write(rows):
        folder = f"{out}/{time.strftime('%Y-%m-%d', time.gmtime())}-{batch_id}"
        os.makedirs(folder, exist_ok=True)
        _writing_files_to(folder)(rows)

    df.coalesce(1).foreachPartition(write)


def _writing_files_to(folder):
    def write(rows):
        name = f"{folder}/{TaskContext.get().partitionId()}.jsonl"
        with open(f"{name}.{os.getpid()}", "w") as file:
            file.writelines(f"{json.dumps([row.split, row.offset])}\n" for row in rows)
        os.replace(file.name, name)

    return write


def committed(scratch):
    for file in (scratch.path / "out").glob("*/*.jsonl"):
        yield from map(json.loads, file.read_text().splitlines())
