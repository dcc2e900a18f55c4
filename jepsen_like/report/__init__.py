"""The report of a run: one HTML file that opens from disk and shows what was promised, broken and found.

`render_report(run_directory)` writes it. `findings` reads what the run left, `overview` and `witness` draw, `page` puts
it together. Needs jinja2 (the `check` extra), nothing else, and no network.
"""

from jepsen_like.report.page import render_report

__all__ = ["render_report"]
