"""How is a certificate written, and how is it shown?

`CertificateWriter` (certificate_file.py) writes the document step by step; document.py says what each key
means. terminal, page, junit and markdown are pure functions of that document; the table_* modules render the comparison
of strategies and targets. May import: nothing of sinkproof but this package.
"""

if __name__ != "sinkproof.reports":
    raise ImportError(f"import this package as sinkproof.reports, not as {__name__}")
