"""The block cache of block-cache.md, installed by its entry points, works with every command, and its rule decides."""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
import subprocess
import sys
from importlib import import_module

import pytest

from cachesim.cli.main import main
from cachesim.engines import registry
from cachesim.engines.rule import RULES
from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.playground.case import answer
from tests.docs.block_cache_page import PAGE, ROOT, entry_points, files, install, with_outputs
from tests.shared import forget_engines, restore_rules

TEXT = PAGE.read_text("utf-8")
FILES = files(TEXT)
POINTS = entry_points(TEXT)
SHELL = "".join(re.findall(r"```sh\n(.*?)```", TEXT, re.S))
COMMANDS = [shlex.split(line)[1:] for line in SHELL.splitlines()]
LINE = "S4.A8.B8/S.B.C3"
EVICTING = "A12/B12/A.C3"
TURNS = "A20>9/A.B5>9{together}/C9/A.B.D7/A[:11].E4"
ANSWERS = re.findall(r"`(A[^`]*) --num-blocks (\d)` \|", TEXT)
PARTS = re.findall(r"^In our vLLM engine: .*?(?=\n\n)", TEXT, re.S | re.M)
VLLM = ROOT / "cachesim" / "engines" / "vllm"


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder for installed packages. Afterwards the registries are as before."""
    forget_engines(monkeypatch)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    assert all(engine.profiles for engine in registry.BUILTIN.values())     # their rules are known before and after
    rules = dict(RULES)
    yield tmp_path
    restore_rules(rules)
    for name in FILES:
        sys.modules.pop(name.removesuffix(".py"), None)


@pytest.fixture
def run(site, capsys):
    """Run a command with the installed engine; return its standard output."""
    install(site, FILES, POINTS)

    def printed(*words, code=0):
        assert main([str(word) for word in words]) == code
        return capsys.readouterr().out

    printed.err = lambda: capsys.readouterr().err
    return printed


@pytest.fixture
def cache(run):
    """The module of the cache, without a server."""
    run("profiles", "list")
    return import_module("block_cache")


def changed(file, right, wrong):
    """Return the files of the page with a change in one of them."""
    assert FILES[file].count(right) == 1
    return {**FILES, file: FILES[file].replace(right, wrong)}


def test_the_page_has_four_files_and_two_entry_points():
    assert list(FILES) == ["block_cache.py", "two_requests.py", "block_server.py", "early_rules.py"]
    assert [point.group for point in POINTS] == ["cachesim.engines", "cachesim.profiles"]
    assert len(COMMANDS) == 11
    lines = {name: len([line for line in code.splitlines() if line.strip()]) for name, code in FILES.items()}
    assert lines["block_cache.py"] <= 160, "the cache can be read in one go"
    assert lines["block_server.py"] <= 240


def test_contributing_leads_to_the_page_and_names_its_parts():
    section = re.search(r"\n### An engine in one file\n(.*?)\n##", (ROOT / "CONTRIBUTING.md").read_text(), re.S)[1]
    assert f"]({PAGE.relative_to(ROOT)})" in section
    assert [point.group for point in entry_points(section)] == [point.group for point in POINTS]
    rows = re.findall(r"^\| `[^|]+ \| ([^|]+) \| [^|]+ \|$", section, re.M)
    names = re.findall(r"`(\w+)`", " ".join(rows))
    assert len(rows) == 7
    assert [name for name in names if not re.search(rf"(def|class) {name}\b|^{name} = ", TEXT, re.M)] == []


def test_links_have_targets():
    targets = re.findall(r"\]\(([^)#:]+)[^)]*\)", TEXT)
    assert targets and [target for target in targets if not (PAGE.parent / target).exists()] == []


def test_the_outputs_are_current(run, site, capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS")

    def output(words):
        if words[0] == "cachesim":
            main(words[1:])
        else:
            runpy.run_path(str(site / words[1]))
        return capsys.readouterr().out

    assert with_outputs(TEXT, output) == TEXT, "make docs renews them"


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words[:2]))
def test_a_command_of_the_page_succeeds(run, words):
    wrong = "block_cache@early" in words and words[0] in ("run", "diff")
    assert "block_cache" in run(*words, code=1 if wrong else 0)


def test_the_parts_of_the_vllm_engine_exist():
    """A paragraph names files of the engine, and what one of them defines."""
    assert len(PARTS) == 10
    for part in PARTS:
        quoted = re.findall(r"`([\w/.]+)`", part)
        names = [name for name in quoted if "." not in name]
        texts = [(VLLM / name).read_text("utf-8") for name in quoted if name.endswith(".py")]
        for name in names:
            assert any(re.search(rf"(def|class) {name}\b|^ +{name}: ", text, re.M) for text in texts), part
        assert texts, part


def test_the_right_rule_reuses_the_prefix_and_the_faulty_one_the_blocks_after_it(run):
    profiles = ["-p", "block_cache@1", "-p", "block_cache@early"]
    right, wrong = json.loads(run("run", LINE, *profiles, "--model", "A", "--json", code=1))["runs"]
    assert [one["cache_n"] for one in right["requests"]] == [0, 4]
    assert [one["cache_n"] for one in wrong["requests"]] == [0, 12]
    assert (right["broken"], wrong["broken"]) == ([], [1])


def test_why_and_bisect_name_the_faulty_rule(run):
    out = run("why", LINE, 1, "-p", "block_cache@early", "--model", "A", code=1)
    assert "BC-HASH.ALONE decided" in out and "correct with BC-HASH.PREFIX" in out
    out = run("bisect", LINE, "-p", "block_cache@early", "--model", "A")
    assert "WRONG OUTPUT at block_cache@early" in out and "BC-HASH.PREFIX -> BC-HASH.ALONE" in out


def test_fuzz_and_shrink_find_the_faulty_rule_alone(run):
    found = json.loads(run("fuzz", "-p", "block_cache@1", "--examples", 20, "--json"))
    assert (found["profile"], found["examples"], found["failures"]) == ("block_cache@1", 20, [])
    found = json.loads(run("fuzz", "-p", "block_cache@early", "--examples", 20, "--no-shrink", "--json", code=1))
    assert "warm-equals-cold" in {one["property"] for one in found["failures"]}
    small = json.loads(run("shrink", LINE, "-p", "block_cache@early", "--model", "A", "--json", code=1))["shrunk"]
    assert (small["line"], small["rule"].partition(":")[0]) == ("A4.B5/B", "BC-HASH.ALONE")


def test_a_broken_rule_on_the_page_is_found(site, capsys):
    install(site, changed("block_cache.py", "hash((parent, tokens))", "hash(tokens)"), POINTS)
    assert main(["run", LINE, "-p", "block_cache@1", "--model", "A"]) == 1
    assert main(["fuzz", "-p", "block_cache@1", "--examples", "20", "--no-shrink"]) == 1
    assert "warm-equals-cold" in capsys.readouterr().out


EXERCISES = [
    ("block_cache.py", '            self.remove_cached_block(block, "evicted")\n', ""),
    ("block_cache.py", "        self.block_pool.touch(computed_blocks)\n", ""),
    ("block_server.py", "position % self.block_size", "position"),
]


ANSWERED = [*zip(EXERCISES, ANSWERS, strict=True)]


@pytest.mark.parametrize(("exercise", "shown"), ANSWERED, ids=["found", "taken", "overlap"])
def test_the_answer_of_an_exercise_shows_the_fault(site, capsys, exercise, shown):
    words = ["run", shown[0], "--num-blocks", shown[1], "--model", "A", "-p", "block_cache@1"]
    install(site, changed(*exercise), POINTS)
    assert main(words) == 1
    assert "wrong answer" in capsys.readouterr().out


@pytest.mark.parametrize(("line", "num_blocks"), ANSWERS)
def test_without_the_change_the_answers_of_the_exercises_are_correct(run, line, num_blocks):
    assert "correct answers" in run("run", line, "--num-blocks", num_blocks, "--model", "A", "-p", "block_cache@1")


def test_fuzz_finds_an_exercise(site, capsys):
    install(site, changed(*EXERCISES[1]), POINTS)
    assert main(["fuzz", "-p", "block_cache@1", "--examples", "30", "--no-shrink", "--json"]) == 1
    assert "warm-equals-cold" in {one["property"] for one in json.loads(capsys.readouterr().out)["failures"]}


@pytest.mark.parametrize(("mode", "model"), [("provenance", "A"), ("exact", "AA")])
def test_rows_of_blocks_equal_those_of_cold_runs(run, mode, model):
    run("profiles", "list")
    for num_blocks in (9, 12, 64):
        scenario = from_line(TURNS, model=model, profiles=("block_cache@1",), server={"num_blocks": num_blocks})
        found = run_judged(scenario, "block_cache@1", mode)
        assert found.verdict.equal_cold and not any(one.judged.armed for one in found.requests)
        assert all(one.ledger.is_balanced for one in found.requests)
        assert [len(one.answer.outputs) for one in found.requests] == [9, 9, 1, 1, 1]


def test_an_eviction_is_charged_to_its_rule(run):
    words = ["-p", "block_cache@1", "--model", "A", "--num-blocks", 5, "--json"]
    [found] = json.loads(run("run", EVICTING, *words))["runs"]
    assert [one["cache_n"] for one in found["requests"]] == [0, 0, 8]
    assert [(one["request"], one["tokens"], one["event"], one["rule"]) for one in found["lost"]] == [
        (2, 4, "evicted", "BC-EVICT.FREED-FIRST"),
    ]  # fmt: skip


def test_advise_tries_a_larger_pool(run):
    words = ["-p", "block_cache@1", "--model", "A", "--num-blocks", 5, "--json"]
    [found] = json.loads(run("advise", EVICTING, *words))["advise"]
    changes = {(change["kind"], *(option["name"] for option in change["options"])): one["evaluated"]
               for one in found["advice"] for change in one["changes"]}  # fmt: skip
    assert (found["base"]["evaluated"], changes[("flag", "num_blocks")]) == (31, 27)


def test_users_of_blocks_are_counted(cache):
    manager = cache.KVCacheManager(num_blocks=6, block_size=4, rules=cache.RULES, lost=lambda block, cause: None)
    first = cache.Sequence(list(range(10)))
    assert manager.allocate(first, manager.get_computed_blocks(first))
    first.num_computed_tokens = 10
    assert manager.cache_blocks(first) == [0, 1]
    second = cache.Sequence(list(range(10)))
    assert manager.allocate(second, manager.get_computed_blocks(second))
    assert [block.block_id for block in second.blocks] == [0, 1, 3] and second.num_computed_tokens == 8
    assert [block.ref_cnt for block in second.blocks] == [2, 2, 1]
    manager.free(first)
    assert [block.ref_cnt for block in second.blocks] == [1, 1, 1], "the second request still uses them"
    assert manager.block_pool.get_num_free_blocks() == 3
    manager.free(second)
    assert [block.block_id for block in manager.block_pool.free_block_queue] == [4, 5, 2, 3, 1, 0]


def test_a_refused_request_changes_nothing(cache):
    manager = cache.KVCacheManager(num_blocks=2, block_size=4, rules=cache.RULES, lost=lambda block, cause: None)
    long = cache.Sequence(list(range(9)))
    assert not manager.allocate(long, manager.get_computed_blocks(long))
    assert long.blocks == [] and manager.block_pool.get_num_free_blocks() == 2


def test_what_the_server_cannot_compute_is_refused_in_a_line(run):
    for line, model, why in [
        ("A9/{save@0 f}", "A", "no slots to save"), ("A9{n_cmpl=2}", "A", "single completions"),
        ("A257", "A", "a request of 257 tokens, the pool has room for 256"), ("A9", "GA", "has no layers of kind G"),
    ]:  # fmt: skip
        assert main(["run", line, "--model", model, "-p", "block_cache"]) == 2
        err = run.err()
        assert why in err and err.count("\n") == 1


def test_a_rule_set_that_cannot_be_loaded_is_skipped_with_a_warning(site, capsys):
    install(site, {**FILES, "early_rules.py": "raise SystemExit"}, POINTS)
    assert main(["run", LINE, "-p", "block_cache", "--model", "A"]) == 0
    err = capsys.readouterr().err
    assert "block-cache 1.0" in err and "SystemExit" in err


def test_explain_options_and_profiles(run):
    out = run("explain", "BC-HASH.PREFIX")
    assert "block_cache.py:" in out and "--block-size: " in out and "hash((parent, tokens))" in out
    out = run("options", "block_cache")
    assert "--num-blocks N\n" in out and "default 64" in out and "at least 1" in out
    assert "llama-3" in out and "qwen3-next" not in out and "gemma-3" not in out, "models with attention only"
    out = run("profiles", "show", "block_cache@1")
    assert "block-cache 1.0" in out
    assert 0 < out.index("BC-HASH.PREFIX") < out.index("BC-EVICT.FREED-FIRST")
    out = run("profiles", "diff", "block_cache@1", "block_cache@early")
    assert re.search(r"hash_block_tokens +BC-HASH\.PREFIX -> BC-HASH\.ALONE", out)


def test_pictures(run, site):
    files_of_pictures = ["--svg", "case.svg", "--html", "case.html", "--trace", "case.json"]
    run("run", EVICTING, "-p", "block_cache@1", "--model", "A", "--num-blocks", 5, *files_of_pictures)
    svg, html = (site / "case.svg").read_text(), (site / "case.html").read_text()
    assert f'aria-label="{EVICTING}, block_cache@1' in svg
    assert "BC-EVICT.FREED-FIRST" in svg and "BC-EVICT.FREED-FIRST" in html
    assert json.loads((site / "case.json").read_text())


def test_the_playground(run):
    run("profiles", "list")
    profiles = ["block_cache@1", "block_cache@early"]
    found = answer({"line": LINE, "model": "A", "profiles": profiles, "flags": "--num-blocks 8"})
    assert "error" not in found, found
    assert "block_cache@1" in found["html"] and "WRONG" in found["html"]
    assert found["command"].startswith(f"cachesim run {LINE} -p block_cache@1")
    assert 'engine = "block_cache"' in found["toml"] and "num_blocks = 8" in found["toml"]


def test_export_of_a_shrunk_fault_repeats_it(run, site):
    (site / "try.toml").write_text(run("export", "A4.B5/B", "-p", "block_cache@early", "--model", "A", "--to", "toml"))
    [again] = json.loads(run("run", "try.toml", "--json", code=1))["runs"]
    assert (again["profile"], again["broken"]) == ("block_cache@early", [1])


def test_a_process_finds_the_installed_engine(tmp_path):
    install(tmp_path, FILES, POINTS)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)]), "COLUMNS": "200"}
    done = subprocess.run([sys.executable, "-m", "cachesim", "profiles", "list"], env=env, capture_output=True,
                          text=True, check=False)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "from plug-in block_cache (block-cache 1.0)" in done.stdout
    assert "early" in done.stdout
