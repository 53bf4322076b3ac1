"""Blocks that attention backends take, in the sources of a released vLLM and in our table of command lines:
``python -m tests.peers.vllm_backends RELEASE``. Exit code 1 if a backend differs.

The backends need a GPU, so their sources are read: of the function that returns the sizes, the last return, which is
the one without special hardware or types.
"""

from __future__ import annotations

import ast
import sys
from importlib.util import find_spec
from pathlib import Path

from cachesim.base import exits
from cachesim.base.console import complain, show
from cachesim.engines.vllm.command_table import BACKENDS, COMMAND_TABLE

SIZES = range(16, 513, 16)
FUNCTION = "get_supported_kernel_block_sizes"


def classes_in(root):
    """Return the classes of all sources below a folder, by name."""
    found = {}
    for file in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, node)
    return found


def backends_of(classes):
    """Return backend -> name of its class."""
    rows = [node for node in classes["AttentionBackendEnum"].body if isinstance(node, ast.Assign)]
    return {row.targets[0].id: row.value.value.rpartition(".")[2] for row in rows
            if isinstance(row.value, ast.Constant) and row.value.value}  # fmt: skip


def units_of(classes, name):
    """Return the numbers of which a block of this class is a multiple, None if the source does not list them."""
    node = classes.get(name)
    if node is None:
        return None
    method = next((part for part in node.body if getattr(part, "name", "") == FUNCTION), None)
    if method is None:
        return next((units_of(classes, base.id) for base in node.bases if isinstance(base, ast.Name)), None)
    returns = [part for part in ast.walk(method) if isinstance(part, ast.Return)]
    returned = max(returns, key=lambda part: part.lineno).value
    if not isinstance(returned, ast.List):
        return None
    return [part.args[0].value if isinstance(part, ast.Call) else part.value for part in returned.elts]


def main(argv):
    """Compare all backends of our table; return the exit code."""
    package = find_spec("vllm")
    if package is None:
        complain("not installed: 'vllm' (run `make peers`, which makes .venv-peers-vllm)")
        return exits.NOTHING
    root = Path(package.submodule_search_locations[0])
    classes = classes_in(root / "v1" / "attention")
    backends = backends_of(classes)
    row = next(one for one in COMMAND_TABLE.arguments if "--attention-backend" in one.spellings)
    differ = compared = 0
    for name in (*BACKENDS, *(word.upper() for word in row.harmless)):
        units = units_of(classes, backends.get(name, ""))
        if units is None:
            complain(f"{name}: not in {argv[0]}")
            continue
        compared += 1
        ours = BACKENDS.get(name)
        allowed = [size for size in SIZES if any(size % unit == 0 for unit in units)]
        mine = [size for size in SIZES if ours is None or ours.allow(size)]
        otherwise = 16 if 16 in allowed else min(units)
        if allowed != mine or (ours.otherwise if ours else 16) != otherwise:
            differ += 1
            complain(f"{name}: released {units}, ours {ours.words if ours else 'any'}")
    show(f"vLLM {argv[0]}: blocks of {compared} attention backends, {differ} differ")
    return exits.BROKEN if differ else exits.HOLDS


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
