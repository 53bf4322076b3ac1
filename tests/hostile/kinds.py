"""Kinds of mutated input: each has a row with its source, its mutation and the command that receives it.

A new kind needs a function that makes a mutant from a random generator, and a row.
"""

from __future__ import annotations

import json
import tomllib
from functools import cache
from importlib.util import find_spec
from random import Random
from typing import Callable, NamedTuple

from cachesim.engines.registry import profiles
from tests.hostile.bodies import bent_bodies
from tests.hostile.captures import kv_events, replies
from tests.hostile.exported import export
from tests.hostile.found_failures import campaign
from tests.hostile.gguf_headers import gguf
from tests.hostile.http_replies import http
from tests.hostile.lines import bent_line, line_options
from tests.hostile.mutant import Mutant
from tests.hostile.nasty import WORDS
from tests.hostile.rules import bent_rules
from tests.hostile.served_pages import connection, page
from tests.hostile.server_logs import server_log, watched_log
from tests.hostile.server_setups import command_line, config, options_file, start_file
from tests.hostile.tame import tame
from tests.hostile.templates import bent_template, template
from tests.hostile.tested_caches import cache as cached
from tests.hostile.tested_caches import plugin
from tests.hostile.tokenizer_files import tokenizer
from tests.hostile.trees import mutated
from tests.hostile.words import bent_words
from tests.hostile.written import flipped, to_json, to_toml
from tests.shared import ROOT, TRACES

ADVISED = 0.2                # share of recorded sessions that `advise` reads
SEVERAL = 0.3                # share that runs on several servers
MANY = (
    ("--curve", "cache_ram=0,8192"), ("--curve", "memory=8GiB,1e400"), ("--curve", "sessions"), ("--curve", "x"),
    ("--curve", "num_gpu_blocks", "-p", "vllm", "--json"), ("--replicas", "2"), ("--replicas", "99999999"),
    ("--replicas", "3", "--route", "prefix", "-p", "sglang", "--speed", "0"), ("--curve", "parallel=1,2", "--direct"),
)  # fmt: skip
BYTES = 0.15                 # share of file mutants with changed bytes instead of changed values
LOG_LINES = ROOT / "tests/data/log_lines/b11549.jsonl"
SMALL = 12_000               # bytes of a recording to mutate, at most
DENSE = ROOT / "scenarios/llama_cpp/threads/llama-24143-entry-removed-dense.toml"
LINES = 20                   # error lines of a command about several files or profiles
FOUND = ("campaign-*.json", "fuzz-*.toml")       # files that a search creates in its folder
MADE = ("try.json", f"{DENSE.stem}.json", *FOUND, *(f"*/{file}" for file in FOUND))
SIZES = 300                  # tokens of all words of a scenario to mutate, at most


class Kind(NamedTuple):
    """Kind of mutants."""

    name: str
    weight: int                                  # mutants per round
    make: Callable[[Random, int], Mutant]        # from a generator and a number
    parser: tuple[str, str]                      # module and function whose return means that the input was parsed
    possible: bool = True                        # its files and packages are present
    together: bool = True                        # a process can run several of them, one after the other


@cache
def scenarios():
    """Return the texts of small scenarios of the corpus."""
    texts = [path.read_bytes() for path in sorted((ROOT / "scenarios").rglob("*.toml"))]
    return [text for text in texts if _small(tomllib.loads(text.decode()))]


def _small(data):
    words = data.get("words", {})
    sizes = [value if isinstance(value, int) else len(value) for value in words.values()]
    return "engine" in data and sum(sizes) <= SIZES and len(data["request"]) <= 8


@cache
def recordings(folder):
    """Return the texts of small recordings in a folder."""
    return [path.read_bytes() for path in sorted(folder.rglob("*.json")) if path.stat().st_size <= SMALL]


def _changed(rng, text, texts, parse, write):
    """Return a text with changed values or bytes. Spliced values come from another of ``texts``."""
    if rng.random() < BYTES:
        return flipped(text, rng)
    tree, other = parse(text), parse(rng.choice(texts))
    return write(mutated(tree, rng, other)).encode("utf-8", "surrogatepass")


def _toml(text):
    return tomllib.loads(text.decode())


def scenario(rng, number):
    """Return a mutated scenario file with a command that takes a scenario."""
    text = rng.choice(scenarios())
    data = _toml(text)
    name = f"{data['id']}.toml"
    argv = rng.choices(
        (["run", name, "--provenance", "--json"], ["run", name, "--provenance"], ["run", name],
         ["run", name, "--complete"], ["why", name, "0"], ["why", name, "1"], ["bisect", name], ["diff", name]),
        (6, 4, 3, 1, 1, 1, 1, 1),
    )[0]  # fmt: skip
    if argv[0] == "diff":
        known = [name for name in profiles() if name.startswith(data["engine"])]
        argv += ["-p", rng.choice(data["profiles"]), "-p", rng.choice(known)]
    elif "--complete" not in argv and argv[0] != "bisect" and rng.random() < 0.7:
        argv += ["-p", rng.choice(data["profiles"])]
    files = {name: _changed(rng, text, scenarios(), _toml, to_toml)}
    return Mutant("scenario", number, tame(argv), files, lines=LINES)


def line(rng, number):
    """Return a mutated line of requests with options."""
    argv = [rng.choice(("run", "run", "run", "try", "bisect")), bent_line(rng), *line_options(rng)]
    return Mutant("line", number, tame(argv), lines=LINES)


def trace(rng, number, folder=ROOT / "tests/data", name="trace"):
    """Return a replay of a mutated recording."""
    known = recordings(folder)
    data = _changed(rng, rng.choice(known), known, json.loads, to_json)
    argv = ["replay", "in.json", *rng.choice(([], [], ["--json"], ["--mode", "provenance"]))]
    return Mutant(name, number, tame(argv), {"in.json": data})


@cache
def sessions():
    """Return the texts of recorded sessions."""
    return [path.read_bytes() for path in sorted((ROOT / "tests/workloads/data").iterdir())]


def workload(rng, number):
    """Return a run of a mutated recorded session."""
    text = rng.choice(sessions())
    lines = [json.loads(one) for one in text.splitlines()]
    if rng.random() < BYTES:
        data = flipped(text, rng)
    else:
        at = rng.randrange(len(lines))
        lines[at] = mutated(lines[at], rng, {"x": [json.loads(one) for one in text.splitlines()]})
        data = "\n".join(map(to_json, lines)).encode("utf-8", "surrogatepass")
    how = rng.choice(("counts", "answers", "causes"))
    argv = ["workload", "in.json", "--scale", rng.choice(("1", "16", "64")), "--detail", how]
    if rng.random() < SEVERAL:
        argv = ["workload", "in.json", "--scale", "64", *rng.choice(MANY)]
    if rng.random() < ADVISED:
        argv = ["advise", "--for", "agents", "--model", "qwen3", "--memory", "8", "--clients", "2", "in.json"]
    return Mutant("workload", number, tame([*argv, "--limit", "workload=20000"]), {"in.json": data}, lines=6)


def shared(rng, number):
    """Return a replay of a mutated recording from the shared traces."""
    return trace(rng, number, TRACES, "shared")


def option(rng, number):
    """Return a mutated command line."""
    argv = tame(bent_words(rng))
    files = {DENSE.name: DENSE.read_bytes(), "in.json": recordings(ROOT / "tests/data")[0]}
    files["tiny-GGGA.gguf"] = b"GGUF\x03\0\0\0"
    return Mutant("option", number, argv, files, MADE, lines=LINES)


REPLY = (
    {}, {"limits": {"entries": 4}},
    {"cached": 2, "computed": 3, "tokens": [8], "stored": [{"tokens": [5, 6], "length": 2}], "used": {"entries": 1}},
    {"tokens": [1], "fingerprint": "x"}, {"replies": [{"tokens": [1]}, {"tokens": [2]}]}, {"refused": "too long"},
    {"unsupported": "no"}, {"fingerprint": [0.5, 1, None]},
)  # fmt: skip


def reply(rng, number):
    """Return mutated replies of a tested process, as JSON lines."""
    trees = [json.loads(json.dumps(rng.choice(REPLY))) for _ in range(rng.randrange(1, 4))]
    lines = [to_json(one).encode() for one in trees]
    at = rng.randrange(len(trees))
    if rng.random() < BYTES:
        lines[at] = flipped(lines[at], rng)
    else:
        lines[at] = to_json(mutated(trees[at], rng, {"x": list(REPLY)})).encode("utf-8", "surrogatepass")
    return Mutant("reply", number, (), {"replies": b"\n".join(lines)}, given_to="replies")


def rules(rng, number):
    """Return a command with a mutated rules file for ``-p``."""
    argv = list(rng.choice(RULED))
    if rng.random() < 0.2:
        argv[argv.index("rules.py")] += rng.choice((":MINE", ":OTHER", ":llama_cpp@mine", ":", ":x", ":rule"))
    files = {"rules.py": bent_rules(rng), DENSE.name: DENSE.read_bytes()}
    return Mutant("rules", number, tame(argv), files, lines=LINES)


RULED = (
    ("run", "S40.A60>r4/B70/S.A.D5", "--model", "GGGA", "-p", "rules.py"),
    ("run", "A20/B9/A20.C3", "-p", "rules.py", "--json"), ("run", DENSE.name, "-p", "rules.py", "--provenance"),
    ("run", DENSE.name, "-p", "rules.py", "--provenance", "--json", "-j", "2"),
    ("why", DENSE.name, "3", "-p", "rules.py"),
    ("diff", DENSE.name, "-p", "rules.py", "-p", "llama_cpp@b10587"), ("bisect", "A20/B9/A20.C3", "-p", "rules.py"),
    ("profiles", "show", "rules.py"), ("explain", "MY-PICK", "-p", "rules.py"),
)  # fmt: skip


@cache
def logs():
    """Return lines of real logs."""
    return [json.loads(line)["line"] for line in LOG_LINES.read_text("utf-8").splitlines()]


def log(rng, number):
    """Return lines of a log with changed numbers, words and bytes."""
    lines = rng.choices(logs(), k=rng.randrange(1, 8))
    at = rng.randrange(len(lines))
    words = lines[at].split(" ")
    words[rng.randrange(len(words))] = rng.choice((*WORDS, "9" * 5000))
    lines[at] = " ".join(words)
    data = "\n".join([*lines, ""]).encode("utf-8", "surrogatepass")
    return Mutant("log", number, (), {"log": flipped(data, rng) if rng.random() < 0.5 else data}, given_to="log")


def body(rng, number):
    """Return an import of mutated request bodies."""
    name, data = bent_bodies(rng, mutated)
    files = {name: data}
    argv = ["import", name, "--limit=bodies=400", *rng.choice(([], [], ["--json"], ["-v"], ["--with-text", "--json"]))]
    if rng.random() < 0.1:
        files["t.jinja"] = bent_template(rng)
        argv += ["--template", "t.jinja"]
    return Mutant("body", number, tame(argv), files)


def plugged(rng, number):
    """Return a mutated scenario for the pytest plug-in."""
    return plugin(rng, number, scenario)


def exported(rng, number):
    """Return an export of a scenario with hostile texts."""
    return export(rng, number, scenarios())


JINJA, TOKENIZERS, HYPOTHESIS = (find_spec(name) is not None for name in ("jinja2", "tokenizers", "hypothesis"))
KINDS = {
    kind.name: kind
    for kind in (
        Kind("scenario", 1, scenario, ("cachesim.scenarios.load", "read_toml")),
        Kind("line", 1, line, ("cachesim.scenarios.from_notation", "parse")),
        Kind("trace", 10, trace, ("cachesim.replay.recorded_trace", "read_json")),
        Kind("workload", 1, workload, ("cachesim.tools.workload.cell_jobs", "read_session")),
        Kind("shared", 8, shared, ("cachesim.replay.recorded_trace", "read_json"), TRACES.exists()),
        Kind("option", 1, option, ("cachesim.cli.main", "_parse")),
        Kind("reply", 6, reply, ("cachesim.tools.conformance.jsonl_adapter", "ProcessSubject._read")),
        Kind("body", 2, body, ("cachesim.tools.request_bodies.import_bodies", "read_bodies")),
        Kind("replies", 1, replies, ("cachesim.tools.request_bodies.import_bodies", "read_bodies")),
        Kind("kv-events", 12, kv_events, ("cachesim.tools.server_logs.kv_events.command", "read_messages")),
        Kind("log", 6, log, ("tests.hostile.readers", "read_tasks")),
        Kind("server-log", 1, server_log, ("cachesim.tools.server_logs.import_log", "read_session")),
        Kind("rules", 1, rules, ("cachesim.engines.rule_files", "run_rule_file"), together=False),
        Kind("template", 1, template, ("cachesim.tools.request_bodies.template", "TemplateRenderer.render"), JINJA),
        Kind("gguf", 1, gguf, ("cachesim.base.bounded_child", "BoundedChild.ask")),
        Kind("tokenizer", 1, tokenizer, ("cachesim.tools.request_bodies.import_bodies", "read_tokenizer"), TOKENIZERS),
        Kind("http", 12, http, ("cachesim.base.http_client", "HttpClient.ask")),
        Kind("export", 1, exported, ("cachesim.scenarios.load", "read_toml")),
        Kind("config", 8, config, ("cachesim.engines.shared.model_layers", "layers_of_config")),
        Kind("command-line", 8, command_line, ("cachesim.tools.run.pasted_command", "read_pasted")),
        Kind("start-file", 2, start_file, ("cachesim.tools.run.pasted_command", "read_pasted")),
        Kind("options-file", 8, options_file, ("cachesim.tools.run.options_file", "read_options")),
        Kind("playground", 6, page, ("cachesim.tools.playground.case", "read_case")),
        Kind("relay", 16, connection, ("cachesim.tools.watch.joined_rows", "JoinedRows.ended")),
        Kind("campaign", 1, campaign, ("cachesim.tools.search.campaign_folder", "CampaignFolder.begin")),
        Kind("cache", 1, cached, ("cachesim.strategies.cache_machine", "CacheMachine.__init__"), HYPOTHESIS),
        Kind("plugin", 1, plugged, ("cachesim.pytest_plugin", "ScenarioFile.collect")),
        Kind("watch", 8, watched_log, ("cachesim.tools.watch.analysis", "Analysis.run")),
    )
}


def mutant(name, number):
    """Return the mutant of a kind with this number. It depends only on the files that mutants are made of."""
    return KINDS[name].make(Random(f"{name}:{number}"), number)


def wheel():
    """Return the kinds of a round, without those whose folder is missing."""
    kinds = [kind for kind in KINDS.values() if kind.possible]
    most = max(kind.weight for kind in kinds)
    return [kind.name for i in range(most) for kind in kinds if kind.weight > i]

