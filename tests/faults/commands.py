"""Every command of cachesim, in a form that takes about a second: what it writes, and where faults meet its work."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Callable

from cachesim.base import exits

TESTS = Path(__file__).resolve().parents[1]
DATA = TESTS / "data"
FAKE = TESTS / "unit/tools/live/fake_llama.py"
JUDGED = "cachesim.judging.judged_run:run_judged"
TAKE = "cachesim.base.pool:Pool._take"          # a result of a worker arrives
PLAY = "cachesim.tools.live.llama_server.recorder:Recorder.play"
OUTPUT = "cachesim.base.console:say,cachesim.base.console:show,cachesim.base.console:say_json"
ALONE = "does its work in one process"
DENSE = "llama-24143-entry-removed-dense"
SEARCH = ("-p", "ik_llama@1889-base", "--model", "GA", "--property", "warm-equals-cold", "--no-shrink")


@dataclass(frozen=True)
class Command:
    """A command line. Functions get the folder with its input and return words."""

    argv: Callable[[Path], tuple[object, ...]]
    work: str = OUTPUT                       # places in the middle of its work, see ``stopped``
    out: tuple[str, ...] = ()                # option for a file or folder to write, and its name
    worker: str = ALONE                      # place in a worker process; a text with a space: why it has none
    child: str = ""                          # place while a program runs that it started
    code: int = exits.HOLDS                  # undisturbed
    bereft: int | None = None                # with a killed worker, None = like undisturbed
    keeps: bool = False                      # writes the results so far at an interrupt
    resumes: bool = False                    # continues after SIGKILL with --resume
    closed: int = exits.BROKEN_PIPE          # with a closed pipe


def of(*words: object) -> Callable[[Path], tuple[object, ...]]:
    """Return a command line without input files."""
    return lambda folder: words


def session(folder: Path) -> Path:
    """Return a folder with recorded sessions."""
    (made := folder / "sessions").mkdir(exist_ok=True)
    for i in range(6):
        lines = ('{"blocks": [' + ", ".join(map(str, range(2 + n))) + "]}\n" for n in range(12 + i))
        (made / f"{i}.jsonl").write_text("".join(lines))
    return made


def bodies(folder: Path) -> tuple[object, ...]:
    """Return an import of request bodies with a template."""
    (folder / "b.json").write_text('{"messages": [{"role": "user", "content": "hi"}]}')
    (folder / "t.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    return "import", folder / "b.json", "--template", folder / "t.jinja"


def campaign(folder: Path) -> Path:
    """Return a folder with a finished campaign."""
    from tests.faults.victim import Victim

    Victim("fuzz", *SEARCH, "--examples", 20, "--out", folder / "found").end()
    return folder / "found"


def server(folder: Path) -> tuple[object, ...]:
    """Return the options for a stand-in for llama-server."""
    binary, model = folder / "llama-server", folder / "tiny-GA.gguf"
    binary.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FAKE}" "$@"\n')
    binary.chmod(0o755)
    model.write_bytes(gguf())
    return "--server", binary, "--model", model


@cache
def gguf() -> bytes:
    """Return a tiny model file."""
    from tempfile import NamedTemporaryFile

    from cachesim.tools.live.llama_server.gguf_models import find_model, tiny_model

    with NamedTemporaryFile(suffix=".gguf") as file:
        tiny_model(find_model("GA")).write(file.name)
        return Path(file.name).read_bytes()


def options_file(folder: Path) -> tuple[object, ...]:
    """Return a run on a server that reads a file of options."""
    (file := folder / "options.yaml").write_text("max-model-len: 4096\nblock-size: 16\n")
    return "run", "S40.A20/S.B9/S.A", "--server", f"vllm serve Qwen/Qwen3-8B --config {file}", "--json"


STARTED = "vllm serve Qwen/Qwen3-8B --max-model-len 2048"
START_FILES = {
    "compose.yaml": f"services:\n  model:\n    image: a/b:1\n    command: >\n      {STARTED}\n",
    "pod.yaml": f"spec:\n  containers:\n  - name: model\n    image: a/b:1\n    command: [\"sh\", \"-c\"]\n"
                f"    args: [\"{STARTED}\"]\n",
    "model.service": f"[Service]\nExecStart={STARTED}\n", "Dockerfile": f"FROM a\nCMD {STARTED}\n",
}  # fmt: skip
"""Texts of files that start a server: of Docker Compose, Kubernetes, systemd and Docker."""

ON_VLLM = ("S40.A20/S.B9/S.A", "-p", "vllm", "--model", "A", "--json")
EVENTS = DATA.parent / "unit/tools/server_logs/kv_events"

TABLE: dict[str, Command] = {
    "run": Command(of("run", DENSE, "-j", 2, "--provenance", "--json"), TAKE, worker=JUDGED),
    "run --kv-events": Command(of("run", *ON_VLLM), JUDGED, ("--kv-events", "a.jsonl")),
    "run --steps": Command(of("run", *ON_VLLM, "--steps"), JUDGED, ("--html", "a.html")),
    "run --server": Command(options_file, JUDGED),
    **{f"run --server {name}": Command(of("run", "S40.A20/S.B9/S.A", "--server", text), JUDGED, ("--html", "a.html"))
       for name, text in START_FILES.items()},
    "run --real": Command(lambda at: ("run", "A5/A", "--real", server(at)[1]), PLAY, ("--html", "a.html"), "", PLAY,
                          code=exits.BROKEN),
    "run --replicas": Command(of("run", *ON_VLLM, "--replicas", 2), "cachesim.tools.run.replicas.fleet:run_fleet"),
    "why": Command(of("why", DENSE, 1), JUDGED, ("--html", "a.html")),
    "advise": Command(of("advise", "S40.A60/B80/S.C50/S.A", "--seconds", 5),
                      "cachesim.tools.advise.search:AdviceSearch.attempt", ("--html", "a.html"), keeps=True),
    "advise --server": Command(of("advise", "--server", STARTED), JUDGED),
    "memory": Command(of("memory", "qwen3-next"), "cachesim.tools.memory.estimate:estimate"),
    "memory --workload": Command(lambda at: ("memory", "qwen3-next", "--memory", "80GiB", "--workload", session(at)),
                                 "cachesim.tools.memory.workload_cost:workload_cost"),
    "diff": Command(of("diff", DENSE, "-p", "llama_cpp@b9518", "-p", "llama_cpp@b10587"), JUDGED, ("--html", "a.html")),
    "explain": Command(of("explain", "pos_min"), closed=exits.HOLDS),
    "playground": Command(of("playground"), "uvicorn:Server.run",
                          worker="its server replaces a worker: tests/unit/tools/playground/test_simulator.py"),
    "lesson": Command(of("lesson", 1), out=("--html", "a.html"), closed=exits.HOLDS),
    "profiles": Command(of("profiles", "list"), closed=exits.HOLDS),
    "options": Command(of("options"), closed=exits.HOLDS),
    "bisect": Command(of("bisect", "S100.A40/S.B40"), JUDGED),
    "fuzz": Command(of("fuzz", *SEARCH, "--examples", 120, "-j", 2, "--json"), TAKE, ("--out", "found"),
                    "cachesim.tools.search.campaign:work", code=exits.BROKEN, keeps=True, resumes=True),
    "merge": Command(lambda at: ("merge", campaign(at)), out=("--out", "merged"), code=exits.BROKEN),
    "shrink": Command(of("shrink", "S40.A20/S.A>3/B9@0/S.A.C5", "-p", "ik_llama@1889-base", "--model", "GA"),
                      "cachesim.tools.search.shrink_scenario:shown", code=exits.BROKEN),
    "repair": Command(of("repair", "ik_llama@1889-base", "--model", "GA", "--examples", 8, "-j", 2), TAKE,
                      worker="cachesim.tools.search.rule_mutations:find_cures", code=exits.BROKEN),
    "scenarios": Command(of("scenarios"), closed=exits.HOLDS),
    "workload": Command(lambda at: ("workload", session(at), "--detail", "counts", "-j", 2, "--json"), TAKE,
                        ("--out", "lines"), "cachesim.tools.workload.cell_jobs:line_of", keeps=True, resumes=True),
    "workload --curve": Command(
        lambda at: ("workload", session(at), "--curve", "cache_ram=0,64", "-j", 2, "--json"), TAKE,
        worker="cachesim.tools.workload.cell_jobs:line_of"),
    "replay": Command(of("replay", *sorted((DATA / "llama_cpp").glob("*.json"))[:6], "-j", 2, "--json"), TAKE, (),
                      "cachesim.tools.replay.command:replay_file"),
    "import": Command(bodies, "cachesim.tools.request_bodies.import_bodies:link_requests", ("--out", "a.toml"),
                      "", "cachesim.base.bounded_child:BoundedChild.ask", bereft=exits.BAD_INPUT),
    "import EVENTS": Command(of("import", EVENTS / "events.jsonl", EVENTS / "bodies.jsonl", "--json"),
                             "cachesim.tools.server_logs.kv_events.command:read_messages", code=exits.UNDECIDED),
    "watch": Command(of("watch", "--once", DATA.parent / "unit/tools/server_logs/verbosity_4.log", "--json"),
                     "cachesim.tools.watch.joined_rows:JoinedRows.logged", keeps=True,
                     worker="its analysis breaks no connection: tests/unit/tools/watch/test_command.py"),
    "watch --kv-events": Command(of("watch", "--once", "--kv-events", EVENTS / "events.jsonl", "--json"),
                                 "cachesim.tools.watch.event_watch:EventWatch.run", code=exits.UNDECIDED, keeps=True),
    "verify": Command(lambda at: ("verify", "A5/A", *server(at), "-p", "llama_cpp@b11549"), PLAY,
                      ("--html", "a.html"), "", PLAY, code=exits.BROKEN),
    "check": Command(of("check", "URL", "--requests", 300, "--examples", 3, "--json"),
                     "cachesim.tools.conformance.http_check.http_client:Http.post", ("--junit", "a.xml"),
                     code=exits.BROKEN, keeps=True),
    "check --summary": Command(of("check", "URL", "--requests", 300, "--examples", 3, "--json"),
                               "cachesim.tools.conformance.ci_reports:summary", ("--summary", "a.md"),
                               code=exits.BROKEN, keeps=True),
    "real": Command(of("real", "list"), "cachesim.tools.live.llama_server.real.installation:is_installed"),
    "watch --listen": Command(of("watch", "--listen", "127.0.0.1:0", "--to", "http://127.0.0.1:9", "--json"),
                              "cachesim.tools.watch.relay_process:relay_connections",
                              worker="its analysis breaks no connection: tests/unit/tools/watch/test_command.py"),
    "real serve": Command(lambda at: ("real", "serve", server(at)[1], "-m", "GA"),
                          "cachesim.tools.live.llama_server.process:Process.wait",
                          worker="its server is its result: --signals"),
    "export": Command(of("export", DENSE, "--to", "curl"), JUDGED, ("--out", "a.sh")),
    "record": Command(lambda at: ("record", "A5/A", *server(at), "--commit", "b11549"), PLAY,
                      ("--out", "a.json"), "", PLAY),
    "completion": Command(of("completion", "bash"), closed=exits.HOLDS),
}  # fmt: skip
