"""Command ``cachesim record FILE|LINE|FOLDER --server BIN --model GGUF`` (or ``--url URL``): recordings of a real
llama-server."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Sequence

from cachesim.base import exits
from cachesim.base.console import complain, say, say_json
from cachesim.base.errors import BadInput
from cachesim.base.untrusted_files import FILE, FOLDER, kind
from cachesim.tools.run.arguments import add_json, add_settings, complain_of
from cachesim.tools.run.real_option import RealOptions, add_real, check_real_options, real_options
from cachesim.tools.run.run_jobs import run_each
from cachesim.tools.run.work_arguments import number

if TYPE_CHECKING:
    from cachesim.scenarios.schema import Scenario


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("what", metavar="FILE|LINE|FOLDER",
                        help="scenario file, folder of scenario files, id, or requests in one line")  # fmt: skip
    parser.add_argument("--server", metavar="BIN", type=Path, help="llama-server to run")
    parser.add_argument("--model", metavar="GGUF", type=Path, help="model file for --server, with the "
                        "320-token vocabulary of cachesim's test models")  # fmt: skip
    parser.add_argument("--url", default="", help="running llama-server; its log is not read")
    add_real(parser, "record the real llama-server of a build, such as b11549, or of a path")
    add_timeout(parser)
    parser.add_argument("--layers", metavar="MODEL", default="", help="--url: layers of its model, if not reported")
    parser.add_argument("--commit", metavar="NAME", default="", help="build name in the recording "
                        "(default: the server's, such as b11549)")  # fmt: skip
    parser.add_argument("--out", metavar="FILE", type=Path, help="file (default NAME.json) or folder to write")
    add_settings(parser)
    add_json(parser)


def add_timeout(parser: ArgumentParser) -> None:
    """Add ``--timeout``."""
    parser.add_argument("--timeout", metavar="S", type=number, default=120.0,
                        help="--url: time limit of a reply [seconds] (default 120)")  # fmt: skip


class RecordedServer(NamedTuple):
    """The server to record, as the command line names it: one of ``url``, ``program`` and ``real.servers``."""

    url: str                    # of a running server, "" = not given
    program: Path | None        # llama-server to start
    model: Path | None          # its model file
    real: RealOptions


class UrlOptions(NamedTuple):
    """How a running server is recorded."""

    url: str
    timeout: float              # time limit of a reply [seconds]
    layers: str                 # of its model, "" = as reported
    settings: Sequence[str]     # its options key=value
    commit: str                 # build name in the recording, "" = as reported


class Recording(NamedTuple):
    """A recording as plain data, and notes on requests that had to be changed."""

    trace: dict[str, Any]
    notes: list[str]


def run(args: Namespace) -> int:
    real = real_options(args)
    check_place(RecordedServer(url=args.url, program=args.server, model=args.model, real=real))
    layers = args.model.stem.removeprefix("tiny-") if args.model else args.layers or "GGGA"
    scenarios, bad = _scenarios(args.what, layers, args.settings)
    complain_of(bad, nothing_left=not scenarios, what="no scenario to record")
    if len(scenarios) > 1 and args.out and kind(args.out) != FOLDER:
        raise BadInput(f"expected a folder for {len(scenarios)} recordings", file=str(args.out))
    record: Callable[[Scenario], Recording]
    if args.url:
        options = UrlOptions(args.url, args.timeout, args.layers, args.settings, args.commit)
        record = partial(_of_url, options=options)
    elif args.real:
        record = partial(_of_real, real=real)
    else:
        commit = args.commit or build_of(args.server)
        record = partial(_of_server, program=args.server, model=args.model, commit=commit)
    made, codes = run_each(
        scenarios, lambda one: _written(record(one), args.out, one.id), lambda one: one.file or one.id, "recording"
    )
    if args.json:
        say_json({"recordings": made, "failed": len(bad) + len(codes)})
    else:
        for one in made:
            say(f"{one['file']}: {one['steps']} steps, {one['events']} events")
            for note in one["notes"]:
                complain(f"{one['id']}: {note}")
    return exits.worst([*codes, *(exits.BAD_INPUT for _ in bad)])


def check_place(server: RecordedServer) -> None:
    """Raise BadInput unless the server is given by ``--url``, by ``--real``, or by ``--server`` and ``--model``."""
    check_real_options(server.real)
    given = [bool(server.url), server.program is not None, bool(server.real.servers)]
    if given.count(True) != 1 or (server.program is None) != (server.model is None):
        raise BadInput("expected --url URL, --real BUILD, or --server BIN with --model GGUF")
    for what, file in (("server", server.program), ("model", server.model), ("model", server.real.gguf)):
        if file is not None and kind(file) != FILE:
            raise BadInput(f"no such {what}", file=str(file))


def build_of(server: Path) -> str:
    """Return the build name that a binary reports. Raise BadInput for an unknown build."""
    import re

    from cachesim.engines.registry import commits
    from cachesim.tools.live.llama_server.process import version_text

    found = re.search(r"version: (?:.*build )?(\d+)\b", version_text(server))
    name = f"b{found[1]}" if found else ""
    recorded = commits()
    if name not in recorded:
        known = ", ".join(one for one in recorded if re.fullmatch(r"b\d+", one))
        raise BadInput(f"unknown build: the server reports {name if found and int(found[1]) else 'no build number'}",
                       file=str(server), hint=f"name the build: --commit {known}")  # fmt: skip
    return name


def _scenarios(text: str, layers: str, settings: Sequence[str]) -> tuple[list[Scenario], list[BadInput]]:
    """Return the scenarios to record, of a file, a folder, an id or a line, and the errors of other files. ``layers``:
    model of a line; ``settings``: server options key=value. Raise BadInput for a bad line."""
    from dataclasses import replace

    from cachesim.scenarios.corpus import is_file
    from cachesim.scenarios.option_checks import DEFAULT_ENGINE, parse_settings
    from cachesim.tools.run.arguments import CaseOptions, load_files, scenario_of_line

    if not is_file(text):
        return [scenario_of_line(text, CaseOptions(model=layers, settings=settings))], []
    found, bad = load_files([text])
    given = parse_settings(settings, DEFAULT_ENGINE)
    return [replace(one, server={**one.server, **given}) for one in found if one.engine == DEFAULT_ENGINE], bad


def _written(recording: Recording, out: Path | None, name: str) -> dict[str, Any]:
    """Write the recording of the scenario of this name to the file or folder ``out``. Return a summary of it as data;
    ``notes``: requests that had to be changed."""
    from cachesim.tools.live.llama_server.recorder import write_trace

    trace = recording.trace
    file = _target(out, name)
    write_trace(trace, file)
    events = sum(len(step["events"]) for step in trace["steps"])
    return {"id": name, "file": str(file), "steps": len(trace["steps"]), "events": events, "notes": recording.notes}


def _of_url(scenario: Scenario, options: UrlOptions) -> Recording:
    """Record on a running server."""
    from cachesim.scenarios.option_checks import parse_settings
    from cachesim.tools.live.llama_server.verify.case import DEFAULT_FLAGS, record_url
    from cachesim.tools.live.llama_server.verify.remote import Remote

    with Remote(options.url, DEFAULT_FLAGS, options.timeout) as remote:
        complain(f"{options.url}: the scenario is run, then every prompt without cached tokens, which clears a slot")
        given = parse_settings(options.settings, scenario.engine)
        trace, notes = record_url(scenario, remote, options.layers, given)
    trace["commit"] = options.commit or trace["commit"]
    return Recording(trace, notes)


def _of_server(scenario: Scenario, program: Path, model: Path, commit: str) -> Recording:
    """Record on a server that is started for this scenario. ``commit``: build name in the recording."""
    from cachesim.tools.live.llama_server.recorder import Recorder, ServerStart
    from cachesim.tools.live.player import Player

    player = Player(scenario)
    flags = tuple(player.write(scenario.server))
    with Recorder(ServerStart(program, model, flags, commit)) as recorder:
        for _ in player.run(recorder.play):
            pass
        trace = recorder.trace()
    trace["name"] = scenario.id
    same = scenario.model.replace(" ", "") == model.stem.removeprefix("tiny-")
    other = [] if same else [f"written for the model {scenario.model}, recorded with {model.name}"]
    return Recording(trace, [*other, *player.notes])


def _of_real(scenario: Scenario, real: RealOptions) -> Recording:
    """Record on a real server of a build, with a tiny model of the scenario's layers or the given model."""
    from cachesim.tools.live.llama_server.real.comparison import record_case
    from cachesim.tools.live.llama_server.real.real_server import find_servers

    servers = find_servers(real.servers, real.may_install)
    if len(servers) != 1:
        raise BadInput("record takes one build", hint="cachesim real list")
    trace, notes = record_case(scenario, servers[0], real.gguf)
    return Recording(trace, notes)


def _target(out: Path | None, name: str) -> Path:
    if out is None:
        return Path(f"{name}.json")
    return out / f"{name}.json" if kind(out) == FOLDER else out
