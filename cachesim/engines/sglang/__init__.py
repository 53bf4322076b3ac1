"""SGLang's server: a radix tree over full attention, windows and recurrent states."""

from __future__ import annotations

from typing import Mapping

from cachesim.base.errors import BadInput, quoted
from cachesim.engines.capabilities import Option
from cachesim.engines.contract import Engine, RecordingFormat
from cachesim.engines.sglang.flags import options
from cachesim.engines.sglang.manual import MANUAL
from cachesim.engines.sglang.profiles import BESIDE, LINE, PROFILES, RENAMED
from cachesim.engines.sglang.profiles.rule_table import Rules
from cachesim.engines.sglang.recordings import CLASSES
from cachesim.engines.sglang.server import Server
from cachesim.engines.shared.late_imports import log_of, say_of
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.engines.shared.size_formulas import split_sizes
from cachesim.events import Log
from cachesim.model import make_model, parse


def serve(rules: RuleSet, model: str, flags: Mapping[str, Option], mode: str, log: Log) -> Server:
    """Start a server of this version and model. ``mode``: "none", "provenance" or "exact". Raises BadInput."""
    if not isinstance(rules, Rules):
        raise BadInput(f"{quoted(rules.name)} is not a rule set of this engine")
    spec = parse(split_sizes(model)[0])
    if not any(layer.part == "base" for layer in spec.layers) and any(layer.window for layer in spec.layers):
        raise BadInput(f"model {quoted(model)} has windows only, which are not modelled for this engine")
    tiny = None if mode == "none" else make_model(spec, exact=mode == "exact")
    return Server(rules, spec, options({**rules.defaults, **flags}), tiny, log)


ENGINE = Engine("sglang", PROFILES, MANUAL, serve, say_of(__name__),
                RecordingFormat("sglang", {"0.5.23": "sglang@0.5.23-recorded"}, classes=CLASSES), LINE, BESIDE,
                newest="sglang@0.5.23", renamed=RENAMED, keeps="state", log=log_of(__name__))  # fmt: skip
