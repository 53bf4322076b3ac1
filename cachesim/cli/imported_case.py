"""Conversation of a log or of request bodies, for a command about a single case."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cachesim.base.untrusted_files import STDIN, argument_path, kind

if TYPE_CHECKING:
    from cachesim.tools.advise.saved_tokens import RepairCase
    from cachesim.tools.run.arguments import CaseOptions


def imported_case(case: str, options: CaseOptions) -> RepairCase | None:
    """Return the conversation in the file ``case``, None if the argument names a scenario. Raise BadInput for a
    log without a request that can be simulated."""
    path = argument_path(case)
    if path is not STDIN and (path.suffix == ".toml" or not kind(path) or any(path.glob("*.toml"))):
        return None
    from cachesim.tools.request_bodies.body_files import are_bodies
    from cachesim.tools.request_bodies.command import bodies_case
    from cachesim.tools.server_logs.command import log_case

    if path is not STDIN and are_bodies([case]):
        return bodies_case(path, options)
    return log_case(path, options)
