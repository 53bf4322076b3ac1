"""What can be asked of an engine's server? Its options with their defaults, its models, and what a search draws.

Every engine has one ``Manual`` in its folder; scenarios, command lines and the search read it, and know no engine.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple

from cachesim.base.errors import BadInput, quoted
from cachesim.base.limits import Limit
from cachesim.engines.base import Request
from cachesim.engines.shared.known_models import MODELS, KnownModel
from cachesim.model.hash_mixing import Rng

Option = int | float | bool | str
COMMON_FIELDS = frozenset({"prompt", "n_predict", "kind", "n_cmpl", "forced", "extra"})
"""Fields of a ``Request`` that every engine answers to; a kind or a number of completions that it does not have, it
refuses itself."""
SCENARIO_NAMES = {
    "cancel_at": "cancel_after", "children_forced": "answers", "messages": "chat", "user_starts": "user marks (|)",
}  # fmt: skip
"""What fields are called where scenarios are written, if it is another name."""
MOST_DRAWN_BATCHES = 48            # micro-batches of a drawn prompt; more cost time and exercise nothing new


class Flag(NamedTuple):
    """A server option: everything that cachesim knows of it. Engines write them with ``shared.flags.flag``."""

    name: str                                  # the flag's name with dashes as underscores, or one of ours
    default: Option  # of the engine's newest real server; its type is that of all values; rule sets have `defaults`
    least: int = 0                             # smallest number that a scenario may set
    bounded: bool = False                      # a server does not start with less than `least`
    open: int | None = None                    # number that leaves it to the server, None = there is none
    choices: tuple[str, ...] = ()              # the words that it may be, () = any
    limit: Limit | None = None                 # how large it may be
    model: bool = False                        # it names a model, "" = none
    help: str = ""                             # which behaviour of a cache it changes, in one sentence
    tokens: bool = False                       # its number counts tokens
    spellings: tuple[str, ...] = ()            # the server's own (`-np`, `--parallel`)
    off: tuple[str, ...] = ()                  # spellings that switch it off
    also: tuple[str, ...] = ()                 # other names of the same thing, such as `n_parallel`
    # reads the value on a command line, None = by type; a mapping sets several options
    read: Callable[[str], Option | Mapping[str, Option]] | None = None
    # the words of a command line, given all options, None = the first spelling and the value
    write: Callable[[Mapping[str, Option]], list[str]] | None = None
    unwritten: Option | None = None            # value that a command line leaves out
    request: bool = False                      # on a command line it is the default of a request's field of this name
    governs: str = ""                          # families of rules that it governs, such as `LC-DECODE LC-TASK`
    affects: str = ""                          # families of rules that other flags govern, and that it affects
    tries: tuple[Option, ...] = ()             # values that `advise` tries, one at a time

    def names(self) -> Iterator[tuple[str, bool]]:
        """Every name as ``plain_name`` makes it, and whether that name switches the option on."""
        for word in (self.name, *self.spellings, *self.also):
            yield plain_name(word), True
        for word in self.off:
            yield plain_name(word), False
        if isinstance(self.default, bool):
            yield f"no_{self.name}", False


class Field(NamedTuple):
    """A field of a request that only some engines have. The type of ``default`` is the type of its values; ``drawn``
    are the values that a search draws, () = it never sets the field. ``help`` is one phrase for a list of fields."""

    name: str
    default: Option
    help: str
    drawn: tuple[Option, ...] = ()

    def check(self, value: object) -> Option:
        """The value. Raises BadInput for one of another type."""
        if type(value) is not type(self.default):
            wanted = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
            raise BadInput(f"{self.name}: {quoted(value)} must be {wanted[type(self.default)]}")
        return value


class DrawnServer(NamedTuple):
    """A drawn server. ``edges``: lengths in tokens around which prompts are drawn more often than elsewhere; ``most``:
    the longest prompt that it takes."""

    engine: str
    model: str
    server: Mapping[str, Any]
    edges: tuple[int, ...]
    most: int


class ChatDrawing(NamedTuple):
    """How a search draws chats. ``system``: the tokens of a system text; ``thinks``: may a system text talk about
    thinking, where the template that these options name knows the word?"""

    system: Callable[[Rng, Mapping[str, Any]], int]
    thinks: Callable[[Mapping[str, Any]], bool]


class Context(NamedTuple):
    """The option ``name`` for the tokens of the whole context, and in how many equal parts slots share it."""

    name: str
    parts: Callable[[Mapping[str, Any]], int]


class Load(NamedTuple):
    """What a case demands of a server: ``longest`` request in tokens (prompt and answer), ``total`` tokens of all
    conversations at their longest, how many ``conversations`` there are."""

    longest: int
    total: int
    conversations: int


@dataclass(frozen=True)
class Manual:
    """What there is to ask of an engine's server: options, models, fields of a request, and what a search draws."""

    flags: tuple[Flag, ...]                                        # in the order in which they are written
    models: tuple[str, ...]  # names of models that the engine was recorded or described with
    drawn: tuple[str, ...]                                         # models that a search draws
    draw: Callable[[Rng, str], DrawnServer]                              # draws a server for one of them
    architectures: tuple[str, ...] = ()                            # may precede layers: `qwen35-GGGA`
    with_text: tuple[str, ...] = ()  # models whose tokens have a text that the engine looks at
    empty_prompt: bool = False                                     # the server answers a prompt without tokens
    slots: bool = True  # requests name slots, which can be saved; without, requests sent at once are one batch
    # how many slots options ask for, -1 = the server chooses; one where no option says it
    slot_count: Callable[[Mapping[str, Any]], int] = lambda server: 1
    chats: ChatDrawing | None = None                                     # how messages are drawn, None = it takes none
    completions: bool = False                                      # one request may ask for several completions
    endless: bool = False                                          # a request may leave its end to the server
    # fields of a `Request` that the server reads besides `PLAIN`; others are refused
    takes: frozenset[str] = frozenset()
    fields: tuple[Field, ...] = ()                                 # fields of `Request.extra` that the server reads
    plenty: Mapping[str, int] = field(default_factory=dict)  # options of which more never hurts -> how much is plenty
    # draws further fields of a request: else it says nothing but a prompt and an answer
    draw_fields: Callable[[Rng, Mapping[str, Any]], dict[str, Any]] = lambda rng, server: {}
    # spellings of flags that change no decision -> values that follow
    silent: Mapping[str, int] = field(default_factory=dict)
    # real models and the layers that stand for them
    known: Mapping[str, KnownModel] = field(default_factory=lambda: MODELS)
    headline: tuple[str, ...] = ()                                 # options that every report names
    token_numbers: tuple[str, ...] = ()                            # numbers of a rule set that count tokens
    unlimited: Mapping[str, Option] = field(default_factory=dict)  # options that take the limits off what is kept
    context: Context | None = None  # how much room a server has for prompts, None = no option says it
    open_words: Mapping[str, str] = field(default_factory=dict)    # what an option that is left to the server is there
    # given all options of a server: options worth trying where too much is evaluated, from cheap to dear, each with
    # what has to change with it
    tries: Callable[[Mapping[str, Any], Load], Iterator[dict[str, Option]]] = lambda now, load: iter(())

    @cached_property
    def defaults(self) -> dict[str, Option]:
        """The options of the newest real server that is started without any, by name."""
        return {flag.name: flag.default for flag in self.flags}

    def flag(self, name: str) -> Flag | None:
        """The option of this name, None if there is none."""
        return self._flags.get(name)

    def named(self, word: str) -> tuple[Flag, bool] | None:
        """The option that a word means in whatever spelling, and whether the word switches it on; None if there is
        none."""
        return self.words.get(plain_name(word))

    @cached_property
    def words(self) -> dict[str, tuple[Flag, bool]]:
        """Every name of every option; its own name comes before another option's other names."""
        found = {flag.name: (flag, True) for flag in self.flags}
        for flag in self.flags:
            for name, switches_on in flag.names():
                found.setdefault(name, (flag, switches_on))
        return found

    def ignored(self, request: Request) -> list[str]:
        """What the request asks for and this server would not look at, as it is written."""
        asked = (name for name, default in DEFAULTS.items() if getattr(request, name) != default)
        endless = ["n_predict = -1"] if request.n_predict < 0 and not self.endless else []
        more = [name for name in request.extra if name not in {one.name for one in self.fields}]
        return [*scenario_names(name for name in asked if name not in COMMON_FIELDS | self.takes), *endless, *more]

    @cached_property
    def _flags(self) -> dict[str, Flag]:
        return {flag.name: flag for flag in self.flags}


DEFAULTS: Mapping[str, Any] = {one.name: one.default for one in fields(Request) if one.name != "extra"}


def plain_name(word: str) -> str:
    """A name of an option without its dashes: ``--ctx-checkpoints`` is ``ctx_checkpoints``, ``-np`` is ``np``."""
    return word.strip().lstrip("-").replace("-", "_")


def scenario_names(names: Iterable[str]) -> list[str]:
    """The names of fields as they stand in a scenario."""
    return [SCENARIO_NAMES.get(name, name) for name in names]


def draw_batches(rng: Rng) -> tuple[int, int]:
    """n_batch and n_ubatch: often small, so that few tokens make many of them."""
    ubatch = rng.one((512, 512, 64, 64, 16, 4, 2, 1))
    return max(ubatch, rng.one((512, 64, 64, 32, 8, 2))), ubatch
