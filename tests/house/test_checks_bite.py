"""Do the house checks find what they are for? Each is fed a bad snippet and a good neighbour of it."""

from __future__ import annotations

import pytest

from tests.house import checks

LONG = "def f():\n" + "    pass\n" * checks.FUNCTION_LINES

BAD = [
    (checks.bad_imports, "model.layer", "from cachesim.engines.base import Request"),
    (checks.bad_imports, "oracle", "import cachesim.scenarios.load"),
    (checks.bad_imports, "verdicts.blame", "from cachesim.live import logs"),
    (checks.bad_imports, "verdicts.blame", "def f():\n    from cachesim.reports import console"),
    (checks.bad_imports, "engines.mlx_lm.server", "from cachesim.engines.llama_cpp import server"),
    (checks.bad_imports, "engines.mlx_lm.server", "from cachesim.engines import llama_cpp"),
    (checks.bad_imports, "engines.base", "from cachesim.engines.llama_cpp.server import Server"),
    (checks.bad_imports, "engines.mlx_lm.server", "from .. import llama_cpp"),
    (checks.bad_imports, "commands.run", "from cachesim import cli"),
    (checks.bad_imports, "model.layer", "import cachesim.nowhere"),
    (checks.names_engines, "verdicts.blame", "from cachesim.engines.llama_cpp.slot import Slot"),
    (checks.names_engines, "reports.table", "x = 'mlx_lm'"),
    (checks.names_engines, "live.trace", "if engine == 'llama.cpp': pass"),
    (checks.names_engines, "commands.run", "from cachesim.engines import ik_llama"),
    (checks.names_engines, "fuzz.case", "x = one.llama_cpp"),
    (checks.names_engines, "verdicts.blame", "x = rule.startswith('LC-CKPT')"),
    (checks.too_long, "model.layer", LONG),
    (checks.too_long, "model.layer", "x = 1\n" * (checks.FILE_LINES + 1)),
    (checks.prints, "commands.run", "print('x')"),
    (checks.careless, "tokens", "def f(a=[]): ..."),
    (checks.careless, "tokens", "def f(*, a=dict()): ..."),
    (checks.careless, "tokens", "f = lambda a={}: a"),
    (checks.careless, "tokens", "try:\n    f()\nexcept:\n    pass"),
    (checks.version_branches, "engines.llama_cpp.server", "if rules.name == 'x': pass"),
    (checks.version_branches, "engines.llama_cpp.server", "if '2026' <= profile.version: pass"),
    (checks.version_branches, "engines.llama_cpp.profiles", "x = [f for f in PROFILES if f.name in skip]"),
    (checks.version_branches, "engines.llama_cpp.server", "x = 'llama_cpp@head'"),
    (checks.version_branches, "reports.table", "x = f'llama_cpp@{name}'"),
    (checks.outside_world, "model.layer", "import time"),
    (checks.outside_world, "model.layer", "from random import choice"),
    (checks.outside_world, "reports.table", "import os\nx = os.environ['HOME']"),
    (checks.outside_world, "reports.table", "from os import getenv"),
    (checks.outside_world, "model.layer", "import numpy as np\nx = np.random.rand()"),
    (checks.unsourced_rules, "engines.llama_cpp.rules.keep", "@rule('LC-1', Role.PICK)\ndef f():\n    'No source.'"),
    (checks.unsourced_rules, "engines.llama_cpp.rules.keep", "@base.rule('LC-1')\ndef f(): ..."),
    (checks.undocumented, "tokens", "x = 1"),
]

GOOD = [
    (checks.bad_imports, "engines.mlx_lm.server", "from cachesim.engines.base import Request"),
    (checks.bad_imports, "engines.mlx_lm.server", "from cachesim.engines.mlx_lm import reuse"),
    (checks.bad_imports, "cli", "from cachesim.commands import exits\nfrom cachesim import __version__"),
    (checks.bad_imports, "reports.table", "import json, cachesim.verdicts"),
    (checks.names_engines, "reports.table", "'As mlx_lm does.'\nimport cachesim.engines.registry"),
    (checks.names_engines, "live.llama_server.log", "from cachesim.engines.llama_cpp import log"),
    (checks.names_engines, "engines.llama_cpp.server", "x = 'LC-CKPT-NEED'"),
    (checks.too_long, "model.layer", LONG.removesuffix("    pass\n")),
    (checks.prints, "reports.console", "print('x')"),
    (checks.careless, "tokens", "def f(a=(), b=None): ..."),
    (checks.version_branches, "engines.llama_cpp.server", "'''About llama_cpp@head.'''\nif a == b: pass"),
    (checks.version_branches, "engines.llama_cpp.profiles", "x = 'llama_cpp@head'"),
    (checks.version_branches, "engines.llama_cpp.profiles.head", "x = 'llama_cpp@head'"),
    (checks.version_branches, "engines.llama_cpp.profiles", "x = [f for f in fields(r) if f.name not in skip]"),
    (checks.outside_world, "commands.run", "import time"),
    (checks.unsourced_rules, "engines.llama_cpp.rules.keep", "@rule('LC-1', Role.PICK, at())\ndef f():\n    'Picks.'"),
]


def _id(value):
    return getattr(value, "__name__", None)


@pytest.mark.parametrize(("check", "name", "text"), BAD, ids=_id)
def test_bad_code_is_found(check, name, text):
    assert check(checks.parse(text, name)) != []


@pytest.mark.parametrize(("check", "name", "text"), GOOD, ids=_id)
def test_good_code_passes(check, name, text):
    assert check(checks.parse(text, name)) == []


def test_circles_are_found_through_others_and_inside_functions():
    texts = {
        "verdicts.a": "from cachesim.verdicts.b import x",
        "verdicts.b": "def f():\n    from cachesim.verdicts import c",
        "verdicts.c": "if TYPE_CHECKING:\n    from cachesim.verdicts.a import y",
        "verdicts.d": "from cachesim.verdicts import a",
    }
    modules = [checks.parse(text, name) for name, text in texts.items()]
    assert checks.circles(modules) == [["verdicts.a", "verdicts.b", "verdicts.c"]]
    assert checks.circles([one for one in modules if one.name != "verdicts.c"]) == []


def test_every_check_is_bitten():
    assert {check for check, _, _ in BAD} == set(checks.CHECKS)


@pytest.mark.parametrize(("name", "text", "found"), [
    ("fuzz.case", "x = server.get('parallel', 1)", 1), ("replay.trace", "x = flags['ctx_size']", 1),
    ("replay.trace", "if op == 'parallel': pass", 0), ("engines.manual", "x = 'ctx_size'", 0),
    ("fuzz.case", "x = 'cache_prompt'", 0), ("fuzz.case", "'ctx_size'", 0),
    ("live.llama_server.log", "x = 'ctx_size'", 0),
])  # fmt: skip
def test_an_option_is_found_where_none_may_be_named(name, text, found):
    module = checks.parse(text, name)
    assert len(checks.names_options(module, {"parallel", "ctx_size", "cache_prompt"})) == found
