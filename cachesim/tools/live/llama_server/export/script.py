"""Model of an exported program: what it needs to run a scenario on a real server without cachesim.

It has words with real tokens, and requests whose prompts are sums of words. Generated tokens replace the words of the
answer from then on, as in ``player``; if an answer is shorter, the original tokens of these words are kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput
from cachesim.base.tokens import Tokens
from cachesim.engines.capabilities import Option
from cachesim.engines.registry import ENGINES
from cachesim.judging.judged_run import Run, run_judged
from cachesim.scenarios.notation.tree import Action, LineRequest, Piece, Pieces
from cachesim.scenarios.notation.word_lengths import span
from cachesim.scenarios.request_spec import Words, expand
from cachesim.scenarios.runner import groups
from cachesim.scenarios.schema import Scenario, Step
from cachesim.tools.live.llama_server.cold_server import cold_flags
from cachesim.tools.live.llama_server.export.judged_loss import JudgedLoss, judged_loss
from cachesim.tools.live.llama_server.gguf_adapters import adapter_files, named_for
from cachesim.tools.live.llama_server.gguf_models import GgufModel, find_model
from cachesim.tools.live.llama_server.server import BASE
from cachesim.tools.live.llama_server.tiny_gguf import TinyModel
from cachesim.tools.live.player import BEHIND, UNLESS, check_images, real_options, scales_body
from cachesim.tools.live.token_map import MappedText, TokenMap

ROUNDING, AMPLIFIED = 1e-3, 5e-3
"""Largest log-probability difference that is rounding, with F32 and one thread; windows of gemma3 amplify rounding."""


class WordSlice(NamedTuple):
    """A slice of a word: its tokens ``start`` to ``stop`` (exclusive)."""

    word: str
    start: int
    stop: int
    is_whole: bool


class ScriptRequest(NamedTuple):
    """A request. ``number``: that of its step; ``fields``: sent besides the prompt; ``answers``: the words that each
    completion replaces (empty = unused). ``after``: iterations between the request before and this request, if they are
    sent together. ``hang_up``: tokens after which the client disconnects."""

    number: int
    prompt: tuple[WordSlice, ...]
    fields: Mapping[str, Any]
    answers: tuple[tuple[WordSlice, ...], ...]
    hang_up: int | None = None
    after: int = 0

    @property
    def heard(self) -> Iterator[tuple[int, int, WordSlice]]:
        """Yield the words that generated tokens replace: index of the completion, its first token, and the word."""
        for completion, parts in enumerate(self.answers):
            at = 0
            for part in parts:
                yield completion, at, part
                at += part.stop - part.start


class ScriptAction(NamedTuple):
    """A step that is not a request. ``flags``: those of the server after a restart, None = unchanged; ``scales``: of
    the server's adapters from then on, as a server reads them."""

    number: int
    do: str
    id_slot: int = -1
    file: str = ""
    flags: tuple[str, ...] | None = None
    scales: Sequence[Mapping[str, Any]] = ()


Group = tuple[ScriptRequest, ...] | ScriptAction


class ExpectedOutcome(NamedTuple):
    """Expected outcome of a step: tokens reused and evaluated, HTTP status, and whether the answer equals a cold
    run's."""

    cache_n: int
    prompt_n: int
    status: int
    equal: bool | None
    died: bool
    fault: str


@dataclass(frozen=True)
class Script:
    """A scenario prepared for export."""

    scenario: Scenario
    profile: str
    model: GgufModel
    flags: tuple[str, ...]               # of the server
    words: Mapping[str, Tokens]          # in real tokens
    spelled: frozenset[str]              # words with real texts, which must not be renamed
    groups: tuple[Group, ...]
    expected: tuple[ExpectedOutcome, ...]       # an entry per step
    notes: tuple[str, ...]               # deviations that a real server makes necessary
    loss: JudgedLoss | None = None       # lost reuse, of a case without a wrong answer
    unmatched: Mapping[int, int] = field(default_factory=dict)     # tokens evaluated again by requests without a loss

    @property
    def constant(self) -> tuple[str, ...]:
        """Flags of every start of the server besides ``flags``."""
        return tuple(ENGINES[self.scenario.engine].recorded.constant) or BASE

    @property
    def cold_flags(self) -> tuple[str, ...]:
        """Flags of the server without a cache."""
        uncached = ENGINES[self.scenario.engine].recorded.uncached
        return (*self.flags, *uncached) if uncached else cold_flags(self.flags)

    @property
    def asks(self) -> Iterator[ScriptRequest]:
        """All requests."""
        return (one for group in self.groups if not isinstance(group, ScriptAction) for one in group)

    @property
    def broken(self) -> list[int]:
        """Numbers of the steps with a wrong answer."""
        return [number for number, one in enumerate(self.expected) if one.equal is False]

    @property
    def faults(self) -> dict[int, str]:
        """What the case shows, by request: the fault of each wrong answer, or the loss of each that loses tokens."""
        lost = {one.request: self.loss.text(one) for one in self.loss.lost} if self.loss else {}
        return {number: self.expected[number].fault for number in self.broken} | lost

    @property
    def changes_server(self) -> str:
        """What the scenario does with the server that the user of a running server does not expect, "" = nothing."""
        acts = {group.do for group in self.groups if isinstance(group, ScriptAction)}
        return "restarts the server" if "restart" in acts else "sets the server's adapters" if "lora" in acts else ""

    @property
    def adapters(self) -> Mapping[str, TinyModel]:
        """Adapters of the tiny model that any start of the server needs, by file name."""
        restarts = [group.flags or () for group in self.groups if isinstance(group, ScriptAction)]
        return adapter_files(self.model, [word for flags in (self.flags, *restarts) for word in flags])

    @property
    def placed_flags(self) -> tuple[str, ...]:
        """The server's flags, with files in the current folder."""
        return tuple(word.replace("MODELS/", "") for word in self.flags)

    @property
    def adapter_note(self) -> tuple[str, ...]:
        """A line about the adapter files that a running server needs, if it needs any."""
        return (f"{', '.join(self.adapters)}: adapters of the model, in this order, that change its answers "
                "(--to script writes those of the tiny model)",) if self.adapters else ()  # fmt: skip

    @property
    def tolerance(self) -> float:
        """Largest log-probability difference that counts as rounding on a server started with BASE."""
        return AMPLIFIED if self.model.arch == "gemma3" else ROUNDING

    @property
    def racy(self) -> bool:
        """True if the outcome may depend on when requests arrive."""
        together = any(not isinstance(group, ScriptAction) and len(group) > 1 for group in self.groups)
        return together or any(one.hang_up is not None for one in self.asks)

    @property
    def drafts(self) -> bool:
        """True if drafts are forced, which a real server does not support."""
        return any(step.drafts or step.request.draft_else for step in self.scenario.steps)


def make_script(scenario: Scenario, profile: str) -> Script:
    """Return the exported scenario with the simulator's results under this profile. Raise BadInput if a real server
    cannot run it."""
    write = ENGINES[scenario.engine].recorded.write
    if write is None:
        raise BadInput(f"scenarios of {scenario.engine} cannot be run on a llama-server", file=scenario.file)
    scenario = _as_sent(scenario)
    run = run_judged(scenario, profile, "provenance")
    loss = judged_loss(run)
    words = scenario.words if isinstance(scenario.words, Words) else Words()
    tokens, tmap = _tokens(scenario)
    made = _Maker(scenario, tmap, write)
    # The command line contains only options that differ from the real server's defaults.
    explicit = {name: value for name, value in scenario.server.items() if not _default(scenario, name, value)}
    return Script(scenario, run.profile, find_model(scenario.model), made.written(explicit), tokens,
                  frozenset(words.spelled), tuple(map(made.group, groups(scenario.steps))), tuple(_expected(run)),
                  tuple(dict.fromkeys((*made.notes, *tmap.notes))), loss, _unmatched(run, loss))  # fmt: skip


def _as_sent(scenario: Scenario) -> Scenario:
    """Return the scenario with the requests that a program sends: completions, of which a build may ignore the marks of
    user messages."""
    steps = [replace(step, request=replace(step.request, chat=False)) for step in scenario.steps]
    return replace(scenario, steps=tuple(steps))


def _default(scenario: Scenario, name: str, value: object) -> bool:
    """True if the real server uses this value by default. A unified cache is its default only if it chooses the number
    of slots. Drafts need all of their options. It would choose context size and number of slots by the machine."""
    if name == "kv_unified":
        return bool(value) == (scenario.server.get("parallel", -1) == -1)
    flag = ENGINES[scenario.engine].manual.flag(name)
    asked = name in ("ctx_size", "parallel") or name.startswith(("spec_", "model_"))
    return flag is not None and flag.default == value and not asked


def _tokens(scenario: Scenario) -> tuple[dict[str, Tokens], TokenMap]:
    """Return the real tokens of all words: two texts diverge in them exactly where the scenario's texts diverge."""
    texts = [MappedText((*step.request.prompt, *(step.request.forced or ())), step.request.user_starts)
             for step in scenario.steps]  # fmt: skip
    tmap = TokenMap(texts)
    for text in texts:
        tmap.prompt(text)
    words = {word: tmap.prompt(MappedText(expand((Piece(word),), scenario.words))) for word in scenario.words}
    return words, tmap


def _expected(run: Run) -> Iterator[ExpectedOutcome]:
    for one in run.requests:
        answer = one.answer
        status = 0 if answer.died else answer.status
        yield ExpectedOutcome(
            answer.cache_n, answer.prompt_n, status, one.judged.equal_cold, answer.died, one.judged.fault
        )


def _unmatched(run: Run, loss: JudgedLoss | None) -> dict[int, int]:
    """Return the tokens that requests evaluate again which lose nothing beside the reference."""
    judged = loss.numbers if loss else {}
    return {number: one.re_evaluated for number, one in enumerate(run.requests)
            if one.re_evaluated and number not in judged}  # fmt: skip


class _Maker:
    """Converts steps into requests. ``notes``: requests that had to be changed."""

    def __init__(self, scenario: Scenario, tmap: TokenMap, write: Any) -> None:
        check_images(scenario)
        self.scenario, self.map, self.write = scenario, tmap, write
        self.options, self.notes = dict(scenario.server), list[str]()

    def group(self, numbered: tuple[int, Sequence[Step]]) -> Group:
        first, steps = numbered
        action = steps[0].action
        if action is not None:
            return self._script_action(first, action)
        return tuple(self._ask(number, step) for number, step in enumerate(steps, first))

    def _script_action(self, number: int, action: Action) -> ScriptAction:
        if action.percent < 100:
            raise BadInput(f"step {number}: slot files of a real server are not truncated", file=self.scenario.file)
        if action.do != "restart":
            return ScriptAction(number, action.do, action.id_slot, action.file, scales=scales_body(action.scales))
        self.options |= dict(action.server)
        return ScriptAction(number, "restart", flags=self.written(self.options) if action.server else None)

    def written(self, options: Mapping[str, Option]) -> tuple[str, ...]:
        """Return the server's command line for options."""
        return named_for(find_model(self.scenario.model), self.write(real_options(options, self.map)))

    def _ask(self, number: int, step: Step) -> ScriptRequest:
        asked, request = step.asked, step.request
        assert isinstance(asked, LineRequest)
        if request.kind != "completion":
            raise BadInput(f"request {number}: only completions can be run on a real server, found {request.kind}",
                           file=self.scenario.file)  # fmt: skip
        fields: dict[str, Any] = {"n_predict": request.n_predict}
        fields |= {name: value for name, unless in UNLESS.items() if (value := getattr(request, name)) != unless}
        if request.extra.get("lora"):
            fields["lora"] = scales_body(str(request.extra["lora"]))
        if asked.cancel_after is not None:
            fields["n_predict"] = asked.cancel_after + BEHIND
            self.notes.append("the time at which the server notices a disconnect is not controlled")
        if request.user_starts:
            fields["message_delimiters"] = self.map.delimiters(MappedText(request.prompt, request.user_starts))
            self.notes.append("user messages are marked by message_delimiters")
        if step.drafts or request.draft_else:
            self.notes.append("drafts come from the server's own drafter")
        if step.together:
            self.notes.append("requests that arrive during another request are sent after a delay")
        answers = tuple(map(self._parts, (asked.answer or (), *asked.answers)))
        return ScriptRequest(number, self._parts(asked.prompt), fields, answers, asked.cancel_after, step.after)

    def _parts(self, pieces: Pieces) -> tuple[WordSlice, ...]:
        words = self.scenario.words
        spans = [(piece.word, *span(piece, words)) for piece in pieces]
        return tuple(WordSlice(word, a, b, (a, b) == (0, words[word])) for word, a, b in spans)


def name_of(scenario: Scenario) -> str:
    """Return the scenario's id, or its requests as a single line."""
    return f"the scenario {scenario.id}" if scenario.file else f"'{scenario!r}'"
