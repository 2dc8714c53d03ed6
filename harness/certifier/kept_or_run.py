"""Gives the result of each task: a kept one, of which a part is run again, or a new one."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import Any

from sinkproof.campaign.task import Task
from sinkproof.certifier.result_store import KeptResult, ResultStore
from sinkproof.certifier.task_processes import run_tasks
from sinkproof.reports.progress import Progress
from sinkproof.subject.contract import Contract

ContractOf = Callable[[Task], Contract | None]  # None: the canaries


def kept_or_run(
    tasks: Sequence[Task], store: ResultStore, *, contract_of: ContractOf, progress: Progress, cores: int
) -> Generator[tuple[Task, Any], None, None]:
    """Yields (task, result or Failure). Closing the generator kills the workers that still run."""
    found = {task: kept for task in tasks if (kept := store.find(task, contract_of(task))) is not None}
    results = _repeated(found, store, progress=progress, cores=cores)
    yield from results.items()
    left = [store.recorded(task) for task in tasks if task not in results]
    asked = dict(zip(left, (task for task in tasks if task not in results), strict=True))
    with closing(run_tasks(left, progress=progress, cores=cores)) as running:
        for task, result in running:
            store.take(asked[task], result, contract_of(task))
            yield asked[task], result


def _repeated(found: dict[Task, KeptResult], store: ResultStore, *, progress: Progress, cores: int) -> dict[Task, Any]:
    """The kept results, if all that is repeated ends as it did. After one difference the whole store is discarded."""
    by_repetition = {kept.again: task for task, kept in found.items()}
    results = {}
    with closing(run_tasks([*by_repetition], progress=progress, cores=cores)) as running:
        for again, repeated in running:
            task = by_repetition[again]
            if differing := found[task].differing(repeated):
                store.discard(f"{task.name} did not end as kept in the {task.shell} shell ({differing})")
                return {}
            results[task] = found[task].with_counts(repeated)
    return results
