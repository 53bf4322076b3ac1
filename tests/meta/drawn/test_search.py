"""Search for the test that finds a fault: attribution, control, and resumption. The tree is a tiny one."""

import json

import pytest

from tests.meta.drawn.copies import LEFT, Copy, Processes, Stopped, harmless
from tests.meta.drawn.copies import TestRun as RunOfTests
from tests.meta.drawn.drawing import all_faults
from tests.meta.drawn.results import Result, Results
from tests.meta.drawn.search import FOLDER, LAWS, OWN, STEPS, SUITE, Search, attributed, in_batches
from tests.meta.drawn.table import lines, outcome

MODULES = {
    "__init__.py": "", "pytest_plugin.py": "",
    "base/sums.py": "def total(a):\n    return a + 1\n",
    "base/words.py": "def last(a):\n    return a[1]\n",
    "model/limits.py": "def most(a):\n    return max(a, 5)\n",
    "model/unused.py": "def odd(a):\n    return a % 2\n",
}  # fmt: skip
TESTS = {
    "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "--import-mode=importlib"\n',
    "tests/unit/base/test_sums.py":
        "from cachesim.base import sums\ndef test_total(): assert sums.total(2) == 3\n"
        "def test_word():\n    from cachesim.base import words\n    assert words.last([0, 1]) == 1\n"
        "def test_text(): assert 'pass' not in open(sums.__file__).read() and '+' in open(sums.__file__).read()\n",
    "tests/unit/model/test_limits.py": "def test_nothing(): pass\n",
    "tests/docs/test_pages.py":
        "from cachesim.base import words\nfrom cachesim.model import limits\n"
        "def test_both(): assert limits.most(7) + words.last([0, 1]) == 8\n",
    "tests/meta/test_plants.py": "def test_never(): raise AssertionError\n",
    "tests/properties/test_laws.py": "from cachesim.model import unused\ndef test_odd(): assert unused.odd(5) == 1\n",
}  # fmt: skip


@pytest.fixture
def root(tmp_path):
    tree = tmp_path / "root"
    for file, text in {**{f"cachesim/{file}": text for file, text in MODULES.items()}, **TESTS}.items():
        path = tree / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tree


@pytest.fixture
def faults(root):
    """A fault of every module, by the name of the module."""
    kinds = ("`+` -> `-`", "`1` -> `0`", "`max` -> `min`", "`%` -> `//`")
    return {fault.file: fault for faults in all_faults(root / "cachesim").values() for fault in faults
            if fault.change.how in (kinds[:1] if fault.file == "base/sums.py" else kinds)}  # fmt: skip


@pytest.fixture
def results(root, tmp_path):
    return Results(tmp_path / "results.jsonl", root)


@pytest.mark.long
def test_each_step_finds_what_its_tests_notice(root, faults, results, tmp_path):
    search = Search(tmp_path, results, jobs=1, say=lambda text: None)
    left = [*faults.values()]
    for step in STEPS:
        search.run(step, left)
        left = [fault for fault in left if not results.of(fault, step).test]
    found = {file: [of.test for step in STEPS if (of := results.of(fault, step))] for file, fault in faults.items()}
    assert found == {
        "base/sums.py": ["tests/unit/base/test_sums.py::test_total"],
        "base/words.py": ["", "tests/unit/base/test_sums.py::test_word"],
        "model/limits.py": ["", "", "tests/docs/test_pages.py::test_both"],
        "model/unused.py": ["", "", "", "tests/properties/test_laws.py::test_odd"],
    }
    assert (root / "cachesim/base/sums.py").read_text() == MODULES["base/sums.py"]


@pytest.mark.long
def test_a_fault_is_found_in_a_child_process_unless_its_function_ran_before(root, tmp_path):
    module = ("def early(a): return a + 1\n\ndef late(a):\n    return a + 1\n\n"
              "def given(a=1):\n    return a\n\nE = early(1)\n")  # fmt: skip
    tests = ("from cachesim.base.words import early, given, late\ndef test_early(): assert early(1) == 2\n"
             "def test_late(): assert late(1) == 2\ndef test_given(): assert given() == 1\n")  # fmt: skip
    (root / "cachesim/base/words.py").write_text(module)
    (root / "tests/unit/base/test_words.py").write_text(tests)
    copy, path = Copy(tmp_path, root), "tests/unit/base/test_words.py"
    every = [fault for fault in all_faults(root / "cachesim")["base"] if fault.file == "base/words.py"]
    wanted = [fault for fault in every if fault.change.how in ("`+` -> `-`", "`1` -> `0`")]
    found = copy.found_by_children(wanted, RunOfTests([path]), only_own=True)
    assert {(fault.function, found[fault.name]) for fault in wanted} == {
        ("early", LEFT), ("late", f"{path}::test_late"), ("given", LEFT)}  # fmt: skip
    assert (copy.root / "cachesim/base/words.py").read_text() == module


@pytest.mark.long
def test_a_file_that_cannot_be_imported_hides_no_other_failure(root, faults, tmp_path):
    path = "tests/unit/base/test_limits.py"
    (root / path).write_text("from cachesim.model import limits\nassert limits.most(7) == 7\ndef test_it(): pass\n")
    copy = Copy(tmp_path, root)
    copy.plant([faults["model/limits.py"], faults["base/sums.py"]])
    assert copy.failing(RunOfTests(["tests/unit/base"])) == [
        path, "tests/unit/base/test_sums.py::test_total", "tests/unit/base/test_sums.py::test_text"]


def test_a_failing_test_is_attributed_to_the_fault_that_explains_it():
    finders = {"a": ["t1", "t2"], "b": ["t2"], "c": [], "d": ["t4", "t2"]}
    asked = []

    def first(fault, tests):
        asked.append(tests)
        return next((test for test in tests if test in finders[fault]), "")

    tests = ["t0", "t1", "t2", "t4"]
    found = attributed("abcd", tests, first, is_likely=lambda fault, test: fault == "d" and test == "t4")
    assert [*found] == [("a", "t1"), ("b", "t2"), ("c", ""), ("d", "t4")]
    assert asked == [tests, tests, tests, ["t4", "t0", "t1", "t2"]]
    assert [*attributed("ab", [], first, is_likely=lambda *_: False)] == [("a", ""), ("b", "")] and len(asked) == 4


def test_batches_are_of_different_modules(faults):
    one, other, third, fourth = faults.values()
    assert in_batches([one, one, other, third], most=2) == [[one, other], [one, third]]
    assert in_batches([one, other, third, fourth], most=3) == [[one, other, third], [fourth]]


def test_a_statement_that_does_nothing_stands_first_in_every_function():
    text = ('class C:\n    def m(self):\n        """Text."""\n        for x in self:\n            return x\n\n'
            "    @one\n    def n(self): return 1\n")  # fmt: skip
    assert harmless(text) == text.replace("        for", "        pass\n        for")


def test_a_fault_is_planted_alone_and_only_in_the_copy(root, faults, tmp_path):
    copy = Copy(tmp_path, root)
    path = copy.root / "cachesim" / "base" / "sums.py"
    copy.plant([faults["base/sums.py"]])
    assert path.read_text() == MODULES["base/sums.py"].replace("+", "-")
    first = path.stat().st_mtime
    copy.plant([faults["base/words.py"]])
    assert path.read_text() == (root / "cachesim/base/sums.py").read_text() == MODULES["base/sums.py"]
    assert path.stat().st_mtime > first and not (copy.root / "tests" / "meta").exists()


def test_a_result_holds_until_the_module_or_the_test_changes(root, faults, results):
    found, missed = faults["base/sums.py"], faults["base/words.py"]
    results.keep(found, Result(OWN, "tests/unit/base/test_sums.py::test_total"), 1)
    results.keep(missed, Result(OWN, ""), 1)

    def held():
        again = Results(results.file, root)
        return [again.of(fault, OWN) is not None for fault in (found, missed)]

    assert held() == [True, True]
    (root / "tests/unit/model/test_limits.py").write_text("")
    assert held() == [True, False]
    (root / "tests/unit/base/test_sums.py").write_text("")
    assert held() == [False, False]


def test_tests_that_failed_together_are_remembered_for_the_same_tree(root, faults, results):
    batch = [*faults.values()]
    results.keep_failed(batch, SUITE, ["t1"])
    assert Results(results.file, root).failed(batch, SUITE) == ["t1"]
    assert Results(results.file, root).failed(batch[1:], SUITE) is None
    (root / "cachesim/base/words.py").write_text("")
    assert Results(results.file, root).failed(batch, SUITE) is None


def test_an_interrupt_costs_at_most_a_line(root, faults, results):
    for fault in faults.values():
        results.keep(fault, Result(OWN, ""), 1)
    text = results.file.read_text()
    results.file.write_text(text[:-20])
    again = Results(results.file, root)
    assert [again.of(fault, OWN) is not None for fault in faults.values()] == [True, True, True, False]
    again.keep([*faults.values()][-1], Result(OWN, ""), 1)
    assert all(Results(results.file, root).of(fault, OWN) for fault in faults.values())
    assert [json.loads(line)["step"] for line in text.splitlines()] == [OWN] * 4


def test_after_an_interrupt_no_run_begins(tmp_path):
    processes = Processes()
    processes.stop()
    with pytest.raises(Stopped):
        processes.run(["true"], tmp_path, {})


def test_the_table_counts_by_folder(faults):
    steps = [[None, Result(FOLDER, "t1")], [Result(OWN, ""), Result(FOLDER, ""), Result(SUITE, "t2")],
             [Result(OWN, ""), None], [None, Result(FOLDER, ""), Result(SUITE, ""), Result(LAWS, "")]]  # fmt: skip
    outcomes = {fault: outcome(found) for fault, found in zip(faults.values(), steps, strict=True)}
    assert [one.what for one in outcomes.values()] == [FOLDER, SUITE, "open", "survived"]
    text = [*lines(outcomes)]
    assert [line.split() for line in text[1:4]] == [
        ["base", "2", "1", "1", "0", "0", "0"],
        ["model", "2", "0", "0", "0", "1", "1"],
        ["all", "4", "1", "1", "0", "1", "1"],
    ]
    assert text[4:6] == ["found: 2 of 3 (66.7 %)", "found by the mirroring unit tests: 1 of 3 (33.3 %)"]
