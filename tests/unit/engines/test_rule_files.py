"""Rule sets from files: use in place of a profile, execution only on request, and single-line errors for bad files."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from cachesim.base import exits
from cachesim.base.errors import BadInput
from cachesim.cli.main import main
from cachesim.engines import registry, rule_files
from cachesim.engines.rule import RULES
from cachesim.tools.server_logs.lines import recognise
from tests.shared import ROOT, forget_engines, restore_rules
from tests.unit.cli.test_commands import SEED, call, call_json

pytestmark = pytest.mark.long

B10587 = """
from dataclasses import replace
from cachesim.engines.llama_cpp.profiles import NEWEST, PROFILES
from cachesim.engines.rule import Decision, Role, rule

B = PROFILES[NEWEST]

"""
RULE = B10587 + """
@rule("MY-PICK", Role.PICK, "an idea of mine")
def pick(ckpts, ask, thold) -> Decision:
    '''The newest checkpoint that ends before the common prefix does. Value: its number.'''
    fits = [i for i, one in enumerate(ckpts) if one.n_tokens <= ask.n_past]
    return Decision(fits[-1] if fits else None, {"n_past": ask.n_past})

"""
MINE = "MINE = replace(B, name='llama_cpp@mine', ckpt_pick=pick)\n"
GOOD = RULE + MINE
TWO = GOOD + "OTHER = replace(B, name='llama_cpp@other', ckpt_pick=pick)\n"
HYBRID = ("S40.A60>r4/B70/S.A.D5", "--model", "GGGA")


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """No file was run yet, and none was when the test is over."""
    forget_engines(monkeypatch)
    assert all(one.profiles for one in registry.BUILTIN.values())       # their rules are known before and after
    before = dict(RULES)
    yield
    restore_rules(before)


@pytest.fixture
def rules(tmp_path):
    def write(text=GOOD, name="my_rules.py"):
        file = tmp_path / name
        file.write_text(text)
        return file

    return write


def refused(capsys, *argv):
    """Return the stderr of a command that refuses its input: a single line."""
    assert main([*map(str, argv)]) == exits.BAD_INPUT
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1, err
    return err.removeprefix("cachesim: ").rstrip("\n")


# Where a profile is taken


def test_try_and_run_and_diff(capsys, rules):
    file = rules()
    code, data = call_json(capsys, "run", *HYBRID, "-p", file)
    assert (code, data["runs"][0]["profile"]) == (exits.HOLDS, "llama_cpp@mine")
    code, data = call_json(capsys, "run", SEED, "-p", file, "-p", "llama_cpp@latest")
    assert [one["profile"] for one in data["runs"]] == ["llama_cpp@mine", "llama_cpp@b11549"]
    code, data = call_json(capsys, "diff", SEED, "-p", "llama_cpp@b10587", "-p", file)
    assert data["b"]["profile"] == "llama_cpp@mine"


def test_why_names_the_rule_with_its_numbers(capsys, rules):
    file = rules()
    assert "MY-PICK" in call(capsys, "why", "llama-24143-entry-removed-hybrid", "3", "-p", file)[1]
    data = call_json(capsys, "why", "llama-24143-entry-removed-hybrid", "3", "-p", file)[1]
    [said] = [one["says"] for one in data["why"][0]["decisions"] if one["rule"] == "MY-PICK"]
    assert "n_past" in said


def test_profiles_and_explain(capsys, rules):
    file = rules()
    assert call_json(capsys, "profiles", "show", file)[1]["ckpt_pick"] == "MY-PICK"
    data = call_json(capsys, "profiles", "diff", "llama_cpp@latest", f"{file}:MINE")[1]
    assert data["fields"] == [{"field": "ckpt_pick", "a": "LC-CKPT-PICK.PK3", "b": "MY-PICK"}]
    listed = call_json(capsys, "profiles", "list", "-p", file)[1]["profiles"]
    assert {one["name"]: one.get("note") for one in listed}["llama_cpp@mine"] == f"from {file}"
    [about] = call_json(capsys, "explain", "MY-PICK", "-p", file)[1]["rules"]
    assert (about["profiles"], about["file"], about["source"]) == (["llama_cpp@mine"], f"{file}:9", "an idea of mine")
    assert "def pick(ckpts, ask, thold)" in about["code"]


def test_bisect_compares_with_what_it_is_most_like(capsys, rules):
    file = rules(GOOD.replace("one.n_tokens <= ask.n_past", "one.n_tokens < 0"))
    case = "S40.A60>r4/S.A.C5/S.A.D5"
    found = call_json(capsys, "bisect", case, "-p", file)[1]["requests"]
    mine = [turn for one in found for turn in one["beside"] if turn["new"] == "llama_cpp@mine"]
    assert mine and mine[0]["old"] == "llama_cpp@b11549"
    assert [one["field"] for one in mine[0]["causes"][0]["changes"]] == ["ckpt_pick"]
    assert main(["bisect", SEED, "-p", str(file), "--json"]) == exits.HOLDS
    assert "goes with requests in notation" in refused_after(capsys, "bisect", SEED, "-p", "llama_cpp@b10587")


def refused_after(capsys, *argv):
    capsys.readouterr()
    return refused(capsys, *argv)


def test_pytest_runs_it(pytester_run, rules):
    file = rules()
    done = pytester_run("--cachesim-profile", str(file), SEED)
    assert done.returncode == 0 and "[100%]" in done.stdout, done.stdout
    assert "no such file" in pytester_run("--cachesim-profile", "gone.py", SEED).stderr


@pytest.fixture
def pytester_run(tmp_path):
    def run(*argv):
        return subprocess.run([sys.executable, "-m", "pytest", "-q", "--cachesim", "-p", "no:cacheprovider", *argv],
                              capture_output=True, text=True, check=False, cwd=tmp_path,
                              env={**os.environ, "PYTHONPATH": str(ROOT)})  # fmt: skip

    return run


# Several processes


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_know_it(rules, tmp_path, method):
    file = rules()
    code = (
        "import multiprocessing, sys\nfrom cachesim.cli.main import main\n"
        f"if __name__ == '__main__':\n    multiprocessing.set_start_method({method!r})\n"
        "    sys.exit(main(sys.argv[1:]))"
    )
    (tmp_path / "begin.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "begin.py", "fuzz", "-p", "my_rules.py", "-j", "2", "--examples", "60", "--model", "A",
         "--no-shrink", "--json"],
        capture_output=True, text=True, check=False, cwd=file.parent, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.stderr == "" and done.returncode in (exits.HOLDS, exits.BROKEN)
    data = json.loads(done.stdout)
    assert (data["profile"], data["examples"]) == ("llama_cpp@mine", 60)
    assert [one for one in data["failures"] if one["property"] == "simulator"] == []


def test_one_seed_is_one_search(capsys, rules):
    argv = ("fuzz", "-p", str(rules()), "--examples", "60", "--model", "GA", "--no-shrink")
    alone, shared = call_json(capsys, *argv)[1], call_json(capsys, *argv, "-j", "2")[1]
    assert alone == shared and alone["failures"]


# Files that are written


def written(capsys, rules, tmp_path):
    """Return a scenario that a search under rules from a file wrote to a folder."""
    out = tmp_path / "found"
    main(["fuzz", "-p", str(rules()), "--examples", "20", "--model", "GA", "--no-shrink", "--out", str(out)])
    capsys.readouterr()
    case, *others = sorted(out.glob("fuzz-*.toml"))
    for other in others:
        other.unlink()
    return case


def test_a_written_scenario_runs_again_where_its_rules_are_given(capsys, rules, tmp_path, monkeypatch):
    case = written(capsys, rules, tmp_path)
    assert 'profiles = ["llama_cpp@mine"]\nrules = ["../my_rules.py"]\n' in case.read_text()
    assert f"Found by cachesim fuzz -p {tmp_path / 'my_rules.py'}" in case.read_text()
    monkeypatch.chdir("/")
    code, data = call_json(capsys, "run", case, "-p", tmp_path / "my_rules.py")
    assert data["runs"][0]["profile"] == "llama_cpp@mine" and code in (exits.HOLDS, exits.BROKEN)
    assert main(["run", str(case), "-p", "llama_cpp@b10587", "--json"]) != exits.BAD_INPUT, "others need no rules"


def test_it_runs_nothing(capsys, rules, tmp_path, monkeypatch):
    case = written(capsys, rules, tmp_path)
    rules("import pathlib; pathlib.Path(__file__).with_name('was-run').touch()\n" + GOOD)
    forget_engines(monkeypatch)
    file = tmp_path / "my_rules.py"
    told = f"{case}: profile 'llama_cpp@mine' is of {file}, Python code that runs only on request"
    for argv in (("run", case), ("why", case, "0"), ("run", case.parent)):
        assert refused(capsys, *argv) == f"{told} (add -p {file})"
    assert not (tmp_path / "was-run").exists()
    file.unlink()
    assert refused(capsys, "run", case) == f"{case}: profile 'llama_cpp@mine' is of {file}, which does not exist"


def test_a_campaign_goes_on_under_the_same_rules_only(capsys, rules, tmp_path, monkeypatch):
    argv = ["fuzz", "-p", str(rules()), "--model", "A", "--no-shrink", "--out", str(tmp_path / "out"), "--examples"]
    assert main([*argv, "40"]) == main([*argv, "80", "--resume"]) != exits.BAD_INPUT
    rules(GOOD + "# changed\n")
    forget_engines(monkeypatch)
    assert "not a campaign to resume: the rule file has changed" in refused_after(
        capsys, *argv, "80", "--resume"
    )


def test_what_is_made_smaller_is_typed_with_its_file(capsys, rules):
    file = rules(GOOD.replace("<= ask.n_past", "<= ask.n_past + 3"))
    code, data = call_json(capsys, "shrink", "S9>r3/B5/S.r/S[:8].C3/S.D4/S.r[:1].E5", "--model", "GA", "-p", file)
    assert code == exits.BROKEN and f"-p {file} " in data["shrunk"]["command"]


def test_modules_that_a_test_imports_first_hold_the_registry_of_all_tests():
    assert recognise.ENGINES is registry.ENGINES


def test_expectations_are_written_and_kept(capsys, rules, tmp_path, monkeypatch):
    file, case = rules(), tmp_path / "llama-24143-entry-removed-dense.toml"
    case.write_text((ROOT / "scenarios/llama_cpp/threads/llama-24143-entry-removed-dense.toml").read_text())
    assert main(["run", str(case), "--complete", "-p", str(file)]) == exits.HOLDS
    text = case.read_text()
    assert '[expect."llama_cpp@mine"]' in text and text.count('rules = ["my_rules.py"]') == 1
    capsys.readouterr()
    assert call_json(capsys, "run", case, "-p", file)[1]["runs"][0]["as_expected"] is True
    forget_engines(monkeypatch)
    assert main(["run", str(case), "--provenance"]) == exits.HOLDS, "who has no such file has the other rule sets"


@pytest.mark.parametrize("rules_line, why", [
    ('rules = "my_rules.py"', "rules must be a list"),
    ("rules = []", "rules must be a list of strings with at least one entry"),
    ("rules = [7]", "rules must be a list of strings with at least one entry"),
    ('rules = ["a\\u0000b.py"]', "which does not exist"),
    ('rules = ["' + "x" * 5000 + '.py"]', "which does not exist"),
    ('rules = ["/dev/zero"]', "which does not exist"),
    ('rules = ["."]', "which does not exist"),
], ids=lambda text: text[:20])  # fmt: skip
def test_a_scenario_from_elsewhere_is_data(capsys, tmp_path, rules_line, why):
    case = tmp_path / "llama-24143-entry-removed-dense.toml"
    text = (ROOT / "scenarios/llama_cpp/threads/llama-24143-entry-removed-dense.toml").read_text()
    case.write_text(text.replace("profiles = [", rules_line + '\nprofiles = ["llama_cpp@mine", ', 1))
    assert why in refused(capsys, "run", case)


# Bad files


@pytest.mark.parametrize("text, why", [
    ("", ": the file is empty"),
    ("x = 1", ": contains no rule set"),
    (B10587, ": contains no rule set"),
    (B10587 + "_MINE = replace(B, name='llama_cpp@mine')", ": contains no rule set"),
    (B10587 + "MINE = {}", ": contains no rule set"),
    (TWO, ": 2 rule sets in the file: MINE, OTHER (use FILE:NAME)"),
    ("\n\ndef f(:\n", ":3: SyntaxError: invalid syntax"),
    ("\n1 / 0", ":2: ZeroDivisionError: division by zero"),
    ("def f(n):\n    return 1 / n\n\n\nf(0)", ":2: ZeroDivisionError: division by zero"),
    ("raise SystemExit(3)", ":1: SystemExit: 3"),
    ("def f():\n    f()\nf()", ":2: RecursionError: maximum recursion depth exceeded"),
    ("import nothing_of_the_kind", ":1: ModuleNotFoundError: No module named 'nothing_of_the_kind'"),
    (B10587 + "MINE = replace(B, name='llama_cpp@mine', ckpt_pik=1)", "unexpected keyword argument 'ckpt_pik'"),
    (B10587 + "MINE = replace(B, ckpt_min=1, name='x' * 9999)", ":8: TypeError: "),
    (B10587 + "MINE = replace(B, source='mine')", ": rule set name already taken: 'llama_cpp@b11549' (choose another"),
    (B10587 + "MINE = replace(B, name='llama_cpp@latest')", ": rule set name already taken: 'llama_cpp@latest'"),
    (B10587 + "MINE = replace(B, name='mine')", ": rule set name 'mine', expected ENGINE@NAME (llama_cpp, ik_llama"),
    (B10587 + "MINE = replace(B, name='llama_cpp@a b')", ": rule set name 'llama_cpp@a b', expected ENGINE@NAME"),
    (B10587 + "MINE = replace(B, name='llama_cpp@../x')", ": rule set name 'llama_cpp@../x', expected ENGINE@NAME"),
    (B10587 + "MINE = replace(B, name=7)", ": rule set name 7, expected ENGINE@NAME"),
    (B10587 + "MINE = replace(B, name='mlx_lm@mine')", ": 'mlx_lm@mine' is not a rule set of mlx_lm"),
    (B10587 + "MINE = replace(B, name='llama_cpp@mine', ckpt_pick=len)",
     ": ckpt_pick of 'llama_cpp@mine' is not a rule: <built-in function len> (decorate the function"),
    (GOOD.replace("def pick(ckpts, ask, thold)", "def pick(ckpts)"),
     ": ckpt_pick of 'llama_cpp@mine' does not accept the arguments of pick_"),
    (GOOD.replace("def pick(ckpts, ask, thold)", "def pick(ckpts, ask, thold, more)"),
     "does not accept the arguments of pick_"),
    (GOOD.replace(" -> Decision", ""), "lacks the return annotation Decision (write def pick(...) -> Decision:)"),
    (GOOD.replace("MY-PICK", "LC-CKPT-PICK.PK3"), ":9: rule id LC-CKPT-PICK.PK3 is used twice"),
    (GOOD.replace("an idea of mine", ""), ":9: rule MY-PICK names no source"),
    (GOOD + RULE.replace("pick(", "again("), ":24: rule id MY-PICK is used twice"),
    (GOOD + RULE, ": ckpt_pick of 'llama_cpp@mine' has the id of another rule: MY-PICK"),
], ids=lambda text: text[-40:])  # fmt: skip
def test_a_bad_file_is_one_line(capsys, rules, text, why):
    file = rules(text)
    assert why.replace("FILE", str(file)) in refused(capsys, "run", "S4", "-p", file)


def test_paths_that_are_no_files(capsys, rules, tmp_path):
    gone = tmp_path / "my_rule.py"
    assert refused(capsys, "run", "S4", "-p", gone) == f"{gone}: no such file or directory"
    (tmp_path / "folder.py").mkdir()
    assert "expected a rule file, found a folder" in refused(capsys, "run", "S4", "-p", tmp_path / "folder.py")
    os.mkfifo(tmp_path / "pipe.py")
    assert "not a regular file" in refused(capsys, "run", "S4", "-p", tmp_path / "pipe.py")
    (tmp_path / "bytes.py").write_bytes(b"\xff\xfe\x00")
    assert "bytes.py:1: not UTF-8 text" in refused(capsys, "run", "S4", "-p", tmp_path / "bytes.py")
    (tmp_path / "long.py").write_bytes(b"#" * (2**20 + 1))
    assert "rule file is larger than allowed" in refused(capsys, "run", "S4", "-p", tmp_path / "long.py")
    assert "no rule set 'MIN' in the file (did you mean 'MINE'?)" in refused(
        capsys, "run", "S4", "-p", f"{rules()}:MIN")


def test_one_of_several_is_named_by_variable_or_name(capsys, rules):
    file = rules(TWO)
    for name in ("OTHER", "llama_cpp@other"):
        assert call_json(capsys, "run", "S4", "-p", f"{file}:{name}")[1]["runs"][0]["profile"] == "llama_cpp@other"
    runs = call_json(capsys, "run", "S4", "-p", f"{file}:MINE", "-p", "llama_cpp@other")[1]["runs"]
    assert [one["profile"] for one in runs] == ["llama_cpp@mine", "llama_cpp@other"], "the file is run once"
    assert rule_files.profile_argument("llama_cpp@other") == f"{file}:OTHER"
    assert rule_files.profile_argument("llama_cpp@b10587") == "llama_cpp@b10587"


def test_two_files_may_not_bring_the_same_name(capsys, rules):
    first, second = rules(), rules(GOOD.replace("MY-PICK", "MY-OTHER"), "second.py")
    said = refused(capsys, "run", "S4", "-p", first, "-p", second)
    assert said.startswith(f"{second}: rule set name already taken: 'llama_cpp@mine'")


def test_what_a_rule_raises_has_its_place(capsys, rules):
    file = rules(GOOD.replace("fits[-1] if fits else None", "1 // len([])"))
    told = f"{file}:13: ZeroDivisionError: integer division or modulo by zero"
    assert refused(capsys, "run", *HYBRID, "-p", file) == told
    assert main(["run", "llama-24143-entry-removed-hybrid", "-p", str(file), "-p", "llama_cpp@b10587",
        "--json"]) == exits.BAD_INPUT
    out, err = capsys.readouterr()
    assert len(json.loads(out)["runs"]) == 1 and told in err


@pytest.mark.parametrize(("field", "body", "told"), [
    ("ckpt_pick", "1.5", r":9: TypeError: .+ after rule MY-PICK returned 1\.5 \("),
    ("ckpt_pick", "[0]", r":9: TypeError: .+ after rule MY-PICK returned \[0\] \("),
    ("ckpt_pick", "99", r":9: IndexError: .+ after rule MY-PICK returned 99 \("),
    ("ckpt_break", "[[1]]", r": TypeError: .+ in a run under llama_cpp@mine \("),
])  # fmt: skip
def test_an_answer_of_another_kind_is_not_a_fault_of_cachesim(capsys, rules, field, body, told):
    text = GOOD.replace("fits[-1] if fits else None", body)
    if field != "ckpt_pick":
        text = text.replace("(ckpts, ask, thold)", "(*numbers)").replace('{"n_past": ask.n_past}', "{}")
        text = text.replace("    fits = [i for i, one in enumerate(ckpts) if one.n_tokens <= ask.n_past]\n", "")
        text = text.replace("ckpt_pick=pick", f"{field}=pick")
    file = rules(text)
    said = refused(capsys, "run", *HYBRID, "-p", file)
    assert re.match(re.escape(str(file)) + told, said)


@pytest.mark.parametrize("command", [
    ("fuzz", "--model", "GA", "--examples", "20"), ("shrink", *HYBRID),
    ("fuzz", "--model", "GA", "--examples", "20", "--against", "llama_cpp@b10587"),
], ids=lambda command: command[-1])
@pytest.mark.parametrize(("body", "line", "told"), [
    ("Decision(1 // len([]), {})", 13, "ZeroDivisionError: integer division or modulo by zero"),
    ("fits", 9, "rule MY-PICK returned [], expected a Decision"),
], ids=["raises", "no decision"])
def test_a_search_names_the_line_of_a_rule_that_fails(capsys, rules, command, body, line, told):
    """An error in the user's rule: not exit code 70, and not a refused conversation."""
    file = rules(f"{RULE.partition('    return')[0]}    return {body}\n{MINE}")
    code, out = call(capsys, *command, "-p", file)
    assert code == exits.BAD_INPUT
    said = " ".join(out.split())
    assert "user's-rule" in said and told.partition("[")[0].replace(" ", "") in said.replace(" ", "")
    assert f"{file.name}:{line}" in said.replace(" ", "")           # the table wraps a path


# Files beside it

HELPER = RULE.replace("MY-PICK", "MY-HELPER-PICK")
IMPORTS = "from dataclasses import replace\nfrom helper import B, pick\n" + MINE


def test_a_file_imports_those_beside_it(capsys, rules, tmp_path):
    rules(HELPER, "helper.py")
    runs = call_json(capsys, "run", *HYBRID, "-p", rules(IMPORTS))[1]["runs"]
    assert [one["profile"] for one in runs] == ["llama_cpp@mine"]
    code, out = call(capsys, "explain", "MY-HELPER-PICK", "-p", rules(IMPORTS))
    assert code == 0 and f"{tmp_path / 'helper.py'}:9" in "".join(out.split())
    assert sorted(one.name for one in tmp_path.iterdir()) == ["helper.py", "my_rules.py"], "no byte code"
    assert str(tmp_path) not in sys.path and "helper" not in sys.modules


def test_two_folders_may_have_files_of_one_name(capsys, rules, tmp_path):
    for folder, rule in (("a", "MY-A"), ("b", "MY-B")):
        (tmp_path / folder).mkdir()
        rules(RULE.replace("MY-PICK", rule), f"{folder}/helper.py")
        file = rules(IMPORTS.replace("@mine", f"@{folder}"), f"{folder}/my_rules.py")
        call(capsys, "run", "S4", "-p", file)
        assert registry.rules_of(f"llama_cpp@{folder}").fields()["ckpt_pick"].rule == rule


def test_a_line_of_a_file_beside_it_is_named(capsys, rules, tmp_path):
    rules(HELPER.replace("fits[-1] if fits else None", "1 // len([])"), "helper.py")
    said = refused(capsys, "run", *HYBRID, "-p", rules(IMPORTS))
    assert said.startswith(f"{tmp_path / 'helper.py'}:13: ZeroDivision")
    assert refused(capsys, "run", "S4", "-p", rules("import nothing_of_the_sort\n", "other.py")).endswith(
        "other.py:1: ModuleNotFoundError: No module named 'nothing_of_the_sort'")  # fmt: skip


def test_workers_import_it_too(capsys, rules):
    rules(HELPER, "helper.py")
    argv = ("fuzz", "-p", rules(IMPORTS), "--model", "GA", "--examples", "60", "-j", "2", "--no-shrink", "--json")
    code, out = call(capsys, *argv)
    assert json.loads(out)["examples"] == 60 and code in (exits.HOLDS, exits.BROKEN)


def test_what_a_file_prints_spoils_no_result(capsys, rules):
    data = call_json(capsys, "run", "S4", "-p", rules("print('hello')\n" + GOOD))[1]
    assert data["runs"][0]["profile"] == "llama_cpp@mine"


def test_a_line_of_more_than_10_000_characters_is_refused(capsys, rules):
    code, _ = call(capsys, "run", "S4", "-p", rules(f"\nimport {'a.' * 4996}a\n"))
    assert code == exits.BAD_INPUT
    file = str(rules(f"\nimport {'a.' * 4997}a\n"))
    assert main(["run", "S4", "-p", file]) == exits.BAD_INPUT
    assert capsys.readouterr().err == \
        f"cachesim: {file}:2: line: 10,002 characters, at most 10,000 characters are allowed\n"


def test_it_leaves_no_byte_code_beside_the_file(capsys, rules, tmp_path):
    call(capsys, "run", "S4", "-p", rules())
    assert [one.name for one in tmp_path.iterdir()] == ["my_rules.py"]


def test_a_rule_set_has_the_base_with_which_it_shares_most_and_leaves_no_rule_out():
    v32, v33 = (registry.rules_of(f"vllm@0.{number}.0") for number in (32, 33))
    registry.add(replace(v32, name="vllm@mine", reset_preempts=v32.reset_preempts), "mine")
    assert registry.ENGINES["vllm"].beside["vllm@mine"] == "vllm@0.32.0"
    with pytest.raises(BadInput, match=r"evict of 'vllm@never' is not a rule: None"):
        registry.add(replace(v33, name="vllm@never", evict=None), "mine")
