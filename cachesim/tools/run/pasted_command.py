"""The argument ``--server``: a pasted command line as rule set, model and server options.

The engine is the one whose program the command line starts. Without ``-p``, the release is the newest whose arguments
the command line has. What is ignored, assumed or not derived is printed as notes.
"""

from __future__ import annotations

import re
from argparse import Namespace
from enum import Enum
from typing import AbstractSet, Container, Iterator, Mapping, NamedTuple, Sequence

from cachesim.base.console import note
from cachesim.base.errors import BadInput, first_of, quoted
from cachesim.base.shell_words import ShellWord
from cachesim.base.start_files import start_commands
from cachesim.base.untrusted_files import FILE, kind, path_of
from cachesim.engines.build_names import point_of
from cachesim.engines.capabilities import Flag, Option
from cachesim.engines.contract import Engine
from cachesim.engines.registry import ENGINES, present_name
from cachesim.engines.shared.known_models import find
from cachesim.engines.shared.model_sizes import known_sizes, sized_name
from cachesim.engines.shared.size_formulas import split_sizes
from cachesim.scenarios.option_checks import check_option, layers_named, model_named
from cachesim.tools.run.arguments import profile_name
from cachesim.tools.run.named_version import named_version, rules_for
from cachesim.tools.run.options_file import with_file_options
from cachesim.tools.run.server_command import (
    NotInRelease,
    Program,
    ServerCommand,
    UnknownFlag,
    find_program,
    read_command,
)

_LOG_LINE = re.compile(
    r"^[ \t]*(?:[\w.-]+[ \t]*\|[ \t]*)?(?:\([^()\n]{1,60}\)[ \t]*)?"         # a container, a process
    r"(?:(?:INFO|WARNING|ERROR|DEBUG)\b|\[?20\d\d-\d\d-\d\d[ T])[^\n]*\n?", re.MULTILINE)
NAMED = 220              # characters of a list of flags in a note


class PastedCommand(NamedTuple):
    """A server command: its engine, the rule set for it, and the meaning of its arguments. ``notes``: lines for the
    user about the rule set."""

    engine: Engine
    profile: str
    command: ServerCommand
    notes: tuple[str, ...] = ()


def read_pasted(text: str, profiles: Sequence[str], sizes: bool = False) -> PastedCommand:
    """Return the meaning of a pasted command line under these rule sets (all of one engine; none = the newest that
    has its arguments). ``sizes``: read arguments that change only sizes, too. Raise BadInput."""
    words = _server_words(text)
    if not words:
        raise BadInput("--server: the command line is empty")
    engine, program = _program(words, profiles)
    words = with_file_options(words, program.at, engine.command_table)
    forms = engine.memory() if sizes else None
    more = forms.flags if forms else ()
    try:
        if not profiles:
            return _with_logged(_without_profile(text, words, program, engine, more), text)
        found = [_read(words, program, engine, more, _compared(engine, profile)) for profile in profiles]
    except UnknownFlag as unknown:
        others = [other.name for other in ENGINES.values()
                  if unknown.name in {*other.command_table.names, *other.command_table.renamed}
                  and find_program(words, other.command_table) is not None]  # fmt: skip
        hint = f"{others[0]} has it: -p {others[0]}" if others else unknown.hint
        raise BadInput(unknown.cause, hint=hint) from None
    notes = (*_overruled(text, engine, profiles), *_uncompared(engine, profiles))
    return _with_logged(PastedCommand(engine, profiles[0], found[0], notes), text)


def _with_logged(pasted: PastedCommand, text: str) -> PastedCommand:
    """Return a command with the sizes that lines of the server's log in the same text state; the last line counts, and
    precedes the arguments."""
    command = pasted.command
    for size in pasted.engine.command_table.logged:
        if numbers := re.findall(size.pattern, text):
            command.logged[size.option] = int(numbers[-1].replace(",", "")[:12])
    command.options.update(command.logged)
    return pasted


def _overruled(text: str, engine: Engine, profiles: Sequence[str]) -> Iterator[str]:
    """Yield a line if the text names another version than the rule sets that are given."""
    named = named_version(text, engine)
    chosen = rules_for(engine, named) if named is not None and named.version else None
    if named is not None and chosen is not None and chosen.profile not in profiles:
        yield f"{named.words} names {engine.name} {named.version}: -p {', '.join(profiles)} is simulated"


def _server_words(text: str) -> list[ShellWord]:
    """Return the words of the first command line in a text that starts a server; without one, of the first. Lines of a
    log are left out."""
    found = start_commands(_LOG_LINE.sub("", text))
    tables = [engine.command_table for engine in ENGINES.values()]
    return next((words for words in found if any(find_program(words, table) for table in tables)), found[0])


def _program(words: Sequence[ShellWord], profiles: Sequence[str]) -> tuple[Engine, Program]:
    """Return the engine whose program a command line starts. Raise BadInput if there is none, or another than that
    of the rule sets."""
    named = {profile.partition("@")[0] for profile in profiles}
    found = [(engine, program) for engine in ENGINES.values()
             if (program := find_program(words, engine.command_table)) is not None]  # fmt: skip
    chosen = [pair for pair in found if pair[0].name in named] if named else found
    if found and not chosen:
        raise BadInput(f"--server starts {found[0][0].name}, but -p names {', '.join(sorted(named))}")
    marked = [pair for pair in chosen if pair[1].is_marked]
    if chosen:
        return (marked or chosen)[0]
    if len(named) == 1 and words[0].text.startswith("-"):
        return ENGINES[named.pop()], Program(0)
    starts = [" ".join(engine.command_table.starts[0]) for engine in ENGINES.values()]
    hint = f"known: {first_of(list(dict.fromkeys(starts)), 250)}"
    if words[0].text.startswith("-"):
        raise BadInput("--server: the command line does not name a program", hint=f"-p ENGINE names it; {hint}")
    raise BadInput(f"--server: no known server in the command line: {quoted(words[0].text)}", hint=hint)


def _read(words: Sequence[ShellWord], program: Program, engine: Engine, more: Sequence[Flag],
          at: ComparedRelease) -> ServerCommand:  # fmt: skip
    """Read the arguments of a server. Raise BadInput."""
    table = engine.command_table
    return read_command(words, program, table, engine.manual.flags, at.release, sizes=more, later=at.later)


def _without_profile(text: str, words: Sequence[ShellWord], program: Program, engine: Engine,
                     more: Sequence[Flag]) -> PastedCommand:  # fmt: skip
    """Read a command line for the version that the text names, else for the newest release that has its arguments.
    Raise BadInput."""
    named = named_version(text, engine)
    chosen = rules_for(engine, named) if named is not None and named.version else None
    if chosen is None:
        found = _newest(words, program, engine, more)
        if named is None and found.notes:
            return found
        lack = f"{named.words} names no version" if named is not None else "no version is named"
        return found._replace(notes=(f"{lack}: {found.profile} is assumed (-p chooses)", *found.notes))
    try:
        command = _read(words, program, engine, more, _compared(engine, chosen.profile))
    except NotInRelease:
        if not chosen.is_nearest:
            raise
        found = _newest(words, program, engine, more)
        return found._replace(notes=(*chosen.notes, f"its arguments are those of {found.profile}, which is simulated",
                                     *found.notes))  # fmt: skip
    return PastedCommand(engine, chosen.profile, command, (*chosen.notes, *_uncompared(engine, [chosen.profile])))


def _newest(words: Sequence[ShellWord], program: Program, engine: Engine, more: Sequence[Flag]) -> PastedCommand:
    """Read a command line for the newest release that has its arguments. Raise BadInput, that of the newest release,
    if none has them."""
    newest = present_name(engine.name)
    try:
        return PastedCommand(engine, newest, _read(words, program, engine, more, _compared(engine, newest)))
    except NotInRelease as missing:
        for release in reversed(engine.command_table.releases[:-1]):
            try:
                command = _read(words, program, engine, more, ComparedRelease(release))
            except NotInRelease:
                continue
            why = f"{missing.cause} ({missing.hint}): {release} is simulated (-p chooses)"
            return PastedCommand(engine, profile_name(release), command, (why,))
        raise


class ComparedRelease(NamedTuple):
    """The compared release whose arguments a rule set has: the last one that is not newer, and the one after it if the
    rule set lies between both ("" = none)."""

    release: str
    later: str = ""


def _compared(engine: Engine, profile: str) -> ComparedRelease:
    """Return the compared release for a rule set."""
    releases = engine.command_table.releases
    base = engine.beside.get(profile, profile)
    if base in releases or not releases:
        return ComparedRelease(base if base in releases else "")
    point, places = point_of(engine, base), list(engine.line)
    if point is not None:
        known = [(point_of(engine, one), one) for one in releases]
        older = [one for at, one in known if at is not None and at.by(point)]
    else:
        place = places.index(base) if base in places else len(places)
        older = [one for one in releases if one in places and places.index(one) <= place]
    if not older:
        return ComparedRelease(releases[0])
    later = releases[len(older) :][:1]
    return ComparedRelease(older[-1], later[0] if later else "")


def _uncompared(engine: Engine, profiles: Sequence[str]) -> Iterator[str]:
    """Yield a line for each rule set whose arguments were not compared with a released parser."""
    for profile in profiles:
        found = _compared(engine, profile)
        if found.release and engine.beside.get(profile, profile) != found.release:
            those = " and ".join(filter(None, found))
            yield f"arguments of {profile} were not compared: read as those of {those}"


class NamedModel(NamedTuple):
    """A model as a command accepts it, and a line about its source ("" = it was not derived)."""

    model: str
    note: str


def model_of(written: str, engine: str, real: bool) -> NamedModel:
    """Return the model that a command line names: its file, or its name. ``real``: the command
    takes files and names of real models, not layers. Raise BadInput for an unknown model."""
    path = path_of(written)
    files = [path / "config.json", path] if path.suffix != ".gguf" else [path]
    file = next((str(one) for one in files if one.suffix in (".json", ".gguf") and kind(one) == FILE), "")
    if file:
        return NamedModel(file, f"model {written}: layers read from {file}")
    name = written.rstrip("/").removesuffix(".gguf")
    base = re.split(r"[/\\]", name)[-1] or name
    try:
        if real:
            _check_sizes(base)
        elif find(base) is None:
            raise BadInput(f"unknown model {quoted(written)}")
        else:
            model_named(base, engine)
    except BadInput as bad:
        if not real and find(base) is not None:
            raise BadInput(bad.cause, hint=bad.hint or "--model MODEL") from None
        kinds = f"one of {first_of(known_sizes(), 120)}" if real else "layers such as GGGA, or a known name"
        raise BadInput(f"the model {quoted(written)} of the command line is unknown, and no file of it is here",
                       hint=f"--model MODEL, {kinds}") from None  # fmt: skip
    return NamedModel(base, f"model {written}: no file of it is here, taken from its name")


def _check_sizes(name: str) -> None:
    """Raise BadInput unless the sizes of this very model are known, not only those of another one of its family."""
    if not sized_name(name):
        raise BadInput(f"the sizes of {quoted(name)} are unknown")


class TakenModels(Enum):
    """The models that a command takes."""

    NONE = "none"
    LAYERS = "layers"           # --model: layers, or the name of a model whose layers are simulated
    SIZED = "sized"             # --model: like LAYERS, but the name also tells the sizes, so that it is kept
    REAL = "real"               # --model and --draft: files and names of real models only
    DRAWN = "drawn"             # --model, repeated: models of drawn conversations


class ServerArguments(NamedTuple):
    """The arguments of a command that describe its server."""

    profiles: Sequence[str]     # rule sets, () = not given
    settings: Sequence[str]     # options key=value
    model: str | None = None    # None or "" = not given
    draft: str = ""             # draft model, "" = not given


def apply_pasted(args: Namespace) -> None:
    """Apply ``--server`` to the arguments of a command: it gives the rule set, the model and the options that they do
    not give. Prints notes. Raise BadInput."""
    has_profiles = hasattr(args, "profiles")
    profile = getattr(args, "profile", "")
    models = getattr(args, "models", None) or []
    takes = _taken_models(vars(args))
    given = ServerArguments(
        profiles=args.profiles if has_profiles else [profile] if profile else [],
        settings=args.settings,
        model=getattr(args, "model", None) or next(iter(models), None),
        draft=getattr(args, "draft", ""),
    )
    found = with_pasted(args.pasted, given, takes)
    if has_profiles:
        args.profiles = list(found.profiles)
    elif hasattr(args, "profile"):
        args.profile = found.profiles[0]
    if takes is TakenModels.DRAWN and not models and found.model:
        args.models = [found.model]
    if takes not in (TakenModels.DRAWN, TakenModels.NONE) and found.model:
        args.model = found.model
    if takes is TakenModels.REAL:
        args.draft = found.draft
    args.settings = list(found.settings)


def _taken_models(names: Container[str]) -> TakenModels:
    """Return the models that a command takes, from the names of its arguments."""
    if "models" in names:
        return TakenModels.DRAWN
    if "model" not in names:
        return TakenModels.NONE
    if "draft" in names:
        return TakenModels.REAL
    return TakenModels.SIZED if "sizes" in names else TakenModels.LAYERS


def with_pasted(command: str, given: ServerArguments, takes: TakenModels) -> ServerArguments:
    """Return the arguments with the rule set, the model and the options that a pasted command line adds to them. Its
    options precede those that are given. Prints notes. Raise BadInput."""
    pasted = read_pasted(command, given.profiles, sizes=takes is TakenModels.REAL)
    added = NO_MODEL if given.model or takes is TakenModels.NONE else _model_of_command(pasted, takes)
    own = {pair.partition("=")[0].lstrip("-").replace("-", "_") for pair in given.settings}
    for option, why in pasted.command.needs.items():
        if option not in own:
            raise BadInput(f"--server: {why}", hint=f"--set {option}=VALUE")
    named = [f"{name}={value}" for name, value in added.options.items()]
    read = _settings(pasted, takes, given.draft)
    stated = {*own, *added.options}
    lengths = _length_notes(pasted, {*pasted.command.options, *stated}) if takes is TakenModels.LAYERS else ()
    for line in (*pasted.notes, *_notes(pasted, stated), *lengths):
        note(line)
    return ServerArguments(
        profiles=given.profiles or [pasted.profile],
        settings=[*named, *read.settings, *given.settings],
        model=given.model or added.model,
        draft=read.draft,
    )


class AddedModel(NamedTuple):
    """The model of a command line as the command takes it ("" = none), and the options that its name sets."""

    model: str
    options: Mapping[str, Option]


NO_MODEL = AddedModel("", {})


def _model_of_command(pasted: PastedCommand, takes: TakenModels) -> AddedModel:
    """Return the model of a command line. Print a note where it names none, or one that is not drawn. Raise
    BadInput."""
    if not pasted.command.model:
        note("--server: the command line names no model; --model names one")
        return NO_MODEL
    if pasted.command.open_model:
        raise BadInput(f"command line at character {pasted.command.open_model}: the model is a shell variable",
                       hint="put its value there, or add --model MODEL")  # fmt: skip
    found = model_of(pasted.command.model, pasted.engine.name, real=takes is TakenModels.REAL)
    note(found.note)
    if takes in (TakenModels.REAL, TakenModels.SIZED):
        return AddedModel(found.model, {})
    named = model_named(found.model, pasted.engine.name, files=True)
    if named.note:
        note(named.note)
    if takes is TakenModels.LAYERS:
        return AddedModel(named.model, named.options)
    layers = split_sizes(named.model)[0]
    if layers in pasted.engine.manual.drawn:
        return AddedModel(layers, {})
    note(f"no conversations are drawn for {layers}: {', '.join(pasted.engine.manual.drawn)} are")
    return NO_MODEL


class PastedSettings(NamedTuple):
    """The options of a command line as ``--set`` arguments, and the draft model ("" = none)."""

    settings: Sequence[str]
    draft: str


def _settings(pasted: PastedCommand, takes: TakenModels, draft: str) -> PastedSettings:
    """Return the options of a command line. A command that takes real models has its draft model apart; ``draft`` is
    the one that is given. Raise BadInput for a value that the engine refuses."""
    settings: list[str] = []
    for name, value in pasted.command.options.items():
        flag = pasted.engine.manual.flag(name)
        if flag is not None and flag.model and takes is TakenModels.REAL:
            draft = draft or model_of(str(value), pasted.engine.name, real=True).model
            continue
        if flag is not None and flag.model:
            found = model_of(str(value), pasted.engine.name, real=False).model
            value = layers_named(found, pasted.engine.name, files=True)
        if flag is not None:
            value = check_option(name, value, pasted.engine.name)
        settings.append(f"{name}={_text(value)}")
    return PastedSettings(settings, draft)


def _text(value: Option) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _notes(pasted: PastedCommand, own: AbstractSet[str]) -> Iterator[str]:
    """Yield the lines about a command line: what is simulated, and what is not. ``own``: options that are given beside
    it."""
    command = pasted.command
    options = ", ".join(f"{name}={_text(value)}" for name, value in command.options.items())
    yield f"--server: {pasted.profile}, {options or 'no option that is simulated'}"
    if command.unset:
        yield f"assumed not to be set, so that the default in the command line holds: {_names(command.unset)}"
    if command.ignored:
        yield f"ignored, without an effect on the cache: {_names(command.ignored)}"
    if command.derived:
        yield f"set by the server: {_names(command.derived)}"
    if command.limits:
        yield f"not simulated, and assumed not to matter here: {_names(command.limits)}"
    if command.logged:
        yield f"stated by the log: {', '.join(f'{name}={value}' for name, value in command.logged.items())}"
    yield from _device_notes(pasted, {*command.options, *own})
    sized = pasted.engine.command_table.sized
    if command.sized and sized not in command.options:
        yield f"change the size of the pool, which is not derived from them: {_names(command.sized)} (--set {sized}=N)"
    if command.before:
        yield f"not read, before the program: {_names(command.before)}"
    if command.unread:
        yield f"environment variables that are not read: {_names(command.unread)}"


def _length_notes(pasted: PastedCommand, stated: AbstractSet[str]) -> Iterator[str]:
    """Yield a line about a longest request that is not known. ``stated``: options that are given."""
    manual = pasted.engine.manual
    if manual.length and manual.sizes and not {manual.length, manual.sizes.name} & stated:
        yield f"{manual.length} is not given, and the length of the model is not known: no request is too long"


def _device_notes(pasted: PastedCommand, stated: AbstractSet[str]) -> Iterator[str]:
    """Yield the lines about options that the server chooses for its device, which a command line does not name.
    ``stated``: options that are given."""
    device = pasted.engine.manual.device
    if device is None:
        return
    defaults, command = pasted.engine.manual.defaults, pasted.command
    if not {device.name, device.decides} & stated:
        yield (f"{device.name} is not given: {device.decides} {defaults[device.decides]}, as on a device of "
               f"{device.smallest} (--set {device.name}=GIB)")  # fmt: skip
    is_determined = any(word.startswith(device.unless) for word in (*command.ignored, *command.limits))
    if device.kind and device.kind not in stated and not is_determined:
        yield f"{device.kind} is not given: {device.kinds}"


def _names(names: Sequence[str]) -> str:
    return first_of(list(dict.fromkeys(names)), NAMED)


__all__ = [
    "NamedModel", "PastedCommand", "ServerArguments", "TakenModels", "apply_pasted", "model_of", "read_pasted",
    "with_pasted",
]
