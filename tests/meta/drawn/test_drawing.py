"""Draws of faults: the same everywhere, in proportion to the code, and hardly affected by other changes."""

from collections import Counter

import pytest

from tests.meta.drawn.drawing import FEWEST, all_faults, allotted, drawn, faults_of
from tests.meta.drawn.folders import TOP, folder_of, mirror
from tests.shared import ROOT

FUNCTION = "def f{n}(a):\n    b = a + {n}\n    return b < 2\n\n\n"


@pytest.fixture
def package(tmp_path):
    for file, number in {"base/text.py": 30, "tools/run/one.py": 60, "tools/run/two.py": 60, "top.py": 5}.items():
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(FUNCTION.format(n=n) for n in range(number)))
    return tmp_path


def test_a_draw_is_stable_and_depends_on_the_seed(package):
    names = [fault.name for fault in drawn(package, 30, seed=1)]
    assert names == [fault.name for fault in drawn(package, 30, seed=1)]
    assert names != [fault.name for fault in drawn(package, 30, seed=2)]
    assert len(set(names)) == 30


def test_a_draw_is_in_proportion_to_the_code_with_a_few_of_every_folder(package):
    found = Counter(fault.folder for fault in drawn(package, 31, seed=1))
    assert found == {"base": 6, TOP: FEWEST, "tools/run": 22}


def test_a_draw_for_some_folders_is_the_same_draw(package):
    every = drawn(package, 31, seed=1)
    assert drawn(package, 31, seed=1, folders=["base", TOP]) == [f for f in every if f.folder in ("base", TOP)]


def test_the_statement_of_a_fault_is_the_innermost_one(tmp_path):
    text = "def f(a):\n    if a:\n        b = (a +\n             1)\n    elif not a:\n        return b\n    return 2\n"
    lines = {(fault.line, fault.statement_line(text)) for fault in faults_of("top.py", text)}
    assert lines == {("if a:", 2), ("b = (a +", 3), ("1)", 3), ("elif not a:", 5), ("return b", 6), ("return 2", 7)}


def test_a_function_has_one_fault(package):
    places = [(fault.file, fault.function) for fault in drawn(package, 155, seed=3)]
    assert len(places) == len(set(places))


def test_a_change_elsewhere_leaves_a_fault_where_it_was(package):
    before = {fault.name for fault in drawn(package, 30, seed=1)}
    path = package / "base" / "text.py"
    path.write_text(f"# moved\n{path.read_text()}")
    assert {fault.name for fault in drawn(package, 30, seed=1)} == before


def test_equal_lines_of_a_function_have_names_of_their_own(tmp_path):
    (tmp_path / "top.py").write_text("def f(a):\n    if a:\n        a += 1\n    a += 1\n")
    names = [fault.name for faults in all_faults(tmp_path).values() for fault in faults]
    assert "top.py, f: `+=` -> `-=` at 2 of a += 1" in names
    assert "top.py, f: `+=` -> `-=` at 2 of a += 1, line 2 of its kind" in names
    assert len(names) == len(set(names))


@pytest.mark.parametrize("sizes, number, shares", [
    ({"a": 10, "b": 10}, 20, {"a": 10, "b": 10}),
    ({"a": 98, "b": 1, "c": 1}, 50, {"a": 44, "b": 3, "c": 3}),
    ({"a": 1, "b": 1}, 2, {"a": 3, "b": 3}),
    ({"a": 50, "b": 30, "c": 25}, 31, {"a": 15, "b": 9, "c": 7}),
])  # fmt: skip
def test_every_folder_has_a_few(sizes, number, shares):
    assert allotted(sizes, number) == shares


@pytest.mark.parametrize("file, folder", [
    ("api.py", TOP), ("base/pool.py", "base"), ("engines/registry.py", "engines"),
    ("engines/shared/vocab.py", "engines"),
    ("engines/vllm/core/block_pool.py", "engines/vllm"), ("tools/live/llama_server/verify/case.py", "tools/live"),
    ("scenarios/notation/tree.py", "scenarios"),
])  # fmt: skip
def test_engines_and_tools_are_folders(file, folder):
    assert folder_of(file) == folder


def test_a_module_is_mirrored_by_the_nearest_folder_of_unit_tests():
    assert "tests/unit/base/test_pool.py" in mirror(ROOT, "base/pool.py")
    assert {path.rpartition("/")[0] for path in mirror(ROOT, "base/pool.py")} == {"tests/unit/base"}
    deeper = mirror(ROOT, "engines/ik_llama/memory/cells.py")
    assert {path.rpartition("/")[0] for path in deeper} == {"tests/unit/engines/ik_llama"}
    assert "tests/unit/test_api.py" in mirror(ROOT, "api.py")
