"""Tests of the table of caches in limits.md: every cache of the package has a row, and those that an input fills keep
their maximum in bytes."""

from __future__ import annotations

import ast
import gc
import json
import re
import tracemalloc
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

import cachesim
from cachesim.model.forward import make_model
from cachesim.model.hash_mixing import layer_keys, powers
from cachesim.model.rope import turns
from cachesim.replay.recorded_requests import tokenize
from cachesim.tools.server_logs.kv_events.block_history import BlockHistory
from cachesim.tools.server_logs.kv_events.message_reader import message_of_line
from cachesim.tools.server_logs.kv_events.prompt_blocks import PromptBlocks
from cachesim.tools.watch.log_rows import LogRows

PACKAGE = Path(cachesim.__file__).parent
ROW = re.compile(r"^\| `(?P<name>[\w.]+)` \| [^|]+ \| (?P<most>[^|]+) \| (?P<bytes>[^|]+) \|$", re.M)
ROWS = {row["name"]: row for row in ROW.finditer((PACKAGE / "pages/limits.md").read_text("utf-8"))}
OBJECTS = {"engines.shared.vocab.GrowingHash", "judging.compare_answer.ColdRunCache",
           "tools.server_logs.kv_events.block_history.BlockHistory",
           "tools.server_logs.kv_events.prompt_blocks.PromptBlocks.blocks",
           "tools.server_logs.kv_events.prompt_blocks.PromptBlocks.prefixes",
           "tools.server_logs.kv_events.prompt_blocks.PromptBlocks.tokens",
           "tools.server_logs.kv_events.missed_totals.MissedTotals", "tools.watch.event_endpoint.WAITING",
           "tools.watch.log_rows._head", "tools.watch.recent_bodies.RecentBodies", "tools.watch.report._rows"}
"""Caches of an object that lives as long as a command."""
CONTAINERS = {"dict", "list", "set", "defaultdict", "OrderedDict", "deque", "WeakKeyDictionary", "WeakValueDictionary"}

REMEMBERS = re.compile(r"@(functools\.)?(lru_)?cache\b")
CONTAINER = re.compile(
    rf"^(?P<indent> {{4}})?(?P<name>\w+)(: [^=\n]+)? = (\{{\}}|\[\]|[\w.]*({'|'.join(CONTAINERS)})\b)", re.M)
"""Matches a container of a module or of a class, and local variables of functions."""


def may_make_a_cache(text):
    """True for a module with a remembering function, or with a container of the module or of a class in which it
    stores values. To parse a module takes longer than to search its text."""
    if REMEMBERS.search(text):
        return True
    for found in CONTAINER.finditer(text):
        before = text[: found.start()]
        function = max(before.rfind("\ndef "), before.rfind("\nasync def "))
        is_local = found["indent"] and before.rfind("\nclass ") < function
        if not is_local and is_changed(found["name"], text):
            return True
    return False


@cache
def texts():
    """Return the text of each module of the package that may make a cache, by the name of the module."""
    every = {file: file.read_text("utf-8") for file in sorted(PACKAGE.rglob("*.py"))}
    return {".".join(file.relative_to(PACKAGE).with_suffix("").parts): text
            for file, text in every.items() if may_make_a_cache(text)}  # fmt: skip


@cache
def modules():
    """Return the names of these modules with their syntax trees."""
    return [(name, ast.parse(text)) for name, text in texts().items()]


@cache
def definitions(tree):
    """Return the functions and classes of a module, at any depth: they are statements."""
    found = [tree]
    for node in found:
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            found += getattr(node, part, ())
    return [node for node in found if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))]


def is_cached(function):
    """True if a function remembers its results."""
    return any(re.match(r"(functools\.)?(lru_)?cache\b", ast.unparse(one)) for one in function.decorator_list)


def is_empty_container(value):
    """True for an expression that makes an empty container."""
    if isinstance(value, ast.Call):
        name = ast.unparse(value.func).partition("[")[0].rpartition(".")[2]
        return name in CONTAINERS and not any(not isinstance(one, ast.Constant) for one in value.args)
    return ast.unparse(value) in ("{}", "[]")


def is_changed(name, text):
    """True if a module with this text stores values in its container ``name``."""
    stores = rf"\b{name}(\[[^\]]+\] = |\.(append|add|update|setdefault|extend|insert)\()"
    return bool(re.search(rf"{stores}|global [^\n]*\b{name}\b", text))


def caches():
    """Yield the names of the caches of functions, modules and classes."""
    for module, tree in modules():
        for node in definitions(tree):
            if not isinstance(node, ast.ClassDef) and is_cached(node):
                yield f"{module}.{node.name}"
        bodies = [tree.body, *(node.body for node in definitions(tree) if isinstance(node, ast.ClassDef))]
        for statement in (one for body in bodies for one in body):
            if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                names = [one.id for one in targets if isinstance(one, ast.Name)]
                if isinstance(statement, ast.AnnAssign) and ast.unparse(statement.annotation).startswith("Mapping"):
                    continue                       # a default, which stays as it is
                yield from (f"{module}.{name}" for name in names
                            if is_empty_container(statement.value) and is_changed(name, texts()[module]))  # fmt: skip


def test_every_cache_has_a_row():
    assert sorted(ROWS) == sorted({*caches(), *OBJECTS})


def test_every_cache_of_bounded_length_has_its_maximum_in_the_table():
    for module, tree in modules():
        for node in definitions(tree):
            if isinstance(node, ast.FunctionDef) and is_cached(node):
                found = re.search(r"maxsize=(.+)\)", " ".join(map(ast.unparse, node.decorator_list)))
                if found is not None:
                    most = ROWS[f"{module}.{node.name}"]["most"]
                    left, _, shift = found[1].partition(" << ")
                    assert most == f"{int(left) << int(shift or 0):,}"


def unknown_log():
    """Return the reader of a log of long lines that no server prints."""
    rows = LogRows()
    list(rows.read(f"{number} " + "\u2026" * 1_000_000 for number in range(40)))
    return rows


def stores(number):
    """Yield messages, each of which stores a block in a place of its own under a long hash."""
    for at in range(number):
        event = {"type": "BlockStored", "block_hashes": [f"{at:0128x}"], "token_ids": [at], "block_size": 1,
                 "medium": f"{at:064}"}  # fmt: skip
        yield message_of_line(json.dumps({"topic": "t" * 256, "seq": at, "payload": [0.5, [event], at % 9]}).encode())


def block_history(blocks):
    """Return a history that has followed twice as many blocks as it keeps."""
    made = BlockHistory(lambda place, event: [None], most=blocks)
    for message in stores(2 * blocks):
        made.read(message)
    return made


def prompt_blocks(blocks=0, prompts=0, tokens=1, size=1):
    """Return prompts with the blocks of events. ``size`` [tokens] of the block of an event."""
    made = PromptBlocks({}, most=blocks, most_prefixes=(1 << 18) // MANY, most_tokens=(1 << 22) // MANY)
    place = (("", None), None, None)
    for at in range(2 * blocks + 1):
        event = {"block_hashes": [f"{at:0128x}"], "token_ids": [1] * size, "block_size": size}
        made.of_event(place, event)
    for at in range(prompts):
        made.add(at, [at << 8] * tokens)
        made.of_event(place, {"block_hashes": [9], "token_ids": [1] * size, "block_size": size})
    return made


MANY = 512
"""Caches of KV events are filled with a smaller maximum: that of the table divided by this."""
FILLED = {
    "tools.server_logs.kv_events.block_history.BlockHistory": lambda: (
        block_history((1 << 19) // MANY) for _ in range(1)),
    "tools.server_logs.kv_events.prompt_blocks.PromptBlocks.blocks": lambda: (
        prompt_blocks((1 << 19) // MANY) for _ in range(1)),
    "tools.server_logs.kv_events.prompt_blocks.PromptBlocks.prefixes": lambda: (
        prompt_blocks(prompts=(1 << 18) // MANY + 9) for _ in range(1)),
    "tools.server_logs.kv_events.prompt_blocks.PromptBlocks.tokens": lambda: (
        prompt_blocks(prompts=60, tokens=100_000 // MANY, size=200_000 // MANY) for _ in range(1)),
    "model.forward._models": lambda: (make_model("GGGA" * 16, exact=True, seed=seed) for seed in range(9)),
    "model.hash_mixing._powers": lambda: (powers(1 << size) for size in range(21)),
    "model.hash_mixing.layer_keys": lambda: (layer_keys(seed, 0) for seed in range(1200)),
    "model.rope._block": lambda: (turns(np.array([position])) for position in range(0, 1 << 20, 512)),
    "replay.recorded_requests._remembered": lambda: (tokenize(f"{number:03}" + "a" * size)
                                                     for size in (1000, 100_000)
                                                     for number in range(260 if size == 1000 else 2)),
    "tools.watch.log_rows._head": lambda: (unknown_log() for _ in range(1)),
}  # fmt: skip
"""Calls that fill a cache, one after the other, by its name: they make more than it keeps."""


def held_when_full(name):
    """Return the bytes that a cache holds when it is full. An object is held by its caller, until the end."""
    gc.collect()
    tracemalloc.start()
    for _made in FILLED[name]():
        pass
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


@pytest.mark.long
@pytest.mark.parametrize("name", FILLED)
def test_a_full_cache_keeps_its_maximum(name):
    row = ROWS[name]
    most = int(row["bytes"].split(" ")[0].replace(",", ""))
    if row["bytes"].endswith("each"):
        most *= int(row["most"].split(" ")[0].replace(",", "")) // (MANY if ".kv_events." in name else 1)
    with ProcessPoolExecutor(1, get_context("fork")) as process:          # a full cache ends with its process
        held = process.submit(held_when_full, name).result()
    assert most / 10 <= held <= most
