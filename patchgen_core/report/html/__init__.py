"""The HTML report: one file that needs no other; :mod:`patchgen_core.report.html.pages` writes it."""
