"""Asset files of tools: HTML, CSS, JavaScript and SVG. The files are formatted; pages and drawings contain them without
that formatting.

``$name`` in an HTML file is a placeholder of ``string.Template``. The caller escapes what it inserts.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path


@cache
def asset(module: str, name: str) -> str:
    """Return the text of file ``name`` beside ``module``, a ``__file__``, without comments and indentation.

    CSS becomes a line per paragraph, SVG a single line; HTML and JavaScript keep their line ends.
    """
    file = Path(module).with_name(name)
    text = file.read_text("utf-8")
    if file.suffix == ".css":
        rules = re.sub(r"/\*.*?\*/\n", "", text, flags=re.DOTALL).strip()
        return "\n".join(map(_compact, rules.split("\n\n")))
    lines = (line.strip() for line in text.splitlines())
    return ("" if file.suffix == ".svg" else "\n").join(line for line in lines if line and not line.startswith("//"))


def _compact(css: str) -> str:
    """Return CSS, which must have no quoted text with spaces, without the spaces that nothing depends on."""
    css = re.sub(r"\s*([{};>/])\s*", r"\1", " ".join(css.split()))
    return re.sub(r"([:,]) ", r"\1", css).replace(";}", "}")
