"""A conversation with a server, drawn from an integer and convertible to a scenario."""

from __future__ import annotations

from dataclasses import dataclass, replace
from string import ascii_lowercase
from typing import Any, Iterable, Mapping

from cachesim.base.errors import BadInput, quoted
from cachesim.engines.capabilities import INVALID, ChatDrawing, DrawnServer, Manual
from cachesim.engines.registry import ENGINES
from cachesim.model.hash_mixing import Rng
from cachesim.scenarios.notation import word_lengths
from cachesim.scenarios.notation.normalise import check_asked
from cachesim.scenarios.notation.shrink_vector import ShrinkCase
from cachesim.scenarios.notation.tree import PLAIN, Action, LineRequest, Piece, Pieces, ScenarioLine, map_texts
from cachesim.scenarios.notation.word_lengths import normal
from cachesim.scenarios.option_checks import parse_settings, spoken
from cachesim.scenarios.request_spec import Words, make_steps, with_words
from cachesim.scenarios.schema import Scenario
from cachesim.tools.search.client_model import ClientExchange, Clients

# Servers of drawn conversations: a model and options that the engine draws, and classes of models.

KINDS: Mapping[str, tuple[str, ...]] = {
    "A": ("A", "AA"), "W": ("W8 A", "W6 A", "W8 W8", "W8", "K8 A"), "R": ("S", "SS"),
    "H": ("GA", "GGGA", "CA", "H", "HH"),
    "HW": ("G W8", "C W8", "W8 G", "W8 A G"), "M": ("GGA+M", "A+M"),
    "N": ("I8", "I8 I8", "W8 I8", "A B2", "G P8", "W8 D4.8.3", "W8 D4.8.3 D8.8"),
    "I": ("qwen2vl", "qwen35-GA", "qwen35-GGGA", "qwen35d64", "qwen35d64mtp"),
}
"""Model classes that narrow a search: attention, windows or chunks, recurrent, hybrids, hybrids with windows, MTP,
positions of images, index rows and compressed rows."""


def small_models(manual: Manual) -> tuple[str, ...]:
    """Return small models of every kind of memory that an engine has."""
    return (*manual.drawn, *manual.drawn_newest, *manual.drawn_with_images)


def draw_server(rng: Rng, engine: str, models: tuple[str, ...] = ()) -> DrawnServer:
    """Draw a server of this engine. ``models`` narrows the choice of models and sets options (``key=value``)."""
    manual = ENGINES[engine].manual
    given = parse_settings(settings_in(models), engine)
    images = manual.image_sizes(given)
    every = small_models(manual)
    usual = (*manual.drawn, *manual.drawn_with_images) if images else manual.drawn
    known = [one for one in every if one in models] or list(usual)
    rings = [one for one in known if "W" in one]            # windows lose the most, and only after long conversations
    world = manual.draw(rng, rng.one(rings if rings and rng.chance(20) else known))
    return world._replace(server={**world.server, **given}, images=images) if given else world


def settings_in(models: Iterable[str]) -> list[str]:
    """Return the entries that set an option (``key=value``)."""
    return [one for one in models if "=" in one]


SYSTEM, TURN = "system", "user"


@dataclass(frozen=True, slots=True)
class DrawnConversation:
    """Requests to a server with this model and these options. ``seed``: the integer it was drawn from."""

    engine: str
    model: str
    server: Mapping[str, Any]
    words: Mapping[str, int]
    asked: tuple[LineRequest | Action, ...]
    seed: int

    @property
    def line(self) -> ScenarioLine:
        """The requests as a line of the notation."""
        return ScenarioLine(self.words, self.asked)

    def scenario(self, profile: str) -> Scenario:
        """Return the scenario of the conversation for a profile. A profile of another engine runs it with its own
        default options. Raise BadInput if it is not a valid scenario."""
        engine = profile.partition("@")[0]
        server = self.server if engine == self.engine else {}
        lengths = {name: n for name, n in self.words.items() if n}
        for one in self.asked:
            if isinstance(one, LineRequest):
                check_asked(one, lengths)
        return Scenario(
            id=f"fuzz-{self.seed}", title=f"conversation {self.seed} of cachesim fuzz", source=("cachesim",), why="",
            engine=engine, model=self.model, profiles=(profile,), words=lengths,
            server=with_words(server, lengths),
            steps=make_steps(self.asked, lengths, self.server),
        )

    @property
    def shrinkable(self) -> ShrinkCase:
        """The parts that can be shrunk."""
        return ShrinkCase(self.line, tuple(self.given()))

    def reduced_to(self, small: ShrinkCase) -> DrawnConversation:
        """Return the conversation reduced to these parts."""
        server = {name: self.server[name] for name in small.options}
        return replace(self, server=server, words=small.line.words, asked=small.line.steps)

    def given(self) -> dict[str, Any]:
        """Return the options that differ from the defaults of some version."""
        return spoken(self.server, self.engine)

    def typed(self, profile: str) -> dict[str, Any]:
        """Return the line, the model and the options as typed. Raise BadInput if the scenario is not valid."""
        return {"line": repr(self.scenario(profile)), "model": self.model, "server": self.given()}


def case_of(scenario: Scenario) -> DrawnConversation:
    """Convert a scenario, as far as a line can express it. Raise BadInput for words that are spelled out in pieces of
    text and for a prompt without words."""
    if isinstance(scenario.words, Words) and scenario.words.spelled:
        word = next(iter(scenario.words.spelled))
        raise BadInput(f"word {quoted(word)} is spelled out in pieces, which a line cannot express", file=scenario.file)
    for number, step in enumerate(scenario.steps):
        if isinstance(step.asked, LineRequest) and not (step.asked.prompt or step.asked.chat):
            raise BadInput(f"request {number} has no words, which a line cannot express", file=scenario.file)
    line = normal(scenario.line)
    return DrawnConversation(scenario.engine, scenario.model, scenario.server, line.words, line.steps, 0)


def draw_conversation(seed: int, engine: str, models: tuple[str, ...] = ()) -> DrawnConversation:
    """Draw the conversation of an integer. ``models`` narrows the choice of models and sets options of the server
    (``key=value``); options do not change the conversation."""
    rng = Rng(seed, engine, *(one for one in models if "=" not in one))
    return _drawn(rng, draw_server(rng, engine, models), seed)


def draw_conversation_for(world: DrawnServer, seed: int) -> DrawnConversation:
    """Draw the conversation of an integer for a given server."""
    return _drawn(Rng(seed, "conversation"), world, seed)


def _drawn(rng: Rng, world: DrawnServer, seed: int) -> DrawnConversation:
    drawer = _Drawer(rng, world, Clients(rng, world))
    asked = drawer.all()
    taken = tuple(_taken(one, drawer.manual.takes) for one in asked)
    return DrawnConversation(world.engine, world.model, world.server, drawer.clients.words, taken, seed)


FIELDS = {"cache_prompt": "cache_prompt", "id_slot": "id_slot", "seed": "seed", "drafts": "drafts",
          "draft_else": "draft_else", "cancel_after": "cancel_at"}  # fmt: skip
"""Drawn properties of a request, and the field of ``Request`` that each sets."""


def _taken(step: LineRequest | Action, takes: frozenset[str]) -> LineRequest | Action:
    """Return the step without the properties that the engine would refuse."""
    if isinstance(step, Action):
        return step
    step = step._replace(**{name: getattr(PLAIN, name) for name, field in FIELDS.items() if field not in takes})
    if "user_starts" in takes:
        return step
    return map_texts(step, lambda pieces: tuple(piece._replace(user=False) for piece in pieces))


@dataclass
class _Drawer:
    """Generator of the requests of a conversation."""

    rng: Rng
    world: DrawnServer
    clients: Clients
    saved: int = 0

    @property
    def manual(self) -> Manual:
        """Capabilities of the engine."""
        return ENGINES[self.world.engine].manual

    @property
    def is_keyed(self) -> bool:
        """True for a server with adapters or images. It has more steps that are not requests, and some requests have a
        token that no model has."""
        return bool(self.world.images or self.manual.adapter_lists(self.world.server))

    @property
    def batches(self) -> bool:
        """True if the server evaluates simultaneous requests in a single batch; it has no slots then."""
        return not self.manual.slots

    def all(self) -> list[LineRequest | Action]:
        """Draw two to nine steps, most often six."""
        found: list[LineRequest | Action] = []
        for _ in range(self.rng.one((2, 3, 4, 5, 6, 6, 7, 8, 9))):
            if found and not self.batches and self.rng.chance(20 if self.is_keyed else 7):
                found.append(self._action())
            else:
                found.append(self._request(found))
        return found

    def _action(self) -> Action:
        rng, slots = self.rng, self.manual.slot_count(self.world.server)
        if (lists := self.manual.adapter_lists(self.world.server)) and rng.chance(50):
            return Action("lora", scales=rng.one(lists))
        do = rng.one(("save", "restore", "erase", "restart", "save", *(("restore",) * 3 if self.is_keyed else ())))
        if do == "restore" and not self.saved:
            do = "save"
        if do == "restart":
            return Action("restart")
        if do == "erase":
            return Action(do, rng.below(slots))
        if do == "save":
            self.saved += 1
        number = rng.below(self.saved) if do == "restore" else self.saved - 1
        return Action(do, rng.below(slots), f"f{ascii_lowercase[number % 26]}")

    def _request(self, before: list[LineRequest | Action]) -> LineRequest:
        rng = self.rng
        burst = bool(before) and isinstance(before[-1], LineRequest) and rng.chance(45 if self.batches else 18)
        if self.is_keyed and INVALID in self.manual.takes and rng.chance(8):
            return LineRequest(self.clients.invalid(), **self.manual.draw_fields(rng, self.world.server))
        chats = self.manual.chats
        chat = self._chat(chats, burst) if chats is not None and rng.chance(65) else ()
        prompt: Pieces = () if chat else self.clients.prompt()
        answer = (self.clients.word(rng.one(self.world.answers)),)
        self.clients.remember(ClientExchange(prompt or tuple(p for _, pieces in chat for p in pieces), answer, chat))
        more: dict[str, Any] = {}
        if burst:
            more["together"], more["after"] = True, rng.one((0, 0, 0, 1, 2, 4))
        if rng.chance(6):
            more["cancel_after"] = rng.below(max(1, self.clients.size(answer)))
        if drawn := [one for one in self.manual.fields if one.drawn]:
            more["extra"] = tuple((one.name, rng.one(one.drawn)) for one in drawn if rng.chance(40))
        return LineRequest(prompt, answer, chat=chat, **more | self._fields(before))

    def _fields(self, before: list[LineRequest | Action]) -> dict[str, Any]:
        """Draw the other fields of a request. On a server with adapters it often has those of the request before."""
        fields = self.manual.draw_fields(self.rng, self.world.server)
        last = next((step for step in reversed(before) if isinstance(step, LineRequest)), None)
        if self.is_keyed and last is not None and last.extra and self.rng.chance(40):
            fields["extra"] = last.extra
        return fields

    def _chat(self, space: ChatDrawing, burst: bool) -> tuple[tuple[str, Pieces], ...]:
        """Draw messages: a new chat, the next turn of an old chat, its last message rewritten, a tool's answer, or a
        repetition. A request of a burst often starts a new chat."""
        rng, clients = self.rng, self.clients
        chats = [one for one in clients.talks if one.chat]
        move = rng.below(100)
        if not chats or move < 30 or (burst and rng.chance(30)):
            capitals = clients.shared()
            shared = bool(capitals) and rng.chance(50)
            first = Piece(rng.one(capitals)) if shared else clients.word(space.system(rng, self.world.server), True)
            system: Pieces = (first,)
            if space.thinks(self.world.server) and rng.chance(15):
                system = (*system, clients.think())
            return (*(((SYSTEM, system),) if rng.chance(80) else ()), (TURN, self._user()))
        old = rng.one(chats)
        if move < 60:
            return (*old.chat, ("assistant", old.answer), (TURN, self._user()))
        if move < 82:
            return (*old.chat[:-1], (TURN, self._user()))
        if move < 88:
            return (*old.chat, ("tool", self._user()))
        return old.chat

    def _user(self) -> Pieces:
        n = self.rng.one((0, 1, 2, 3, 5, 8, 13, 30))
        return (self.clients.word(n),) if n else ()


def longest(case: DrawnConversation) -> int:
    """Return the tokens of the longest request, prompt and answer, without those that a template adds."""
    return word_lengths.longest(case.line)
