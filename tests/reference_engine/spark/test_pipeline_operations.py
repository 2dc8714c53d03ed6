"""What `sinkproof run` offers to those that operate it, seen in what Spark records of the job."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.mark.slow
def test_spark_gets_settings_and_a_description_of_the_job_and_the_log_is_json(
    rows: Path, tmp_path: Path, sinkproof_command: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    (tmp_path / "history").mkdir()
    settings = {
        "spark.app.name": "nightly count",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.dir": (tmp_path / "history").as_uri(),
    }
    given = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    options = ["--metrics", "0", "--log-format", "json", "--json", *given]
    done = sinkproof_command("run", "count", "--rows", str(rows), "--key", "user", "--out", "out", *options)
    assert 0 == done.returncode, done.stderr
    messages = [json.loads(line)["message"] for line in done.stderr.splitlines() if "message" in line]
    assert re.fullmatch(r"metrics: http://127\.0\.0\.1:\d+/metrics", messages[0])
    (history,) = (tmp_path / "history").iterdir()
    events = [json.loads(line) for line in history.read_text().splitlines()]
    assert "nightly count" in [event.get("App Name") for event in events]
    described = [
        event["Properties"]["spark.job.description"] for event in events if event["Event"].endswith("JobStart")
    ]
    assert [f"sinkproof run count: {tmp_path / 'out'} (2 source, 2 sink)"] == described
