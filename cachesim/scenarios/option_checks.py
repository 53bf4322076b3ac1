"""Checks of server options, models and profiles, for scenario files and command lines; help on request fields."""

from __future__ import annotations

from difflib import get_close_matches
from typing import AbstractSet, Mapping, NamedTuple, Sequence

from cachesim.base.errors import ECHOED, BadInput, counted, nearest, quoted
from cachesim.engines.build_names import resolve_name
from cachesim.engines.capabilities import Flag, Manual, Option, plain_name
from cachesim.engines.registry import DEFAULT, engine_named, latest, near_profile, rules_of
from cachesim.engines.shared.known_models import (
    MODELS,
    KnownModel,
    find,
    is_unverified,
    known_names,
    model_file,
    plain,
)
from cachesim.engines.shared.size_formulas import split_sizes
from cachesim.model.layer_kinds import KINDS
from cachesim.model.spec import LETTERS, parse
from cachesim.scenarios.notation.value_checks import HIGHEST, literal


class FieldHelp(NamedTuple):
    """Help on a request field: an example in notation, and its meaning."""

    example: str
    help: str


EVERY: Mapping[str, FieldHelp] = {
    "answer": FieldHelp("A5>r4", "forced answer of the model"),
    "n_predict": FieldHelp(
        "A5>3", "tokens to generate, chosen by the sampler (default 1; -1 = until the context is full)"
    ),
    "together": FieldHelp("B5{together+1}", "sent 1 round after the previous request, without waiting for it"),
}
"""Fields that every engine supports."""

FIELDS: Mapping[str, FieldHelp] = {
    "messages": FieldHelp("s:S40+u:A5", "a chat of a system and a user message (a assistant, t tool)"),
    "user_starts": FieldHelp("S40.|A5", "a user message starts here"),
    "cache_prompt": FieldHelp("A5!", "cache_prompt = false: nothing is reused"),
    "id_slot": FieldHelp("A5@1", "requests slot 1"),
    "n_keep": FieldHelp("{n_keep=4}", "tokens at the start that a context shift keeps; -1 = the whole prompt"),
    "n_discard": FieldHelp("{n_discard=8}", "tokens that a context shift drops; 0 = half of the tokens after n_keep"),
    "n_cache_reuse": FieldHelp(
        "{n_cache_reuse=4}", "minimum tokens of a block that is reused by shifting its positions"
    ),
    "cancel_at": FieldHelp("{cancel_after=2}", "client disconnects after 2 generated tokens; 0 = in the prompt"),
    "drafts": FieldHelp("{drafts=3:1,2:0}", "tokens drafted and accepted, per iteration"),
    "draft_else": FieldHelp("{draft_else=3}", "tokens drafted in later iterations, all accepted"),
    "seed": FieldHelp("{seed=True}", "seed of its own, so that the request is not batched"),
}
"""Help by ``Request`` field, for fields that only some engines support. Fields that only recordings have are
excluded."""

COMPLETIONS: Mapping[str, FieldHelp] = {
    "task": FieldHelp("{task=embedding}", "completion, infill, embedding or rerank"),
    "n_cmpl": FieldHelp("{n_cmpl=2}", "several completions of the prompt"),
    "answers": FieldHelp("{answers=s4/t4}", "forced answers of the further completions"),
}
"""Fields of engines that support several completions of a prompt."""

SLOTS: Mapping[str, FieldHelp] = {
    "save": FieldHelp("{save@0 f}", "saves slot 0 to the file f"),
    "restore": FieldHelp("{restore@0 f}", "restores slot 0 from the file f"),
    "percent": FieldHelp("{restore@0 f percent=60}", "restores slot 0 from the first 60 percent of the file f"),
    "erase": FieldHelp("{erase@0}", "erases slot 0"),
    "restart": FieldHelp("{restart np=2}", "restarts the server, optionally with other options"),
}
"""Steps of engines with slots that are not requests."""

ADAPTERS: Mapping[str, FieldHelp] = {
    "lora": FieldHelp("{lora 0:1,1:0.5}", "sets the scales of the server's adapters; those not named are off"),
}
"""Steps of engines with adapters that are not requests."""


def fields_of(manual: Manual) -> dict[str, FieldHelp]:
    """Return the help on request fields and other steps of an engine, in the order of listings."""
    found = {**EVERY, **{name: text for name, text in FIELDS.items() if name in manual.takes}}
    own = {declared.name: FieldHelp(f"{{{declared.name}={declared.drawn[0] if declared.drawn else declared.default}}}",
                                    declared.help) for declared in manual.fields}  # fmt: skip
    return {**found, **own, **(COMPLETIONS if manual.completions else {}), **(SLOTS if manual.slots else {}),
            **(ADAPTERS if manual.adapter_scales else {})}


DEFAULT_ENGINE = DEFAULT.name


def manual_of(engine: str) -> Manual:
    """Return the capabilities of an engine's server. Raise BadInput for an unknown engine."""
    return engine_named(engine).manual


def filled(given: Mapping[str, Option], engine: str = DEFAULT_ENGINE) -> dict[str, Option]:
    """Return all options of an engine: the given options, and the newest real server's defaults. Raise BadInput for an
    unknown engine."""
    return {**manual_of(engine).defaults, **given}


def in_force(given: Mapping[str, Option], profile: str) -> dict[str, Option]:
    """Return all options of a server under a profile: the given options, and the profile's defaults. Raise BadInput
    for an unknown profile."""
    return filled({**rules_of(profile).defaults, **given}, profile.partition("@")[0])


def spoken(given: Mapping[str, Option], engine: str) -> dict[str, Option]:
    """Return the options that differ from the engine's default, or whose default depends on the version, the model or
    other options."""
    kit = engine_named(engine)
    vary = {name for rules in kit.profiles.values() for name in rules.defaults}
    vary |= {flag.name for flag in kit.manual.flags if flag.resolved}
    return {name: value for name, value in given.items() if name in vary or kit.manual.defaults[name] != value}


def option_named(word: str, engine: str = DEFAULT_ENGINE) -> tuple[Flag, bool]:
    """Return the option with this spelling (the server's or cachesim's), and True if the spelling switches it on.
    Raise BadInput for an unknown option, with the nearest name."""
    manual = manual_of(engine)
    found = manual.named(word)
    if found is None:
        near = get_close_matches(plain_name(word), manual.words, n=1) if len(word) <= ECHOED else []
        meant = f"did you mean '{manual.words[near[0]][0].name}'? " if near else ""
        raise BadInput(f"unknown server option {quoted(word)}", hint=f"{meant}see cachesim options {engine}")
    return found


def read_option(word: str, value: object, engine: str = DEFAULT_ENGINE) -> tuple[str, Option]:
    """Return cachesim's name of an option and its checked value, for any spelling. Raise BadInput."""
    flag, switches_on = option_named(word, engine)
    if switches_on or not isinstance(value, bool):
        return flag.name, check_option(flag.name, value, engine)
    return flag.name, not value


def check_option(name: str, value: object, engine: str = DEFAULT_ENGINE) -> Option:
    """Return the value if the option accepts it. Raise BadInput otherwise."""
    flag, _ = option_named(name, engine)
    if isinstance(flag.default, bool):
        if not isinstance(value, bool):
            raise BadInput(f"{flag.name} must be true or false, not {quoted(value)}")
        return value
    if isinstance(flag.default, float):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise BadInput(f"{flag.name} must be a number, not {quoted(value)}")
        if not 0 <= value <= flag.most:        # also refuses nan
            raise BadInput(f"{flag.name} is {quoted(value)}, it must lie between 0 and {flag.most}")
        return float(value)
    return _text(flag, value, engine) if isinstance(flag.default, str) else _number(flag, value)


def _number(flag: Flag, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadInput(f"{flag.name} must be an integer, not {quoted(value)}")
    if value == flag.open:
        return value
    highest = max(HIGHEST, flag.most)
    if not flag.least <= value <= highest:
        raise BadInput(f"{flag.name} is {quoted(value)}, it must lie between {flag.least} and {highest}")
    if flag.limit is not None:
        flag.limit.check(value, flag.name)
    return value


def _text(flag: Flag, value: object, engine: str) -> str:
    """Check an option whose value is a word or a model name."""
    if not isinstance(value, str):
        raise BadInput(f"{flag.name} must be a string, not {quoted(value)}")
    if (word := flag.unknown_word(value)) is not None:
        hint = nearest(word, flag.choices) or ", ".join(flag.choices)
        raise BadInput(f"unknown {flag.name} {quoted(word)}", hint=hint)
    return layers_named(value, engine) if flag.model and value else value


def parse_settings(pairs: Sequence[str], engine: str = DEFAULT_ENGINE) -> dict[str, Option]:
    """Return the options of ``--set key=value`` arguments; a switch may be given without a value. Raise BadInput."""
    given: dict[str, Option] = {}
    for pair in pairs:
        word, equals, text = pair.partition("=")
        if not equals and not isinstance(option_named(word, engine)[0].default, bool):
            raise BadInput(f"--set: expected key=value, found {quoted(pair)}")
        name, value = parse_setting(word, text if equals else "true", engine)
        given[name] = value
    return given


SWITCH = {"on": True, "off": False}
"""Spellings of true and false that servers accept."""


def parse_setting(word: str, text: str, engine: str) -> tuple[str, Option]:
    """Return the name and value of a typed server option. Raise BadInput."""
    flag, _ = option_named(word, engine)
    text = text.strip()
    value = literal(text)
    if isinstance(flag.default, bool):
        value = SWITCH.get(text, value)
    elif isinstance(flag.default, str) and isinstance(value, int | float):
        value = text                 # a list of one number
    return read_option(word, value, engine)


TINY_SIZES = "limits in bytes count the sizes of a tiny model"


class AcceptedModel(NamedTuple):
    """A model as an engine accepts it, a note for the user ("" if there is nothing to explain), and the options that
    the name of a real model sets."""

    model: str
    note: str = ""
    options: Mapping[str, Option] = {}

    def server(self, given: Mapping[str, Option]) -> dict[str, Option]:
        """Return the options of a server with this model; those given take precedence."""
        return {**self.options, **given}


def model_named(text: str, engine: str = DEFAULT_ENGINE, files: bool = False) -> AcceptedModel:
    """Return the model that a text names: a model name in cachesim, a notation of layers, or the name of a real model,
    which is replaced by its layers; with ``files`` also the path of a config.json, of its folder, or of a GGUF. Raise
    BadInput if the engine lacks it."""
    if files and (file := model_file(text)):
        return _model_of_file(file, engine)
    check_has(text, engine)
    manual, name = manual_of(engine), find(text)
    real = manual.known.get(name) if name else None
    if real is None:
        check_model(text, engine)
        return AcceptedModel(text)
    from cachesim.engines.shared.model_sizes import names_context, sized_name

    if real.layers in manual.models:
        return AcceptedModel(real.layers, f"{name} is {real.layers}: {real.real}")
    if text in manual.models:
        return AcceptedModel(text, f"{text} is a tiny model with layers of its own; {name} has those of the real one")
    model = f"{real.arch}-{real.layers}" if real.arch in manual.architectures else real.layers
    check_model(model, engine)
    sized = sized_name(text)
    has_layers_of_family = real is MODELS.get(name or "")
    note = _real_layers(sized, model) if sized and has_layers_of_family else f"{name} is {model}: {real.real}"
    if is_unverified(text):
        note += "; the configuration of this very model was not found in public"
    if manual.sizes is None and sized and has_layers_of_family:
        found = _with_sizes(AcceptedModel(model, note), sized, manual)
        return found._replace(options={}) if names_context(text) else found
    if manual.sizes is None:
        return AcceptedModel(model, f"{note}; {TINY_SIZES}")
    own = manual.model_options.get(name or "", {})
    if sized:
        return AcceptedModel(model, note, {**own, manual.sizes.name: sized})
    layers = parse(MODELS[name].layers).layers if name else ()
    has_own_blocks = any(layer.recurrence or KINDS[layer.kind].newest for layer in layers)
    return AcceptedModel(model, f"{note}; {manual.sizes.unsized}" if has_own_blocks else note, own)


def layers_named(text: str, engine: str = DEFAULT_ENGINE, files: bool = False) -> str:
    """Return the model that a text names without sizes, which a draft model does not declare. Raise BadInput."""
    return split_sizes(model_named(text, engine, files).model)[0]


def _real_layers(word: str, model: str) -> str:
    """Return the note on a small model in place of the real one that ``word`` names: the real layers and sizes."""
    from cachesim.engines.shared.model_sizes import known_sizes, real_model, size_check, sizes_in

    real = real_model(word)
    sizes = sizes_in(real)
    kinds = {"attention": real.full, "windows": real.windows, "states": real.states}
    counts = ", ".join(f"{len(of)} with {name}" for name, of in kinds.items() if of)
    parts = {"a token": sizes.token_bytes, "its states": sizes.state_bytes}
    totals = ", ".join(f"{of}: {size:,} bytes" for of, size in parts.items() if size)
    note = f"{word} is {model}: {counted(len(real.layers), 'layer')}, {counts}; {totals}"
    unverified = word in known_sizes() and not size_check(word)
    return f"{note}, not verified (cachesim memory --models)" if unverified else note


def _with_sizes(small: AcceptedModel, word: str, manual: Manual) -> AcceptedModel:
    """Return a small model with the context and the sizes of the real one that ``word`` names, so that limits in tokens
    and in bytes apply as on its server. Sizes of layers with compressed rows or histories of n-grams cannot be
    declared."""
    from cachesim.engines.shared.model_sizes import real_model, sizes_in

    real = real_model(word)
    if manual.context is not None and real.context:
        small = small._replace(options={manual.context.trained: real.context})
    if any(layer.ratio or layer.history for layer in real.layers):
        return small._replace(note=f"{small.note}; {TINY_SIZES}")
    return small._replace(model=sizes_in(real).declared(small.model))


def _model_of_file(file: str, engine: str) -> AcceptedModel:
    """Return the model of a config.json or GGUF. Raise BadInput."""
    from cachesim.engines.shared.model_sizes import real_model, short_notation

    manual, real = manual_of(engine), real_model(file)
    if manual.window_pools is not None and plain(real.arch) not in manual.window_pools:
        real = real._replace(layers=tuple(one._replace(kind="A") if one.kind == "W" else one for one in real.layers))
    name = manual.stand_ins.get(plain(real.arch), "")
    layers = manual.known[name].layers if name else short_notation(real)
    arch = next((arch for arch in manual.architectures if plain(real.arch).startswith(plain(arch))), "")
    model = f"{arch}-{layers}" if arch else layers
    check_model(model, engine)
    note = _real_layers(file, model)
    if manual.sizes is None:
        return _with_sizes(AcceptedModel(model, note), file, manual)
    return AcceptedModel(model, note, {**manual.model_options.get(name, {}), manual.sizes.name: file})


def check_has(text: str, engine: str) -> None:
    """Raise BadInput for the name of a real model that this engine does not support."""
    manual, name = manual_of(engine), find(text)
    if not name or text in manual.models:
        return
    if missing := missing_part(manual, name):
        raise BadInput(f"{engine}: model {quoted(text)} is not simulated: {missing}")
    if name not in manual.known:
        raise BadInput(f"{engine} has no model {quoted(name)}", hint=f"its models: cachesim options {engine}")


def missing_part(manual: Manual, name: str) -> str:
    """Return what an engine lacks for a real model, "" if it lacks nothing."""
    if name in manual.lacks:
        return manual.lacks[name]
    real = manual.known.get(name, MODELS[name])
    layers = () if real.layers in manual.models else parse(real.layers).layers
    kinds = dict.fromkeys(layer.kind for layer in layers if refuses(manual, layer.kind))
    return f"its layers have {', '.join(KINDS[kind].words for kind in kinds)}" if kinds else ""


def known_models(manual: Manual) -> dict[str, KnownModel]:
    """Return the real models of an engine, by name, without those that have layers of a kind that it refuses."""
    return {name: known for name, known in manual.known.items() if known.layers in manual.models
            or not any(refuses(manual, layer.kind) for layer in parse(known.layers).layers)}  # fmt: skip


def refuses(manual: Manual, kind: str) -> bool:
    """True if an engine has no layers of this kind."""
    return kind in manual.refused or (KINDS[kind].newest and kind not in manual.newest)


def check_model(model: str, engine: str = DEFAULT_ENGINE) -> None:
    """Raise BadInput unless ``model`` is a model name of this engine or a notation of layers. Layers may follow an
    architecture (``arch-GGGA``) and have declared sizes."""
    manual, model = manual_of(engine), split_sizes(model)[0]
    named = manual.models
    if model in named:
        return
    arch, _, layers = model.partition("-")
    try:
        spec = parse(layers if layers and arch in manual.architectures else model)
        for layer in spec.layers:
            if refuses(manual, layer.kind):
                raise BadInput(f"model {quoted(model)}: {engine} has no layers of kind {layer.kind}")
        if len({layer.window for layer in spec.layers if layer.window}) > 1:
            raise BadInput(f"model {quoted(model)}: windows of different sizes", hint="a model has one window")
    except BadInput as bad:
        if any(letter.islower() for letter in model):       # layers have capital letters, so this is a name
            near = nearest(model.casefold(), (*named, *known_names()))
            hint = f"{near} see cachesim options {engine}" if near else f"{LETTERS}; names: cachesim options {engine}"
            raise BadInput(f"unknown model {quoted(model)}", hint=hint) from None
        raise BadInput(bad.cause, hint=nearest(model, named) or bad.hint) from None


def check_profile(profile: str, engine: str, known: AbstractSet[str] | None) -> None:
    """Raise BadInput unless ``profile`` belongs to this engine and is in ``known`` (None = any name), or names a build
    whose rules equal no recorded rule set."""
    found = None if known is None or profile in known else resolve_name(profile)
    if known is not None and profile not in known and (found is None or found.profile != profile):
        near = found.profile if found else near_profile(profile, known)
        meant = f"the build is {latest()[profile]}" if profile in latest() else near
        raise BadInput(f"unknown profile {quoted(profile)}", hint=meant)
    if profile.partition("@")[0] != engine or "@" not in profile:
        raise BadInput(f"profile {quoted(profile)} is not a profile of the engine {quoted(engine)}")
