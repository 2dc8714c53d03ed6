"""Which processes die when the whole job is killed: never one that has started the cluster."""

from __future__ import annotations

from sinkproof.reference_engine.shells.spark.process_fault_points import victims

INIT, COMMAND, DRIVER, JVM, DAEMON, WORKER, ATTEMPT, OTHER = 1, 10, 20, 21, 22, 23, 24, 25
ON_ONE_HOST = {COMMAND: INIT, DRIVER: COMMAND, JVM: DRIVER, DAEMON: JVM, WORKER: DAEMON, ATTEMPT: WORKER, OTHER: DAEMON}
EXECUTOR = 30
ON_HOSTS = {**ON_ONE_HOST, EXECUTOR: COMMAND, DAEMON: EXECUTOR}  # executors are not below the driver


def test_on_one_host_everything_below_the_driver_dies_and_the_attempt_after_its_ancestors() -> None:
    ancestors, others = victims(DRIVER, ON_ONE_HOST, last=ATTEMPT)
    assert [WORKER, DAEMON, JVM, DRIVER] == ancestors
    assert [OTHER] == others


def test_on_other_hosts_only_the_driver_and_what_is_below_it_die() -> None:
    ancestors, others = victims(DRIVER, ON_HOSTS, last=ATTEMPT)
    assert [] == ancestors
    assert [DRIVER, JVM] == others


def test_of_a_coordinator_that_is_below_the_driver_the_ancestors_die() -> None:
    parents = {**ON_HOSTS, 40: DRIVER, 41: 40}
    assert ([40, DRIVER], [JVM]) == victims(DRIVER, parents, last=41)
