"""Pages for the browser tests: output of commands, of every kind and size."""

from __future__ import annotations

import os
import shlex
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

from cachesim.cli.main import main
from cachesim.tools.picture import page as page_module
from cachesim.tools.picture.event_stream import CaptionedWalk
from tests.shared import ROOT

LONG = "/".join(["S90000.A9000>r40", *["B7000", "S.A.r.C50"] * 4])
MANY = "/".join(["S40.A60>r4", *["B70", "S.A"] * 499])
LINES = {
    "walk_llama": ("S40.A60>r4/B70/S.C25/S.A.D5", "llama_cpp@b11549", "W8 G A"),
    "walk_ik": ("S40.A20/S.A>3/B9@0/S.A.C5", "ik_llama@1889-base", "GA"),
    "walk_mlx": ("S40.A60>r4/B70>q2{together}/S.A", "mlx_lm@0.32.2", "GA"),
}
"""Name -> line, profile and model of a run that is compared with runs stopped at each event."""
PAGES = {
    "one": "run llama-24143-entry-removed-hybrid -p llama_cpp@b10587",
    "two": "run ik-1889-injected-refusal-hybrid",
    "equal": "run ik-1889-no-refusal-hybrid",
    "wrong": "why llama-one-token-checkpoint-hybrid 2",
    "diff": "diff llama-24143-entry-removed-dense -p llama_cpp@b10587 -p llama_cpp@pr24143-on-b10587",
    "advise": "advise llama-24143-entry-removed-dense -p llama_cpp@b10587",
    "recording": "replay tests/data/llama_cpp/mamba2-bug-stale-ckpt-pos0.json",
    "import": "import tests/unit/tools/server_logs/verbosity_4.log",
    "bodies": "import tests/unit/tools/request_bodies/agent.jsonl",
    "fuzz": "fuzz -p ik_llama@1889-base --model GA --property warm-equals-cold --examples 20",
    "window": "run S40.A60>r4/B70/S.C25/S.A.D5 --model 'W8 A'",
    "long": f"run {LONG} --limit judged=99999999",
    "many": f"run {MANY}",
    **{name: f"run {line} -p {profile} --model '{model}'" for name, (line, profile, model) in LINES.items()},
}
"""Name -> command line. ``long`` has 100,000 tokens in a request, ``many`` 999 requests. The rule sets of
``two`` differ in their results, those of ``equal`` do not and are one run."""


EVERY = {**PAGES, "lessons": "lesson"}
"""The same, and the page of all lessons."""


class Pages(dict[str, Path]):
    """Files of the pages in a folder, by name. A page is written when it is first used. ``told``: the event log in
    sentences of each run of a page, as the command gives it to the page."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.told = dict[str, list[CaptionedWalk]]()

    def __missing__(self, name: str) -> Path:
        os.chdir(ROOT)
        self[name] = self.folder / f"{name}.html"
        record = patch.object(page_module, "page", wraps=page_module.page)
        with open(os.devnull, "w") as nothing, redirect_stdout(nothing), redirect_stderr(nothing), record as made:
            main([*shlex.split(EVERY[name]), "--html", str(self[name])])
        assert self[name].exists(), EVERY[name]
        self.told[name] = [*made.call_args.args[2]] if made.called else []
        return self[name]
