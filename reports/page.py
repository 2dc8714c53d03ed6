"""The certificate as one self-contained HTML page: no network, light and dark, readable without colour or scripts."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from importlib import resources
from typing import Any, Final

import jinja2
from markupsafe import Markup

from sinkproof.reports import canary_table, coverage_text, finding_groups, grid, picture, story
from sinkproof.reports import report_facts as facts
from sinkproof.reports.at_target import target_words
from sinkproof.reports.ci.since_earlier import Earlier

TEMPLATE: Final = "page.html.j2"
SCRIPT: Final = "page.js.j2"
OTHER_FINDINGS_SHOWN: Final = 6  # kinds of a subject, and findings of one kind; the document has them all


def render(document: Mapping[str, Any], *, earlier: Earlier | None = None) -> str:
    """`earlier`: a certificate beside this one."""
    return filled(
        TEMPLATE,
        document=facts.filled(document),
        environment_text=environment_text,
        earlier=earlier,
        facts=facts,
        by_cause=finding_groups.by_cause,
        also_at=finding_groups.also_at,
        coverage=coverage_text,
        grid_of=grid.grid,
        kill_table_of=canary_table.kill_table,
        left_out=target_words.left_out,
        lines_around=finding_groups.lines_around,
        picture=picture.picture,
        seen=target_words.seen,
        sentence=story.sentence,
        story=story.story,
        OTHERS_SHOWN=OTHER_FINDINGS_SHOWN,
        SEVERITY=grid.SEVERITY,
    )


def filled(template: str, **given: object) -> str:
    """Renders a template: all given text is escaped, and the content security policy allows only our own script."""
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_source),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_final,
    )
    script = _source(SCRIPT)
    environment.globals.update(
        script=Markup(script),
        script_hash=f"sha256-{b64encode(sha256(script.encode()).digest()).decode()}",
        **given,
    )
    return environment.get_template(template).render()


def environment_text(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {environment_text(item)}" for name, item in value.items())
    if isinstance(value, list):
        return ", ".join(environment_text(item) for item in value)
    return "" if value is None else str(value)


def _source(name: str) -> str:
    return resources.files(__package__ or "sinkproof.reports").joinpath(name).read_text("utf-8")


def _final(value: object) -> object:
    return value if isinstance(value, Markup) else facts.visible(value)
