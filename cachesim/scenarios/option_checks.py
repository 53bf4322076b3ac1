"""Which server options, models and profiles may a scenario name? One check for files and command lines."""

from __future__ import annotations

from difflib import get_close_matches
from typing import AbstractSet, Mapping, NamedTuple

from cachesim.base.errors import ECHOED, BadInput, nearest, quoted
from cachesim.engines.capabilities import Flag, Manual, Option, plain_name
from cachesim.engines.registry import DEFAULT, PROFILE_HINT, engine_named, latest, rules_of
from cachesim.engines.shared.known_models import find, known_names
from cachesim.engines.shared.size_formulas import split_sizes
from cachesim.model.spec import LETTERS, parse
from cachesim.scenarios.notation.value_checks import HIGHEST, literal

# What may a request say beside its words, how is that written in a line, and what does it mean?

class Help(NamedTuple):
    """A field of a request: an example in a line, and what it means."""

    example: str
    help: str


EVERY: Mapping[str, Help] = {
    "answer": Help("A5>r4", "the model's answer: these words"),
    "n_predict": Help("A5>3", "tokens to generate, chosen by the sampler (default 1; -1 = until the context is full)"),
    "together": Help("B5{together+1}", "sent while the request before is at work, so many rounds later"),
}
"""What every engine takes."""

FIELDS: Mapping[str, Help] = {
    "messages": Help("s:S40+u:A5", "a chat of a system and a user message (a assistant, t tool)"),
    "user_starts": Help("S40.|A5", "a user message starts here"),
    "cache_prompt": Help("A5!", "cache_prompt = false: nothing of the slot is reused"),
    "id_slot": Help("A5@1", "asks for slot 1"),
    "n_keep": Help("{n_keep=4}", "tokens at the start that a context shift keeps; -1 = the whole prompt"),
    "n_discard": Help("{n_discard=8}", "tokens that a context shift drops; 0 = half of those behind n_keep"),
    "n_cache_reuse": Help("{n_cache_reuse=4}", "fewest tokens of a block that is reused by shifting its positions"),
    "cancel_at": Help("{cancel_after=2}", "the client disconnects after so many generated tokens; 0 = in the prompt"),
    "drafts": Help("{drafts=3:1,2:0}", "tokens drafted and how many of them are accepted, iteration by iteration"),
    "draft_else": Help("{draft_else=3}", "afterwards so many are drafted, all of them right"),
    "seed": Help("{seed=True}", "the request has a seed of its own, so that it is not batched"),
}
"""Field of a ``Request`` that only some engines look at -> how it is written. Fields that only recordings have are not
here."""

COMPLETIONS: Mapping[str, Help] = {
    "task": Help("{task=embedding}", "completion, infill, embedding or rerank"),
    "n_cmpl": Help("{n_cmpl=2}", "several completions of the prompt"),
    "answers": Help("{answers=s4/t4}", "what the further completions say"),
}
"""What only engines take that give several completions of a prompt."""

SLOTS: Mapping[str, Help] = {
    "save": Help("{save@0 f}", "saves slot 0 to the file f"),
    "restore": Help("{restore@0 f}", "restores it"),
    "erase": Help("{erase@0}", "erases slot 0"),
    "restart": Help("{restart np=2}", "starts the server anew, with another option or without"),
}
"""Steps that are no requests, of engines with slots."""


def fields_of(manual: Manual) -> dict[str, Help]:
    """What a request to this engine may say, and its other steps, in the order in which they are listed."""
    found = {**EVERY, **{name: said for name, said in FIELDS.items() if name in manual.takes}}
    own = {one.name: Help(f"{{{one.name}={one.drawn[0] if one.drawn else one.default}}}", one.help)
           for one in manual.fields}  # fmt: skip
    return {**found, **own, **(COMPLETIONS if manual.completions else {}), **(SLOTS if manual.slots else {})}


DEFAULT_ENGINE = DEFAULT.name


def manual_of(engine: str) -> Manual:
    """What can be asked of this engine's server. Raises BadInput for an unknown engine."""
    return engine_named(engine).manual


def filled(given: Mapping[str, Option], engine: str = DEFAULT_ENGINE) -> dict[str, Option]:
    """All options of an engine: those given, the defaults of its newest real server for the rest. Raises BadInput for
    an unknown engine."""
    return {**manual_of(engine).defaults, **given}


def in_force(given: Mapping[str, Option], profile: str) -> dict[str, Option]:
    """All options of a server of this version: those given, the version's own defaults for the rest. Raises BadInput
    for an unknown profile."""
    return filled({**rules_of(profile).defaults, **given}, profile.partition("@")[0])


def spoken(given: Mapping[str, Option], engine: str) -> dict[str, Option]:
    """Those of the options that do not say what every version of the engine does without them."""
    kit = engine_named(engine)
    vary = {name for rules in kit.profiles.values() for name in rules.defaults}
    return {name: value for name, value in given.items() if name in vary or kit.manual.defaults[name] != value}


def option_named(word: str, engine: str = DEFAULT_ENGINE) -> tuple[Flag, bool]:
    """The option that a word means, in the server's spelling or ours, and whether the word switches it on. Raises
    BadInput for none, with the nearest and the command that lists them."""
    manual = manual_of(engine)
    found = manual.named(word)
    if found is None:
        near = get_close_matches(plain_name(word), manual.words, n=1) if len(word) <= ECHOED else []
        meant = f"did you mean '{manual.words[near[0]][0].name}'? " if near else ""
        raise BadInput(f"unknown server option {quoted(word)}", hint=f"{meant}see cachesim options {engine}")
    return found


def read_option(word: str, value: object, engine: str = DEFAULT_ENGINE) -> tuple[str, Option]:
    """Our name and the value of an option, whatever its spelling. Raises BadInput."""
    flag, switches_on = option_named(word, engine)
    if switches_on or not isinstance(value, bool):
        return flag.name, check_option(flag.name, value, engine)
    return flag.name, not value


def check_option(name: str, value: object, engine: str = DEFAULT_ENGINE) -> Option:
    """The value if the engine's server option of this name accepts it. Raises BadInput otherwise."""
    flag, _ = option_named(name, engine)
    if isinstance(flag.default, bool):
        if not isinstance(value, bool):
            raise BadInput(f"{flag.name} must be true or false, not {quoted(value)}")
        return value
    if isinstance(flag.default, float):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise BadInput(f"{flag.name} must be a number, not {quoted(value)}")
        if not 0 <= value <= 1:                # also refuses nan
            raise BadInput(f"{flag.name} is {quoted(value)}, it must lie between 0 and 1")
        return float(value)
    return _text(flag, value, engine) if isinstance(flag.default, str) else _number(flag, value)


def _number(flag: Flag, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadInput(f"{flag.name} must be an integer, not {quoted(value)}")
    if value == flag.open:
        return value
    if not flag.least <= value <= HIGHEST:
        raise BadInput(f"{flag.name} is {quoted(value)}, it must lie between {flag.least} and {HIGHEST}")
    if flag.limit is not None:
        flag.limit.check(value, flag.name)
    return value


def _text(flag: Flag, value: object, engine: str) -> str:
    """A word, or the name of a model."""
    if not isinstance(value, str):
        raise BadInput(f"{flag.name} must be a string, not {quoted(value)}")
    if flag.choices and value not in flag.choices:
        hint = nearest(value, flag.choices) or ", ".join(flag.choices)
        raise BadInput(f"unknown {flag.name} {quoted(value)}", hint=hint)
    return model_named(value, engine).model if flag.model and value else value


def parse_settings(pairs: list[str], engine: str = DEFAULT_ENGINE) -> dict[str, Option]:
    """The options of ``--set key=value`` arguments for a server of this engine; of a switch, its name alone. Raises
    BadInput."""
    given: dict[str, Option] = {}
    for pair in pairs:
        word, equals, text = pair.partition("=")
        if not equals and not isinstance(option_named(word, engine)[0].default, bool):
            raise BadInput(f"--set {quoted(pair)} is not of the form key=value")
        name, value = parse_setting(word, text if equals else "true", engine)
        given[name] = value
    return given


SWITCH = {"on": True, "off": False}
"""What may be written for true and false, as servers do."""


def parse_setting(word: str, text: str, engine: str) -> tuple[str, Option]:
    """Name and value of an option of this engine's server, as they are typed. Raises BadInput."""
    flag, _ = option_named(word, engine)
    text = text.strip()
    value = SWITCH.get(text, literal(text)) if isinstance(flag.default, bool) else literal(text)
    return read_option(word, value, engine)


class Named(NamedTuple):
    """A model as an engine takes it, and what a reader should know of it ("" = nothing)."""

    model: str
    note: str = ""


def model_named(text: str, engine: str = DEFAULT_ENGINE) -> Named:
    """The model of this engine that a text means: a name of ours, a notation of layers, or the name of a real model,
    which becomes its layers. Raises BadInput for none."""
    check_has(text, engine)
    manual, name = manual_of(engine), find(text)
    real = manual.known.get(name) if name else None
    if real is None:
        check_model(text, engine)
        return Named(text)
    if text in manual.models:
        return Named(text, f"{text} is a tiny model with layers of its own; {name} has those of the real one")
    model = f"{real.arch}-{real.layers}" if real.arch in manual.architectures else real.layers
    check_model(model, engine)
    return Named(model, f"{name} is {model}: {real.real}")


def check_has(text: str, engine: str) -> None:
    """Raise BadInput for the name of a real model that this engine does not have."""
    manual, name = manual_of(engine), find(text)
    if name and name not in manual.known and text not in manual.models:
        raise BadInput(f"{engine} has no model {quoted(name)}", hint=f"its models: cachesim options {engine}")


def check_model(model: str, engine: str = DEFAULT_ENGINE) -> None:
    """Raise BadInput unless ``model`` is the name of a model of this engine or a notation of layers, perhaps behind an
    architecture, perhaps with declared sizes."""
    manual, model = manual_of(engine), split_sizes(model)[0]
    named = manual.models
    if model in named:
        return
    arch, _, layers = model.partition("-")
    try:
        spec = parse(layers if layers and arch in manual.architectures else model)
        if len({layer.window for layer in spec.layers if layer.window}) > 1:
            raise BadInput(f"model {quoted(model)}: windows of different sizes", hint="a model has one window")
    except BadInput as bad:
        if any(letter.islower() for letter in model):       # no layer has one: this was meant to be a name
            near = nearest(model.casefold(), (*named, *known_names()))
            hint = f"{near} see cachesim options {engine}" if near else f"{LETTERS}; names: cachesim options {engine}"
            raise BadInput(f"unknown model {quoted(model)}", hint=hint) from None
        raise BadInput(bad.cause, hint=nearest(model, named) or bad.hint) from None


def check_profile(profile: str, engine: str, known: AbstractSet[str] | None) -> None:
    """Raise BadInput unless ``profile`` is a known one of this engine; ``known`` None = any name."""
    if known is not None and profile not in known:
        near = nearest(profile, sorted(known)) or PROFILE_HINT
        meant = f"the build is {latest()[profile]}" if profile in latest() else near
        raise BadInput(f"unknown profile {quoted(profile)}", hint=meant)
    if profile.partition("@")[0] != engine or "@" not in profile:
        raise BadInput(f"profile {quoted(profile)} is not one of the engine {quoted(engine)}")
