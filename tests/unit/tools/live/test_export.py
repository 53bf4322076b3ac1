"""Tests of exported programs: they run, and distinguish a server with the fault from a sound server."""

from __future__ import annotations

import ast
import os
import shutil
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import pytest

from cachesim.base.http_client import HttpFailure
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.load import load
from cachesim.scenarios.runner import play
from cachesim.tools.live.llama_server.client import Client
from cachesim.tools.live.llama_server.export.issue import ObservedRun, issue
from cachesim.tools.live.llama_server.export.program_text import END, models_text, standalone_script
from cachesim.tools.live.llama_server.export.python_test import pytest_file, server_test
from cachesim.tools.live.llama_server.export.scenario_file import scenario_file
from cachesim.tools.live.llama_server.export.script import make_script
from cachesim.tools.live.llama_server.export.shell import shell_script
from cachesim.tools.live.llama_server.gguf_models import find_model, write_model
from cachesim.tools.live.llama_server.process import Process
from cachesim.tools.live.llama_server.tiny_gguf import Tensor, TinyModel
from tests.shared import SMALL
from tests.unit.tools.live.given_server import answer, given

FAKE = Path(__file__).with_name("fake_llama.py")
PROFILE = "llama_cpp@b11549"
TWICE = "S5>r2/S.r.B3>1/S>r2"
"""The stand-in that remembers answers the third request, which it has seen, wrongly."""
SHELLS = [shell for shell in ("sh", "dash", "bash", "busybox") if shutil.which(shell)]
needs_tools = pytest.mark.skipif(not (shutil.which("jq") and shutil.which("curl")), reason="no curl or no jq")


@cache
def script(line=TWICE, model="A", **server):
    return make_script(from_line(line, model=model, server={**SMALL, **server}), PROFILE)


@cache
def loss(case):
    """Return the script of a line that loses tokens."""
    return make_script(from_line(case, model="A" if case == OTHER_NUMBERS else "GA"), PROFILE)


@pytest.fixture
def binary(tmp_path):
    """The stand-in as a program, in a given mode."""

    def make(mode):
        file = tmp_path / f"llama-server-{mode}"
        file.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -E "{FAKE}" --fake {mode} "$@"\n')
        file.chmod(0o755)
        return file

    return make


def run(text, tmp_path, shell="sh", **env):
    """Run a script with only this environment: a PATH of python3 and the shell. Return exit code and output."""
    (tmp_path / "case.sh").write_text(text)
    (tmp_path / "json.py").write_text("raise SystemExit('imported from the folder of the reader')")
    tools = tmp_path / "tools"
    tools.mkdir(exist_ok=True)
    for name, place in {"python3": sys.executable, shell: shutil.which(shell)}.items():
        (tools / name).unlink(missing_ok=True)
        (tools / name).symlink_to(place)
    words = [shell, "sh"] if shell == "busybox" else [shell]
    done = subprocess.run(["env", "-i", f"PATH={tools}", *(f"{name}={value}" for name, value in env.items()), *words,
                           "case.sh"], cwd=tmp_path, capture_output=True, text=True, timeout=120)  # fmt: skip
    return done.returncode, done.stdout + done.stderr


EVERYTHING = (
    "S9>r3/S.r[1:].|U4>1@0{n_keep=2}/A3>1/B3>q2{together+2}/C4>c5{cancel_after=2}/D4>4{cancel_after=0}"
    "/{save@0 f}/S.q!/{restart ctx_size=512}/{restore@0 f}/S>2{n_cmpl=2 answers=t2}/S.t>1{drafts=1:1}"
)
NO_RESTART = EVERYTHING.replace("/{restart ctx_size=512}", "")


def every_step(restarts):
    return script(EVERYTHING if restarts else NO_RESTART, parallel=2, spec_type="draft-simple", model_draft="A")


@pytest.mark.parametrize("form", [standalone_script, shell_script])
@pytest.mark.parametrize("shell", SHELLS)
def test_every_kind_of_step_is_written_in_plain_shell(shell, form, tmp_path):
    case = every_step(restarts=form is standalone_script)
    (tmp_path / "x").write_text(form(case))
    words = [shell, "sh"] if shell == "busybox" else [shell]
    subprocess.run([*words, "-n", str(tmp_path / "x")], check=True)
    assert len(case.notes) >= 3


def program(text):
    """Return the Python program that a script contains."""
    return text.partition(f"<<'{END}'\n")[2].removesuffix(f"{END}\n")


def test_the_program_needs_no_packages():
    nodes = list(ast.walk(ast.parse(program(standalone_script(every_step(restarts=True))))))
    names = [one.name for node in nodes if isinstance(node, ast.Import) for one in node.names]
    names += [str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)]
    assert len(names) > 10 and {name.partition(".")[0] for name in names} <= sys.stdlib_module_names


@pytest.mark.part(4)
@pytest.mark.parametrize("model, draft", [
    ("A", ""), ("W8 A", ""), ("W8 A A", ""), ("GGGA", ""), ("qwen35-GA", ""), ("GA+M", ""), ("SSA", ""), ("C W8", ""),
    ("H", ""), ("GGGA", "A"), ("GGGA", "qwen35"),
])  # fmt: skip
def test_a_program_writes_the_bytes_of_our_models(model, draft, tmp_path):
    """A draft model has the name that the server's flags use."""
    extra = {"model_draft": draft, "spec_type": "draft-simple"} if draft else {}
    made, case = {"Tensor": Tensor, "TinyModel": TinyModel}, script("S5", model, **extra)
    exec(models_text(case), made)
    assert not draft or f"MODELS/{list(made['MODELS'])[1]}" in case.flags
    assert list(made["MODELS"]) == [find_model(model).file, *([f"tiny-{draft}.gguf"] if draft else [])]
    for notation, (file, one) in zip([model, draft], made["MODELS"].items(), strict=False):
        one.write(str(tmp_path / "theirs"))
        write_model(notation, tmp_path / file)
        assert (tmp_path / "theirs").read_bytes() == (tmp_path / file).read_bytes()


@pytest.mark.part(4)
@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_tells_a_server_with_the_fault_from_one_without(shell, binary, tmp_path):
    """It needs only a shell, python3 and the server."""
    text = standalone_script(script())
    code, said = run(text, tmp_path, shell, LLAMA_SERVER=str(binary("well")))
    assert code == 0 and said.count("same as cold") == 3 and "does not show" in said, said
    assert not list(tmp_path.glob("*.gguf"))
    code, said = run(text, tmp_path, shell, LLAMA_SERVER=str(binary("remembers")), MODELS="kept")
    assert code == 1 and "2  0 (4)  5 (1)  DIFFERS from a cold run: token 1" in said and "THE FAULT SHOWS" in said, said
    write_model("A", tmp_path / "ours")
    assert (tmp_path / "kept" / "tiny-A.gguf").read_bytes() == (tmp_path / "ours").read_bytes()


def test_the_script_plays_every_kind_of_step(binary, tmp_path):
    """Each request must arrive and be answered; the stand-in gives no second completion."""
    case = every_step(restarts=True)
    code, said = run(standalone_script(case), tmp_path, LLAMA_SERVER=str(binary("well")))
    assert (code, case.loss.numbers) == (1, {1: (0, 9, 9)})     # the stand-in never reuses
    assert said.count("same as cold") == 7 and said.count("(disconnected)") == 2, said


def test_answers_become_the_words_of_later_prompts(binary, tmp_path):
    """The second prompt is the first with its generated tokens: the stand-in adds all tokens up."""
    text = standalone_script(script("S5>r2/S.r>1"))
    _, said = run(text, tmp_path, LLAMA_SERVER=str(binary("well")))
    rows = [line.partition("tokens: ")[2].split() for line in said.splitlines() if "tokens:" in line]
    prompt = sum(script("S5>r2/S.r>1").words["S"])
    assert [int(one) for one in rows[0]] == [prompt % 300, (prompt + prompt % 300 + 1) % 300]
    assert int(rows[1][0]) == (prompt + sum(map(int, rows[0]))) % 300


NEVER_READY = """#!{}
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        here = os.path.dirname(os.path.abspath(sys.argv[0]))
        open(os.path.join(here, "pid"), "w").write(str(os.getpid()))
        os.rename(os.path.join(here, "pid"), os.path.join(here, "asked"))
        self.send_error(503)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()
"""


def test_a_script_that_is_ended_ends_its_server(tmp_path):
    (tmp_path / "case.sh").write_text(standalone_script(script()))
    (tmp_path / "llama-server").write_text(NEVER_READY.format(sys.executable))
    (tmp_path / "llama-server").chmod(0o755)
    env = {"LLAMA_SERVER": "./llama-server", "PYTHON": sys.executable}
    process = subprocess.Popen(["/bin/sh", "case.sh"], cwd=tmp_path, env=env)
    while process.poll() is None and not (tmp_path / "asked").exists():
        time.sleep(0.05)
    process.terminate()
    assert process.wait(20) == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "asked").read_text()), 0)


@needs_tools
def test_without_a_running_server_the_script_with_curl_ends_with_2(tmp_path):
    code, said = run(shell_script(script()), tmp_path, URL="http://127.0.0.1:9", PATH=os.environ["PATH"])
    assert (code, said) == (2, "no llama-server answers at http://127.0.0.1:9\n")


@pytest.fixture
def running(binary, tmp_path):
    """The stand-in, started in a given mode."""
    started = []

    def make(mode):
        words = ["--host", "127.0.0.1", "--alias", "x"]
        process = Process(lambda port: [binary(mode), *words, "--port", str(port)], tmp_path / "log")
        started.append(process)

        def answers():
            try:
                return Client(process.url).get("/health").status == 200
            except HttpFailure:
                return False

        process.wait(answers, 20, "starting")
        return process

    yield make
    for one in started:
        one.stop()


LOSES = "S40.A5/S.B7/S.A.C2"
"""Its last request reuses nothing, like each of the stand-in, and 45 tokens under a proposal."""
OTHER_NUMBERS = "S9.A5/S.B7/S.A.C2"
"""Its last request reuses 9 tokens without a recurrent layer, and 14 under a proposal; the stand-in reuses none."""


SHOWS = "THE LOSS SHOWS: 0 of 45 tokens reused in request 2; with b11549-proposed 45 (predicted)"
JUDGED = pytest.mark.parametrize(("case", "code", "said"), [
    (LOSES, 1, SHOWS),
    (OTHER_NUMBERS, 3,
     "UNDECIDED: 0 of 14 tokens reused in request 2; 9 with the loss, with b11549-proposed 14 (predicted)"),
])  # fmt: skip


@pytest.fixture
def reuses_nothing():
    """A server in this process; return its URL."""
    reply = answer(7, timings={"cache_n": 0, "prompt_n": 9, "predicted_n": 1})
    with given({"/completion": reply}) as server:
        yield server.url


def test_the_script_judges_lost_reuse(binary, tmp_path):
    code, said = run(standalone_script(loss(LOSES)), tmp_path, LLAMA_SERVER=str(binary("well")))
    assert (code, SHOWS in said.splitlines()) == (1, True), said


@JUDGED
@needs_tools
def test_the_script_with_curl_judges_lost_reuse(reuses_nothing, tmp_path, case, code, said):
    found = run(shell_script(loss(case)), tmp_path, URL=reuses_nothing, PATH=os.environ["PATH"])
    assert (found[0], said in found[1].splitlines()) == (code, True), found[1]


@JUDGED
def test_the_test_judges_lost_reuse(reuses_nothing, monkeypatch, case, code, said):
    """Its function fails or is skipped, also when pytest does not call it."""
    monkeypatch.setenv("URL", reuses_nothing)
    names = {}
    exec(compile(pytest_file(loss(case)), "case", "exec"), names)
    [test] = (names[name] for name in names if name.startswith("test_"))
    with pytest.raises(pytest.fail.Exception if code == 1 else pytest.skip.Exception) as outcome:
        test()
    assert said in str(outcome.value)


@needs_tools
def test_a_running_server_is_asked(reuses_nothing, tmp_path):
    assert run(shell_script(script("S5>1")), tmp_path, URL=reuses_nothing, PATH=os.environ["PATH"])[0] == 0


def pytest_run(folder, *words, **env):
    env = {**{name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}, **env}
    return subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:cachesim", *words],
                          cwd=folder, env=env, capture_output=True, text=True, timeout=120)  # fmt: skip


@pytest.mark.long
def test_the_test_that_stands_alone(running, tmp_path):
    (tmp_path / "test_case.py").write_text(pytest_file(script()))
    done = pytest_run(tmp_path, "test_case.py", URL=running("well").url)
    assert done.returncode == 0, done.stdout
    done = pytest_run(tmp_path, "test_case.py", URL="http://127.0.0.1:9")
    assert done.returncode == 1


UTILS = '''
import os, subprocess, time, urllib.request
class ServerProcess:
    server_path = model_file = slot_save_path = n_ctx = None
    def __init__(self): self.server_port = int(os.environ["PORT"])
    def start(self):
        assert os.path.getsize(self.model_file) > 100000
        words = [self.server_path, "--host", "127.0.0.1", "--port", str(self.server_port), "--alias", "x"]
        self.process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
        for _ in range(200):
            try:
                return urllib.request.urlopen(self.make_url("/health"), timeout=5)
            except OSError:
                time.sleep(0.05)
    def stop(self):
        self.process.terminate(); self.process.wait()
    def make_url(self, path): return f"http://127.0.0.1:{self.server_port}{path}"
'''


@pytest.mark.long
def test_the_test_in_the_form_of_the_servers_own(binary, tmp_path):
    """Run with a stand-in for that project's ``utils``; ``make live`` runs it in a checkout."""
    from cachesim.tools.live.llama_server.process import free_port

    (tmp_path / "utils.py").write_text(UTILS)
    (tmp_path / "test_case.py").write_text(server_test(script(checkpoint_min_step=0)))
    for mode, code in (("well", 0), ("remembers", 1)):
        env = {"PORT": str(free_port()), "LLAMA_SERVER_BIN_PATH": str(binary(mode)), "PYTHONPATH": str(tmp_path)}
        done = pytest_run(tmp_path, "test_case.py", **env)
        assert done.returncode == code, done.stdout
    assert "a cold run" in done.stdout


@pytest.mark.parametrize("form", [pytest_file, server_test])
def test_every_kind_of_step_is_python(form):
    compile(form(every_step(restarts=form is server_test)), "case", "exec")


def test_a_scenario_file_is_read_back(tmp_path):
    scenario = from_line("A5/B10/B[:3].C3>r2", model="GA", server=SMALL)
    file = tmp_path / "case.toml"
    file.write_text(scenario_file(scenario, PROFILE, "case"))
    again = load(file)
    assert repr(again) == repr(scenario) and again.server == scenario.server
    assert again.expect[PROFILE].broken == (2,) and again.expect[PROFILE].cache_n == ((0,), (0,), (1,))
    play(again, PROFILE, "none")


@pytest.mark.long
def test_an_issue_has_what_the_form_asks_and_blanks_for_the_reporters_words():
    case = script("A5/B10/B[:3].C3", model="GA")
    text = issue(case, standalone_script(case))
    heads = [line.removeprefix("### ") for line in text.splitlines() if line.startswith("### ")]
    assert heads == ["Name and Version", "Operating systems", "GGML backends", "Hardware", "Models",
                     "Problem description & steps to reproduce", "First Bad Commit", "Relevant log output"]  # fmt: skip
    assert "please fill in: the summary, in your own words" in text
    assert "2. cache_n 1, evaluated 5: wrong answer: " in text and "2. `B[:3].C3`" in text
    assert "Correct with the rules of llama_cpp@b11549-repaired" in text
    assert "correct at b9235" in text and "wrong at b9310" in text      # the build of the change, between two recorded
    heard = issue(case, "", ObservedRun("version: 1", ["2. WRONG"], ["a line"]))
    assert "`version: 1`" in heard and "2. WRONG" in heard and "a line" in heard
    assert "### GGML backends\n\nCPU\n" in heard and "Actual results:" in heard


PACKAGE = """
import runpy, sys, threading

class Part:
    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return self.__dict__.setdefault(name, Part())

class CommonParams(Part):
    def __init__(self):
        self.embedding, self.kv_unified_per_slot, self.hostnames, self.model_alias = False, 0, [""], set()

class Names:
    def __getattr__(self, name):
        return name

llama_flash_attn_type = ggml_type = Names()

class Server:
    def __init__(self, params):
        sys.argv = ["x", "--host", params.hostnames[0], "--port", str(params.port), "--alias", *params.model_alias,
                    "--slot-save-path", params.slot_save_path, "--fake", "remembers"]
        threading.Thread(target=runpy.run_path, args=({fake!r},), daemon=True).start()
"""
WHEEL = ("xllamacpp==2026.10.11549", "b11549")


def test_a_script_for_a_package_needs_only_the_package(tmp_path):
    """A module in place of the package runs the stand-in for the server."""
    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "xllamacpp.py").write_text(PACKAGE.replace("{fake!r}", repr(str(FAKE))))
    text = standalone_script(script(), WHEEL)
    assert "server/bin/pip install xllamacpp==2026.10.11549 &&" in text
    code, said = run(text, tmp_path, PYTHONPATH=packages)
    assert "the server does not start" not in said and "request  cache_n (expected)" in said
    assert code in (0, 1)
