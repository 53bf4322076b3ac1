"""vLLM's v1 engine: scheduler, block pool with hashed blocks, groups of layers; rules by version."""

from __future__ import annotations

from typing import Mapping

from cachesim.base.errors import BadInput, quoted
from cachesim.engines.capabilities import Option
from cachesim.engines.contract import Engine, RecordingFormat
from cachesim.engines.shared.late_imports import log_of, say_of
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.engines.shared.size_formulas import split_sizes
from cachesim.engines.vllm.flags import options
from cachesim.engines.vllm.manual import MANUAL
from cachesim.engines.vllm.profiles import BESIDE, LINE, PROFILES, RENAMED, TIMELINE, Rules
from cachesim.engines.vllm.recordings import CLASSES
from cachesim.engines.vllm.server import Server
from cachesim.events import Log
from cachesim.model import make_model, parse


def serve(rules: RuleSet, model: str, flags: Mapping[str, Option], mode: str, log: Log) -> Server:
    """Start a server of this version and model. ``mode``: "none", "provenance" or "exact". Raises BadInput."""
    if not isinstance(rules, Rules):
        raise BadInput(f"{quoted(rules.name)} is not a rule set of this engine")
    spec = parse(split_sizes(model)[0])
    tiny = None if mode == "none" else make_model(spec, exact=mode == "exact")
    return Server(rules, spec, options({**rules.defaults, **flags}), tiny, log)


ENGINE = Engine(
    "vllm", PROFILES, MANUAL, serve, say_of(__name__), RecordingFormat("vllm", classes=CLASSES), LINE, beside=BESIDE,
    newest="vllm@0.33.0", renamed=RENAMED,
    when=TIMELINE, keeps="restore point", log=log_of(__name__),
)  # fmt: skip
