"""Names of rule files: which rule set an argument selects, and how its file is named. Nothing is simulated."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines import registry, rule_files
from cachesim.engines.ik_llama.rules.prompt_cache import admit
from cachesim.engines.rule import RULES
from tests.shared import forget_engines

HEAD = """from dataclasses import replace
from cachesim.engines.llama_cpp.profiles import NEWEST, PROFILES
B = PROFILES[NEWEST]
"""
ONE, OTHER = "MINE = replace(B, name='llama_cpp@mine')\n", "HIS = replace(B, name='llama_cpp@his')\n"


@pytest.fixture
def put(tmp_path, monkeypatch):
    """Write a rule file and return its argument."""
    forget_engines(monkeypatch)
    monkeypatch.chdir(tmp_path)

    def put(text, name="r.py"):
        (tmp_path / name).write_text(HEAD + text)
        return name

    return put


@pytest.mark.parametrize("text, is_file", [("r.py", True), ("a/b.py:MINE", True), ("r.py:", True), ("r.toml", False),
                                           ("llama_cpp@b11549", False), ("r.py:a/b", False)])  # fmt: skip
def test_a_rule_file_has_its_ending_and_perhaps_a_name(text, is_file):
    assert rule_files.is_rule_file(text) is is_file


def test_a_file_is_run_once_and_named_by_its_path(put):
    file = put(f"{ONE}import sys\nsys.RUNS = getattr(sys, 'RUNS', 0) + 1\n")
    assert [rule_files.profile_of(file) for _ in range(2)] == ["llama_cpp@mine"] * 2
    assert sys.__dict__.pop("RUNS") == 1
    assert rule_files.profile_argument("llama_cpp@mine") == file and rule_files.profile_argument("x") == "x"
    assert rule_files.file_header("llama_cpp@mine", folder=None) == {"rules": [file]}
    assert rule_files.file_header("x", folder=None) == {}
    assert rule_files.file_header("llama_cpp@mine", Path("below")) == {"rules": ["../r.py"]}


def test_a_file_knows_where_it_is(put):
    file = put(f"import sys\nsys.PLACE = __file__\n{ONE}")
    rule_files.profile_of(file)
    assert sys.__dict__.pop("PLACE") == str(Path(file).resolve())


@pytest.mark.parametrize("writes", [True, False])
def test_a_file_leaves_the_interpreter_as_it_was(put, monkeypatch, writes):
    monkeypatch.setattr(sys, "dont_write_bytecode", not writes)
    path = [*sys.path]
    file = put(f"import sys\nsys.SEEN = sys.dont_write_bytecode, sys.path[0]\n{ONE}")
    assert rule_files.profile_of(file) == "llama_cpp@mine"
    assert sys.__dict__.pop("SEEN") == (True, str(Path(file).parent.resolve()))
    assert (sys.dont_write_bytecode, sys.path) == (not writes, path)


def test_a_rule_set_of_a_file_is_registered_with_its_origin(put):
    rule_files.profile_of(put(ONE))
    assert registry.rules_of("llama_cpp@mine").name == "llama_cpp@mine"
    assert registry.notes()["llama_cpp@mine"] == "from r.py"


def test_of_two_rule_sets_one_is_selected_by_variable_or_name(put):
    file = put(ONE + OTHER)
    assert [rule_files.profile_of(f"{file}:{name}") for name in ("MINE", "llama_cpp@mine", "HIS")] == [
        "llama_cpp@mine", "llama_cpp@mine", "llama_cpp@his"]  # fmt: skip
    assert rule_files.profile_argument("llama_cpp@his") == f"{file}:HIS"
    with pytest.raises(BadInput, match=r"r\.py: 2 rule sets in the file: MINE, HIS \(use r\.py:NAME\)"):
        rule_files.profile_of(file)
    with pytest.raises(BadInput, match=r"r\.py: no rule set 'MIN' in the file \(did you mean 'MINE'\?\)"):
        rule_files.profile_of(f"{file}:MIN")


def test_two_names_of_one_rule_set_are_one(put):
    assert rule_files.profile_of(put(f"{ONE}SAME = MINE\n")) == "llama_cpp@mine"


@pytest.mark.parametrize("text, message", [
    ("x = 1 +\n", r"r\.py:4: SyntaxError: invalid syntax"),
    ("\n1 / 0\n", r"r\.py:5: ZeroDivisionError: division by zero"),
    ("BB\n", r"r\.py:4: NameError: .*\(did you mean 'B'\?\)"), ("raise SystemExit(3)\n", r"r\.py:4: SystemExit: 3"),
    ("M = replace(B, name='llama_cpp@m', ckpt_pik=1)\n", r"TypeError: .*ckpt_pik.*\(did you mean 'ckpt_pick'\?\)"),
    ("B.ckpt_pik\n", r"r\.py:4: AttributeError: .*\(did you mean 'ckpt_pick'\?\)"), ("", "contains no rule set"),
])  # fmt: skip
def test_an_error_has_its_line_and_leaves_no_rules(put, text, message):
    before = dict(RULES)
    with pytest.raises(BadInput, match=message):
        rule_files.profile_of(put(text))
    assert {name for name, rule in RULES.items() if rule.__module__.startswith("cachesim_rules")} <= {*before}


def test_the_rules_of_a_failing_file_are_forgotten_and_all_others_stay(put):
    before = dict(RULES)
    lines = ("from cachesim.engines.rule import Decision, Role, rule", "@rule('MY-LOST', Role.PICK, 'mine')",
             "def pick(ckpts, ask, thold) -> Decision: ...", "1 / 0", "")  # fmt: skip
    with pytest.raises(BadInput, match=r"r\.py:7: ZeroDivisionError"):
        rule_files.profile_of(put("\n".join(lines)))
    assert before == RULES


def test_the_line_of_a_syntax_error_is_named_once(put):
    with pytest.raises(BadInput) as bad:
        rule_files.profile_of(put("x = (1\n"))
    assert str(bad.value) == "r.py:4: SyntaxError: '(' was never closed"


def test_a_digest_covers_the_imported_files(put, tmp_path):
    (tmp_path / "beside.py").write_text("NUMBER = 5\n")
    file = put(f"import beside\n{ONE}")
    assert rule_files.profile_of(file) == "llama_cpp@mine" and "beside" not in sys.modules
    text = HEAD + f"import beside\n{ONE}" + "NUMBER = 5\n"
    assert rule_files.rule_file_digest("llama_cpp@mine") == hashlib.sha256(text.encode()).hexdigest()
    assert rule_files.rule_file_digest("llama_cpp@b11549") == ""
    assert rule_files.file_of("llama_cpp@mine").place(str((tmp_path / "beside.py").resolve())) == Path("beside.py")


def test_the_file_of_a_rule_and_of_a_fault_in_it_is_known(put):
    rule = """from cachesim.engines.rule import Decision, Role, rule
@rule("MY-PICK", Role.PICK, "mine")
def pick(ckpts, ask, thold) -> Decision:
    '''Picks nothing.'''
    return 1 / 0
"""
    rule_files.profile_of(put(f"{rule}M = replace(B, name='llama_cpp@m', ckpt_pick=pick)\n"))
    pick = RULES.pop("MY-PICK")
    assert rule_files.file_with(pick) == Path("r.py") and rule_files.file_with(forget_engines) is None
    with pytest.raises(ZeroDivisionError) as error:
        pick((), None, 0)
    assert str(rule_files.locate_fault(error.value)) == "r.py:8: ZeroDivisionError: division by zero"
    assert rule_files.locate_fault(ValueError("elsewhere")) is None


def test_the_place_of_a_fault_in_an_imported_file_is_known(put, tmp_path):
    (tmp_path / "beside.py").write_text("def fail(x):\n    return 1 / x\n")
    rule_files.profile_of(put(f"import sys\nimport beside\nsys.FAIL = beside.fail\n{ONE}"))
    fail = sys.__dict__.pop("FAIL")
    assert rule_files.file_with(fail) == Path("beside.py")
    with pytest.raises(ZeroDivisionError) as error:
        fail(0)
    assert str(rule_files.locate_fault(error.value)) == "beside.py:2: ZeroDivisionError: division by zero"


def test_a_fault_of_the_simulator_is_told_without_its_class(put):
    with pytest.raises(BadInput) as bad:
        rule_files.profile_of(put("from cachesim.base.errors import Crash\nraise Crash('it broke')\n"))
    assert str(bad.value) == "r.py:5: it broke"


def test_annotations_of_a_file_are_those_that_it_asks_for(put):
    put(f"import sys\ndef f(x: int): pass\nsys.NOTES = f.__annotations__\n{ONE}")
    assert rule_files.profile_of("r.py") == "llama_cpp@mine" and sys.__dict__.pop("NOTES") == {"x": int}


INNER = """def f():
    length = B
    {}
f()
"""


@pytest.mark.parametrize(("text", "message"), [
    ("from cachesim.base.errors import BadInput\nraise BadInput('wrong', file='other.py', line=99, hint='do it')\n",
     "r.py:5: wrong (do it)"),
    ("raise MemoryError\n", "r.py:4: nested too deeply or too large"), ("raise ValueError\n", "r.py:4: ValueError"),
    ("raise ValueError(\"unexpected keyword argument 'ckpt_pik'\")\n",
     "r.py:4: ValueError: unexpected keyword argument 'ckpt_pik'"),
    ("raise TypeError('no argument ckpt_pik')\n", "r.py:4: TypeError: no argument ckpt_pik"),
    ("def g(x): pass\nB = 1\ng(ckpt_pik=1)\n", "r.py:6: TypeError: g() got an unexpected keyword argument 'ckpt_pik'"),
    (INNER.format("lengt"), "r.py:6: NameError: name 'lengt' is not defined (did you mean 'length'?)"),
    (INNER.format("PROFILE"), "r.py:6: NameError: name 'PROFILE' is not defined (did you mean 'PROFILES'?)"),
    (INNER.format("raise NameError('lengt')"), "r.py:6: NameError: lengt"),
    (INNER.format("raise AttributeError('lengt')"), "r.py:6: AttributeError: lengt"),
    ("class K: _secret = 1\nK._secre\n", "r.py:5: AttributeError: type object 'K' has no attribute '_secre'"),
    ("class K: secret = 1\nK.secre\n",
     "r.py:5: AttributeError: type object 'K' has no attribute 'secre' (did you mean 'secret'?)"),
])  # fmt: skip
def test_an_error_is_told_in_a_line_with_a_hint_for_a_misspelled_name(put, text, message):
    with pytest.raises(BadInput) as bad:
        rule_files.profile_of(put(text))
    assert str(bad.value) == message


def test_the_line_of_an_imported_file_is_that_of_the_import(put, tmp_path):
    (tmp_path / "beside.py").write_text("\n\n\n\n\n\n\nx = 1 +\n")
    with pytest.raises(BadInput) as bad:
        rule_files.profile_of(put("import beside\n"))
    assert str(bad.value) == "r.py:4: SyntaxError: invalid syntax" and "beside" not in sys.modules


@pytest.mark.parametrize("text", ["r.toml", "llama_cpp@b11549"])
def test_another_argument_is_not_a_rule_file(text):
    with pytest.raises(BadInput, match=f"not a rule file: '{text}'") as bad:
        rule_files.profile_of(text)
    assert bad.value.hint == "FILE.py or FILE.py:NAME"


def test_modules_of_the_folder_are_forgotten_and_others_are_kept(put, tmp_path):
    (tmp_path / "packed").mkdir()
    (tmp_path / "packed" / "__init__.py").write_text("from packed import inner\n")
    (tmp_path / "packed" / "inner.py").write_text("X = 1\n")
    sys.modules.pop("this_is_elsewhere", None)
    outside = tmp_path.parent / "this_is_elsewhere.py"
    outside.write_text("Y = 2\n")
    put(f"import packed, sys\nsys.path.append({str(tmp_path.parent)!r})\nimport this_is_elsewhere\n"
        f"sys.path.pop()\n{ONE}")  # fmt: skip
    rule_files.profile_of("r.py")
    assert sys.modules.pop("this_is_elsewhere").Y == 2 and not {"packed", "packed.inner"} & sys.modules.keys()
    file = rule_files.file_of("llama_cpp@mine")
    names = [Path(real).relative_to(tmp_path.resolve()).as_posix() for real in sorted(file.beside)]
    assert names == ["packed/__init__.py", "packed/inner.py"] and str(outside) not in file.beside
    assert file.place(sorted(file.beside)[1]) == Path("packed/inner.py") and file.place(str(outside)) is None


def test_an_error_that_names_a_file_is_told_with_its_path_as_given(put, tmp_path):
    rule_files.profile_of(put(ONE))
    told = rule_files.locate_fault(BadInput("bad", file=str((tmp_path / "r.py").resolve()), line=3, hint="do it"))
    assert str(told) == "r.py:3: bad (do it)"
    assert rule_files.locate_fault(BadInput("bad", file="elsewhere.py", line=3)) is None


def test_a_file_that_fails_is_run_again(put):
    for text, ok in (("1 / 0\n", False), (ONE, True)):
        put(text)
        if ok:
            assert rule_files.profile_of("r.py") == "llama_cpp@mine"
        else:
            with pytest.raises(BadInput):
                rule_files.profile_of("r.py")
            assert rule_files.file_of("llama_cpp@mine") is None


def test_rules_of_an_engine_that_a_failing_file_imports_first_stay_known(put, monkeypatch):
    monkeypatch.delitem(RULES, admit.rule)
    lines = ("from cachesim.engines.ik_llama.rules.prompt_cache import admit",
             "from cachesim.engines.rule import RULES", "RULES[admit.rule] = admit", "1 / 0", "")  # fmt: skip
    with pytest.raises(BadInput):
        rule_files.profile_of(put("\n".join(lines)))
    assert RULES[admit.rule] is admit


def test_private_variables_select_no_rule_set(put):
    file = put(f"{ONE}_HIS = replace(B, name='llama_cpp@his')\n")
    assert rule_files.profile_of(file) == "llama_cpp@mine" and [*rule_files.run_rule_file(Path(file)).sets] == ["MINE"]
