"""``cachesim merge FOLDER...``: what did the parts of a campaign find, all together?"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any, Sequence

from cachesim.commands import exits
from cachesim.commands.common import add_json
from cachesim.reading import path_of
from cachesim.reports.console import complain, say_json, show

if TYPE_CHECKING:
    from cachesim.fuzz.merge import Merged


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("folders", metavar="FOLDER", nargs="+", help="what `fuzz --out` has written")
    parser.add_argument("--out", metavar="FOLDER", help="write the whole campaign here, as if it had been one; "
                        "`fuzz --out FOLDER --resume` goes on with it")  # fmt: skip
    add_json(parser)


def run(args: Namespace) -> int:
    from cachesim.fuzz.merge import campaigns_in, merged

    out = path_of(args.out) if args.out is not None else None
    sources = campaigns_in(path_of(folder) for folder in args.folders)
    every = merged(sources)
    if out is not None and out.is_dir() and any(out.glob("campaign-*.json")):     # what is there is a part too
        every = merged([*sources, *(one for one in campaigns_in([out]) if one.file not in {s.file for s in sources})])
    codes = [exits.HOLDS]
    for one in every:
        codes += [exits.of_finding(name) for name, *_ in one.campaign.failures]
        if out is not None:
            codes += _write(one, out)
    _tell([_data(one) for one in every], args.json)
    return exits.worst(codes)


def _write(one: Merged, out: Any) -> list[int]:
    """Write a campaign into the folder; the exit codes of what could not be written. Raises BadInput."""
    from cachesim.fuzz.folder import Folder

    folder = Folder(out, one.plan)
    with folder.held():
        folder.begin(resume=True)
        for _ in folder.keep(one.campaign):
            pass
    if folder.refused is None:
        return []
    complain(str(folder.refused))
    return [exits.BAD_INPUT]


def _data(one: Merged) -> dict[str, Any]:
    from cachesim.fuzz.findings_export import campaign_data

    plan, campaign = one.plan, one.campaign
    return {
        **campaign_data(campaign, plan.properties, plan.seed, plan.models, plan.against),
        "files": [str(file) for file in one.files], "left_out": [str(file) for file in one.left_out],
        "done": [list(span) for span in campaign.done],
    }  # fmt: skip


def _tell(every: Sequence[dict[str, Any]], as_json: bool) -> None:
    from cachesim.reports.fuzz_report import merge_report

    if as_json:
        say_json({"campaigns": list(every)})
        return
    for one in every:
        show(merge_report(one))
