"""SECURITY.md names every place of the package that runs code or contacts a server, and nothing else."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.packaging.reaching import CODE, NETWORK, PROCESS, reached
from tests.shared import ROOT

TEXT = re.sub(r"\s+", " ", (ROOT / "SECURITY.md").read_text("utf-8"))
TABLE = tomllib.loads(Path(__file__).with_name("reaching.toml").read_text("utf-8"))
SECTIONS = ("What runs code", "What contacts a server")


def listed():
    """Return the modules of the table with what they do."""
    rows = [*TABLE["covered"], TABLE["own"]]
    return {(module, kind) for row in rows for kind in (PROCESS, NETWORK, CODE) for module in row.get(kind, ())}


def points():
    """Return the points of the sections about code and servers."""
    parts = [TEXT.partition(f"## {section} ")[2].partition(" ## ")[0] for section in SECTIONS]
    return [point for part in parts for point in part.split(" - ")[1:]]


def test_the_table_lists_every_module_that_runs_code_or_contacts_a_server():
    package = ROOT / "cachesim"
    found = {(str(file.relative_to(package)), kind)
             for file in package.rglob("*.py") for kind in reached(file.read_text("utf-8"))}  # fmt: skip
    assert sorted(found - listed()) == []          # new: say it in SECURITY.md, then add the module to reaching.toml
    assert sorted(listed() - found) == []          # gone: remove the module from reaching.toml


def test_each_sentence_of_the_table_is_a_point_of_security_and_each_point_has_modules():
    sentences = [sentence for row in TABLE["covered"] for sentence in row["sentences"]]
    assert [sentence for sentence in sentences if sum(point.startswith(sentence) for point in points()) != 1] == []
    assert [point for point in points() if not point.startswith(tuple(sentences))] == []


def test_modules_of_the_package_that_import_by_name_import_only_the_package():
    for name in TABLE["own"]["code"]:
        text = (ROOT / "cachesim" / name).read_text("utf-8")
        called = re.findall(r"import_module\((.*?)[,)]", text)
        ours = r'f?"(cachesim\.|\{package\}\.|\{__package__\}\.)|_HOMES|module$'
        assert [one for one in called if not re.match(ours, one)] == []


@pytest.mark.parametrize("source, kind", [
    ("import subprocess as s\ns.run(['x'])", PROCESS), ("from subprocess import run", PROCESS),
    ("import os\nos.execvp('x', [])", PROCESS), ("from os import posix_spawn as go", PROCESS),
    ("import os as o\ngetattr(o, 'system')('x')", PROCESS), ("import os\nif os.fork() == 0: pass", PROCESS),
    ("import asyncio\nasyncio.create_subprocess_shell('x')", PROCESS), ("import multiprocessing.pool", PROCESS),
    ("from concurrent.futures import ProcessPoolExecutor", PROCESS), ("import concurrent.futures as f\n"
                                                                      "f.ProcessPoolExecutor()", PROCESS),
    ("def f(loop):\n    loop.subprocess_exec(None, 'x')", PROCESS), ("import pty", PROCESS),
    ("import _posixsubprocess", PROCESS),
    ("import os.path\nos.system('x')", PROCESS), ("import concurrent.futures\nconcurrent.futures.ProcessPoolExecutor()",
                                                  PROCESS),
    ("from cachesim.tools.live.llama_server.guarded_run import run_guarded", PROCESS),
    ("from urllib import request", NETWORK), ("import urllib.request", NETWORK), ("from http import client", NETWORK),
    ("from http.client import HTTPConnection", NETWORK), ("def f():\n    import socket", NETWORK),
    ("async def f(loop):\n    await loop.create_connection(None, 'h', 1)", NETWORK), ("import h11", NETWORK),
    ("from asyncio import open_connection", NETWORK), ("import_module('distributed')", NETWORK),
    ("from cachesim.base.http_client import HttpClient as H", NETWORK),
    ("exec('x')", CODE), ("run = eval", CODE), ("__import__('x')", CODE), ("compile('x', 'y', 'exec')", CODE),
    ("import runpy", CODE), ("from importlib import util\nutil.spec_from_file_location(a, b)", CODE),
    ("import importlib\nimportlib.import_module(name)", CODE), ("import pickle", CODE), ("import ctypes", CODE),
    ("from importlib.metadata import entry_points", CODE), ("import builtins\nbuiltins.exec('x')", CODE),
    ("from importlib import import_module as load\nload(name)", CODE),
    ("from cachesim.engines.rule_files import run_rule_file", CODE),
])  # fmt: skip
def test_each_way_to_reach_something_is_found(source, kind):
    assert reached(source) == {kind}


@pytest.mark.parametrize("source", [
    "from __future__ import annotations\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import socket",
    "from urllib.parse import urlsplit", "import re\nre.compile('a')", "import os\nos.path.join('a', os.getpid())",
    "from importlib.util import find_spec", "from http import HTTPStatus", "model.eval()", "import asyncio",
    "from multiprocessing import parent_process", "import_module('cachesim.base.console')",
])  # fmt: skip
def test_what_reaches_nothing_is_not_listed(source):
    assert reached(source) == set()
