"""Parts of a campaign for each kind of server: options to draw, models to write, and a recorder."""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, NamedTuple

from cachesim.tools.live.llama_server import gguf_models
from cachesim.tools.live.llama_server.recorder import Recorder, ServerStart
from cachesim.tools.live.llama_server.verify.model_of import RECORDED_NEWEST, base_flags
from tests.live import adapter_worlds, image_worlds, newest_worlds, worlds
from tests.live.ik import models as ik_models
from tests.live.ik import worlds as ik_worlds
from tests.live.ik.recorder import Recorder as IkRecorder
from tests.live.ik.server import BASE as IK_BASE

ROUNDING, AMPLIFIED = 5e-5, 5e-3
"""1.2e-5 was the largest difference of clean answers; random weights of gemma3 amplify another summation order:
1.6e-3."""
ADAPTED = 2e-4
"""4.5e-5 was the largest difference of clean answers with adapters, 6e-4 with gemma3."""
IK_ROUNDING = {False: 5e-5, True: 1e-2}
"""ik_llama.cpp has F16 K/V: with several slots the place of a cell changes log-probabilities by up to 4.2e-3; with
flash attention by up to 0.022."""
IK_FLASH = 3                # factor with flash attention


class Kit(NamedTuple):
    """``name``: part of the name of the state file, "" or with a trailing dash; ``option_set`` draws startup options
    from two integers; ``recorder`` starts (binary, folder of models, build, flags, model)."""

    name: str
    option_set: Callable[[int, int], worlds.OptionSet]
    write_models: Callable[[Any], None]
    recorder: Callable[..., Any]


def _llama_cpp(server, models, commit, flags, model):
    found = gguf_models.find_model(model)
    rounding = AMPLIFIED if found.arch == "gemma3" else ROUNDING
    return Recorder(ServerStart(server, models / found.file, tuple(flags), commit), rounding=rounding)


def _ik_llama(slots, server, models, commit, flags, model):
    found = ik_models.find_model(model)
    start = ServerStart(server, models / "ik" / found.file, ik_worlds.drafting(flags), commit, IK_BASE)
    return IkRecorder(start, rounding_of(flags, slots == ik_worlds.MANY))


def rounding_of(flags, several):
    """Return the largest rounding difference; 0 with a single slot, whose cells have the places of a cold run."""
    flash = several and "on" in flags[flags.index("-fa") :][:2]
    return IK_ROUNDING[several] * (IK_FLASH if flash else 1)


def _ik_kit(slots):
    return Kit(f"{slots}-", partial(ik_worlds.option_set, slots=slots),
               lambda folder: ik_models.write_models(folder / "ik", ik_worlds.MODELS),
               partial(_ik_llama, slots))  # fmt: skip


def _with_adapters(server, models, commit, flags, model):
    recorder = _llama_cpp(server, models, commit, flags, model)
    recorder.rounding = max(recorder.rounding, ADAPTED)
    return recorder


def _with_images(server, models, commit, flags, model):
    kind = image_worlds.projector_of(model, "")
    return _llama_cpp(server, models, commit, [word.replace("-qwen2vl.", f"-{kind}.") for word in flags], model)


def _newest(server, models, commit, flags, model):
    start = ServerStart(server, newest_worlds.file_of(model, models), tuple(flags), commit, base_flags(model))
    return Recorder(start, rounding=RECORDED_NEWEST[model])


KITS = {
    "llama_cpp": Kit("", worlds.option_set, worlds.write_models, _llama_cpp),
    "llama_cpp-adapters": Kit("adapters-", adapter_worlds.option_set, worlds.write_models, _with_adapters),
    "llama_cpp-images": Kit("images-", image_worlds.option_set, image_worlds.write_models, _with_images),
    "llama_cpp-newest": Kit("newest-", newest_worlds.option_set, newest_worlds.require_models, _newest),
    "ik_llama": _ik_kit(ik_worlds.FEW),
    "ik_llama_slots": _ik_kit(ik_worlds.MANY),
}
