"""The README and its pages are correct: examples run, numbers and pictures are current, links and commands exist."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib

import pytest

from cachesim.cli.command_list import COMMANDS
from cachesim.cli.main import main
from cachesim.scenarios.corpus import named
from tests.docs import trust
from tests.docs.examples import (
    CODE,
    DOCUMENTS,
    LIMITS,
    PAGES,
    README,
    ROOT,
    class_block,
    examples,
    limits_table,
    names,
    piped,
    run,
)
from tests.docs.fields import FIELD, with_fields
from tests.docs.here import run_here, under_named
from tests.docs.lessons import LESSONS
from tests.shared import TRACES, needs

TEXT = README.read_text()
USING = (PAGES / "using.md").read_text()
ALL = "\n".join(document.read_text() for document in DOCUMENTS)
each_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)


@pytest.mark.long
@pytest.mark.parametrize(("command", "output"), examples(ALL), ids=lambda text: text[:40])
def test_example_prints_what_it_says(monkeypatch, command, output):
    monkeypatch.chdir(ROOT)
    first, *pipes = under_named(command, output).split(" | ")
    assert (piped(run_here(first), pipes) if first.startswith("cachesim ") else run(command)) == output


def test_there_are_examples():
    assert len(examples(ALL)) >= 5


def screen_lines(text: str) -> int:
    """Return the number of lines of a document in 100 columns, without targets of links and comments."""
    shown = re.sub(r"\]\([^)]*\)", "]", re.sub(r"<!--.*?-->", "", text))
    return sum(max(1, -(-len(line) // 100)) for line in shown.splitlines())


def test_the_readme_has_two_screens():
    """Longer matter is in the pages, and each of them is linked."""
    assert screen_lines("a" * 101 + "\n\n[b](" + "c" * 200 + ")") == 4
    assert screen_lines(TEXT) <= 100
    assert [page.name for page in PAGES.glob("*.md") if f"cachesim/pages/{page.name}" not in TEXT] == []


def test_the_examples_of_the_readme_need_no_pipe():
    commands = [command for command, _ in examples(TEXT)]
    assert commands and [command for command in commands if "|" in command] == []


@each_document
def test_numbers_in_prose_are_current(document):
    text = document.read_text()
    assert with_fields(text, names()) == text
    assert document != README or len(FIELD.findall(text)) >= 4


def test_the_scenario_that_is_shown_shortened_is_that_of_its_file():
    """In the README of the corpus, every line of the shortened scenario occurs in the file."""
    text = (ROOT / "scenarios" / "README.md").read_text()
    [name, shown] = re.findall(r"^`([\w-]+)\.toml`, shortened:\n\n```toml\n(.*?)```", text, re.S | re.M)[0]
    whole = tomllib.loads(named(name).read_text())

    def part(some, of):
        if isinstance(some, dict):
            return all(part(value, of[key]) for key, value in some.items())
        names = isinstance(some, list) and all(isinstance(one, str) for one in some)
        return set(some) <= set(of) if names else some == of

    brief = tomllib.loads(shown)
    [request] = brief.pop("request")
    assert part(brief, whole) and part(request, whole["request"][0])


def test_the_classes_in_documents_are_those_of_their_files():
    """``make docs`` renews them. Each can be read at once."""
    found = [(m[0], class_block(m["file"], m["name"])) for m in CODE.finditer(ALL)]
    assert len(found) == 5
    assert [shown for shown, current in found if shown != current] == []
    assert [len(shown.splitlines()) for shown, _ in found if len(shown.splitlines()) > 36] == []


def test_the_limits_are_those_of_the_table():
    assert LIMITS.findall((PAGES / "limits.md").read_text()) == [limits_table()]


def typed(case="scenarios/llama_cpp/threads/llama-24143-entry-removed-dense.toml", root="."):
    """The commands of the tables in README and using.md, with a file in place of FILE, and few sessions of agents;
    without those that need a server, write, or serve until Ctrl-C."""
    log = f"{root}/tests/unit/tools/server_logs/default_verbosity.log"
    trace = f"{root}/tests/data/llama_cpp/qwen35mtp-seed1889-mtp-n1.json"
    bodies = f"{root}/tests/unit/tools/request_bodies/agent.jsonl"
    sessions = f"{root}/tests/workloads/data"
    return [
        command.replace("FILE...", trace).replace("FILE", case).replace("server.log", log)
        .replace("bodies.jsonl", bodies).replace("sessions.json", sessions).replace(r"\|", "|")
        .replace("cachesim watch", "cachesim watch --once")
        .replace("--for agents", f"--for agents {sessions}/chat.jsonl")
        for command in re.findall(r"^\|.*\| [^`|]*`(cachesim [^`]+)`", TEXT + USING, re.M)
        if not any(word in command for word in ("http:", "tcp:", "--html", "playground", "--real"))
    ]


def complaints(err, command=""):
    """Return the lines on stderr that are no hint. ``advise`` notes there what it knows before its search ends."""
    ours = ("next: ", "cachesim: ") if command.startswith("cachesim advise ") else ("next: ",)
    return [line for line in err.splitlines() if not line.startswith(ours)]


def test_the_symptom_table_has_commands():
    assert len(typed()) >= 12


@pytest.mark.long
@pytest.mark.parametrize("command", [
    pytest.param(one, marks=pytest.mark.slow) if one.startswith("cachesim repair") else one for one in typed()
])  # fmt: skip
def test_a_command_of_the_symptom_table_runs(capsys, monkeypatch, command):
    """The slow command runs in tests/unit/tools/search/test_repair.py with a smaller input."""
    monkeypatch.chdir(ROOT)
    code = main(shlex.split(command)[1:])
    out, err = capsys.readouterr()
    assert (code in (0, 1), complaints(err, command)) == (True, [])
    assert len(out.splitlines()) >= 3


@pytest.mark.parametrize("document", [*DOCUMENTS, *LESSONS], ids=lambda path: path.stem)
def test_no_line_begins_with_a_number_that_is_computed(document):
    """A comment at the beginning of a line, or of an item, makes all of the line HTML: its Markdown would be lost."""
    text = document.read_text()
    assert re.findall(r"^ *(?:- |\d+\. )?<!--=.*", text, re.M) == []
    assert [how for how in (found["how"] for found in FIELD.finditer(text)) if "--" in how or "|" in how] == []


@each_document
def test_links_have_targets(document):
    targets = re.findall(r"\]\(([^)#:]+)(#[^)]*)?\)", document.read_text())
    assert targets or document != README
    assert [target for target, _ in targets if not (document.parent / target).exists()] == []
    for target, anchor in targets:
        lines = (document.parent / target).read_text().splitlines() if anchor else []
        heads = [re.sub(r"[^\w -]", "", line.lstrip("# ")).lower() for line in lines if line.startswith("#")]
        assert not anchor or anchor[1:] in [head.replace(" ", "-") for head in heads], f"{target}{anchor}"


def test_commands_exist():
    assert set(re.findall(r"(?:`|^)cachesim ([a-z]+)", ALL, re.M)) <= set(COMMANDS)


def test_the_recordings_are_those_that_the_replay_tests_demand():
    assert trust.TABLE.findall((PAGES / "trust.md").read_text()) == [trust.table()]


@needs(TRACES / "llama_cpp")
def test_so_many_recordings_are_there():
    assert {folder: len(list((TRACES / folder).glob("*.json"))) for folder in trust.BUILDS} == trust.FILES


@needs(TRACES / "llama_cpp")
@pytest.mark.parametrize("folder", trust.BUILDS)
def test_they_are_of_the_build_that_the_table_names(folder):
    with min((TRACES / folder).glob("*.json")).open() as file:
        head = file.read(200)
    build = trust.BUILDS[folder][1].split(" + ")[0]
    commit = {"b10587": "3f545be"}.get(build, build)
    assert f'"commit":"{commit}' in head or f'"build":"{build}"' in head


def test_the_trust_page_has_builds_of_the_programs_in_the_readme():
    there = (PAGES / "trust.md").read_text()
    for program in ("Ollama", "Docker Model Runner", "RamaLama"):
        [row] = [line for line in there.splitlines() if line.startswith(f"| {program}")]
        assert re.findall(r"\bb\d{4,}\b", row) and program in " ".join(TEXT.split())


@pytest.mark.parametrize("command", re.findall(r"^(cachesim [^#\n]+?) +#", TEXT, re.M))
def test_a_command_to_try_runs(command):
    done = subprocess.run([sys.executable, "-m", *shlex.split(command)], cwd=ROOT, capture_output=True, check=False)
    assert (done.returncode in (0, 1), complaints(done.stderr.decode())) == (True, [])
    assert len(done.stdout.splitlines()) >= 10


def test_make_targets_exist():
    files = (ROOT / "Makefile", ROOT / "tests" / "targets.mk")
    targets = set(re.findall(r"^([a-z]+)(?: [a-z ]+)?:", "\n".join(file.read_text() for file in files), re.M))
    assert set(re.findall(r"`make ([a-z]+)\b", ALL)) <= targets
