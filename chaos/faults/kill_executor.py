"""The JVM that hosts an attempt's worker dies by SIGKILL: an executor, or on a local master Spark itself.

Healed by another executor, or by another driver.
"""

from sinkproof.chaos.faults.fault_target import FaultableShell

KIND = "kill-executor"
SENTENCE = "executor crash: the executor that hosts this attempt is killed, with every worker and attempt in it"


def applies(actor: str, point: str) -> bool:
    return "[" in actor


def inject(shell: FaultableShell) -> None:
    shell.kill_executor()
