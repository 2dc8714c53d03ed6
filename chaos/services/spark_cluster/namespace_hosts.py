"""Several hosts on one machine: each has its own network, /tmp and /dev/shm, and can die or be cut off.

Namespaces are made inside a user namespace, without privileges; where the kernel refuses that, root makes them. They
are joined by a bridge without uplink. None of them has a name: each ends with its last process. After SIGKILL of the
owner the kernel kills the processes that hold them, master and workers; executors end when their worker is gone.

Host 0 keeps the machine's own /tmp and /dev/shm: the driver runs there, with its files.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

from sinkproof.chaos.clock import Deadline
from sinkproof.chaos.processes.parent_death import reap_orphan
from sinkproof.chaos.services.service import ServiceUnavailable
from sinkproof.chaos.services.spark_cluster.host_commands import SECONDS, HostCommands, run_to_its_end

TOOLS: Final = ("unshare", "nsenter", "setpriv", "mount", "ip")
HOLD: Final = "echo ready; exec setpriv --pdeathsig KILL cat"  # ends with its standard input, too
OF_EACH_HOST: Final = ("/tmp", "/dev/shm")
PROGRAM: Final = (sys.prefix, sys.base_prefix, str(Path(__file__).parents[3]))  # interpreter, packages, sinkproof
OWN_FOLDERS: Final = """\
n=3
for folder; do eval "exec $n<\\"\\$folder\\""; n=$((n + 1)); done
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /tmp
n=3
for folder; do
    mkdir -p "$folder"
    mount --no-canonicalize --bind "/proc/self/fd/$n" "$folder"
    eval "exec $n<&-"
    n=$((n + 1))
done
"""  # what all hosts share may lie below a folder that is hidden: it is reached by a descriptor


CUT, CUT_IN, CUT_OUT, SLOW = "cut", "cut-in", "cut-out", "slow"
LINKS: Final = {  # what happens to the port of a host, as a port of the switch; and what undoes it
    CUT: ("ip link set {port} down", "ip link set {port} up"),
    CUT_IN: (
        "{flags} learning off flood off mcast_flood off bcast_flood off && {flags} fdb_flush",
        "{flags} learning on flood on mcast_flood on bcast_flood on",
    ),
    CUT_OUT: (  # what comes from it is known at no port
        "{flags} learning off locked on && {flags} fdb_flush",
        "{flags} learning on locked off",
    ),
}
SLOWED: Final = "tc qdisc replace dev {} root tbf rate {}kbit burst 8kb latency 10s"  # not every kernel has netem
AT_FULL_SPEED: Final = "tc qdisc del dev {} root 2>/dev/null || true"
SLOW_KBIT: Final = 256  # per second: messages of a job pass, late


class NamespaceHosts(HostCommands):
    """A context manager. `shared`: folders that all hosts see, as if on a network file system."""

    def __init__(self, count: int, *, shared: Sequence[Path]) -> None:
        super().__init__(count)
        self.shared = shared
        self.switch: subprocess.Popen[str] | None = None
        self.holders: list[subprocess.Popen[str]] = []
        self.unfit: dict[str, str] = {}  # CUT_IN, CUT_OUT, SLOW -> why this kernel, or its tools, cannot do it

    @property
    def _user(self) -> list[str]:
        return ["--user", "--map-root-user"] if self.as_user else []

    def pid(self, host: int) -> int:
        return self.holders[host].pid

    def __enter__(self) -> NamespaceHosts:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def _start(self) -> None:
        self._choose_how()
        self.switch = self._hold(["unshare", *self._user, "--net", "--mount"], "ip link set lo up")
        self._on_switch("ip link add switch type bridge && ip link set switch up")
        for host in range(self.count):
            folders = OWN_FOLDERS if host else ""
            inside = ["unshare", "--net", *(["--mount"] if host else [])]
            self.holders.append(self._hold([*self.enter(self.switch.pid), *inside], f"{folders}ip link set lo up"))
            pid = self.holders[host].pid
            self._on_switch(
                f"ip link add to-{host} type veth peer name eth0 netns {pid} && "
                f"ip link set to-{host} master switch && ip link set to-{host} up"
            )
            up = f"ip addr add {self.address(host)}/24 dev eth0 && ip link set eth0 up"
            run_to_its_end(self.command(host, "sh", "-c", up))
        self._try_links(self.count - 1)

    def _try_links(self, host: int) -> None:
        """Each once, while nothing runs there. What fails is left alone from then on, also when a link is healed; no
        host can be used that cannot be cut off.
        """
        for how in (CUT, CUT_IN, CUT_OUT, SLOW):
            try:
                self._try_link(host, how)
            except ServiceUnavailable as error:
                if how == CUT:
                    raise
                said = getattr(error.__cause__, "stderr", None) or error.evidence
                self.unfit[how] = " ".join(said.split())

    def _try_link(self, host: int, how: str) -> None:
        if how == SLOW:
            try:
                self.slow_down(host)
            finally:
                self._speed_up(host)
            return
        try:
            self._set_link(host, LINKS[how][0])
        finally:
            self._set_link(host, LINKS[how][1])

    def _choose_how(self) -> None:
        missing = [tool for tool in TOOLS if shutil.which(tool) is None]
        if missing:
            raise ServiceUnavailable(
                "hosts in namespaces need util-linux and iproute2",
                evidence=f"not found: {', '.join(missing)}",
                next_step="Install them",
            )
        command = ["unshare", *self._user, "--net", "true"]
        refused = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        if refused.returncode == 0:
            return
        if os.geteuid():
            raise ServiceUnavailable(
                "this kernel lets no user make namespaces, and this user is not root",
                evidence=refused.stderr.strip(),
                next_step="Run it as root, or: sysctl -w kernel.unprivileged_userns_clone=1",
            )
        self.as_user = False

    def _hold(self, namespaces: Sequence[str], first: str) -> subprocess.Popen[str]:
        """A process that does nothing but hold them."""
        script = f"set -e\n{first}\n{HOLD}"
        holder = subprocess.Popen(
            [*namespaces, "sh", "-c", script, "sh", *self._seen_by_all()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for the command
        )
        assert holder.stdout is not None
        assert holder.stderr is not None
        if holder.stdout.readline().strip() != "ready":
            raise ServiceUnavailable(
                "a host could not be made", evidence=holder.stderr.read().strip(), next_step="See `sinkproof doctor`"
            )
        return holder

    def _seen_by_all(self) -> list[str]:
        """Of the shared folders and the program, what lies in a folder that each host has anew."""
        own = tuple(f"{each}/" for each in OF_EACH_HOST)
        return [each for each in dict.fromkeys((*map(str, self.shared), *PROGRAM)) if each.startswith(own)]

    def _on_switch(self, script: str) -> None:
        assert self.switch is not None
        run_to_its_end([*self.enter(self.switch.pid), "sh", "-c", script])

    # -- links -------------------------------------------------------------------------------------

    def cut(self, host: int, *, how: str = CUT) -> None:
        """Its processes go on. CUT: nothing reaches it, and it reaches nothing; CUT_IN: it hears nothing; CUT_OUT: it
        is not heard.
        """
        self._set_link(host, LINKS[how][0])

    def slow_down(self, host: int) -> None:
        """What it sends, and what is sent to it, waits for a link of a quarter of a megabit per second."""
        self._on_switch(SLOWED.format(f"to-{host}", SLOW_KBIT))
        run_to_its_end(self.command(host, "sh", "-c", SLOWED.format("eth0", SLOW_KBIT)))

    def heal(self, host: int) -> None:
        """Its link is whole again, whatever was wrong with it."""
        self._set_link(host, " && ".join(undone for how, (_, undone) in LINKS.items() if how not in self.unfit))
        if SLOW not in self.unfit:
            self._speed_up(host)

    def _speed_up(self, host: int) -> None:
        self._on_switch(AT_FULL_SPEED.format(f"to-{host}"))
        run_to_its_end(self.command(host, "sh", "-c", AT_FULL_SPEED.format("eth0")))

    def _set_link(self, host: int, script: str) -> None:
        port = f"to-{host}"
        self._on_switch(script.format(port=port, flags=f"ip link set dev {port} type bridge_slave"))

    def close(self) -> None:
        """Ends everything on the hosts, and them. Where this process adopts orphans, it leaves no zombie of theirs."""
        deadline, killed = Deadline(SECONDS), set[int]()
        for host in range(len(self.holders)):
            while (more := self.kill(host)) and not deadline.over:
                killed.update(more)
        for pid in killed:
            reap_orphan(pid, deadline=deadline)
        for holder in (*self.holders, *([self.switch] if self.switch is not None else [])):
            holder.kill()
            holder.communicate()
        self.holders.clear()
        self.switch = None
