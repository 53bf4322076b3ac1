"""Values that the strategies draw. ``repr`` of each is what a user types: a line in notation, flags of a command.

A request is a client's prompt in tokens. A conversation is a sequence of requests in words. A server has a model and
options. A case is a conversation on a server under a rule set.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any, Iterable, Mapping, Sequence

from cachesim.base.errors import BadInput
from cachesim.base.escaping import shell_command
from cachesim.base.tokens import Tokens
from cachesim.engines.capabilities import DrawnServer, Option
from cachesim.engines.registry import ENGINES, engine_named, engine_of
from cachesim.engines.rule_files import profile_argument
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.judging.judged_run import Run, run_judged
from cachesim.judging.reproduce_command import set_words
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.notation.canonical_text import Lengths, request_text, spell
from cachesim.scenarios.notation.normalise import letters
from cachesim.scenarios.notation.parse import parse
from cachesim.scenarios.notation.tree import LineRequest, Piece, ScenarioLine
from cachesim.scenarios.notation.word_lengths import normal
from cachesim.scenarios.option_checks import parse_settings, spoken
from cachesim.scenarios.request_spec import FIRST, STRIDE, expand, make_steps
from cachesim.scenarios.schema import DEFAULT_PROFILE, Scenario
from cachesim.strategies.argument_checks import BadArgument, check_engine, check_models
from cachesim.tools.search.drawn_conversation import DrawnConversation
from cachesim.tools.search.property_failure import PropertyFailure
from cachesim.tools.search.run_properties import findings

ALPHABET = tuple(letters(i) for i in range(26))
"""Words of requests that are drawn alone. A word has the same tokens in each of them, and a shorter one has the first
tokens of a longer one."""


class ShortRepr:
    """Base class of drawn values: IPython and Hypothesis print ``repr`` instead of the fields of a dataclass."""

    __slots__ = ()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


@dataclass(frozen=True, slots=True, repr=False)
class ClientRequest(ShortRepr):
    """A client's request. ``repr`` is its text."""

    text: str                            # in notation: words with lengths, ``A5.B3>2``
    prompt: Tokens
    n_predict: int = 1                   # tokens to generate
    cache: bool = True                   # False: reuse nothing
    cancel_after: int | None = None      # generated tokens after which the client disconnects, 0 = during the prompt
    together: bool = False               # sent while the request before is served

    def __repr__(self) -> str:
        return self.text


def request(text: str) -> ClientRequest:
    """Return the request of a text such as ``A5.B3>2``, for use in ``@example``. A word has the tokens that it has in
    drawn requests. Raise BadArgument."""
    try:
        line = parse(text)
        [step] = line.steps
    except (BadInput, ValueError) as bad:
        raise BadArgument(f"expected a request, found {text!r:.60}", hint=getattr(bad, "cause", "")) from None
    if not isinstance(step, LineRequest) or not line.words.keys() <= set(ALPHABET):
        raise BadArgument(f"expected a request with the words A to Z, found {text!r:.60}")
    words = {word: line.words.get(word, 1) for word in ALPHABET}
    made = make_steps([step], words)[0].request
    return ClientRequest(text, made.prompt, made.n_predict, made.cache_prompt, step.cancel_after)


def text_of(tokens: Sequence[int]) -> str:
    """Return tokens of drawn requests in notation: ``A5.B3``; other tokens as a list."""
    out: list[tuple[str, int]] = []
    for token in tokens:
        word, index = divmod(token - FIRST, STRIDE)
        if not 0 <= word < len(ALPHABET):
            return f"{list(tokens)}"
        if out and out[-1] == (ALPHABET[word], index):
            out[-1] = ALPHABET[word], index + 1
        elif index == 0:
            out.append((ALPHABET[word], 1))
        else:
            return f"{list(tokens)}"
    return ".".join(f"{word}{length}" for word, length in out)


@dataclass(frozen=True, slots=True, repr=False)
class ClientConversation(ShortRepr):
    """Requests of clients in words. ``repr`` is the line, which ``conversation`` reads."""

    tree: ScenarioLine

    @property
    def line(self) -> str:
        """The requests in one line."""
        return spell(self.tree)

    @property
    def requests(self) -> tuple[ClientRequest, ...]:
        """The requests in tokens, without steps that are not requests. An answer has the tokens of its word: the client
        sends these back, whatever was generated."""
        lengths = Lengths(self.tree.words)
        found = []
        for step, made in zip(self.tree.steps, make_steps(self.tree.steps, self.tree.words), strict=True):
            if isinstance(step, LineRequest):
                one = made.request
                text = request_text(step, lengths)
                found.append(ClientRequest(text, one.prompt, one.n_predict, one.cache_prompt, step.cancel_after,
                                           step.together))  # fmt: skip
        return tuple(found)

    def scenario(
        self, profile: str = DEFAULT_PROFILE, model: str = "GGGA", server: Mapping[str, Option] | None = None
    ) -> Scenario:
        """Return the conversation as a case, which ``cachesim.judge`` runs. Raise BadInput."""
        return from_line(self.line, model=model, profiles=(profile,), server=server)

    def __repr__(self) -> str:
        return self.line


def conversation(line: str) -> ClientConversation:
    """Return the conversation of a line in notation, for use in ``@example``. Raise BadArgument."""
    try:
        return ClientConversation(normal(parse(line)))
    except BadInput as bad:
        raise BadArgument(bad.cause, hint=bad.hint) from None


def joined(requests: Iterable[ClientRequest]) -> ClientConversation:
    """Return requests that were drawn alone as one conversation. Raise BadArgument without requests."""
    lines = [parse(one.text) for one in requests]
    if not lines:
        raise BadArgument("a conversation needs at least one request")
    words: dict[str, int] = {}
    for line in lines:
        words |= {word: max(length, words.get(word, 0)) for word, length in line.words.items()}
    steps = tuple(_sliced(step, line.words) for line in lines for step in line.steps)
    return ClientConversation(normal(ScenarioLine(words, steps)))


def _sliced(step: Any, lengths: Mapping[str, int]) -> LineRequest:
    asked: LineRequest = step
    return asked._replace(prompt=tuple(Piece(piece.word, stop=lengths[piece.word]) for piece in asked.prompt))


@dataclass(frozen=True, slots=True, repr=False)
class ServerSetup(ShortRepr):
    """A server's model and options. ``repr`` is the flags of ``cachesim run``."""

    drawn: DrawnServer                   # conversations are drawn for all of its options
    kept: frozenset[str]                 # names of the options with which it runs

    @property
    def engine(self) -> str:
        """Name of the engine."""
        return self.drawn.engine

    @property
    def model(self) -> str:
        """Layers, or the name of a model."""
        return self.drawn.model

    @property
    def options(self) -> Mapping[str, Option]:
        """The options that are set."""
        return {name: value for name, value in spoken(self.drawn.server, self.engine).items() if name in self.kept}

    def __repr__(self) -> str:
        return shell_command(["--model", self.model, *set_words(self.options)])


def server(engine: str, model: str, **options: Option) -> ServerSetup:
    """Return a server with this model and these options, for use in ``@example``. Raise BadArgument."""
    check_engine(engine)
    check_models([model], engine)
    try:
        given = parse_settings([f"{name}={value}" for name, value in options.items()], engine)
    except BadInput as bad:
        raise BadArgument(bad.cause, hint=bad.hint) from None
    return ServerSetup(DrawnServer(engine, model, given, (1,), 256), frozenset(given))


@dataclass(frozen=True, slots=True, repr=False)
class ServerCase(ShortRepr):
    """A conversation on a server under a rule set. ``repr`` is the words after ``cachesim run``."""

    rules: RuleSet
    server: ServerSetup
    conversation: ClientConversation
    seed: int = field(default=0, compare=False)

    @property
    def profile(self) -> str:
        """A registered rule set: that of the case, or for a changed table the one of its build."""
        return profile_of_table(self.rules)

    @property
    def scenario(self) -> Scenario:
        """The case as ``cachesim.judge`` runs it. Raise BadInput."""
        return self._drawn.scenario(self.profile)

    @property
    def command(self) -> str:
        """The shell command that runs the case. For a table that neither a file nor cachesim has, a command that runs
        it under the rule set of its build."""
        return shell_command(["cachesim", "run", *self._words])

    def judge(self, mode: str = "provenance") -> Run:
        """Run the case and compare every answer with a cold run. Raise BadInput."""
        return run_judged(self.scenario, self.profile, mode, table=self.rules)

    def failures(self, *properties: str, mode: str = "provenance") -> list[PropertyFailure]:
        """Return the failures of these properties of ``cachesim fuzz``, by default of ``warm-equals-cold``. Raise
        BadInput."""
        return findings(self._drawn, self.profile, properties or ("warm-equals-cold",), {}, self.rules, mode)

    def check(self, *properties: str, mode: str = "provenance") -> None:
        """Raise PropertyBroken for the first failure of these properties, by default of ``warm-equals-cold``."""
        for failure in self.failures(*properties, mode=mode):
            raise PropertyBroken(self, failure)

    @property
    def _drawn(self) -> DrawnConversation:
        line, engine = self.conversation.tree, self.server.engine
        return DrawnConversation(engine, self.server.model, self.server.options, line.words, line.steps, self.seed)

    @property
    def _words(self) -> list[str]:
        place = place_of_table(self.rules)
        return [self.conversation.line, "-p", place or self.profile, "--model", self.server.model,
                *set_words(self.server.options)]  # fmt: skip

    def __repr__(self) -> str:
        return shell_command(self._words)


class PropertyBroken(AssertionError):
    """A property that does not hold in a case; ``failure`` has the numbers. The first line of ``str()`` is the case and
    the failure, the last line the command that repeats it."""

    def __init__(self, case: ServerCase, failure: PropertyFailure) -> None:
        self.case, self.failure = case, failure
        text = f"{case.conversation.line} under {case.rules.name}: request {failure.step}: {failure.text}"
        super().__init__(f"{text}\n  {failure.name}: {failure.label}\n  again: {case.command}")


def profile_of_table(rules: RuleSet) -> str:
    """Return the registered rule set of a table, or for a changed table the one of its build that it differs least
    from; the newest recorded one if its build is not known."""
    engine = engine_named(rules.name.partition("@")[0])
    if engine.profiles.get(rules.name) is rules:
        return rules.name
    alike = [known for known in engine.profiles.values() if known.build == rules.build]
    nearest_table = min(alike, key=lambda known: len(known.changes(rules)), default=None)
    return nearest_table.name if nearest_table else engine.newest or engine.line[-1]


def place_of_table(rules: RuleSet) -> str:
    """Return the argument of ``-p`` that selects a table: its name, or FILE:NAME of the module that has it as a
    variable; "" if there is none."""
    if ENGINES[rules.name.partition("@")[0]].profiles.get(rules.name) is rules:
        return profile_argument(rules.name)
    for module in list(sys.modules.values()):
        file, names = getattr(module, "__file__", None), getattr(module, "__dict__", {})
        variable = next((name for name, value in list(names.items()) if value is rules), "")
        if file and variable and not variable.startswith("_"):
            return f"{file}:{variable}"
    return ""


def case(line: str, rules: RuleSet | str, model: str = "GGGA", **options: Option) -> ServerCase:
    """Return the case of a line under a rule set (a table, or its name), for use in ``@example``. Raise
    BadArgument."""
    try:
        table = engine_of(rules).rules(rules) if isinstance(rules, str) else rules
    except BadInput as bad:
        raise BadArgument(bad.cause, hint=bad.hint) from None
    return ServerCase(table, server(table.name.partition("@")[0], model, **options), conversation(line))


__all__ = [
    "ALPHABET", "ClientConversation", "ClientRequest", "PropertyBroken", "ServerCase", "ServerSetup", "case",
    "conversation", "expand", "joined", "request", "server", "text_of",
]  # fmt: skip
