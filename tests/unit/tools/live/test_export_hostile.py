"""Exports of a case whose every text tries to run a command: nothing runs, and the texts read back."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
import tomllib
from dataclasses import replace

import pytest

from cachesim.engines.registry import ENGINES
from cachesim.judging.find_change import bisect
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.live.llama_server import tiny_gguf
from cachesim.tools.live.llama_server.export import case_program, talk
from cachesim.tools.live.llama_server.export import issue as module
from cachesim.tools.live.llama_server.export.issue import ObservedRun, issue
from cachesim.tools.live.llama_server.export.program_text import END, code_of, standalone_script
from cachesim.tools.live.llama_server.export.python_test import pytest_file, server_test
from cachesim.tools.live.llama_server.export.scenario_file import scenario_file
from cachesim.tools.live.llama_server.export.script import ScriptAction, make_script
from cachesim.tools.live.llama_server.export.shell import shell_script
from tests.shared import SMALL
from tests.unit.tools.live.test_export import FAKE, PROFILE

RUN = "__import__('os').system('touch OWNED')"
HOSTILE = [
    "\ntouch OWNED\n", "\r\ntouch OWNED\r\n", "$(touch OWNED)", "`touch OWNED`", "';touch OWNED;'", '";touch OWNED;"',
    "'\"';touch OWNED;'\"'", f"\n{END}\ntouch OWNED\n", "\nEND\ntouch OWNED\n", "\\\ntouch OWNED", "&touch OWNED&",
    "|touch OWNED", f'"""\n{RUN}\n"""', f"'''\n{RUN}\n'''", f'";{RUN};"', f"{{{RUN}}}", f"\\\"\\\"\\\"\n{RUN}\n",
    f"\n    {RUN}\n", f"']);{RUN};(['", "@HISTORY@", "@TITLE@@WORDS@", "@FLAGS@", "# coding: utf-7\n+AAo-", "\0",
    "\x1b]0;t\x07", "\x85touch OWNED\x85", "\u2028touch OWNED\u2028", "\u202e", "\ud800", "\udcff", "```\n\n<script>\n",
    "~~~\n# x\n</details>",
]  # fmt: skip
TOGETHER = "".join(one for one in HOSTILE if not "\ud800" <= one <= "\udfff")
NAME = "\n{1}\r\x1b`touch OWNED`'\"$(touch OWNED)"
LINE = "S5>r2/S.r.B3>1/A2@0/{save@0 f}/S[1:3].A[:1]/{erase@0}/{restore@0 f}/E2>1"
HEADS = ["Name and Version", "Operating systems", "GGML backends", "Hardware", "Models",
         "Problem description & steps to reproduce", "First Bad Commit", "Relevant log output"]  # fmt: skip


@pytest.fixture(scope="module")
def plain():
    return make_script(from_line(LINE, model="A", server=SMALL), PROFILE)


def hostile(case, text):
    """The case with this text in every field that a form contains; names of words and slot files end in their own."""

    def parts(some):
        return tuple(one._replace(word=text + one.word) for one in some)

    def group(member):
        if isinstance(member, ScriptAction):
            return member._replace(file=member.file and text + member.file)
        return tuple(ask._replace(prompt=parts(ask.prompt), answers=tuple(map(parts, ask.answers))) for ask in member)

    scenario = replace(case.scenario, title=text, why=text, id=text, file=text or "x", model=text, source=(text,))
    return replace(
        case, scenario=scenario, profile=text, model=case.model._replace(name=text.replace("/", "")),
        words={text + word: tokens for word, tokens in case.words.items()}, spelled=frozenset([f"{text}S"]),
        groups=tuple(map(group, case.groups)), notes=(text,), flags=(*case.flags, "--chat-template", text),
        expected=tuple(one._replace(fault=text, equal=False) for one in case.expected),
    )  # fmt: skip


def files(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def run(words, folder, **env):
    """Run a program in a folder with only this environment; return its exit code and output."""
    env = {"PATH": f"{folder / 'tools'}:/usr/bin:/bin", "PYTHON": sys.executable, "TMPDIR": str(folder / "tmp"), **env}
    done = subprocess.run(words, cwd=folder / "here", env=env, capture_output=True, timeout=60, input=b"")
    return done.returncode, (done.stdout + done.stderr).decode("utf-8", "replace")


@pytest.fixture
def empty(tmp_path):
    """Return a folder with an empty folder "here", and tools beside it: a server, and a curl that answers nothing."""
    for name in ("here", "tmp", "tools"):
        (tmp_path / name).mkdir()
    programs = {"llama-server": f'exec "{sys.executable}" "{FAKE}" --fake well "$@"\n', "curl": "printf 200\n"}
    for name, text in programs.items():
        (tmp_path / "tools" / name).write_text(f"#!/bin/sh\n{text}")
        (tmp_path / "tools" / name).chmod(0o755)
    return tmp_path


@pytest.mark.skipif(shutil.which("jq") is None, reason="no jq")
@pytest.mark.long
def test_the_script_with_curl_runs_nothing_else(empty):
    """The history runs against a curl that answers nothing."""
    case = make_script(from_line("S5>r2/{save@0 f}/S[1:3].r", model="A", server=SMALL), PROFILE)
    file = empty / "case.sh"
    for text in [*HOSTILE[:9:2], "".join(HOSTILE)]:
        file.write_bytes(shell_script(hostile(case, text)).encode())
        code, said = run(["sh", str(file)], empty)
        assert files(empty / "here") == files(empty / "tmp") == []
        assert "not found" not in said and "syntax error" not in said and code == 0 and "does not show" in said, said


def test_the_script_alone_runs_nothing_else(plain, empty):
    """Without a server all but the code of modules is parsed, and the model written."""
    code = code_of(talk, tiny_gguf, case_program)[1].rstrip()
    for text in [*HOSTILE[::2], TOGETHER]:
        script = standalone_script(hostile(plain, text))
        lines = script.split("\n")
        assert lines.count(END) == 1 and lines[-2] == END
        program = ast.parse(script.partition(f"<<'{END}'\n")[2].removesuffix(f"{END}\n").replace(code, "").encode())
        values = {node.targets[0].id: node.value for node in program.body
                  if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)}  # fmt: skip
        assert list(ast.literal_eval(values["WORDS"])) == [text + word for word in plain.words]
        assert ast.literal_eval(values["FLAGS"])[-1] == text
    file = empty / "case.sh"
    for text in ("".join(HOSTILE[::2]), "".join(HOSTILE[1::2])):
        file.write_bytes(standalone_script(hostile(plain, text)).encode())
        code, said = run(["sh", str(file)], empty, LLAMA_SERVER="nowhere")
        assert code == 2 and files(empty / "here") == files(empty / "tmp") == [], said


def test_the_script_reaches_the_end_with_a_server(plain, empty):
    """Names of files and words of a command line cannot have NUL."""
    case = hostile(plain, TOGETHER.replace("\0", ""))
    case = replace(case, model=case.model._replace(name=NAME))
    file = empty / "case.sh"
    file.write_bytes(standalone_script(case).encode())
    code, said = run(["sh", str(file)], empty)
    assert code == 0 and said.count("same as cold") == 5 and files(empty / "here") == files(empty / "tmp") == [], said


DRIVER = '''
import json, sys, types
class ServerTalk:
    def __init__(self, url): self.asked = []
    def request(self, *words): return 200, {}
    def ask(self, number, prompt, **fields): asked.append(prompt)
    def slot(self, number, do, **fields): asked.append(fields.get("filename"))
    def hear(self, *words): pass
    def cold(self, *words): return 200, {}
    def verdict(self, *words): return "same as cold"
class ServerProcess:
    def start(self): asked.append(self.server_path)
    def stop(self): pass
    def make_url(self, path): return ""
asked = []
sys.modules["utils"] = utils = types.ModuleType("utils")
utils.ServerProcess = ServerProcess
names = {}
exec(compile(open(sys.argv[1], "rb").read(), "case", "exec"), names)
names["ServerTalk"] = ServerTalk
(test,) = (names[name] for name in names if name.startswith("test_"))
test(*sys.argv[2:])
print(json.dumps([test.__doc__, names["__doc__"], asked]))
'''


@pytest.mark.part(4)
@pytest.mark.parametrize("form", [pytest_file, server_test])
def test_an_exported_test_runs_nothing_else(form, plain, empty):
    """Its functions run with a client and a server that only note what they get."""
    (empty / "driver.py").write_text(DRIVER)
    temporary = empty / "server"
    temporary.mkdir()
    for text in [HOSTILE[24], TOGETHER] if form is pytest_file else [HOSTILE[4], TOGETHER]:
        case = hostile(plain, text)
        if form is server_test:
            case = replace(case, model=case.model._replace(name=NAME))
        (empty / "case.py").write_bytes(form(case).encode())
        more = [str(temporary)] if form is server_test else []
        words = [sys.executable, "../driver.py", "../case.py", *more]
        code, said = run(words, empty, LLAMA_SERVER_BIN_PATH="/bin/true")
        assert code == 0 and files(empty / "here") == [], said
        title, head, asked = json.loads(said)
        assert title == text and head.startswith(f"{text}\n")
        servers = [one for one in asked if isinstance(one, str) and one.startswith(str(temporary))]
        assert [one for one in asked if isinstance(one, str) and one not in servers] == [f"{text}f.bin"] * 2
        for one in servers:
            assert run(["sh", one], empty) == (0, "") or "\0" in text
        assert files(empty / "here") == [] and (not more or (temporary / case.model.file).exists())


@pytest.mark.long
def test_an_issue_keeps_its_parts(plain, monkeypatch):
    markdown = pytest.importorskip("markdown_it").MarkdownIt("commonmark")
    found = bisect(plain.scenario, ENGINES[plain.scenario.engine])
    monkeypatch.setattr(module, "bisect", lambda *_, **__: found)           # takes seconds
    for text in [*HOSTILE, "".join(HOSTILE)]:
        case = hostile(plain, text)
        shell = standalone_script(case)
        for heard in (None, ObservedRun(text, ["0. x"], text.splitlines())):
            report = issue(case, shell, heard)
            report.encode()
            tokens = markdown.parse(report)
            heads = [tokens[i + 1].content for i, one in enumerate(tokens) if one.type == "heading_open"]
            fences = [one for one in tokens if one.type == "fence"]
            assert heads == HEADS and [one.info for one in fences] == ["sh", "console"]
            assert fences[0].content.startswith("#!/bin/sh\n") and fences[0].content.endswith(f"{END}\n")
            html = {one.content.strip() for one in tokens if one.type == "html_block"}
            inside = [one for token in tokens for one in token.children or () if one.type.startswith(("html", "link"))]
            assert all(one.startswith(("<!-- please", "<details>", "</details>")) for one in html), html
            assert all(one.content.startswith("<!-- please") for one in inside), inside


def test_a_scenario_file_reads_back():
    plain = from_line("S5", model="A")
    for text in [*HOSTILE, "\U0001f600", "\x7f"]:
        scenario = replace(plain, title=text, why=text or "x", source=(text,))
        found = tomllib.loads(scenario_file(scenario, PROFILE, text))
        held = "".join(one if not "\ud800" <= one <= "\udfff" else ascii(one)[1:-1] for one in text)
        assert [found["title"], found["why"], found["source"], found["id"]] == [held, held, [held], held]
        assert list(found["expect"]) == [PROFILE]


def test_a_name_with_odd_letters_is_the_name_of_a_test(plain):
    for name in ("a-b", "x\u00b2", "\u00fc", "class", ""):
        case = replace(plain, scenario=replace(plain.scenario, id=name))
        compile(pytest_file(case), "case", "exec")
