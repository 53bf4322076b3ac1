"""Text of the programs that drive the released classes of a package: tokens as ranges, and the values of a template."""

from __future__ import annotations

from typing import Mapping, Sequence


def filled(template: str, values: Mapping[str, str]) -> str:
    """Return a template with a value in place of each ``@NAME@``."""
    text = template
    for placeholder, value in values.items():
        text = text.replace(f"@{placeholder}@", value)
    return text


def token_list(tokens: Sequence[int]) -> str:
    """Return the literal of a list of tokens, with ranges where they are shorter."""
    parts: list[str] = []
    start = 0
    for i in range(1, len(tokens) + 1):
        if i < len(tokens) and tokens[i] == tokens[i - 1] + 1:
            continue
        parts.append(f"*range({tokens[start]}, {tokens[i - 1] + 1})" if i - start > 1 else str(tokens[start]))
        start = i
    return f"[{', '.join(parts)}]"
