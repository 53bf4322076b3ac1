"""Fictional newest builds, as edits of a tree: a rule, the rule set that has it, and its place in the history.

A build is named far behind the present ones, and derived from the newest one. Each is what a person writes by hand.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

ENGINES = Path("cachesim") / "engines"
DAY = "2099-01-01"


@dataclass(frozen=True)
class Addition:
    """A new build of an engine: the newest one with another rule in one field."""

    name: str                                        # name of its rule set
    build: str                                       # its build: a number, a day or a release
    source: str                                      # where its rules were read
    field: str                                       # field of the table that changes
    rules: str                                       # module of the new rule
    function: str                                    # name of the new rule
    code: str                                        # code of the new rule
    history: tuple[tuple[str, str, str], ...] = ()   # file, first line of a mapping, its entry


LLAMA = Addition(
    "llama_cpp@b99999", "b99999", f"ggml-org/llama.cpp b99999 ({DAY})", "ckpt_limit", "checkpoint_create", "limit_two",
    '''
# [New in llama_cpp@b99999]
@rule("LC-CKPT-LIMIT.TWO", Role.DROP,
      llama_cpp(CONTEXT, 'create_checkpoint "while {"', "b99999", pull=99001), since="#99001 (b99001)")
def limit_two(ckpts: Sequence[Ckpt], limit: int) -> Decision:
    """Erase the oldest checkpoints until there is room for two new checkpoints; return their indices."""
    return Decision(tuple(range(max(0, min(len(ckpts), len(ckpts) - limit + 2)))), {"max": limit})
''',
    (
        ("history.py", "LANDED: Mapping[str, Commit] = {", f'    "#99001": Commit(99001, "{DAY}"),'),
        ("history.py", "OWN: Mapping[str, Commit] = {", f'    "llama_cpp@b99999": Commit(99999, "{DAY}"),'),
    ),
)
IK = Addition(
    "ik_llama@99001", DAY, "ikawrakow/ik_llama.cpp#99001 (fedcba987)", "ckpt_evict", "checkpoint_create",
    "evict_second_oldest",
    '''
# [New in ik_llama@99001]
@rule("IK-CKPT-EVICT.SECOND-OLDEST", Role.DROP,
      ik_llama(CONTEXT, "create_checkpoint", "fedcba987"), since="#99001 (fedcba987)")
def evict_second_oldest(ckpts: Sequence[Ckpt], how: str) -> Decision:
    """Erase the second oldest checkpoint to make room, or the only one; return its index."""
    return Decision(min(1, len(ckpts) - 1), {"how": how, "pos_max": [c.pos_max for c in ckpts]})
''',
    (
        ("history.py", "_CHANGES: Mapping[str, tuple[int, str, str]] = {",
         f'    "#99001": (99001, "{DAY}", "fedcba987"),'),
        ("history.py", "OWN: Mapping[str, tuple[int, str]] = {",
         '    "ik_llama@99001": _CHANGES["#99001"][:2],'),
    ),
)
MLX = Addition(
    "mlx_lm@99.0.0", DAY, "mlx-lm 99.0.0 (PyPI)", "tail", "segments", "tail_of_twelve",
    '''
# [New in mlx_lm@99.0.0]
@rule("ML-SEG-TAIL.TWELVE", Role.PROMPT, mlx_lm(SERVER, "_tokenize", "99.0.0"), since="#99001")
def tail_of_twelve(prompt: Tokens, sys_end: int) -> Decision:
    """Return the start of the tail: the last think token within the last 12 tokens, whatever they belong to."""
    return find_tail(prompt, sys_end, len(prompt) - 12)
''',
    (
        ("history.py", "LANDED: Mapping[str, Commit] = {", f'    "#99001": Commit(99001, "{DAY}"),'),
        ("history.py", "OWN: Mapping[str, Commit] = {", '    "mlx_lm@99.0.0": LANDED["#99001"],'),
    ),
)
VLLM = Addition(
    "vllm@99.0.0", DAY, "vLLM 99.0.0 (PyPI)", "reserve", "blocks", "reserve_two",
    '''
@rule("VL-ALLOC-WATERMARK.TWO", Role.ADMIT, manager("allocate_slots watermark_blocks", "99.0.0", spec="V-ALLOC-3"))
def reserve_two(share: float, blocks: int, new: bool, others: bool) -> int:
    """Return the blocks that stay free when a waiting request starts beside others: at least two."""
    return max(2, int(share * blocks)) if new and others else 0
''',
    (("history.py", "OWN: Mapping[str, Commit] = {", f'    "vllm@99.0.0": Commit(UNKNOWN, "{DAY}"),'),),
)
SGLANG = Addition(
    "sglang@99.0.0", "99.0.0", "SGLang 99.0.0 (PyPI)", "evict_quota", "tree", "double_quota",
    '''
@rule("SG-EVICT-QUOTA.DOUBLE", Role.MEMORY, source(CACHE, "_evict_components", "99.0.0", spec="S-EV-6"),
      since="99.0.0")
def double_quota(part: int, asked: int, freed: int, evictable: int) -> int:
    """Every part is evicted up to twice the requested number of tokens. Returns that number."""
    return 2 * asked if freed < 2 * asked else 0
''',
    (("history.py", "OWN: Mapping[str, Commit] = {", f'    "sglang@99.0.0": Commit(UNKNOWN, "{DAY}"),'),),
)
ADDITIONS = {one.name.partition("@")[0]: one for one in (LLAMA, IK, MLX, VLLM, SGLANG)}


def add_build(tree: Path, engine: str, newest: str) -> set[Path]:
    """Add the fictional build of an engine to a tree, after its newest one; return the edited files."""
    added, folder = ADDITIONS[engine], tree / ENGINES / engine
    rules = folder / "rules" / f"{added.rules}.py"
    rules.write_text(f"{rules.read_text('utf-8').rstrip()}\n\n{added.code}", "utf-8")
    table, variable, end = _defined(folder, newest)
    lines = table.read_text("utf-8").splitlines()
    lines[end:end] = ["", "FICTIONAL = replace(", f"    {variable},", f'    name="{added.name}",',
                      f'    build="{added.build}",', f'    source="{added.source}",',
                      f"    {added.field}={added.function},", ")"]  # fmt: skip
    at = lines.index("from __future__ import annotations") + 1
    lines.insert(at, f"from cachesim.engines.{engine}.rules.{added.rules} import {added.function}")
    table.write_text("\n".join(lines) + "\n", "utf-8")
    edited = {rules, table}
    for name, mapping, entry in added.history:
        edited.add(file := folder / name)
        append_entry(file, mapping, entry)
    return edited


def append_entry(file: Path, mapping: str, entry: str) -> None:
    """Append an entry to the mapping or tuple that begins with this line. Raise ValueError without such a line."""
    lines = file.read_text("utf-8").splitlines()
    first = lines.index(mapping)
    last = next(at for at in range(first, len(lines)) if lines[at].startswith(("}", ")")))
    lines.insert(last, entry)
    file.write_text("\n".join(lines) + "\n", "utf-8")


def _defined(folder: Path, name: str) -> tuple[Path, str, int]:
    """Return the file that defines a rule set, its variable, and the number of the last line of its definition."""
    for file in sorted(folder.rglob("*.py")):
        text = file.read_text("utf-8")
        for node in ast.parse(text).body if f'"{name}"' in text else ():
            begins = rf'(\w+) = (?:Rules\(|replace\(\s*\w+,)\s*(?:name=)?"{re.escape(name)}"'
            if found := re.match(begins, ast.get_source_segment(text, node) or ""):
                return file, found[1], node.end_lineno or 0
    raise LookupError(f"no definition of {name}")
