"""Which server options, models and profiles may a scenario name? One check for files and command lines."""

from __future__ import annotations

import re
from typing import AbstractSet, Mapping

from cachesim import limits
from cachesim.engines.chat import TEMPLATES
from cachesim.engines.registry import latest
from cachesim.errors import BadInput, nearest, quoted
from cachesim.model.spec import parse
from cachesim.scenarios.schema import (
    ARCHITECTURES,
    ENGINES,
    LOWEST,
    MODELS_OF,
    OPEN,
    OPTIONS_OF,
    POOLINGS,
    SPEC_TYPES_OF,
    Option,
)

HIGHEST = 2**31 - 1                        # the server keeps these options in 32-bit integers


def filled(given: Mapping[str, Option], engine: str = "llama_cpp") -> dict[str, Option]:
    """All options of an engine: those given, the defaults for the rest. Raises BadInput for an unknown engine."""
    check_engine(engine)
    return {**OPTIONS_OF[engine], **given}


def check_option(name: str, value: object, engine: str = "llama_cpp") -> Option:
    """The value if the engine's server option ``name`` accepts it. Raises BadInput otherwise."""
    check_engine(engine)
    known = OPTIONS_OF[engine]
    if name not in known:
        raise BadInput(f"unknown server option {quoted(name)}", hint=nearest(name, known))
    default = known[name]
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise BadInput(f"{name} must be true or false, not {quoted(value)}")
        return value
    if isinstance(default, float):
        return _share(name, value)
    if isinstance(default, str):
        return _text(name, value, engine)
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadInput(f"{name} must be an integer, not {quoted(value)}")
    low = LOWEST.get(name, 0)
    if value == OPEN.get(name):
        return value
    if not low <= value <= HIGHEST:
        raise BadInput(f"{name} is {quoted(value)}, it must lie between {low} and {HIGHEST}")
    if name == "parallel" and engine == "ik_llama":
        limits.SLOTS.check(value, name)
    return value


def _share(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadInput(f"{name} must be a number, not {quoted(value)}")
    if not 0 <= value <= 1:                # also refuses nan
        raise BadInput(f"{name} is {quoted(value)}, it must lie between 0 and 1")
    return float(value)


def _text(name: str, value: object, engine: str) -> str:
    """The kind of drafts, or the draft model ("" = none)."""
    spec_types = SPEC_TYPES_OF.get(engine, ())
    if not isinstance(value, str):
        raise BadInput(f"{name} must be a string, not {quoted(value)}")
    if name == "spec_type" and value not in spec_types:
        raise BadInput(f"unknown spec_type {quoted(value)}", hint=nearest(value, spec_types) or ", ".join(spec_types))
    if name in ("model_draft", "draft_model") and value:
        check_model(value, engine)
    if name == "pooling" and value not in POOLINGS:
        raise BadInput(f"unknown pooling {quoted(value)}", hint=nearest(value, POOLINGS) or ", ".join(POOLINGS))
    if name == "template" and value not in TEMPLATES:
        raise BadInput(f"unknown template {quoted(value)}", hint=nearest(value, TEMPLATES) or ", ".join(TEMPLATES))
    return value


def parse_settings(pairs: list[str], engine: str = "llama_cpp") -> dict[str, Option]:
    """The options of ``--set key=value`` arguments for a server of this engine. Raises BadInput."""
    given: dict[str, Option] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise BadInput(f"--set {quoted(pair)} is not of the form key=value")
        name = name.strip().replace("-", "_")
        given[name] = check_option(name, _literal(text.strip()), engine)
    return given


def _literal(text: str) -> object:
    if text in ("true", "false"):
        return text == "true"
    for kind, form in ((int, r"-?[0-9]{1,18}"), (float, r"-?[0-9]*\.?[0-9]+")):
        if re.fullmatch(form, text):
            return kind(text)
    return text


def check_model(model: str, engine: str = "llama_cpp") -> None:
    """Raise BadInput unless ``model`` is the name of a model of this engine or a notation of layers, perhaps behind an
    architecture."""
    check_engine(engine)
    named = MODELS_OF[engine]
    if model in named:
        return
    arch, _, layers = model.partition("-")
    try:
        parse(layers if layers and arch in ARCHITECTURES else model)
    except BadInput as bad:
        hint = nearest(model, named) or bad.hint
        if any(letter.islower() for letter in model):       # no layer has one: this was meant to be a name
            hint = "; ".join(filter(None, (hint, f"models: {', '.join(named)}")))
        raise BadInput(bad.cause, hint=hint) from None


def check_profile(profile: str, engine: str, known: AbstractSet[str] | None) -> None:
    """Raise BadInput unless ``profile`` is a known one of this engine; ``known`` None = any name."""
    if known is not None and profile not in known:
        meant = f"the build is {latest()[profile]}" if profile in latest() else nearest(profile, sorted(known))
        raise BadInput(f"unknown profile {quoted(profile)}", hint=meant)
    if profile.partition("@")[0] != engine or "@" not in profile:
        raise BadInput(f"profile {quoted(profile)} is not one of the engine {quoted(engine)}")


def check_engine(engine: str) -> None:
    """Raise BadInput unless ``engine`` is one that scenarios can be written for."""
    if engine not in ENGINES:
        raise BadInput(f"unknown engine {quoted(engine)}", hint=nearest(engine, ENGINES) or ", ".join(ENGINES))
