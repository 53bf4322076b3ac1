"""The engine in CONTRIBUTING, installed as its entry points state, works with every command."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys

import pytest

from cachesim.cli.main import main
from cachesim.engines import registry
from cachesim.engines.rule import RULES
from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.playground.case import answer
from tests.docs.examples import ROOT
from tests.shared import forget_engines

SECTION = re.search(r"\n### An engine in one file\n(.*?)\n##", (ROOT / "CONTRIBUTING.md").read_text(), re.S)[1]
FILES = {name: code for code, name in re.findall(r'```python\n("""(\w+\.py): .*?)```', SECTION, re.S)}
POINTS = re.findall(r'\[project\.entry-points\."(cachesim\.\w+)"\]\n(\w+) = "([\w:]+)"', SECTION)
COMMANDS = [shlex.split(line)[1:] for block in re.findall(r"```sh\n(.*?)```", SECTION, re.S)
            for line in block.splitlines()]  # fmt: skip
LINE = "S40.A20/S.B9/C5/S.A.D3"
TURNS = "A20>9/A.B5>9{together}/C9/A.B.D7/A[:11].E4"


def install(folder, files):
    """Write the package and its entry points."""
    for name, code in files.items():
        (folder / name).write_text(code)
    info = folder / "plain_server-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plain-server\nVersion: 1.0\n")
    lines = [f"[{group}]\n{name} = {target}\n" for group, name, target in POINTS]
    (info / "entry_points.txt").write_text("\n".join(lines))


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder for installed packages. Afterwards the registries are as before."""
    forget_engines(monkeypatch)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    assert all(engine.profiles for engine in registry.BUILTIN.values())     # their rules are known before and after
    rules, modules = dict(RULES), set(sys.modules)
    yield tmp_path
    RULES.clear()
    RULES.update(rules)
    for name in set(sys.modules) - modules:
        if name in ("plain_server", "plain_rules"):
            del sys.modules[name]


@pytest.fixture
def run(site, capsys):
    """Run a command with the installed engine; return its standard output."""
    install(site, FILES)

    def printed(*words, code=0):
        assert main([str(word) for word in words]) == code
        return capsys.readouterr().out

    printed.err = lambda: capsys.readouterr().err
    return printed


def test_the_section_has_the_engine_a_rule_set_and_their_entry_points():
    assert list(FILES) == ["plain_server.py", "plain_rules.py"]
    assert [group for group, _, _ in POINTS] == ["cachesim.engines", "cachesim.profiles"]
    assert len(COMMANDS) == 10
    code = [line for line in FILES["plain_server.py"].splitlines() if line.strip()]
    assert len(code) <= 165, "the example is one readable file"


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words[:2]))
def test_a_command_of_the_section_succeeds(run, words):
    assert "plain" in run(*words)


def test_run(run):
    [found] = json.loads(run("run", LINE, "-p", "plain@1", "--model", "A", "--json"))["runs"]
    assert [one["cache_n"] for one in found["requests"]] == [0, 40, 0, 40]
    assert [(one["request"], one["tokens"], one["event"], one["rule"]) for one in found["lost"]] == [
        (3, 20, "evicted", "PS-DROP.OLDEST"),
    ]  # fmt: skip
    assert all(one["equal_cold"] for one in found["requests"])


@pytest.mark.parametrize(("mode", "model"), [("provenance", "A"), ("exact", "AA")])
def test_rows_of_stored_conversations_equal_those_of_cold_runs(run, mode, model):
    run("profiles", "list")
    for stored in (1, 2, 8):
        scenario = from_line(TURNS, model=model, profiles=("plain@1",), server={"conversations": stored})
        found = run_judged(scenario, "plain@1", mode)
        assert found.verdict.equal_cold and not any(one.judged.armed for one in found.requests)
        assert all(one.ledger.is_balanced for one in found.requests)
        assert [len(one.answer.outputs) for one in found.requests] == [9, 9, 1, 1, 1]


def test_the_flag_bounds_the_stored_conversations(run):
    for spelled in (["--conversations", "3"], ["--set", "conversations=3"]):
        [found] = json.loads(run("run", LINE, "-p", "plain", "--model", "A", "--json", *spelled))["runs"]
        assert [one["cache_n"] for one in found["requests"]] == [0, 40, 0, 60]
    assert main(["run", LINE, "-p", "plain", "--model", "A", "--set", "conversations=0"]) == 2
    assert main(["run", LINE, "-p", "plain", "--model", "GA"]) == 2
    assert "plain has no layers of kind G" in run.err()


def test_why(run):
    out = run("why", LINE, 3, "-p", "plain@1", "--model", "A")
    assert "63 tokens" in out and "40 loaded + 23 evaluated" in out and "40..59" in out
    assert all(word in out for word in ("PS-FIND.LONGEST", "PS-DROP.OLDEST", "PS-DROP.NEWEST", "plain@newest-first"))


def test_diff(run):
    out = run("diff", LINE, "-p", "plain@1", "-p", "plain@newest-first", "--model", "A")
    assert "40 -> 60" in out and "20 -> 0" in out and "PS-DROP.OLDEST -> PS-DROP.NEWEST" in out


def test_bisect(run):
    out = run("bisect", LINE, "-p", "plain", "--model", "A")
    assert "reuses 40" in out and "reuses 60" in out and "plain@newest-first" in out
    assert "PS-DROP.OLDEST -> PS-DROP.NEWEST" in out


def test_bisect_of_a_single_rule_set_is_undecided(site, capsys):
    install(site, {"plain_server.py": FILES["plain_server.py"], "plain_rules.py": "raise SystemExit"})
    assert main(["bisect", LINE, "-p", "plain", "--model", "A"]) == 3
    err = capsys.readouterr().err
    assert "plain-server 1.0" in err and "SystemExit" in err and err.count("\n") == 1
    assert main(["why", LINE, "3", "-p", "plain", "--model", "A"]) == 0
    assert capsys.readouterr().err == "next: cachesim explain PS-DROP.OLDEST\n", "there is nothing to bisect"


def test_fuzz_finds_nothing_in_the_engine(run):
    found = json.loads(run("fuzz", "-p", "plain", "--examples", 60, "--json"))
    assert (found["profile"], found["examples"], found["failures"]) == ("plain@1", 60, [])


RIGHT = "n = min(common_prefix(tuple(found.tokens), prompt), len(prompt) - 1)"
WRONG = "n = min(len(found.tokens), len(prompt) - 1)"


@pytest.mark.parametrize(("right", "wrong"), [
    (RIGHT, WRONG), ("task.tokens = found.tokens[:n]", "task.tokens = list(prompt[:n])[::-1]"),
    ("return np.arange(start, stop)", "return np.arange(start, stop) % 16"),
])  # fmt: skip
def test_fuzz_finds_a_fault_planted_in_the_engine(site, capsys, right, wrong):
    assert FILES["plain_server.py"].count(right) == 1
    install(site, {**FILES, "plain_server.py": FILES["plain_server.py"].replace(right, wrong)})
    assert main(["fuzz", "-p", "plain", "--examples", "30", "--no-shrink", "--json"]) == 1
    assert "warm-equals-cold" in {one["property"] for one in json.loads(capsys.readouterr().out)["failures"]}


def test_shrink_and_export_of_a_planted_fault(site, capsys):
    install(site, {**FILES, "plain_server.py": FILES["plain_server.py"].replace(RIGHT, WRONG)})
    assert main(["shrink", LINE, "-p", "plain", "--model", "A", "--json"]) == 1
    small = json.loads(capsys.readouterr().out)["shrunk"]
    assert (small["line"], small["rule"].partition(":")[0]) == ("A1.B1/A.C2", "PS-FIND.LONGEST")
    assert main(["export", small["line"], "-p", "plain", "--model", "A", "--to", "toml"]) == 0
    (site / "try.toml").write_text(capsys.readouterr().out)
    assert main(["run", "try.toml", "--json"]) == 1
    [again] = json.loads(capsys.readouterr().out)["runs"]
    assert (again["profile"], again["broken"]) == ("plain@1", [1])


def test_explain_options_and_profiles(run):
    out = run("explain", "PS-DROP.OLDEST")
    assert "plain_server.py:" in out and "--conversations: " in out and "return Decision(tuple(range(" in out
    out = run("options", "plain")
    assert "--conversations N\n" in out and "default 2" in out and "at least 1" in out
    assert "llama-3" in out and "qwen3-next" not in out and "gemma-3" not in out, "models with attention only"
    out = run("profiles", "show", "plain@1")
    assert "plain-server 1.0" in out
    assert 0 < out.index("PS-FIND.LONGEST") < out.index("PS-DROP.OLDEST")
    out = run("profiles", "diff", "plain@1", "plain@newest-first")
    assert re.search(r"drop +PS-DROP\.OLDEST +PS-DROP\.NEWEST", out)


def test_advise_tries_the_values_of_the_flag(run):
    [found] = json.loads(run("advise", LINE, "-p", "plain@1", "--model", "A", "--json"))["advise"]
    changes = {(change["kind"], *(option["name"] for option in change["options"])): one["evaluated"]
               for one in found["advice"] for change in one["changes"]}  # fmt: skip
    assert found["base"]["evaluated"] == 97
    assert changes[("flag", "conversations")] == 77


def test_pictures(run, site):
    run("run", LINE, "-p", "plain", "--model", "A", "--svg", "case.svg", "--html", "case.html", "--trace", "case.json")
    svg, html = (site / "case.svg").read_text(), (site / "case.html").read_text()
    assert 'aria-label="S40.A20/S.B9/C5/S.A.D3, plain@1' in svg
    for text in (svg, html):
        assert "PS-DROP.OLDEST" in text and "40" in text
    trace = json.loads((site / "case.json").read_text())
    assert trace


def test_the_playground(run):
    run("profiles", "list")
    profiles = ["plain@1", "plain@newest-first"]
    found = answer({"line": LINE, "model": "A", "profiles": profiles, "flags": "--conversations 2"})
    assert "error" not in found, found
    assert "plain@1" in found["html"] and "20 tokens" in found["html"]
    assert found["command"].startswith(f"cachesim run {LINE} -p plain@1 --model A")
    assert 'engine = "plain"' in found["toml"] and "conversations = 2" in found["toml"]


def test_what_the_engine_does_not_have_is_refused_in_a_line(run):
    for line, why in [("A9/{save@0 f}", "no slots to save"), ("A9{n_cmpl=2}", "single completions")]:
        assert main(["run", line, "--model", "A", "-p", "plain"]) == 2
        err = run.err()
        assert why in err and err.count("\n") == 1


def test_a_process_finds_the_installed_engine(tmp_path):
    install(tmp_path, FILES)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)]), "COLUMNS": "200"}
    done = subprocess.run([sys.executable, "-m", "cachesim", "profiles", "list"], env=env, capture_output=True,
                          text=True, check=False)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "from plug-in plain (plain-server 1.0)" in done.stdout
