"""``python -m tests.house.structure``: Python lines per folder, modules, and import arrows between folders.

Lines count everything but assets. An arrow is a pair of folders (or modules beside them) of which the first imports the
second, anywhere in a file. At the top ``tools`` counts as a single folder; inside it each tool counts.
"""

from __future__ import annotations

from collections import Counter
from typing import Callable, Sequence

from tests.house import checks

Parts = tuple[str, ...]


def arrows(package: Sequence[checks.Module], room: Callable[[Parts], str]) -> set[tuple[str, str]]:
    """Pairs of rooms of which the first imports the second; "" = not a room."""
    pairs = {(room(module.parts), room(to)) for module in package for to in checks.imported(module)}
    return {(one, other) for one, other in pairs if one and other and one != other}


def top(parts: Parts) -> str:
    """The folder, or the module beside the folders."""
    return parts[0] if parts and not parts[0].startswith("__") else ""


def tool(parts: Parts) -> str:
    """The tool that a module belongs to."""
    return parts[1] if parts[:1] == ("tools",) and len(parts) > 1 else ""


def main() -> None:
    """Print the figures."""
    package = checks.modules()
    lines, files = Counter[str](), Counter[str]()
    for module in package:
        name = "/".join(module.parts[: 2 if module.parts[0] in ("tools", "engines") else 1])
        lines[name] += len(module.text.splitlines())
        files[name] += 1
    for name in sorted(lines):
        print(f"{name:28} {files[name]:4} modules {lines[name]:6} lines")
    print(f"{'all':28} {len(package):4} modules {sum(lines.values()):6} lines")
    for what, room in (("top level, tools as one", top), ("inside tools", tool)):
        rooms = {room(module.parts) for module in package} - {""}
        print(f"{what}: {len(rooms)} rooms, {len(arrows(package, room))} arrows")


if __name__ == "__main__":
    main()
