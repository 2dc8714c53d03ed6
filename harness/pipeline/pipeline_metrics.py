"""Metrics of a running pipeline for Prometheus, on loopback: what progress shows, and how long checkpoints take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from sinkproof.chaos.optional_packages import install_command
from sinkproof.pipeline.output_folder import PipelineError
from sinkproof.pipeline.pipeline_progress import PipelineStatus, StatusLine

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

LOOPBACK: Final = "127.0.0.1"
CHECKPOINT_SECONDS: Final = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)


class ServedMetrics(StatusLine):
    """Passes everything on to the line that shows it. `port` 0: any free one."""

    def __init__(self, shown: StatusLine, *, port: int) -> None:
        try:
            from prometheus_client import CollectorRegistry, Histogram, start_http_server
        except ImportError as error:
            raise PipelineError(f"--metrics needs a package more. Run: {install_command('metrics')}") from error
        self._shown, self._status = shown, PipelineStatus(rows=0, total=0)
        registry = CollectorRegistry()
        self._durations = Histogram(
            "sinkproof_checkpoint_seconds",
            "From the trigger of a checkpoint until it is complete.",
            buckets=CHECKPOINT_SECONDS,
            registry=registry,
        )
        registry.register(self)
        try:
            self._server, self._thread = start_http_server(port, addr=LOOPBACK, registry=registry)
        except OSError as error:
            raise PipelineError(
                f"metrics cannot be served at port {port} ({error.strerror or error}): name another one with --metrics"
            ) from error

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self._server.server_port}/metrics"

    def collect(self) -> Iterator[Metric]:
        """Called by the thread of the server, for each scrape."""
        from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

        status = self._status
        counters = {
            "rows": (status.rows, "Rows that complete checkpoints cover, those of earlier commands among them."),
            "checkpoints": (status.checkpoints, "Complete checkpoints of this command."),
            "restarts": (status.restarts, "Restarts of the job under this command."),
        }
        for name, (value, what) in counters.items():
            yield CounterMetricFamily(f"sinkproof_{name}", what, value=value)
        behind = max(0, status.total - status.rows)
        yield GaugeMetricFamily(
            "sinkproof_rows_behind", "Rows of the input that none of them covers yet.", value=behind
        )

    def show(self, status: PipelineStatus) -> None:
        self._status = status
        self._shown.show(status)

    def checkpoint(self, seconds: float) -> None:
        self._durations.observe(seconds)
        self._shown.checkpoint(seconds)

    def say(self, text: str) -> None:
        self._shown.say(text)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._shown.close()
