"""Configuration of Sphinx for the site. `site_sources` copies it beside the Markdown files."""

import re
from posixpath import dirname
from typing import Any

from cachesim import __version__

project = "cachesim"
author = "the cachesim authors"
release = __version__
html_title = f"cachesim {release}"
copyright = author  # no year: the same commit gives the same pages
extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4
myst_enable_extensions = ["fieldlist"]
suppress_warnings = ["myst.header"]
smartquotes = False  # two hyphens before a flag are no dash
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["entries.js", "find.js", "reach.js"]
html_extra_path = ["extra"]
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/find.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ],
}
templates_path = ["templates"]


def _without_emphasis(line: str) -> str:
    """Return a line of a docstring whose stars and addresses have no meaning. Code in double backticks stays."""
    parts = re.split(r"(``.*?``)", line)
    return "".join(part if number % 2 else re.sub(r"([*@])", r"\\\1", part) for number, part in enumerate(parts))


def _as_restructured_text(app: object, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Turn a docstring, which is plain text, into what Sphinx reads: stars are no emphasis, indented lines are code."""
    del app, what, name, obj, options
    turned: list[str] = []
    in_code = False
    for line in lines:
        is_code = line.startswith("    ") or (in_code and not line.strip())
        if is_code and not in_code:
            turned += ["", "::", ""]
        elif in_code and not is_code:
            turned.append("")
        in_code = is_code
        turned.append(line if is_code else _without_emphasis(line))
    lines[:] = turned


navigations: dict[tuple[object, ...], str] = {}
"""Navigation of the pages outside the table of contents, by folder and the theme's options."""


def _share_navigation(app: Any, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Let the pages of a folder that are outside the table of contents share their navigation. Sphinx would copy the
    headings of all listed pages for each of them, which takes most of the time of writing the site."""
    del template, doctree
    if page == app.config.root_doc or any(page in listed for listed in app.env.toctree_includes.values()):
        return
    build = context["toctree"]

    def shared(**options: object) -> str:
        key = (dirname(page), *sorted(options.items()))
        if key not in navigations:
            navigations[key] = build(**options)
        return navigations[key]

    context["toctree"] = shared


def setup(app: Any) -> None:
    """Register the reader of docstrings, and the shared navigation before the theme asks for it."""
    app.connect("autodoc-process-docstring", _as_restructured_text)
    app.connect("html-page-context", _share_navigation, priority=400)


autodoc_typehints = "signature"
autodoc_member_order = "bysource"
