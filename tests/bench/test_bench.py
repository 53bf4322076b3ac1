"""``make bench``: rows, limits, spellings, ratios, and comparisons that cannot be made."""

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench import __main__ as bench
from tests.bench import checkout, inputs, results, table
from tests.bench.measure import Measured, Side, measure
from tests.bench.rows import AGENTS, CORRECT, ROWS, VLLM, Row
from tests.bench.spellings import WORDS, NoCounterpart, find_modules, spell
from tests.shared import ROOT

pytestmark = pytest.mark.long


def git(folder, *words):
    """Run git in a repository; return its output."""
    name = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    return subprocess.run(["git", *name, *words], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path):
    """Return a repository with a small package whose ``--version`` prints a line, in one commit."""
    root = tmp_path / "repository"
    package = root / "cachesim"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text("import sys\nsys.exit(0 if '--version' in sys.argv else 2)\n")
    build = "[build-system]\nrequires = []\nbuild-backend = 'absent'\nbackend-path = ['.']\n"
    (root / "pyproject.toml").write_text(build)
    git(root, "init", "--quiet")
    git(root, "add", "-A")
    git(root, "commit", "--quiet", "-m", "Begin")
    return root


def run(root, *words):
    """Run the bench in a process of its own, on a repository."""
    program = ("import sys, argparse; from pathlib import Path; from tests.bench import __main__ as bench\n"
               "bench.bench.__defaults__ = (Path(sys.argv.pop(1)),)\nsys.exit(bench.main(sys.argv[1:]))\n")  # fmt: skip
    return [sys.executable, "-c", program, str(root), *words]


def ended(root, *words, folder=None):
    """Return exit code and lines of stderr of a run on a repository."""
    env = {**os.environ, **({"TMPDIR": str(folder)} if folder else {})}
    done = subprocess.run(run(root, *words), cwd=ROOT, capture_output=True, text=True, env=env)
    return done.returncode, done.stderr.splitlines()


def test_an_unknown_commit_is_one_line_with_exit_code_2(repository):
    code, lines = ended(repository, "--against", "absent-commit")
    assert (code, lines) == (2, ["bench: not a commit of this repository: 'absent-commit'"])
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def test_an_option_is_not_taken_for_a_commit(repository):
    code, lines = ended(repository, "--against=--all")
    assert code == 2 and len(lines) == 1


def test_changes_that_are_not_committed_are_one_line_with_exit_code_2(repository):
    (repository / "cachesim" / "__init__.py").write_text("x = 1\n")
    code, lines = ended(repository, "--against", "HEAD")
    changes = "bench: uncommitted changes, such as cachesim/__init__.py: commit or stash them first"
    assert (code, lines) == (2, [changes])


def test_untracked_files_and_results_may_differ(repository):
    results = repository / checkout.RESULTS
    results.parent.mkdir(parents=True)
    results.write_text("a\n")
    git(repository, "add", "-A")
    git(repository, "commit", "--quiet", "-m", "Add")
    results.write_text("b\n")
    (repository / "new.py").write_text("")
    checkout.require_clean(repository)


def test_a_commit_that_does_not_install_leaves_nothing(repository, tmp_path, monkeypatch):
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(checkout, "mkdtemp", lambda prefix: str(_made(folder / prefix)))
    monkeypatch.setattr(checkout, "install", _broken)
    broken = pytest.raises(checkout.Unusable, match="does not install: error: broken")
    with broken, checkout.other_commit(repository, "HEAD"):
        raise AssertionError
    assert [*folder.iterdir()] == [] and len(git(repository, "worktree", "list").splitlines()) == 1


@pytest.mark.long
def test_pip_s_failure_is_one_line_with_exit_code_2(repository, tmp_path):
    folder = tmp_path / "temporary"
    folder.mkdir()
    code, lines = ended(repository, "--against", "HEAD", folder=folder)
    assert code == 2 and len(lines) == 1 and lines[0].startswith("bench: the commit does not install: ")
    assert [*folder.iterdir()] == [] and len(git(repository, "worktree", "list").splitlines()) == 1


def _made(folder):
    folder.mkdir()
    return folder


def _broken(tree, folder):
    assert (tree / "cachesim").is_dir()
    raise checkout.Unusable("the commit does not install: error: broken")


def test_pip_s_last_error_is_named():
    assert checkout._last("WARNING: a\nERROR: b\nERROR: c\n\n[notice] d\n") == "ERROR: c"
    assert checkout._last("a\nb\n") == "b" and checkout._last("") == "without a message"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_an_interrupt_removes_the_worktree_and_the_environment(repository, tmp_path, number):
    folder = tmp_path / "temporary"
    folder.mkdir()
    program = ("import signal, sys; from pathlib import Path; from tests.bench import checkout\n"
               "signal.signal(signal.SIGINT, signal.default_int_handler)\n"   # ignored in background jobs
               "checkout.install = lambda tree, folder: print('ready', flush=True) or sys.stdin.read()\n"
               "with checkout.signals_raised(), checkout.other_commit(Path(sys.argv[1]), 'HEAD'): pass\n")  # fmt: skip
    process = subprocess.Popen([sys.executable, "-c", program, str(repository)], cwd=ROOT, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                               env={**os.environ, "TMPDIR": str(folder)})  # fmt: skip
    assert process.stdout.readline() == "ready\n" and len(git(repository, "worktree", "list").splitlines()) == 2
    process.send_signal(number)
    assert process.wait(60) != 0
    assert [*folder.iterdir()] == [] and len(git(repository, "worktree", "list").splitlines()) == 1


def test_an_interrupted_measurement_leaves_no_folder(repository, tmp_path):
    folder = tmp_path / "temporary"
    folder.mkdir()
    (repository / "cachesim" / "__main__.py").write_text("import sys\nsys.stdin.read()\nwhile True: pass\n")
    process = subprocess.Popen(run(repository, "start-up"), cwd=ROOT, stdout=subprocess.DEVNULL, text=True,
                               stderr=subprocess.PIPE, env={**os.environ, "TMPDIR": str(folder)})  # fmt: skip
    assert "start-up" in process.stderr.readline() and [*folder.iterdir()] != []
    process.send_signal(signal.SIGTERM)
    said = process.stderr.read()
    assert process.wait() == 128 + signal.SIGTERM and [*folder.iterdir()] == [], said
    process.stderr.close()


@pytest.fixture
def side(tmp_path, repository):
    """Return the repository as a side."""
    folder = tmp_path / "side"
    folder.mkdir()
    return Side("that", repository, Path(sys.executable), folder)


def test_a_row_has_the_time_and_memory_of_its_process(side):
    found = measure(Row("start-up", ("--version",)), side, {})
    assert found.end == "" and found.seconds > 0 and found.mib > 1


def test_a_row_over_its_limit_is_named(side):
    (side.root / "cachesim" / "__main__.py").write_text("while True: pass\n")
    found = measure(Row("start-up", ("--version",), limit=1), side, {})
    assert found.end == "over 1 s"
    assert "over 1 s" in table.line(table.Comparison("start-up", [found]), False)


def test_a_failure_is_named_with_its_last_line(side):
    (side.root / "cachesim" / "__main__.py").write_text("import sys\nsys.exit('first\\nlast')\n")
    assert measure(Row("start-up", ("--version",)), side, {}).end == "failed, exit code 1: last"


def test_a_row_without_a_counterpart_is_named(side):
    row = Row("blocks", ("--version",), needs=VLLM)
    with pytest.raises(NoCounterpart):
        measure(row, side, {})
    ours = Side("this", ROOT, Path(sys.executable), side.folder)
    found = bench.compare(row, ours, side, {}, 1)
    assert results.cell(found) == "not there"
    assert "blocks: not there: no cachesim/engines/vllm/__init__.py" in table.summary([found], "that")


def test_a_command_that_the_other_commit_refuses_is_not_there(side):
    refusal = "import sys\nprint('unknown', file=sys.stderr)\nsys.exit(2)\n"
    (side.root / "cachesim" / "__main__.py").write_text(refusal)
    ours = Side("this", ROOT, Path(sys.executable), side.folder)
    found = bench.compare(Row("help", ("--help",)), ours, side, {}, 1)
    assert found.end == "not there: failed, exit code 2: unknown" and table.line(found, True).endswith("not there")


def test_a_first_line_is_a_row_of_its_own(side):
    work = "import time\nprint('\\n1')\nwhile time.process_time() < 0.5: pass\nprint('2')\n"
    (side.root / "cachesim" / "__main__.py").write_text(work)
    row = Row("why", ("why",), first_line=True)
    whole, first = bench.measure_rows([row], side, side._replace(name="other"), 1)
    assert (whole.name, first.name) == ("why", "why, first line") and bench.names_of([row]) == [whole.name, first.name]
    assert 0 < first.ours[0].seconds < 0.5 <= whole.ours[0].seconds and whole.ours[0].output == len("\n1\n2\n")
    assert len(first.ratios) == 1 and first.mark in ("", "slower") and "/" not in results.cell(first)


def test_a_command_without_output_has_no_first_line(side):
    found = bench.compare(Row("start-up", ("--version",), first_line=True), side, side, {}, 1)
    assert results.cell(found.until_first_line()) == "no first line" and found.ratios


def test_peak_memory_does_not_contain_that_of_the_bench(side):
    mine = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)
    assert measure(Row("start-up", ("--version",)), side, {}).mib < mine / 2


def test_a_row_that_does_not_end_on_a_side_is_replaced_by_its_smaller_one(side):
    (side.root / "cachesim" / "__main__.py").write_text("import sys\nwhile 'A2' in sys.argv: pass\n")
    smaller = Row("1 token", ("run", "A1"))
    row = Row("2 tokens", ("run", "A2"), limit=1, instead=smaller)
    assert bench.compare(row, side, side, {}, 1).name == "1 token"


def test_sides_alternate_in_as_many_pairs_as_the_slower_one_allows(monkeypatch, side):
    order = []

    def measured(row, at, places):
        order.append(at.name)
        return Measured(1.0 if at.name == "a" else 10.0, 1.0)

    monkeypatch.setattr(bench, "measure", measured)
    bench.compare(ROWS[0], side._replace(name="a"), side._replace(name="b"), {}, 5)
    assert order == ["a", "b", "a", "b"]


def test_ratios_have_a_median_and_a_spread():
    ours = [Measured(2.0, 10.0), Measured(3.0, 10.0), Measured(1.5, 10.0)]
    theirs = [Measured(1.0, 10.0)] * 3
    row = table.Comparison("why", ours, theirs)
    assert row.ratios == [2.0, 3.0, 1.5] and row.mark == "slower" and results.cell(row) == "2.00 (1.50-3.00), 1.00"
    noisy = table.Comparison("why", [Measured(1.1, 10.0), Measured(0.9, 10.0), Measured(1.2, 10.0)], theirs)
    assert noisy.mark == "" and table.summary([noisy], "x")[0] == "slower than x: none"
    assert table.Comparison("why", theirs, theirs).mark == ""
    larger = table.Comparison("why", [Measured(1.0, 11.0, output=30)], [Measured(1.0, 10.0, output=10)])
    assert larger.mark == "larger"
    assert table.summary([larger], "x")[1:] == ["larger than x: why (1.10)", "output longer than that of x: why (3.00)"]


def test_the_table_fits_80_columns():
    wide = [Measured(9999.99, 99_999.0)] * 2
    names = bench.names_of(ROWS)
    lines = [table.header("53502ac7"), *(table.line(table.Comparison(name, wide, wide), True) for name in names)]
    lines += [table.line(table.Comparison(name, wide, note="not there: no module"), True) for name in names]
    assert max(len(line) for text in lines for line in text.splitlines()) <= 80


def test_results_have_a_column_for_each_issue_beside_each_base(tmp_path):
    file, one = tmp_path / "results.md", [Measured(1.0, 10.0)]
    row = table.Comparison("why", one, one)
    absent = row._replace(name="start-up", note="not there: no module")
    order = ["start-up", "why"]
    for issue in ("issue 1", "issue 2"):
        results.record(file, issue, "31c82eed1", [row], order)
    results.record(file, "issue 2", "31c82eed1", [absent], order)
    for commit in ("abcd01234567", "abcd55555555"):
        results.record(file, "issue 2", commit, [row], order)
    first, second, own = results.read(file).values()
    assert first.labels == ["issue 1", "issue 2"] and [*first.rows] == order
    assert first.rows["why"] == dict.fromkeys(first.labels, "1.00 (1.00-1.00), 1.00")
    assert first.rows["start-up"] == {"issue 1": "", "issue 2": "not there"}
    assert second.labels == [] and own.labels == ["issue 2, abcd5555"]


def test_committed_results_have_columns_beside_both_fixed_bases():
    sections = results.read(results.RESULTS)
    assert all(sections[base].labels for base in results.BASES)


def test_every_row_is_spelled_for_this_checkout(tmp_path):
    places = {**inputs.places(tmp_path), "{out}": str(tmp_path)}
    assert len({row.name for row in ROWS}) == len(ROWS)
    for row in ROWS:
        commands = spell(row.words, ROOT, places) if row.words else []
        assert all("{" not in word for words in commands for word in words)
        assert row.needs is None or row.needs.holds(ROOT)
    assert AGENTS.holds(ROOT) and set(CORRECT) == {0, 3}


def test_an_older_commit_is_spelled_by_its_files(repository):
    package = repository / "cachesim"
    (package / "commands").mkdir()
    (package / "commands" / "try_line.py").write_text("")
    (package / "limits.py").write_text("")
    folder = repository / "scenarios" / "llama_cpp"
    folder.mkdir(parents=True)
    (folder / "seed-24143-hybrid.toml").write_text("")
    words = ("{line}", "A9", "{scenario}", "{many-tokens}")
    [found] = spell(words, repository, {})
    assert found[:5] == ["try", "A9", "seed-24143-hybrid", "--max-tokens", "10000000"]
    assert len(spell(("{advise-log}",), repository, {})) == 2
    with pytest.raises(NoCounterpart):
        find_modules(repository)
    assert all(spellings for spellings in WORDS.values())


def test_inputs_are_fixed(tmp_path):
    assert len(inputs.recordings()) == len(set(inputs.recordings())) == 60
    assert all(path.is_file() for path in inputs.recordings())
    one, two = (inputs.places(_made(tmp_path / name)) for name in "ab")
    for name in one.keys() - {"{recordings}", "{third-of-recordings}"}:
        assert Path(one[name]).read_bytes() == Path(two[name]).read_bytes()
    lines = Path(one["{bodies}"]).read_text("utf-8").splitlines()
    assert len(lines) == 1000 and json.loads(lines[999])["messages"]


def test_words_select_rows_by_their_names():
    assert [row.name for row in bench.chosen(["start-up"])] == ["--version (start-up)"] and bench.chosen([]) == [*ROWS]
    assert bench.main(["no-such-row"]) == 2
