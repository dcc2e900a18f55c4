"""Configures the site: Sphinx reads the pages where they are, from the root of the repository, and the API from `__all__` of each package.

`make docs` builds it into `build/docs`. README.md is the front page; `CONTENTS` is the table of contents, which each page appears in once.
"""

import shutil
from pathlib import Path
from typing import Any

from pygments.lexers import ClojureLexer

CONTENTS = {
    "Use it": [
        "docs/library",
        "docs/testing",
        "docs/http",
        "docs/kafka",
        "docs/rocketmq",
        "docs/security",
        "docs/tls",
        "docs/operations",
    ],
    "Test with it": [
        "docs/promises",
        "docs/matrix",
        "docs/claims",
        "docs/runs",
        "docs/checking",
        "docs/cluster",
        "docs/zones",
        "docs/two-topics",
        "docs/mirror",
        "docs/rehearsals",
        "docs/real",
        "docs/findings/apache-kafka-bootstrap-checkpoint",
        "docs/findings/apache-kafka-deletions",
        "docs/findings/apache-rocketmq-dledger-queues",
        "docs/findings/apache-rocketmq-dledger-uncommitted",
        "docs/findings/apache-rocketmq-isolated-master",
        "docs/findings/apache-rocketmq-old-master",
        "docs/findings/librdkafka-after-an-abort",
        "docs/findings/rabbitmq-vhost-config",
        "docs/findings/zookeeper-first-snapshot",
        "docs/your-cluster",
        "docs/systems",
    ],
    "Understand it": [
        "docs/life-of-an-append",
        "docs/life-of-a-produce",
        "docs/life-of-a-check",
        "ARCHITECTURE",
        "docs/benchmark",
        "docs/found",
    ],
    "API": [
        "docs/api/raft",
        "docs/api/log",
        "docs/api/kafka_compat",
        "docs/api/rocketmq_compat",
        "docs/api/jepsen_like",
    ],
    "Project": ["CONTRIBUTING", "SECURITY", "CHANGELOG"],
}
"""Captions of the navigation, and below each its pages by their paths without a suffix."""

project = html_title = "quorumlog"
copyright = "the quorumlog contributors"  # noqa: A001 - the name that Sphinx reads
root_doc = "README"
include_patterns = [f"{page}{suffix}" for page in sum(CONTENTS.values(), [root_doc]) for suffix in (".md", ".rst")]
exclude_patterns = [".*", "build", "dist", "runs", "tests"]  # large folders, which Sphinx would search

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
myst_heading_anchors = 4
default_role = "code"
autodoc_default_options = {"members": True, "member-order": "bysource", "show-inheritance": True}
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
maximum_signature_line_length = 100
add_module_names = False

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}


def append_contents(app: Any, page: str, source: list[str]) -> None:
    """Appends the table of contents to the front page, which a reader of the repository sees without it."""
    if page == root_doc:
        for caption, pages in CONTENTS.items():
            entries = "\n".join(f"/{entry}" for entry in pages)
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{entries}\n```\n"


def copy_front_page(app: Any, error: Exception | None) -> None:
    """Lets a visitor of the directory see the front page."""
    if error is None and app.builder.format == "html":
        shutil.copyfile(Path(app.outdir) / f"{root_doc}.html", Path(app.outdir) / "index.html")


def mark_code(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Marks an indented block of a docstring as code, which it is for a reader of the source."""
    for at in range(len(lines) - 1, 0, -1):
        paragraph = next((line for line in reversed(lines[:at]) if line.strip()), "")
        is_text = bool(paragraph) and not paragraph.startswith((" ", "- "))
        if lines[at].startswith("    ") and not lines[at - 1].strip() and is_text:
            lines[at:at] = [".. code-block:: python", ""]


def setup(app: Any) -> None:
    """Connects these to the build, and reads EDN as what it is a part of."""
    app.add_lexer("edn", ClojureLexer)
    app.connect("autodoc-process-docstring", mark_code)
    app.connect("source-read", append_contents)
    app.connect("build-finished", copy_front_page)
