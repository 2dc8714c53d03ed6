"""What does a service for continuous integration show of a certificate?

`Violation` (violations.py) is what it knows again in a later run. One module a form: sarif.py for code scanners,
github_annotations.py for a step of GitHub Actions, badge.py. Imports reports only.
"""
