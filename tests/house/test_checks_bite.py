"""The checks of the architecture find violations: each gets a bad snippet and a similar good snippet."""

from __future__ import annotations

import pytest

from cachesim.engines.registry import BUILTIN
from tests.house import checks

BAD = [
    (checks.bad_imports, "model.layer", "from cachesim.engines.base import Request"),
    (checks.bad_imports, "oracle", "import cachesim.scenarios.load"),
    (checks.bad_imports, "judging.blame", "from cachesim.tools.live import logs"),
    (checks.bad_imports, "judging.blame", "def f():\n    from cachesim.tools.run import run_table"),
    (checks.bad_imports, "engines.mlx_lm.server", "from cachesim.engines.llama_cpp import server"),
    (checks.bad_imports, "engines.mlx_lm.server", "from cachesim.engines import llama_cpp"),
    (checks.bad_imports, "engines.base", "from cachesim.engines.llama_cpp.server import Server"),
    (checks.bad_imports, "engines.mlx_lm.server", "from .. import llama_cpp"),
    (checks.bad_imports, "tools.run.run_command", "from cachesim import cli"),
    (checks.bad_imports, "model.layer", "import cachesim.nowhere"),
    (checks.bad_imports, "judging.blame", "from cachesim.tools.run import jobs"),
    (checks.bad_imports, "tools.advise.search", "from cachesim.tools.search import case"),
    (checks.bad_imports, "tools.picture.scene", "from cachesim.tools.run import jobs"),
    (checks.bad_imports, "tools.live.player", "from cachesim.cli import manners"),
    (checks.names_engines, "judging.blame", "from cachesim.engines.llama_cpp.slot import Slot"),
    (checks.names_engines, "tools.run.table", "x = 'mlx_lm'"),
    (checks.names_engines, "tools.live.trace", "if engine == 'llama.cpp': pass"),
    (checks.names_engines, "tools.run.run_command", "from cachesim.engines import ik_llama"),
    (checks.names_engines, "tools.search.drawn_conversation", "x = one.llama_cpp"),
    (checks.names_engines, "judging.blame", "x = rule.startswith('LC-CKPT')"),
    (checks.prints, "tools.run.run_command", "print('x')"),
    (checks.escapes, "tools.run.run_command", "import shlex"),
    (checks.escapes, "tools.picture.page", "from html import escape"),
    (checks.escapes, "tools.run.run_command", "x = x.encode('unicode_escape')"),
    (checks.careless, "base.tokens", "def f(a=[]): ..."),
    (checks.careless, "base.tokens", "def f(*, a=dict()): ..."),
    (checks.careless, "base.tokens", "f = lambda a={}: a"),
    (checks.careless, "base.tokens", "try:\n    f()\nexcept:\n    pass"),
    (checks.version_branches, "engines.llama_cpp.server", "if rules.name == 'x': pass"),
    (checks.version_branches, "engines.llama_cpp.server", "if '2026' <= profile.version: pass"),
    (checks.version_branches, "engines.llama_cpp.profiles", "x = [f for f in PROFILES if f.name in skip]"),
    (checks.version_branches, "engines.llama_cpp.server", "x = 'llama_cpp@b10587'"),
    (checks.version_branches, "tools.run.table", "x = f'llama_cpp@{name}'"),
    (checks.outside_world, "model.layer", "import time"),
    (checks.outside_world, "model.layer", "from random import choice"),
    (checks.outside_world, "tools.run.table", "import os\nx = os.environ['HOME']"),
    (checks.outside_world, "tools.run.table", "from os import getenv"),
    (checks.outside_world, "model.layer", "import numpy as np\nx = np.random.rand()"),
    (checks.unsourced_rules, "engines.llama_cpp.rules.keep", "@rule('LC-1', Role.PICK)\ndef f():\n    'No source.'"),
    (checks.unsourced_rules, "engines.llama_cpp.rules.keep", "@base.rule('LC-1')\ndef f(): ..."),
    (checks.undocumented, "base.tokens", "x = 1"),
    (checks.unbounded_reads, "tools.search.merge", "x = Path(name).read_text('utf-8')"),
    (checks.unbounded_reads, "tools.search.merge", "x = file.read_bytes()"),
    (checks.unbounded_reads, "tools.search.merge", "with open(name) as file: x = file.read()"),
    (checks.unbounded_reads, "tools.search.merge", "with open(name, mode='r+') as file: x = file.read()"),
    (checks.unbounded_reads, "tools.search.merge", "with file.open('rb') as stream: x = stream.read()"),
    (checks.unbounded_reads, "tools.search.merge", "with file.open() as stream: x = stream.read()"),
    (checks.unbounded_reads, "tools.search.merge", "x = os.open(name, os.O_RDONLY)"),
    (checks.unbounded_reads, "tools.search.merge", "x = json.load(stream)"),
    (checks.unbounded_reads, "replay.trace", "x = np.load(name)"),
    (checks.unbounded_reads, "tools.search.merge", "found[file.resolve()] = file"),
    (checks.unbounded_reads, "tools.search.merge", "if folder.is_dir(): pass"),
    (checks.reports_that_play, "tools.run.why_report", "from cachesim.judging.judged_run import Run, run_judged"),
    (checks.reports_that_play, "tools.picture.scene", "from cachesim.scenarios.runner import Silent, play"),
    (checks.reports_that_play, "tools.picture.svg", "def f():\n    from cachesim.judging.judged_run import run_judged"),
    (checks.reports_that_play, "tools.picture.scene", "from cachesim.scenarios import runner"),
    (checks.reports_that_play, "tools.picture.scene", "server = engine_of(name).start(name, scenario.model, {}, mode)"),
    (checks.reports_that_play, "tools.picture.page", "import cachesim\nrun = cachesim.judge(case)"),
    (checks.reports_that_play, "tools.playground.case", "from cachesim.judging.judged_run import run_judged"),
    (checks.reports_that_play, "tools.playground.case", "log = play(scenario, name, 'provenance')"),
    (checks.tables_that_cut, "tools.run.why_report", "from rich.table import Column, Table"),
    (checks.assumes_slots, "judging.run_data", "from cachesim.engines.shared.slot_events import PcState"),
    (checks.assumes_slots, "replay.replay", "from cachesim.engines.shared import slot_events"),
    (checks.assumes_slots, "tools.search.properties", "x = 'checkpoint' in charge.kind"),
    (checks.assumes_slots, "judging.unused_point", "x = kind in ('slot', 'checkpoint')"),
]

GOOD = [
    (checks.bad_imports, "engines.mlx_lm.server", "from cachesim.engines.base import Request"),
    (checks.bad_imports, "engines.mlx_lm.server", "from cachesim.engines.mlx_lm import reuse"),
    (checks.bad_imports, "cli", "from cachesim.tools.run import run_command\nfrom cachesim import __version__"),
    (checks.bad_imports, "tools.run.table", "import json, cachesim.judging"),
    (checks.bad_imports, "tools.advise.search", "from cachesim.tools.run import jobs"),
    (checks.bad_imports, "tools.live.player", "from cachesim.tools.picture import svg"),
    (checks.names_engines, "tools.run.table", "'As mlx_lm does.'\nimport cachesim.engines.registry"),
    (checks.names_engines, "tools.live.llama_server.log", "from cachesim.engines.llama_cpp import log"),
    (checks.names_engines, "engines.llama_cpp.server", "x = 'LC-CKPT-NEED'"),
    (checks.prints, "base.console", "print('x')"),
    (checks.escapes, "tools.run.run_command", "from shlex import split"),
    (checks.escapes, "base.escaping", "import shlex"),
    (checks.careless, "base.tokens", "def f(a=(), b=None): ..."),
    (checks.version_branches, "engines.llama_cpp.server", "'''About llama_cpp@b10587.'''\nif a == b: pass"),
    (checks.version_branches, "engines.llama_cpp.profiles", "x = 'llama_cpp@b10587'"),
    (checks.version_branches, "engines.llama_cpp.profiles.b10587", "x = 'llama_cpp@b10587'"),
    (checks.version_branches, "engines.llama_cpp.profiles", "x = [f for f in fields(r) if f.name not in skip]"),
    (checks.unbounded_reads, "base.untrusted_files", "x = file.read_bytes()"),
    (checks.unbounded_reads, "tools.search.merge", "x = read_bytes(file, TRACE_BYTES)"),
    (checks.unbounded_reads, "tools.search.merge", "with file.open('ab') as stream: stream.write(x)"),
    (checks.unbounded_reads, "tools.search.merge", "with open(name, 'w') as file: file.write(x)"),
    (checks.unbounded_reads, "tools.search.merge", "x = os.path.exists(name) and json.loads(line)"),
    (checks.unbounded_reads, "tools.search.merge", "x = reconstruction.open(number)"),
    (checks.outside_world, "cli.main", "import time"),
    (checks.unsourced_rules, "engines.llama_cpp.rules.keep", "@rule('LC-1', Role.PICK, at())\ndef f():\n    'Picks.'"),
    (checks.reports_that_play, "tools.picture.cell_recorder", "from cachesim.scenarios.runner import Silent"),
    (checks.reports_that_play, "tools.picture.svg", "x = found.start()"),
    (checks.reports_that_play, "tools.playground.case", "from cachesim.tools.run.pictured_runs import run_pictured"),
    (checks.reports_that_play, "tools.run.pictured_runs", "from cachesim.judging.judged_run import run_judged"),
    (checks.tables_that_cut, "tools.run.why_report", "from rich.table import Column"),
    (checks.tables_that_cut, "base.layout", "from rich.table import Column, Table"),
    (checks.assumes_slots, "tools.picture.script_data", "from cachesim.engines.shared.slot_events import PcLoad"),
    (checks.assumes_slots, "replay.recorded_trace", "x = op == 'slot'"),
    (checks.assumes_slots, "judging.run_data", "x = {'slot': is_copy(charge.kind)}"),
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
        "judging.a": "from cachesim.judging.b import x",
        "judging.b": "def f():\n    from cachesim.judging import c",
        "judging.c": "if TYPE_CHECKING:\n    from cachesim.judging.a import y",
        "judging.d": "from cachesim.judging import a",
    }
    modules = [checks.parse(text, name) for name, text in texts.items()]
    assert checks.circles(modules) == [["judging.a", "judging.b", "judging.c"]]
    assert checks.circles([one for one in modules if one.name != "judging.c"]) == []


def test_classes_of_one_name_are_found_but_for_those_of_engines():
    places = ("judging.a", "tools.run.b", "engines.ik_llama.c")
    found = checks.shared_class_names([checks.parse("class A: ...\nclass _B: ...", name) for name in places])
    assert found == {"A": ["judging.a", "tools.run.b"]}


def test_a_name_of_any_engine_of_the_registry_is_found():
    for name in BUILTIN:
        text = f'if name == "{name}" or name.startswith("{name}@0"): pass'
        assert checks.names_engines(checks.parse(text, "judging.memory_text")) != [], name


def test_modules_of_one_engine_are_found_through_others():
    texts = {
        "engines.vllm.server": "from cachesim.engines.shared.a import x",
        "engines.sglang.server": "from cachesim.engines.shared import b",
        "engines.shared.a": "from cachesim.engines.shared.c import y",
        "engines.shared.b": "def f():\n    from cachesim.engines.shared.c import y",
        "engines.shared.c": "",
        "engines.shared.d": "",
        "tools.run.e": "from cachesim.engines.shared.d import z",
    }
    users = checks.users_of_shared([checks.parse(text, name) for name, text in texts.items()])
    assert users == {"engines.shared.a": {"vllm"}, "engines.shared.b": {"sglang"},
                     "engines.shared.c": {"vllm", "sglang"}, "engines.shared.d": set()}  # fmt: skip


@pytest.mark.parametrize(("text", "found"), [
    ("self.pool = BlockPool(8, self._left_over)", ["BlockPool"]), ("self.tree = tree.Tree(lost=self)", ["tree.Tree"]),
    ("self.scheduler.schedule(self)", ["self.scheduler.schedule"]), ("start_slot(self, slot)", []),
    ("self.pool = BlockPool(8, self.rules)", []), ("self.scheduler.schedule(self.rules)", []),
])  # fmt: skip
def test_a_part_that_is_given_the_server_is_found(text, found):
    assert checks.given_the_server(f"    def start(self):\n        {text}\n", {"_left_over"}) == found


def test_the_classes_of_a_chain_are_those_of_the_engine_and_shared_ones():
    shared = type("Loop", (), {"__module__": "cachesim.engines.shared.server_loop"})
    own = type("Core", (shared,), {"__module__": "cachesim.engines.vllm.core.server_state"})
    contract = type("Contract", (), {"__module__": "cachesim.engines.contract"})
    server = type("Server", (own, contract), {"__module__": "cachesim.engines.vllm.server"})
    assert checks.chain(server, "vllm") == [own, shared]


def test_every_check_is_bitten():
    assert {check for check, _, _ in BAD} == set(checks.CHECKS)


@pytest.mark.parametrize(("name", "text", "found"), [
    ("tools.search.drawn_conversation", "x = server.get('parallel', 1)", 1),
    ("replay.recorded_trace", "x = flags['ctx_size']", 1),
    ("replay.recorded_trace", "if op == 'parallel': pass", 0), ("engines.capabilities", "x = 'ctx_size'", 0),
    ("tools.search.drawn_conversation", "x = 'cache_prompt'", 0), ("tools.search.drawn_conversation", "'ctx_size'", 0),
    ("tools.live.llama_server.log", "x = 'ctx_size'", 0),
])  # fmt: skip
def test_an_option_is_found_where_none_may_be_named(name, text, found):
    module = checks.parse(text, name)
    assert len(checks.names_options(module, {"parallel", "ctx_size", "cache_prompt"})) == found
