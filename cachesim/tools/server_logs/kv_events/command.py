"""``cachesim import EVENTS [BODIES...]``: KV events of a server, with the requests whose prompts have the blocks."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Sequence

from cachesim.base import exits
from cachesim.base.console import say_json, show
from cachesim.base.errors import BadInput
from cachesim.base.progress_bar import LateBar
from cachesim.tools.request_bodies.body_files import read_bodies
from cachesim.tools.request_bodies.prompt_tokens import PromptTokens
from cachesim.tools.server_logs.kv_events.block_history import BlockHistory
from cachesim.tools.server_logs.kv_events.events_report import events_data, events_report
from cachesim.tools.server_logs.kv_events.message_reader import read_messages
from cachesim.tools.server_logs.kv_events.prompt_blocks import PromptBlocks

SCHEMA = 1


def run_events(args: Namespace) -> int:
    """Import a file of KV events; the other files are the requests of its server, in order. Return the exit code: 3 if
    messages are missing, or may be."""
    if args.out or args.html or args.svg or args.trace:
        raise BadInput("KV events make no scenario: -o and pictures need a log or request bodies")
    file, *others = args.files
    with LateBar("reading"):
        with PromptTokens(args.tokenizer, args.template, args.profiles[0] if args.profiles else "") as reader:
            prompts = PromptBlocks(_prompts([Path(name) for name in others], reader))
        history = BlockHistory(prompts.of_event)
        for message in read_messages(Path(file)):
            history.read(message)
    data = {**events_data(history, file), "bodies": len(prompts.prompts), "bodies_joined": prompts.joined}
    if args.json:
        say_json({"schema": SCHEMA, "events": data})
    else:
        show(*events_report(data, everything=bool(args.verbose)))
    return exits.UNDECIDED if data["undecided"] else exits.HOLDS


def _prompts(paths: Sequence[Path], reader: PromptTokens) -> dict[int, list[int]]:
    """Return the token ids of the prompts of request bodies, by the number of the body. Raise BadInput for files
    without a known prompt."""
    if not paths:
        return {}
    bodies, _ = read_bodies(paths)
    prompts = [prompt for found in bodies for prompt in reader.of_body(found)]
    known = {number: prompt for number, prompt in enumerate(prompts) if prompt is not None}
    if not known:
        raise BadInput("no request has a prompt of token ids, by which events are joined", file=str(paths[0]),
                       hint="--tokenizer, and --template for chats, make tokens of texts")  # fmt: skip
    return known
