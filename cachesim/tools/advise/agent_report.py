"""Advice for agents as data and as text: the best command line, its cost, the next ones, and a reason for each flag."""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from rich.console import RenderableType
from rich.text import Text

from cachesim.base.console import note
from cachesim.base.errors import counted
from cachesim.base.escaping import shell_command
from cachesim.base.layout import as_typed, indented
from cachesim.judging.reproduce_command import flag_text
from cachesim.tools.advise.agent_reasons import reasons_data
from cachesim.tools.advise.agent_search import (
    WORTH,
    AgentAdvice,
    AgentCost,
    AgentSearch,
    CostlySetting,
    SearchListener,
    Setting,
)

Data = dict[str, Any]
GIB = 1 << 30


def agents_data(search: AgentSearch, advice: AgentAdvice, word: str, memory: int, weights: int | None) -> Data:
    """Return the advice as data. ``word``: the model; ``memory``, ``weights`` [bytes]: as given, None = unknown."""
    shown = [_setting(one, search, word) for one in advice.best]
    return {
        "model": word, "source": search.model.source, "profile": search.profile, "clients": search.clients,
        "memory": memory, "weights": weights, "room": search.room,
        "workload": _load(search),
        "scale": search.scale, "tried": len(advice.first), "excluded": len(advice.excluded),
        "smallest_excluded": min((one.total for one in advice.excluded), default=None),
        "best": shown[0] if shown else None, "next": shown[1:],
        "wrong": [_setting(one, search, word) for one in advice.wrong[:1]], "wrong_settings": len(advice.wrong),
        "reasons": list(reasons_data(search, advice)) if shown else [],
    }  # fmt: skip


def _load(search: AgentSearch) -> Data:
    load = search.load
    return {"source": load.source, "sessions": load.sessions, "left_out": load.left_out,
            "servers": len(load.servers), "longest": load.longest}  # fmt: skip


def _setting(costly: CostlySetting, search: AgentSearch, word: str) -> Data:
    setting = costly.setting
    words = [text for flag in flags_of(setting.options, search) for text in flag.split()]
    model = word if word.endswith(".gguf") else "MODEL"
    return {
        "command": shell_command([*search.agents.program, model, *words]), "flags": shell_command(words),
        "options": [{"name": name, "value": value} for name, value in setting.options.items()],
        "bytes": setting.total, "less_precise": setting.is_imprecise,
        "waits": not search.serves_all(costly), **_cost(costly.cost),
    }  # fmt: skip


def _cost(cost: AgentCost) -> Data:
    return {"prompt_tokens": cost.prompt, "evaluated": cost.evaluated, "share": _share(cost), "bound": cost.least,
            "requests": cost.requests, "unanswered": cost.unanswered, "wrong": cost.wrong,
            "waiting": cost.waiting, "waiting_tokens": cost.waiting_tokens, "scale": cost.scale}  # fmt: skip


def _share(cost: AgentCost) -> float:
    return round(cost.evaluated / cost.prompt, 4) if cost.prompt else 0.0


def flags_of(options: Setting, search: AgentSearch) -> Iterator[str]:
    """Yield the flags that set these options. A flag without value that is off is not written."""
    for name, value in options.items():
        flag = search.flag_named(name)
        if value is not False or flag.off:
            yield flag_text(flag, value, search.engine.manual.open_words)


def gib_text(n: int) -> str:
    return f"{n / GIB:,.1f} GiB"


# Text


class NotedSearch(SearchListener):
    """Listener that notes on stderr what a search compares, and the best setting so far. ``word``: the model."""

    def __init__(self, search: AgentSearch, word: str) -> None:
        self.search, self.word = search, word

    def begins(self, settings: int) -> None:
        """Note the workload and the number of settings."""
        search = self.search
        about = {"model": self.word, "profile": search.profile, "clients": search.clients, "workload": _load(search)}
        note(f"{workload_text(about)}: comparing {counted(settings, 'setting')}")

    def leads(self, basis: str, best: CostlySetting) -> None:
        """Note the best setting so far."""
        found = _setting(best, self.search, self.word)
        note(f"so far: {found['command']}: {_shown(found)} of the prompt tokens evaluated ({basis})")


def agents_report(data: Data) -> Iterator[RenderableType]:
    """Yield the report: the best command line and its cost, the next ones, the reasons, what was compared."""
    if data["best"] is None:
        yield Text(f"every setting gives wrong answers ({data['wrong_settings']} tried)", "bold red")
    else:
        yield as_typed(data["best"]["command"], "bold cyan")
        yield indented(_cost_line(data["best"]), "bold")
        if data["best"]["unanswered"]:
            yield indented(_unanswered(data["best"]), "bold red")
        yield indented(f"at most {gib_text(data['best']['bytes'])} for caches, {_room(data)}")
        if data["next"]:
            yield Text("next:")
        for one in data["next"]:
            yield indented(f"{_shown(one)}, {gib_text(one['bytes'])}{_notes(one)}")
            yield as_typed(one["command"], "cyan", "     ")
        yield Text("why:")
        for one in data["reasons"]:
            yield indented(f"{one['flag']}: {one['text']}.")
    for line in _method(data):
        yield Text(line, "dim")


def _shown(cost: Mapping[str, Any]) -> str:
    lost = f", {cost['unanswered']} of {cost['requests']} requests unanswered" if cost["unanswered"] else ""
    return f"{100 * cost['share']:.2f} %{lost}"


def _notes(setting: Mapping[str, Any]) -> str:
    return _waiting(setting) + (", less precise rows" if setting["less_precise"] else "")


def _waiting(setting: Mapping[str, Any]) -> str:
    """Return how many requests wait for a slot and for how many tokens, "" if there is a slot for each client."""
    if not setting["waits"]:
        return ""
    count = f", {setting['waiting']:,} of {counted(setting['requests'], 'request')} wait for a slot"
    if not setting["waiting"]:
        return count
    tokens = round(setting["waiting_tokens"] / setting["waiting"])
    return f"{count}, on average until the server has evaluated and generated {tokens:,} tokens for others"


def _cost_line(best: Data) -> str:
    bound = 100 * best["bound"] / max(1, best["prompt_tokens"])
    return (f"{100 * best['share']:.2f} % of the prompt tokens evaluated ({best['evaluated']:,} of "
            f"{best['prompt_tokens']:,}); any server: at least {bound:.2f} %{_notes(best)}")  # fmt: skip


def _unanswered(cost: Mapping[str, Any]) -> str:
    return f"{cost['unanswered']} of {cost['requests']} requests have no answer: they do not fit into a slot's context"


def _room(data: Data) -> str:
    if data["weights"] is None:
        return f"{gib_text(data['memory'])} given; weights and compute buffers are not counted (--weights N)"
    given = f"{gib_text(data['memory'])} given, {gib_text(data['weights'])} of them for weights"
    return f"{given}; compute buffers are not counted"


def _method(data: Data) -> Iterator[str]:
    yield workload_text(data)
    scaled = f" {data['scale']} tokens run as one, the best setting again unscaled." if data["scale"] > 1 else ""
    excluded = f"; {data['excluded']} more do not fit into {gib_text(data['room'])}" if data["excluded"] else ""
    yield f"{data['tried']} settings tried{excluded}.{scaled}"
    if data["wrong_settings"]:
        first = data["wrong"][0]
        yield (f"Left out for wrong answers: {data['wrong_settings']} settings, such as {first['flags']} "
               f"({first['wrong']} of {first['requests']} answers)")  # fmt: skip
    if data["best"] and data["best"]["less_precise"]:
        yield f"Less precise rows save {100 // WORTH} % of the prompt tokens or more; their errors are not simulated."


def workload_text(data: Data) -> str:
    load, s = data["workload"], "s" * (data["clients"] != 1)
    sessions = f"{load['sessions']} " if load["source"] == "recorded sessions" else ""
    left_out = f"; {load['left_out']} longer sessions left out" if load["left_out"] else ""
    return (f"{data['model']} under {data['profile']}, {data['clients']} client{s}: {sessions}{load['source']}, up to "
            f"{data['clients']} on a server, requests of up to {load['longest']:,} tokens{left_out}")  # fmt: skip
