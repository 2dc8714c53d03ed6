"""The comparison table as one self-contained HTML page, in the style of the certificate's."""

from __future__ import annotations

from sinkproof.reports import page, table_charts, table_facts
from sinkproof.reports import report_facts as facts
from sinkproof.reports.table_facts import Table

TEMPLATE = "table.html.j2"


def render(table: Table) -> str:
    return page.filled(TEMPLATE, table=table, table_facts=table_facts, facts=facts, charts=table_charts.charts(table))
