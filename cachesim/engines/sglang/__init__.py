"""SGLang's server: a radix tree over full attention, windows and recurrent states."""

from __future__ import annotations

from cachesim.engines.contract import Engine, RecordingFormat
from cachesim.engines.sglang.flags import options
from cachesim.engines.sglang.manual import MANUAL
from cachesim.engines.sglang.profiles import BESIDE, LINE, PROFILES, RENAMED
from cachesim.engines.sglang.profiles.rule_table import Rules
from cachesim.engines.sglang.recordings import CLASSES
from cachesim.engines.sglang.server import Server
from cachesim.engines.shared.late_imports import log_of, memory_of, say_of
from cachesim.engines.shared.request_queue import serve_of
from cachesim.model import Spec


def unfit(spec: Spec) -> str:
    """Return why a model is not modelled, "" = it is."""
    windows = {bool(layer.window) for layer in spec.layers if layer.part}
    return "has windows only, which are not modelled for this engine" if windows == {True} else ""


ENGINE = Engine(
    "sglang", PROFILES, MANUAL, serve=serve_of(Rules, options, Server, unfit), say=say_of(__name__),
    recorded=RecordingFormat("sglang", {"0.5.23": "sglang@0.5.23-recorded"}, classes=CLASSES), line=LINE, beside=BESIDE,
    newest="sglang@0.5.23", renamed=RENAMED, keeps="state", log=log_of(__name__), memory=memory_of(__name__),
    words=r"\bradix\b|#cached-token|\bhicache\b|token_to_kv_pool",
)  # fmt: skip
