"""Interface of an engine's server: options with defaults, models, request fields, and the values that a search draws.

Each engine has a ``Manual`` in its folder. Scenarios, command lines and the search read it and need no other
knowledge of the engine.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput, quoted
from cachesim.base.limits import Limit
from cachesim.base.media_items import is_item
from cachesim.engines.base import Request
from cachesim.engines.shared.known_models import OLDER, KnownModel
from cachesim.model.hash_mixing import Rng

Option = int | float | bool | str
COMMON_FIELDS = frozenset({"prompt", "n_predict", "kind", "n_cmpl", "forced", "extra"})
"""Fields of a ``Request`` that every engine reads. The engine itself refuses a kind, or a number of completions,
that it does not support."""
MARKS = frozenset({"user_starts", "chat", "byte_pos"})
"""Fields of a ``Request`` that only mark places in the prompt. An engine that does not read them ignores them: its
server evaluates the same tokens with or without them."""
SCENARIO_NAMES = {
    "cancel_at": "cancel_after", "chat": "message_delimiters", "children_forced": "answers", "messages": "chat",
    "user_starts": "user marks (|)",
}  # fmt: skip
"""Names of request fields where users write them (scenarios, lines, bodies), if they differ."""
IMAGES, INVALID = "images", "tokens that no model has"
"""Entries of ``Manual.takes``: prompts may have images, and the token -1."""
MOST_DRAWN_BATCHES = 48            # micro-batches of a drawn prompt; more cost time and exercise nothing new


class Flag(NamedTuple):
    """A server option. Engines write the rows with ``shared.flags.flag``."""

    name: str                                  # flag name with underscores, or a name of cachesim
    default: Option  # default of the newest real server (rule sets have `defaults`); determines the type
    least: int = 0                             # smallest number in a scenario
    bounded: bool = False                      # the server does not start below `least`
    open: int | None = None                    # number that means "server decides", None = none
    choices: tuple[str, ...] = ()              # allowed words, () = any
    # the value may be several of the words, separated by commas; on a command line each occurrence adds to the earlier
    listed: bool = False
    limit: Limit | None = None                 # upper limit
    model: bool = False                        # the value names a model, "" = none
    help: str = ""                             # effect on the cache, as a sentence
    tokens: bool = False                       # the number counts tokens
    spellings: tuple[str, ...] = ()            # spellings of the server (`-np`, `--parallel`)
    off: tuple[str, ...] = ()                  # spellings that switch the option off
    also: tuple[str, ...] = ()                 # other names, such as `n_parallel`
    # parser of the command-line value, None = by type; a mapping sets several options
    read: Callable[[str], Option | Mapping[str, Option]] | None = None
    # command-line words for all options, None = first spelling and value
    write: Callable[[Mapping[str, Option]], list[str]] | None = None
    most: int = 1                              # largest number of a share or ratio, or of an integer of bytes
    unwritten: Option | None = None            # value omitted on a command line
    request: bool = False                      # on a command line: default of the request field of this name
    governs: str = ""                          # rule families that it governs, such as `LC-DECODE LC-TASK`
    affects: str = ""                          # rule families that it affects and other flags govern
    tries: tuple[Option, ...] = ()             # values that `advise` tries, each alone
    resolved: bool = False                     # the server chooses its default at its start, from model and options
    fact: bool = False                         # describes the model, the device or the simulation: no value to choose

    def unknown_word(self, value: str) -> str | None:
        """Return the first word of a value that is not allowed, None if all are."""
        words = value.split(",") if self.listed else [value]
        return next((word for word in words if self.choices and word not in self.choices), None)

    def added(self, before: Option | None, value: Option) -> Option:
        """Return the value after a further occurrence on a command line: the last one, or all words of a list."""
        if not self.listed or before in (None, self.default):
            return value
        return before if value == self.default else f"{before},{value}"

    def names(self) -> Iterator[tuple[str, bool]]:
        """Yield every name as ``plain_name`` makes it, and whether that name switches the option on."""
        for word in (self.name, *self.spellings, *self.also):
            yield plain_name(word), True
        for word in self.off:
            yield plain_name(word), False
        if isinstance(self.default, bool):
            yield f"no_{self.name}", False


class Field(NamedTuple):
    """A request field of single engines. The type of ``default`` is the type of all values; ``drawn``: values that a
    search draws, () = never set. ``help``: phrase for a list of fields."""

    name: str
    default: Option
    help: str
    drawn: tuple[Option, ...] = ()

    def check(self, value: object) -> Option:
        """Return ``value`` unchanged. Raise BadInput if its type differs from that of the field's default."""
        if type(value) is not type(self.default):
            wanted = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
            raise BadInput(f"{self.name}: {quoted(value)} must be {wanted[type(self.default)]}")
        return value


MAX_TOKENS = Field(
    "max_tokens", 0, "most tokens of the answer, as the request states them; if the prompt leaves no room for them, "
    "the request is refused or its answer is cut; 0 = not stated",
)  # fmt: skip
"""Field of engines whose servers limit the sum of a prompt and its answer."""


class DrawnServer(NamedTuple):
    """A drawn server. ``edges``: lengths [tokens] near which prompts are drawn more often; ``most``: longest prompt
    that the server accepts; ``images``: sizes of the images in prompts, as the notation writes them; ``answers``:
    lengths of answers [tokens], one of which each request has."""

    engine: str
    model: str
    server: Mapping[str, Any]
    edges: tuple[int, ...]
    most: int
    images: tuple[str, ...] = ()
    answers: tuple[int, ...] = (1, 1, 1, 2, 2, 3, 4, 8)


class ChatDrawing(NamedTuple):
    """Drawing of chats. ``system`` returns the length [tokens] of a system text; ``thinks``: True if a system text may
    mention thinking, because the template of these options has think tokens."""

    system: Callable[[Rng, Mapping[str, Any]], int]
    thinks: Callable[[Mapping[str, Any]], bool]


class ContextOption(NamedTuple):
    """The option ``name`` for the size of the whole context [tokens], and the number of equal ``parts`` in which slots
    share it; ``trained``: the option for the context of the model, which a server without a size takes."""

    name: str
    parts: Callable[[Mapping[str, Any]], int]
    trained: str


class SizesOption(NamedTuple):
    """The option ``name`` for the real model whose sizes the server derives its blocks from; ``unsized``: note for a
    model with states whose sizes are not known."""

    name: str
    unsized: str


class DeviceOption(NamedTuple):
    """The option ``name`` for the memory of the device, from which the server chooses the option ``decides``.
    ``smallest``: the devices whose value holds without it, in words; ``kind``: another option that depends on the kind
    of device ("" = none), ``kinds``: its values in words, ``unless``: argument that determines it, too."""

    name: str
    decides: str
    smallest: str
    kind: str = ""
    kinds: str = ""
    unless: str = ""


class RequestSize(NamedTuple):
    """Tokens of a request: its prompt, and the answer at its longest."""

    prompt: int
    answer: int


class AssumedSizes(NamedTuple):
    """Sizes of a pool that are assumed. ``cap``: the memory that limits them, "" = they hold all requests; ``notes``:
    lines on an unknown size that decides the outcome."""

    options: Mapping[str, Option]
    cap: str = ""
    notes: tuple[str, ...] = ()


class AssumedPool(NamedTuple):
    """The pool of a server that derives its size from the free memory of its device. ``fit``: from the layers of the
    model, the options given and all requests, the sizes that are not given, so large that they refuse and evict
    nothing, but not larger than the device; without options if those given determine them. ``log``: what the server's
    log calls the real size."""

    fit: Callable[[str, Mapping[str, Any], Sequence[RequestSize]], AssumedSizes]
    log: str


class ServerLoad(NamedTuple):
    """Demand of a scenario on a server: ``longest`` request (prompt and answer) [tokens], ``total`` length of all
    conversations at their longest [tokens], number of ``conversations``."""

    longest: int
    total: int
    conversations: int


class Capacity(NamedTuple):
    """The option ``name`` for a size of which a server may have too little. ``ample``: a value that holds a load, from
    all options; the current one if the server has enough, or no limit. ``step``: distance of the values that differ.
    ``counts_bytes``: it is a number of bytes, or of MiB, and means the tokens of a model with known sizes."""

    name: str
    ample: Callable[[Mapping[str, Any], ServerLoad], int]
    step: int = 1
    counts_bytes: bool = False


@dataclass(frozen=True)
class Manual:
    """Interface of an engine's server: options, models, request fields, and the values that a search draws."""

    flags: tuple[Flag, ...]                                        # options in the order of output
    models: tuple[str, ...]  # model names from recordings and descriptions of the engine
    drawn: tuple[str, ...]                                         # models that a search draws from
    draw: Callable[[Rng, str], DrawnServer]                              # draw a server for a model
    architectures: tuple[str, ...] = ()                            # prefixes of layers: `qwen35-GGGA`
    with_text: tuple[str, ...] = ()  # models with token texts that the engine reads
    empty_prompt: bool = False                                     # the server answers an empty prompt
    refused: frozenset[str] = frozenset({"K"})                     # kinds of layers that the engine does not have
    newest: frozenset[str] = frozenset()       # kinds of layers that only engines which name them have, see `LayerKind`
    slots: bool = True  # requests name slots, which can be saved; False: concurrent requests form a batch
    pool: bool = False                         # requests share one cache, without slots and stored conversations
    # number of slots that the options request, -1 = the server chooses; 1 if no option sets it
    slot_count: Callable[[Mapping[str, Any]], int] = lambda server: 1
    chats: ChatDrawing | None = None                                     # drawing of messages, None = no chats
    completions: bool = False                                      # a request may have several completions
    endless: bool = False                                          # n_predict may be -1
    # fields of a `Request` that the server reads besides `COMMON_FIELDS`; others are refused
    takes: frozenset[str] = frozenset()
    fields: tuple[Field, ...] = ()                                 # fields of `Request.extra`
    plenty: Mapping[str, int] = field(default_factory=dict)  # option that never hurts when larger -> ample value
    # draw request fields other than prompt and answer
    draw_fields: Callable[[Rng, Mapping[str, Any]], dict[str, Any]] = lambda rng, server: {}
    # lists of adapters that a request, or a step that changes the server's list, may have under these options
    adapter_lists: Callable[[Mapping[str, Any]], tuple[str, ...]] = lambda server: ()
    adapter_scales: str = ""        # option with the scales of the server's adapters; "" = it has none
    # sizes of images that a search draws under these options, () = the server takes no images
    image_sizes: Callable[[Mapping[str, Any]], tuple[str, ...]] = lambda server: ()
    drawn_newest: tuple[str, ...] = ()                             # further models to draw if asked for
    drawn_with_images: tuple[str, ...] = ()                        # further models to draw for a server with images
    # flag spellings that change no decision -> number of values that follow
    silent: Mapping[str, int] = field(default_factory=dict)
    # real models with the layers that represent them
    known: Mapping[str, KnownModel] = field(default_factory=lambda: OLDER)
    # real models that are not simulated -> what is missing
    lacks: Mapping[str, str] = field(default_factory=dict)
    headline: tuple[str, ...] = ()                                 # options in every report
    token_numbers: tuple[str, ...] = ()                            # rule set fields that count tokens
    unlimited: Mapping[str, Option] = field(default_factory=dict)  # options that lift the storage limits
    # model types of configurations, as ``plain`` writes them -> name in ``known`` whose layers represent them
    stand_ins: Mapping[str, str] = field(default_factory=dict)
    # name in ``known`` -> options that the server sets for the model if the command line does not
    model_options: Mapping[str, Mapping[str, Option]] = field(default_factory=dict)
    # architectures whose windows have storage of their own, as ``plain`` writes them; None = all
    window_pools: frozenset[str] | None = None
    route: str = ""  # policy with which the engine's own front end chooses the replica of a request, "" = it has none
    # release without rule set -> how all releases before it differ from the rule sets
    before: Mapping[str, str] = field(default_factory=dict)
    length: str = ""  # option for the longest request whose default is the length of the real model, "" = none
    device: DeviceOption | None = None  # memory of the device, None = it decides nothing
    assumed: AssumedPool | None = None  # sizes of the pool that options leave to the memory of the device, None = none
    sizes: SizesOption | None = None  # option for the sizes of a real model, None = they change no decision
    context: ContextOption | None = None  # option for the context size, None = none
    open_words: Mapping[str, str] = field(default_factory=dict)    # text for the value of an option left to the server
    # given all options of a server: option changes to try when too many tokens are evaluated, cheapest first, each with
    # the changes that it requires; None = the `tries` of the flags, each alone
    tries: Callable[[Mapping[str, Any], ServerLoad], Iterator[dict[str, Option]]] | None = None
    capacities: tuple[Capacity, ...] = ()      # sizes of which the smallest sufficient value is searched
    group_options: frozenset[str] = frozenset()                    # options that divide the memory into groups

    @cached_property
    def defaults(self) -> dict[str, Option]:
        """Option name -> default of the newest real server."""
        return {flag.name: flag.default for flag in self.flags}

    def flag(self, name: str) -> Flag | None:
        """Return the option of this name, None if the engine does not have it."""
        return self._flags.get(name)

    def named(self, word: str) -> tuple[Flag, bool] | None:
        """Return the option that a word denotes in any spelling, and whether the word switches it on; None if the word
        is unknown."""
        return self.words.get(plain_name(word))

    @cached_property
    def words(self) -> dict[str, tuple[Flag, bool]]:
        """Every name of every option. An option's own name takes precedence over aliases of other options."""
        found = {flag.name: (flag, True) for flag in self.flags}
        for flag in self.flags:
            for name, switches_on in flag.names():
                found.setdefault(name, (flag, switches_on))
        return found

    def unread_marks(self, request: Request) -> list[str]:
        """Return the marks of the request that this server does not read, by their names in scenarios."""
        return scenario_names(name for name in _changed_fields(request) if name in MARKS - self.takes)

    def ignored(self, request: Request) -> list[str]:
        """Return the fields of the request that this server would ignore although they could change its cache, by
        their names in scenarios."""
        endless = ["n_predict = -1"] if request.n_predict < 0 and not self.endless else []
        images = [IMAGES] if IMAGES not in self.takes and is_item(max(request.prompt, default=0)) else []
        invalid = [INVALID] if INVALID not in self.takes and min(request.prompt, default=0) < 0 else []
        more = [name for name in request.extra if name not in {known.name for known in self.fields}]
        changed = scenario_names(_changed_fields(request, self._unread_fields))
        return [*changed, *endless, *images, *invalid, *more]

    @cached_property
    def _unread_fields(self) -> Mapping[str, Any]:
        known = COMMON_FIELDS | self.takes | MARKS
        return {name: default for name, default in DEFAULTS.items() if name not in known}

    @cached_property
    def _flags(self) -> dict[str, Flag]:
        return {flag.name: flag for flag in self.flags}


DEFAULTS: Mapping[str, Any] = {row.name: row.default for row in fields(Request) if row.name != "extra"}


def _changed_fields(request: Request, defaults: Mapping[str, Any] = DEFAULTS) -> list[str]:
    """Return the names of the fields that differ from their ``defaults``."""
    return [name for name, default in defaults.items() if getattr(request, name) != default]


def plain_name(word: str) -> str:
    """Return the name of an option without dashes: ``--ctx-checkpoints`` becomes ``ctx_checkpoints``, ``-np`` becomes
    ``np``."""
    return word.strip().lstrip("-").replace("-", "_")


def scenario_names(names: Iterable[str]) -> list[str]:
    """Return the names of request fields as users write them."""
    return [SCENARIO_NAMES.get(name, name) for name in names]


def draw_batches(rng: Rng) -> tuple[int, int]:
    """Draw n_batch and n_ubatch [tokens], often small, so that short prompts span several batches."""
    ubatch = rng.one((512, 512, 64, 64, 16, 4, 2, 1))
    return max(ubatch, rng.one((512, 64, 64, 32, 8, 2))), ubatch
