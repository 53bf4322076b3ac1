"""Search for the server settings of a workload of agents in a given memory.

All settings run on the servers with the longest requests. The best of them run on all servers, and their answers are
judged. Tokens are scaled there. The winner runs again unscaled; if another setting is better then, that one runs
unscaled, too. Less precise rows are tried if the best setting without them leaves much to gain.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput
from cachesim.base.pool import cores, results_in_order
from cachesim.base.progress_bar import ProgressBar, progress
from cachesim.engines.capabilities import Flag, Option
from cachesim.engines.contract import Engine
from cachesim.engines.registry import engine_of, rules_of
from cachesim.engines.shared.memory_use import AgentForms, MemoryForms, MemoryQuestion
from cachesim.engines.shared.model_sizes import ModelSizes, real_model, sizes_of
from cachesim.scenarios.option_checks import in_force
from cachesim.tools.advise.agent_workload import AgentWorkload, Requests
from cachesim.tools.workload.run_cell import COUNTED, JUDGED, Cell, cell
from cachesim.tools.workload.simulated_servers import served

SHOWN = 4              # the best setting and the next ones
KEPT = 5               # settings with correct answers that run on all servers, at most
PART = 3               # 1/PART of the servers for the first comparison
FINE = 1000            # costs are compared in units of 1/FINE of the prompt tokens
LONG = 1_000_000       # prompt tokens from which on several processes are faster in spite of their start
WORTH = 100            # 1/WORTH of the prompt tokens is worth less precise rows

Setting = Mapping[str, Option]


class AgentCost(NamedTuple):
    """Cost of a workload. Tokens are real tokens, of a scaled run simulated tokens times the scale."""

    prompt: int
    evaluated: int                  # of the prompt tokens
    least: int                      # lower bound for any server
    requests: int
    unanswered: int
    wrong: int | None = None        # answers, None = not judged
    scale: int = 1                  # tokens that ran as one
    waiting: int = 0                # requests that waited for a slot
    waiting_tokens: int = 0         # evaluated and generated tokens of the answers that they waited for, summed

    @property
    def units(self) -> int:
        """Evaluated tokens in units of 1/FINE of the prompt tokens."""
        return round(self.evaluated * FINE / self.prompt) if self.prompt else 0


class FittedSetting(NamedTuple):
    """A setting with its memory. ``full``, ``window``: bytes of a token's rows in the layers with full attention and in
    those with a window; ``is_imprecise``: rows are less precise."""

    options: Setting
    total: int
    full: int
    window: int
    is_imprecise: bool


class CostlySetting(NamedTuple):
    """A setting with its cost."""

    setting: FittedSetting
    cost: AgentCost

    @property
    def rank(self) -> tuple[Any, ...]:
        """Sort key, the smallest is the best: unanswered requests, cost, memory. Less precise rows must save tokens."""
        less, units = self.setting.is_imprecise, self.cost.units
        return self.cost.unanswered, units + less * FINE // WORTH, less, self.setting.total, str(self.setting.options)


class AgentAdvice(NamedTuple):
    """Result of a search. ``best``: the best settings with correct answers, the first unscaled; ``wrong``: settings
    with wrong answers that were tried before the last of them, with the cost up to the first server that gives them;
    ``first``: all settings on a part of the servers; ``excluded``: settings that do not fit; ``ran``: all settings with
    correct answers that ran on all servers."""

    best: Sequence[CostlySetting]
    wrong: Sequence[CostlySetting]
    first: Sequence[CostlySetting]
    excluded: Sequence[FittedSetting]
    ran: Sequence[CostlySetting]


class UnscaledRun(NamedTuple):
    """Run of a server in a worker process. ``load``: the workload with this server only."""

    load: AgentWorkload
    profile: str
    model: ModelSizes
    given: Setting
    how: str


def run_unscaled(run: UnscaledRun) -> Cell:
    """Run the unscaled requests of a server. Raise BadInput for more tokens than allowed."""
    server = served(run.profile, run.model, run.given, run.load.longest)
    return cell(run.load.requests(0, 1), server, run.how)


class SearchListener:
    """What hears of a search before it ends; this one ignores it."""

    def begins(self, settings: int) -> None:
        """Hear that the search begins to compare settings."""

    def leads(self, basis: str, best: CostlySetting) -> None:
        """Hear the best setting so far. ``basis``: what its cost rests on."""


class AgentSearch:
    """Search for settings. ``word`` names the model; ``room``: memory for caches [bytes]; ``known``: costs of earlier
    searches, to which new ones are added; ``jobs``: processes of the unscaled run, None = by its length. ``listener``
    hears of the search before it ends."""

    listener = SearchListener()

    def __init__(
        self, profile: str, word: str, room: int, clients: int, load: AgentWorkload,
        known: dict[object, AgentCost] | None = None, jobs: int | None = 1,
    ) -> None:
        self.engine: Engine = engine_of(profile)
        self.profile = profile
        self.model = real_model(word)
        self.room = room
        self.clients = clients
        self.load = load
        self.jobs = jobs
        self.forms, self.agents = agent_forms(self.engine)
        self.sizes, self.scale = sizes_of(word), load.scale(self.model.window, self.agents.unit)
        self.excluded: list[FittedSetting] = []
        self.first: list[CostlySetting] = []
        self.suspects = set[int]()
        self._played: dict[int, Requests] = {}
        self.known = dict[object, AgentCost]() if known is None else known

    def advice(self) -> AgentAdvice:
        """Run the search. Raise BadInput if no setting fits."""
        if fitted := self.fitted({}):
            self.listener.begins(len(fitted))
        compared = self.compared(fitted)
        self._tell("on the longest sessions, answers not judged", sorted(compared, key=lambda one: one.rank))
        best, wrong = self.judged(compared, KEPT)
        smaller: Sequence[FittedSetting] = ()
        if self.agents.smaller and (not best or self._leaves_much(best[0].cost)):
            with suppress(BadInput):                 # rows of some widths cannot be smaller
                smaller = self.fitted(self.agents.smaller)
            more, bad = self.judged(self.compared(smaller), KEPT)
            first = min([*best, *more], key=lambda one: one.rank, default=None)
            if first and first.setting.is_imprecise:
                best = sorted([*best, *more], key=lambda one: one.rank)
            wrong += bad
        if not self.first:
            least = min(one.total for one in self.excluded) / (1 << 30)
            raise BadInput(f"no setting fits: the smallest takes {least:,.1f} GiB for caches")
        self._tell(f"{self.scale} tokens run as one" if self.scale > 1 else "on all sessions", best)
        ran = self.confirmed(best)
        return AgentAdvice(self._shown(ran), wrong, self.first, self.excluded, ran)

    def _tell(self, basis: str, ordered: Sequence[CostlySetting]) -> None:
        if ordered:
            self.listener.leads(basis, ordered[0])

    def flag_named(self, name: str) -> Flag:
        """Return an option of the server, or an option that changes only sizes."""
        return self.engine.manual.flag(name) or next(flag for flag in self.forms.flags if flag.name == name)

    def confirmed(self, best: Sequence[CostlySetting]) -> list[CostlySetting]:
        """Return the settings by rank after runs without scaling, so many that the first of them has such a cost."""
        found, run = list(best), set[str]()
        while found and str(found[0].setting.options) not in run:
            setting, cost = found[0]
            run.add(str(setting.options))
            with ProgressBar() as bar:
                bar.show("running the best setting unscaled")
                whole = self.cost(setting, range(len(self.load.servers)), 1, processes=self._processes(cost))
            found[0] = CostlySetting(setting, whole._replace(wrong=cost.wrong))
            found.sort(key=lambda one: one.rank)
        return found

    def _shown(self, best: Sequence[CostlySetting]) -> list[CostlySetting]:
        """Return the best settings; the last of them with a slot for each client, if the others have fewer."""
        if any(self.serves_all(one) for one in best[:SHOWN]):
            return list(best[:SHOWN])
        more = ([one for one in best if self.serves_all(one)]
                or self.judged([one for one in self.first if self.serves_all(one)], 1)[0])  # fmt: skip
        return [*best[: SHOWN - len(more[:1])], *more[:1]]

    def serves_all(self, costly: CostlySetting) -> bool:
        """True if a request never waits for another client's."""
        width = self.agents.width
        return not width or int(costly.setting.options[width]) >= self.clients

    def _leaves_much(self, cost: AgentCost) -> bool:
        return bool(cost.unanswered) or (cost.evaluated - cost.least) * WORTH > cost.prompt

    def fitted(self, smaller: Setting) -> list[FittedSetting]:
        """Return the settings that fit, with these types of rows; add the others to ``excluded``."""
        sizes = {flag.name: flag.default for flag in self.forms.flags}
        options = {**sizes, **in_force({}, self.profile), **smaller}
        ask = MemoryQuestion(self.model, options, rules_of(self.profile), self.room, self.load.longest)
        out: dict[str, FittedSetting] = {}
        for found in self.agents.settings(ask, self.clients):
            use = self.forms.use(ask._replace(options={**options, **found}))
            whole = {**found, **smaller}
            out[str(whole)] = FittedSetting(whole, use.total, use.token, use.window, bool(smaller))
        self.excluded += [one for one in out.values() if one.total > self.room]
        return [one for one in out.values() if one.total <= self.room]

    def compared(self, settings: Sequence[FittedSetting]) -> list[CostlySetting]:
        """Return the costs of settings on the servers with the longest requests, and add them to ``first``."""
        part = range(-(-len(self.load.servers) // PART))
        found = [CostlySetting(one, self.cost(one, part, self.scale))
                 for one in progress(settings, len(settings), "comparing settings")]  # fmt: skip
        self.first += found
        return found

    def judged(self, first: Sequence[CostlySetting], most: int) -> tuple[list[CostlySetting], list[CostlySetting]]:
        """Return the best settings with correct answers, ``most`` of them if there are as many, and those with wrong
        answers that were tried before. Settings of a new cost are tried before settings of a cost that was tried."""
        best = list[CostlySetting]()
        wrong = list[CostlySetting]()
        ordered = _unlike_first(first)
        for one in progress(ordered, len(ordered), "judging the best"):
            found = one._replace(cost=self._judged(one.setting))
            (wrong if found.cost.wrong else best).append(found)
            if len(best) == most:
                break
        return sorted(best, key=lambda one: one.rank), wrong

    def _judged(self, setting: FittedSetting) -> AgentCost:
        """Return the cost on all servers with the number of wrong answers; if there are any, only up to the first
        server that gives them. Servers that gave wrong answers before come first."""
        found = list[AgentCost]()
        for server in sorted(range(len(self.load.servers)), key=lambda server: (server not in self.suspects, server)):
            found.append(self.cost(setting, (server,), self.scale, JUDGED))
            if found[-1].wrong:
                self.suspects.add(server)
                break
        return AgentCost(*map(sum, zip(*found, strict=True)))._replace(scale=self.scale)

    def _processes(self, cost: AgentCost) -> int:
        """Return the number of processes for the unscaled run of the servers with this cost."""
        if self.jobs is not None:
            return self.jobs
        return cores() if cost.prompt >= LONG else 1

    def cost(
        self, setting: FittedSetting, servers: Iterable[int], scale: int, how: str = COUNTED, processes: int = 1
    ) -> AgentCost:
        """Return the cost of the requests of these servers. ``processes``: those of an unscaled run. Raise BadInput for
        more tokens than allowed."""
        model = self.sizes._replace(full=setting.full, window=setting.window)
        given = {name: value for name, value in setting.options.items() if self.engine.manual.flag(name)}
        key = self.load.name, self.profile, model, str(given), tuple(servers), scale, how
        if key not in self.known:
            if scale == 1 and processes > 1:
                runs = [UnscaledRun(self.load.alone(number), self.profile, model, given, how) for number in key[4]]
                cells = results_in_order(run_unscaled, runs, processes)
            else:
                cells = self._cells(model, given, key[4], scale, how)
            self.known[key] = summed(cells, scale)
        return self.known[key]

    def _cells(self, model: ModelSizes, given: Setting, servers: Iterable[int], scale: int, how: str) -> Iterator[Cell]:
        for number in servers:
            server = served(self.profile, model, given, self.load.longest, scale)
            yield cell(self._requests(number, scale), server, how)

    def _requests(self, server: int, scale: int) -> Requests:
        """Return the requests of a server; scaled requests are kept for the next setting."""
        if scale == 1:
            return self.load.requests(server, scale)
        if server not in self._played:
            self._played[server] = self.load.requests(server, scale)
        return self._played[server]


def agent_forms(engine: Engine) -> tuple[MemoryForms, AgentForms]:
    """Return the sizes of an engine's caches and its settings for agents. Raise BadInput if they are unknown."""
    forms = engine.memory()
    if forms is None or forms.agents is None:
        raise BadInput(f"no settings for agents are known for {engine.name}")
    return forms, forms.agents


def _unlike_first(settings: Iterable[CostlySetting]) -> list[CostlySetting]:
    """Return the settings by rank, but for each cost first the one with the least memory."""
    ordered = sorted(settings, key=lambda one: one.rank)
    smallest = {one.rank[:3]: one for one in reversed(ordered)}
    return sorted(ordered, key=lambda one: one is not smallest[one.rank[:3]])


def summed(cells: Iterable[Cell], scale: int) -> AgentCost:
    """Return the sum of cells; ``scale``: tokens that run as one."""
    found = list(cells)
    judged = [one.wrong for one in found if one.wrong is not None]
    prompt, evaluated, least = (scale * sum(numbers) for numbers in zip(
        *((one.prompt, one.evaluated, one.least) for one in found), strict=True))  # fmt: skip
    return AgentCost(prompt, evaluated, least, sum(one.requests for one in found),
                     sum(one.refused + one.died for one in found), sum(judged) if judged else None, scale,
                     sum(one.waiting for one in found), scale * sum(one.waiting_tokens for one in found))  # fmt: skip
