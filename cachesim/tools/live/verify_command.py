"""Command ``cachesim verify FILE|LINE --url URL`` (or ``--server BIN --model GGUF``): simulator versus real server."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cachesim.base import exits
from cachesim.base.console import complain, say_json, show
from cachesim.base.errors import BadInput, quoted
from cachesim.base.untrusted_files import FILE, kind
from cachesim.judging.verdict_words import exit_code_of
from cachesim.tools.live.record_command import add_timeout
from cachesim.tools.picture.picture_options import PictureOptions, add_pictures, picture_files
from cachesim.tools.run.arguments import CaseOptions, add_json, add_profiles, add_settings, profile_name
from cachesim.tools.run.pictured_runs import draw_cases
from cachesim.tools.run.real_option import (
    RealOptions,
    add_real,
    check_real_options,
    compare_real,
    real_options,
    real_part,
    real_runs,
)
from cachesim.tools.run.work_arguments import add_limits

if TYPE_CHECKING:
    from cachesim.scenarios.schema import Scenario
    from cachesim.tools.live.llama_server.verify.case import Verification


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("what", metavar="FILE|LINE", help="scenario file, id, or requests in one line")
    parser.add_argument("--url", default="", help="running llama-server, such as http://127.0.0.1:8080")
    parser.add_argument("--server", metavar="BIN", type=Path, help="llama-server to start; its log is read")
    parser.add_argument("--model", metavar="GGUF", type=Path, help="model file for --server")
    add_real(parser, "compare with the real llama-servers of builds such as b11549, or of paths")
    add_timeout(parser)
    parser.add_argument("--layers", metavar="MODEL", default="",
                        help="layers of the real model, such as 'W1024 A' (default: from its file)")  # fmt: skip
    parser.add_argument("--tolerance", metavar="X", type=tolerance,
                        help="largest difference of log-probabilities that counts as rounding "
                             "(default 0.001; 0.2 with --url, because the server's flags are unknown)")  # fmt: skip
    add_profiles(parser, "rule set to compare with (default: that of the server's build)")
    add_settings(parser)
    add_limits(parser)
    add_json(parser)
    add_pictures(parser)


def tolerance(text: str) -> float:
    """Parse an argument that is a number from 0 to 100."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100:
        raise ArgumentTypeError(f"{quoted(text)} is not a number from 0 to 100")
    return value


def run(args: Namespace) -> int:
    from cachesim.tools.live.llama_server.verify.case import as_data
    from cachesim.tools.live.verify_report import verify_report

    real = real_options(args)
    check_real_options(real)
    options = CaseOptions(model=args.layers or None, profiles=args.profiles, settings=args.settings)
    if args.real:
        if args.url or args.server or args.model or args.profiles:
            raise BadInput("--real excludes --url, --server, --model and -p",
                           hint="--gguf FILE names a model file, --layers A the layers of a line")  # fmt: skip
        return _beside_real(args.what, options, real, as_json=args.json)
    if bool(args.url) == (args.server is not None) or (args.server is None) != (args.model is None):
        raise BadInput("expected --url URL, --real BUILD, or --server BIN with --model GGUF")
    if len(args.profiles) > 1:
        raise BadInput("expected at most one profile to compare with")
    if args.url:
        found, scenario = _verified_url(args.what, options, args.url, args.timeout, args.tolerance)
    else:
        found, scenario = _verified_program(args.what, options, args.server, args.model, args.tolerance)
    data = {"scenario": scenario.id if scenario.file else repr(scenario), **as_data(found)}
    if args.json:
        say_json(data)
    else:
        show(verify_report(data))
    draw_cases(picture_files(args), [(scenario, found.profile)], _shown(data))
    return exit_code_of(found.same)


def _beside_real(text: str, options: CaseOptions, servers: RealOptions, *, as_json: bool) -> int:
    """Compare the case of a file, an id or a line with these servers, each under the rule set of its build. Return the
    exit code. ``options``: its model is the layers of the real model."""
    from cachesim.tools.run.arguments import read_case

    real = real_runs(servers)
    scenario = read_case(text, options)
    compared = compare_real(real, [scenario], as_json)
    if as_json:
        say_json(real_part(compared))
    return exits.worst(exit_code_of(data["same"]) for data in compared)


def _shown(data: dict[str, Any]) -> PictureOptions:
    """Return the note on a picture: the first request that differs on the real server."""
    for row in data["requests"]:
        if row["same"] is False:
            note = f"The real server differs at request {row['number']}: {row['first']}"
            return PictureOptions(note=note, focus=row["number"])
    return PictureOptions(note=data["undecided"] or "The real server behaves like the simulator.")


def _verified_program(
    text: str, options: CaseOptions, program: Path, model: Path, tolerance: float | None
) -> tuple[Verification, Scenario]:
    """Return the comparison of the case of a file, an id or a line with a llama-server that is started for it, and the
    scenario. ``options``: its model is the layers of the real model; ``model``: the model file. Raise BadInput."""
    from cachesim.tools.live.llama_server.verify.case import on_server
    from cachesim.tools.live.record_command import build_of

    for what, file in (("server", program), ("model", model)):
        if kind(file) != FILE:
            raise BadInput(f"no such {what}", file=str(file))
    profile = options.profiles[0] if options.profiles else _of_build(build_of(program))
    scenario = _scenario(text, options, profile, model)
    return on_server(scenario, profile, program, model, options.model or "", tolerance), scenario


def _verified_url(
    text: str, options: CaseOptions, url: str, timeout: float, tolerance: float | None
) -> tuple[Verification, Scenario]:
    """Return the comparison of the case of a file, an id or a line with a running llama-server, and the scenario.
    ``options``: its model is the layers of the real model; ``timeout``: of a reply [seconds]. Raise BadInput."""
    from cachesim.scenarios.option_checks import parse_settings
    from cachesim.tools.live.llama_server.verify.case import DEFAULT_FLAGS, on_url
    from cachesim.tools.live.llama_server.verify.remote import Remote

    rounding = DEFAULT_FLAGS if tolerance is None else tolerance
    with Remote(url, rounding, timeout) as remote:
        if not options.profiles and not remote.build:
            raise BadInput("the server does not report its build", hint="select a rule set with -p", file=url)
        profile = options.profiles[0] if options.profiles else _of_build(remote.build)
        scenario = _scenario(text, options, profile, None)
        complain(f"{url}: the scenario is run, then every prompt without cached tokens, which clears a slot")
        given = parse_settings(options.settings, scenario.engine)
        return on_url(scenario, profile, remote, options.model or "", given), scenario


def _of_build(build: str) -> str:
    """Return the rule set of the build that a server reports."""
    from cachesim.scenarios.option_checks import DEFAULT_ENGINE

    return profile_name(f"{DEFAULT_ENGINE}@{build}")


def _scenario(text: str, options: CaseOptions, profile: str, gguf: Path | None) -> Scenario:
    """Return the scenario of a file, an id or a line, which must have the engine of the profile. ``gguf``: model file
    that tells the layers of a line, None = the default layers. Raise BadInput."""
    from cachesim.scenarios.corpus import is_file
    from cachesim.tools.live.llama_server.verify.model_of import from_file
    from cachesim.tools.run.arguments import read_case

    if is_file(text):
        found = read_case(text, CaseOptions(settings=options.settings))
    else:
        layers = options.model or (from_file(gguf).layers if gguf is not None else None)
        found = read_case(text, CaseOptions(model=layers, profiles=[profile], settings=options.settings))
    if found.engine != profile.partition("@")[0]:
        raise BadInput(f"a scenario of {found.engine} cannot be compared with {profile}", file=found.file)
    return found
