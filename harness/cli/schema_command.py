"""`sinkproof schema`: what a certificate holds, for programs that read or check one."""

from __future__ import annotations

import json

import click


@click.command()
def schema() -> None:
    """Print the JSON Schema (2020-12) of certificate.json.

    \b
    sinkproof schema > certificate.schema.json       with it, `check-jsonschema` and editors check a certificate
    """
    from sinkproof.reports.certificate_file import schema as published

    click.echo(json.dumps(published(), indent=1))
