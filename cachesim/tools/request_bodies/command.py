"""``cachesim import`` of request bodies: report the changes between the prompts of a client, and their causes."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Sequence

from cachesim.base import exits
from cachesim.base.errors import BadInput
from cachesim.base.escaping import shell_command
from cachesim.base.progress_bar import LateBar
from cachesim.base.untrusted_files import kind
from cachesim.tools.picture.picture_options import PictureOptions, picture_files
from cachesim.tools.run.pictured_runs import draw_text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cachesim.tools.advise.proposals import ProposedChange
    from cachesim.tools.advise.saved_tokens import RepairCase
    from cachesim.tools.request_bodies.import_bodies import ImportedBodies
    from cachesim.tools.run.arguments import CaseOptions

MODEL, OTHER_MODEL = "GGGA", "AAAA"
"""Models of a simulation if none is named: the assumed model, and the one that it is compared with."""
READING = "comparing requests"           # of the progress bar
SCHEMA = 6                   # version of the JSON form of `import`


def add_body_arguments(parser: ArgumentParser) -> None:
    """Add the options that apply to request bodies only."""
    parser.add_argument("--tokenizer", metavar="FILE", default="",
                        help="tokenizer for request bodies: tokenizer.json or GGUF (default: 4 bytes per token)")
    parser.add_argument("--template", metavar="FILE", default="",
                        help="chat template for request bodies: Jinja, tokenizer_config.json or GGUF (default: ChatML)")
    parser.add_argument("--with-text", action="store_true",
                        help="texts in the scenario file: differences of request bodies, prompt beginnings of a log")


def run_bodies(args: Namespace) -> int:
    """Import the files of ``args`` as the requests of a single client, in order."""
    from cachesim.base.console import say_json, show
    from cachesim.base.files import write_whole
    from cachesim.scenarios.schema import DEFAULT_PROFILE
    from cachesim.tools.request_bodies.import_bodies import ImportOptions, import_bodies
    from cachesim.tools.request_bodies.report import bodies_report, first_line
    from cachesim.tools.run.arguments import case_arguments, case_options

    if args.out and not args.force and kind(args.out):
        raise BadInput("the file exists", file=args.out, hint="--force overwrites it")
    pictures = picture_files(args)
    rule_sets = list(dict.fromkeys(args.profiles)) or [DEFAULT_PROFILE]
    options = ImportOptions(
        tokenizer=args.tokenizer,
        template=args.template,
        profile=rule_sets[0],
        model=args.model or MODEL,
        server=_server_options(rule_sets, args.settings),
        with_text=args.with_text,
        name=Path(args.out).stem,
        is_cured=not args.quiet,
        other_model="" if args.model else OTHER_MODEL,
    )
    with LateBar(READING):
        data, text = import_bodies([Path(name) for name in args.files], options)
    if not text and (args.out or pictures.are_wanted()):
        raise BadInput(f"no request can be simulated: {data['simulation']['limit']}")
    data["simulation"]["unnamed"] = [*["profile"] * (not args.profiles), *["model"] * (not args.model)]
    with LateBar("trying other clients and flags"):
        data["saved"] = None if args.quiet or not text else _other_changes(data, text)
    data["compared"] = []
    tables: list[RenderableType] = []
    if text and len(rule_sets) > 1:
        from cachesim.tools.request_bodies.compared_rule_sets import compared_data, compared_runs
        from cachesim.tools.run.engines_table import reuse_table

        runs = compared_runs(text, rule_sets, args.settings)
        data["compared"] = compared_data(runs)
        tables = [reuse_table(runs, is_estimated=not args.tokenizer)] if runs else []
    data["arguments"] = [
        *case_arguments(case_options(args), args.limits), *_body_arguments(args.tokenizer, args.template)
    ]
    if args.out:
        write_whole(Path(args.out), text.encode("utf-8", "replace"))
    if args.json:
        say_json({"schema": SCHEMA, "logs": [], "bodies": {**data, "toml": text}})
    else:
        show(bodies_report(data, args.out, bool(args.verbose), tables))
    if pictures.are_wanted():
        short, verbose = (bodies_report(data, args.out, everything) for everything in (False, True))
        command, note = shell_command(["cachesim", "import", *args.files, *data["arguments"]]), first_line(data).plain
        shown = PictureOptions(command, note, names=["simulated"], report=short, verbose=verbose)
        draw_text(pictures, text, shown)
    if args.plot:
        from cachesim.tools.picture.plot_file import write_plots
        from cachesim.tools.request_bodies.growth_plot import growth_plots

        write_plots(args.plot, growth_plots(data), bodies_report(data, args.out, False, tables))
    return exits.HOLDS


def _other_changes(data: dict[str, Any], text: str) -> dict[str, Any] | None:
    """Return the change of the client or of flags that saves most, as far as the work after that of the cure allows
    a search."""
    from cachesim.tools.request_bodies.cure_saving import ALL_RUNS, work_of_cure

    spent = work_of_cure(data)
    if spent > ALL_RUNS // 2 or data["simulation"]["not_played"]:
        return {"too_slow": True}
    from cachesim.tools.advise.saved_tokens import saved_tokens

    return saved_tokens(repair_case(data, text), spent)


def _server_options(rule_sets: Sequence[str], settings: Sequence[str]) -> dict[str, Any]:
    """Return the server options of the first rule set, from ``settings`` key=value. Raise BadInput for an unknown rule
    set or option."""
    from cachesim.scenarios.engine_cases import profiles_by_engine, settings_of
    from cachesim.scenarios.option_checks import check_profile, parse_settings
    from cachesim.tools.run.arguments import known_profiles

    for each in rule_sets:
        check_profile(each, each.partition("@")[0], known_profiles())
    engines = list(profiles_by_engine(rule_sets))
    return parse_settings(settings_of(engines[0], settings, engines), engines[0])


def _body_arguments(tokenizer: str, template: str) -> list[str]:
    """Return the arguments for request bodies that change the prompts, which only ``import`` has."""
    given = {"--tokenizer": tokenizer, "--template": template}
    return [word for name, value in given.items() if value for word in (name, value)]


def repair_case(data: dict[str, Any], text: str) -> RepairCase:
    """Return the conversation of request bodies for a search of repairs, from their report and scenario file. A text
    that changes each time cannot be sent unchanged, and an edited history cannot be put last."""
    from cachesim.engines.registry import profiles
    from cachesim.scenarios.load import load_text
    from cachesim.tools.advise.saved_tokens import RepairCase
    from cachesim.tools.request_bodies.changed_messages import OTHER_PLACE
    from cachesim.tools.request_bodies.changed_text import BILLING, COUNTER, DATE, ID, LISTING
    from cachesim.tools.request_bodies.changed_tools import KEYS, ORDER
    from cachesim.tools.request_bodies.prompt_causes import CHANGED

    found = {cause["cause"] for cause in data["causes"] if not cause["harmless"]}
    changing = found & {BILLING, COUNTER, DATE, ID, LISTING, CHANGED}
    orders = {ORDER, KEYS, OTHER_PLACE}
    excluded = {"unchanged history"} if changing == found else {"changing part last"} if not changing else set[str]()
    if not found & orders:
        excluded = excluded | {"constant order"}
    return RepairCase(load_text(text, profiles().keys()), excluded=excluded)


def bodies_case(path: Path, options: CaseOptions) -> RepairCase:
    """Return the conversation of request bodies for ``cachesim advise``. Raise BadInput without a request to
    simulate."""
    from cachesim.scenarios.engine_cases import profiles_by_engine, settings_of
    from cachesim.scenarios.option_checks import parse_settings
    from cachesim.scenarios.schema import DEFAULT_PROFILE
    from cachesim.tools.request_bodies.import_bodies import ImportOptions, imported_bodies

    profiles = options.profiles or [DEFAULT_PROFILE]
    engines = list(profiles_by_engine(profiles))
    server = parse_settings(settings_of(engines[0], options.settings, engines), engines[0])
    imports = ImportOptions(profile=profiles[0], model=options.model or MODEL, server=server, is_cured=True)
    with LateBar(READING):
        imported = imported_bodies([path], imports)
    if not imported.toml:
        raise BadInput(f"no request can be simulated: {imported.data['simulation']['limit']}", file=str(path))
    case = repair_case(imported.data, imported.toml)
    return case._replace(proposed=_proposed(imported))


def _proposed(imported: ImportedBodies) -> tuple[ProposedChange, ...]:
    """Return the cure of the costliest cause as a change that ``cachesim advise`` simulates."""
    from cachesim.tools.advise.client_changes import ClientChange
    from cachesim.tools.advise.proposals import ProposedChange
    from cachesim.tools.request_bodies.prompt_causes import CAUSES
    from cachesim.tools.request_bodies.report import cause_text

    cure, cured = imported.data["cure"], imported.cured
    if cure is None:
        return ()
    text = f"{cause_text(imported.data)}: {cure['advice']}"
    if cured is None:
        return (ProposedChange(cure["cause"], text, why="too many requests"),)
    short = f"{CAUSES[cure['cause']].says}: {cure['advice']}"
    change = ClientChange(f"cure {cure['cause']}", short, lambda _: cured.line)
    return (ProposedChange(cure["cause"], text, client=change),)
