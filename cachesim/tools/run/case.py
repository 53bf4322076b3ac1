"""What is FILE|ID|LINE on a command line? One reading for every command that takes one case, and with how much
arithmetic it is run."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Sequence

from cachesim.base.console import note
from cachesim.tools.run.arguments import add_settings, load_one, scenario_of_line, with_settings

if TYPE_CHECKING:
    from cachesim.scenarios.schema import Scenario

MODEL = "GGGA"
LONG = 2_000           # tokens of all prompts of a case, above which it is run without arithmetic unless told


def add_case(parser: ArgumentParser) -> None:
    """The case (``args.case``), ``--model`` and ``--set``."""
    parser.add_argument("case", metavar="FILE|ID|LINE",
                        help="scenario file or its id, or requests in one line such as S40.A60/B80/S.C50")  # fmt: skip
    add_model(parser)
    add_settings(parser)


def add_model(parser: ArgumentParser) -> None:
    """``--model``, None where it is left out."""
    parser.add_argument("--model", metavar="MODEL",
                        help=f"layers such as GGGA, or a name (default: the file's, {MODEL} for a line)")  # fmt: skip


def case_of(args: Namespace) -> Scenario:
    """The scenario that the arguments of ``add_case`` name. Raises BadInput."""
    return read_case(args.case, args.model, args.profiles, args.settings)


def read_case(what: str, model: str | None, profiles: list[str], settings: list[str]) -> Scenario:
    """The scenario of a file or an id, with another model or other options if those are given; or of requests in one
    line. Raises BadInput."""
    from cachesim.scenarios.corpus import is_file

    if not is_file(what):
        return scenario_of_line(what, model or MODEL, profiles, settings)
    scenario = with_settings(load_one(what), settings)
    return with_model(scenario, model) if model else scenario


def with_model(scenario: Scenario, model: str) -> Scenario:
    """The same scenario with another model, and without expectations, which hold for its own. Raises BadInput."""
    from dataclasses import replace

    from cachesim.scenarios.option_checks import model_named

    named = model_named(model, scenario.engine)
    if named.note:
        note(named.note)
    return replace(scenario, model=named.model, model_note=named.note, expect={}, lives=())


def add_arithmetic(
    parser: ArgumentParser, provenance: str = "follow tokens only, without arithmetic (faster)",
    exact: str = f"compute numbers too, however long (default up to {LONG:,} tokens)",
) -> None:
    """``--provenance`` and ``--exact``, with what help says of them."""
    both = parser.add_mutually_exclusive_group()
    both.add_argument("--provenance", action="store_true", help=provenance)
    both.add_argument("--exact", action="store_true", help=exact)


def modes(args: Namespace, scenarios: Sequence[Scenario]) -> list[str]:
    """How each scenario is run: "provenance" or "exact", as asked, else by the length of its prompts. What is chosen
    because of that is told in a line on stderr."""
    if args.exact or args.provenance:
        return ["exact" if args.exact else "provenance"] * len(scenarios)
    sizes = [sum(len(step.request.prompt) for step in one.steps) for one in scenarios]
    long = [size for size in sizes if size > LONG]
    if long:
        what = f"{max(long):,} tokens of prompts" if len(sizes) == 1 else f"{len(long)} cases have long prompts"
        note(f"{what}, more than {LONG:,}: provenance only, without arithmetic (--exact computes numbers too)")
    return ["provenance" if size > LONG else "exact" for size in sizes]
