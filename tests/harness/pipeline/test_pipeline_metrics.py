"""What `run --metrics` serves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.request import urlopen

import pytest

from sinkproof.pipeline.output_folder import PipelineError
from sinkproof.pipeline.pipeline_metrics import ServedMetrics
from sinkproof.pipeline.pipeline_progress import PipelineStatus, StatusLine


@pytest.fixture
def metrics() -> Iterator[ServedMetrics]:
    served = ServedMetrics(StatusLine(), port=0)
    yield served
    served.close()


def scraped(metrics: ServedMetrics) -> dict[str, float]:
    """Name, with its labels -> value."""
    with urlopen(metrics.url) as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}


def test_a_scrape_sees_rows_lag_checkpoints_restarts_and_durations(metrics: ServedMetrics) -> None:
    metrics.show(PipelineStatus(rows=70, total=100, checkpoints=3, restarts=1))
    for seconds in (0.004, 0.3):
        metrics.checkpoint(seconds)
    found = scraped(metrics)
    assert 70 == found["sinkproof_rows_total"]
    assert 30 == found["sinkproof_rows_behind"]
    assert (3, 1) == (found["sinkproof_checkpoints_total"], found["sinkproof_restarts_total"])
    assert (1, 2) == tuple(found[f'sinkproof_checkpoint_seconds_bucket{{le="{most}"}}'] for most in ("0.2", "0.5"))
    assert 0.304 == pytest.approx(found["sinkproof_checkpoint_seconds_sum"])


def test_only_this_machine_is_served_and_a_port_in_use_is_said(metrics: ServedMetrics) -> None:
    port = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/metrics", metrics.url)
    assert port is not None
    with pytest.raises(PipelineError, match=f"cannot be served at port {port[1]} .*another one with --metrics"):
        ServedMetrics(StatusLine(), port=int(port[1]))


def test_a_closed_one_can_be_closed_again_and_its_port_is_free() -> None:
    taken = []
    for _ in range(5):  # another process may take the port first, but not every time
        first = ServedMetrics(StatusLine(), port=0)
        url = first.url
        first.close()
        first.close()
        try:
            second = ServedMetrics(StatusLine(), port=int(url.rpartition(":")[2].partition("/")[0]))
        except PipelineError as error:
            taken.append(str(error))
            continue
        assert url == second.url
        second.close()
        return
    pytest.fail("\n".join(taken))
