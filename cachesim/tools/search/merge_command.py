"""``cachesim merge FOLDER...``: merges the parts of a campaign or of a workload."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Sequence

from cachesim.base import exits
from cachesim.base.console import complain, say_json, show
from cachesim.base.errors import BadInput
from cachesim.base.untrusted_files import FOLDER, kind, path_of, real_path
from cachesim.tools.run.arguments import add_json
from cachesim.tools.workload.command import code_of

if TYPE_CHECKING:
    from cachesim.tools.search.merge import MergedCampaign
    from cachesim.tools.workload import result_store


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("folders", metavar="FOLDER", nargs="+",
                        help="output folder of `fuzz --out` or `workload --out`")  # fmt: skip
    parser.add_argument("--out", metavar="FOLDER", help="folder for the merged result; `fuzz` or `workload` with "
                        "`--out FOLDER --resume` continues it")  # fmt: skip
    add_json(parser)


def run(args: Namespace) -> int:
    from cachesim.tools.search.merge import campaigns_in, merged
    from cachesim.tools.search.property_failure import exit_code
    from cachesim.tools.workload.result_store import files_of
    from cachesim.tools.workload.result_store import merged as lines_merged

    out = path_of(args.out) if args.out is not None else None
    folders = [_folder(name) for name in args.folders]
    if out is not None and kind(out) == FOLDER and real_path(out) not in map(real_path, folders):
        folders += [out] if _has_campaigns(out) or files_of(out) else []                # its content is merged, too
    workloads = lines_merged(file for folder in folders for file in files_of(folder))
    campaigns = merged(campaigns_in(one for one in folders if _has_campaigns(one) or not files_of(one)))
    codes = [exit_code(name) for one in campaigns for name, *_ in one.campaign.failures]
    if out is not None:
        codes += [code for one in campaigns for code in _write(one, out)]
    told = [_workload_data(one, out) for one in workloads]
    codes += [code_of(total) for one in told for total in one["totals"]]
    _tell([_data(one) for one in campaigns], told, args.json)
    return exits.worst(codes)


def _folder(name: str) -> Path:
    """Return the path of a folder. Raise BadInput if it is not a folder."""
    path = path_of(name)
    if kind(path) != FOLDER:
        raise BadInput("not a folder", file=str(path))
    return path


def _has_campaigns(folder: Path) -> bool:
    return any(folder.glob("campaign-*.json"))


def _write(merged: MergedCampaign, out: Any) -> list[int]:
    """Write a campaign into the folder. Return the exit codes of write errors. Raise BadInput for a bad folder."""
    from cachesim.tools.search.campaign_folder import CampaignFolder

    folder = CampaignFolder(out, merged.plan)
    with folder.held():
        folder.begin(resume=True)
        for _ in folder.keep(merged.campaign):
            pass
    if folder.refused is None:
        return []
    complain(str(folder.refused))
    return [exits.BAD_INPUT]


def _data(merged: MergedCampaign) -> dict[str, Any]:
    from cachesim.tools.search.campaign_folder import campaign_data

    plan, campaign = merged.plan, merged.campaign
    return {
        **campaign_data(campaign, plan),
        "files": [str(file) for file in merged.files], "left_out": [str(file) for file in merged.left_out],
        "done": [list(span) for span in campaign.done],
    }  # fmt: skip


def _workload_data(workload: result_store.MergedWorkload, out: Path | None) -> dict[str, Any]:
    """Return a workload as data. Write it first if ``out`` is given. Raise BadInput if it cannot be written."""
    from cachesim.tools.workload.cell_jobs import totals_of
    from cachesim.tools.workload.report import workload_data
    from cachesim.tools.workload.result_store import write_merged

    if out is not None:
        write_merged(workload, out)
    found = workload_data(workload.in_order, totals_of(workload.in_order))
    return {"jobs": len(workload.jobs), "files": [str(file) for file in workload.files], **found}


def _tell(campaigns: Sequence[dict[str, Any]], workloads: Sequence[dict[str, Any]], as_json: bool) -> None:
    from cachesim.tools.search.campaign_folder import with_failures
    from cachesim.tools.search.report import merge_report
    from cachesim.tools.workload.report import merged_report

    if as_json:
        say_json({"campaigns": list(campaigns), "workloads": list(workloads)})
        return
    for one in campaigns:
        show(merge_report(with_failures(one)))
    for one in workloads:
        show(*merged_report(one))
