"""The certificate document and its renderers. Knows only its own document."""

if __name__ != "sinkproof.reports":
    raise ImportError(f"import this package as sinkproof.reports, not as {__name__}")
