"""Which colours have drawings? Okabe and Ito's, which people with any colour vision tell apart; lighter on dark paper.

Source: Okabe and Ito, Color Universal Design (2008).
"""

from __future__ import annotations

from typing import Mapping

LIGHT: Mapping[str, str] = {
    "ink": "#1b1b1b", "dim": "#5a5a5a", "line": "#9a9a9a", "paper": "#ffffff",
    "c0": "#d9d9d9", "c1": "#e69f00", "c2": "#0072b2", "c3": "#009e73", "c4": "#cc79a7", "c5": "#56b4e9",
    "c6": "#d55e00", "c7": "#f0e442",
}  # fmt: skip
DARK: Mapping[str, str] = {
    "ink": "#f0f0f0", "dim": "#b4b4b4", "line": "#6a6a6a", "paper": "#16181c",
    "c0": "#4a4d52", "c1": "#f0b030", "c2": "#3aa0e0", "c3": "#35c79a", "c4": "#dc98bd", "c5": "#8fd0f5",
    "c6": "#ef8a3c", "c7": "#f0e442",
}  # fmt: skip
"""Names -> colours: c0 is for what is no loss, the others in the order in which they are used."""
COLOURS = 8


def variables(colours: Mapping[str, str]) -> str:
    """The colours as variables of a style sheet."""
    return ";".join(f"--{name}:{value}" for name, value in colours.items())
