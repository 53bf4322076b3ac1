"""Requests on several servers as data and as text: what each policy evaluates, beside one server with the memory of
all."""

from __future__ import annotations

from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from rich.console import RenderableType
from rich.text import Text

from cachesim.base.layout import WholeTable
from cachesim.engines.capabilities import Option
from cachesim.judging.reproduce_command import settings
from cachesim.tools.run.replicas.fleet import FleetResult, ReplicaLoad, RoutedRequest

Data = dict[str, Any]


class FleetCase(NamedTuple):
    """Results of a rule set for the same requests. ``one``: one server with the memory of all, which has the options
    ``one_given``; ``default``: policy of the engine's own front end, "" = it has none; ``speed``: tokens in a second
    that decide when answers end, 0 = all ends were recorded."""

    name: str
    profile: str
    model: str
    given: Mapping[str, Option]
    number: int
    scale: int
    default: str
    speed: int
    one: FleetResult
    one_given: Mapping[str, Option]
    routes: Mapping[str, FleetResult]


def fleet_data(cases: Sequence[FleetCase]) -> Data:
    """Return the report's data. Tokens are those of the recording, if the requests were scaled."""
    return {"replicas": [_case_data(case) for case in cases]}


def _case_data(case: FleetCase) -> Data:
    one = case.one.replicas[0]
    return {
        "case": case.name, "profile": case.profile, "model": case.model, "set": settings(case.given),
        "number": case.number, "requests": one.requests, "scale": case.scale, "speed": case.speed or None,
        "default": case.default or None,
        "one": {"set": settings(case.one_given), **_load_data(one, case.scale)},
        "routes": [_route_data(case, name, result) for name, result in case.routes.items()],
    }  # fmt: skip


def _load_data(load: ReplicaLoad, scale: int) -> Data:
    return {"requests": load.requests, "answered": load.answered, "prompt": load.prompt * scale,
            "evaluated": load.evaluated * scale}  # fmt: skip


def _route_data(case: FleetCase, name: str, result: FleetResult) -> Data:
    whole = ReplicaLoad(
        requests=sum(load.requests for load in result.replicas),
        answered=result.answered,
        prompt=sum(load.prompt for load in result.replicas),
        evaluated=result.evaluated,
    )
    return {
        "route": name, **_load_data(whole, case.scale),
        "more": (result.evaluated - case.one.evaluated) * case.scale,
        "servers": [_load_data(load, case.scale) for load in result.replicas],
        "sent": [_sent_data(routed, case.scale) for routed in result.requests],
    }  # fmt: skip


def _sent_data(routed: RoutedRequest, scale: int) -> Data:
    return {"replica": routed.replica, "evaluated": routed.evaluated * scale if routed.evaluated >= 0 else None}


def fleet_report(data: Data, shows_requests: bool) -> Iterator[RenderableType]:
    """Yield the report of all cases. ``shows_requests``: also where each request ran."""
    for number, case in enumerate(data["replicas"]):
        if number:
            yield Text("")
        yield from _case_report(case)
        if shows_requests:
            yield _requests_table(case)


def _case_report(case: Data) -> Iterator[RenderableType]:
    best = min(case["routes"], key=lambda route: (-route["answered"], route["evaluated"]))
    one = case["one"]
    routing = f"{best['more']:,} tokens more" if best["more"] > 0 else f"{-best['more']:,} tokens fewer"
    beside = f"{routing} than one server with the memory of all ({_share(one)} %)" if best["more"] else (
        "as one server with the memory of all")
    least = "evaluates" if len(case["routes"]) == 1 else "evaluates least:"
    yield Text(f"{best['route']} {least} {_share(best)} % of the prompt tokens, {beside}; "
               f"{_busiest(best['servers']):.0f} % of it on the busiest server", "bold")  # fmt: skip
    given = "".join(f" {setting}" for setting in case["set"])
    yield Text(f"{case['case']}: {case['requests']:,} requests on {case['number']} servers {case['profile']}{given}, "
               f"model {case['model']}", "dim")  # fmt: skip
    table = WholeTable(padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("route", no_wrap=True)
    for name in ("evaluated", "%", "lost", "failed"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("requests and % of each server")
    for route in case["routes"]:
        mark = " *" if route["route"] == case["default"] else ""
        table.add_row(Text(route["route"] + mark, "cyan"), f"{route['evaluated']:,}", _share(route),
                      f"{route['more']:,}", _failed(route), _servers(route["servers"]))  # fmt: skip
    table.add_row("one server", f"{one['evaluated']:,}", _share(one), "", _failed(one), f"{one['requests']:,}")
    yield table
    if any(route["route"] == case["default"] for route in case["routes"]):
        yield Text("* policy of the engine's own front end", "dim")
    changed = [setting for setting in one["set"] if setting not in case["set"]]
    if changed:
        yield Text(f"one server: {' '.join(changed)}", "dim")
    if case["speed"]:
        yield Text("answers without a recorded end take as long as a server that evaluates and generates "
                   f"{case['speed']:,} tokens in a second (--speed)", "dim")  # fmt: skip


def _share(load: Data) -> str:
    return f"{100 * load['evaluated'] / load['prompt']:.1f}" if load["prompt"] else "0.0"


def _failed(load: Data) -> str:
    return f"{load['requests'] - load['answered']:,}" if load["requests"] > load["answered"] else ""


def _busiest(servers: Sequence[Data]) -> float:
    """Return the share of all evaluated tokens on the server that evaluates most, in percent."""
    whole = sum(load["evaluated"] for load in servers)
    return 100 * max(load["evaluated"] for load in servers) / whole if whole else 0.0


def _servers(servers: Sequence[Data]) -> str:
    """Return the requests of each server and its share of all evaluated tokens."""
    whole = sum(load["evaluated"] for load in servers)
    return ", ".join(f"{load['requests']:,} {100 * load['evaluated'] / whole if whole else 0:.0f}%" for load in servers)


def _requests_table(case: Data) -> WholeTable:
    """Return where each request ran and what it evaluated, by policy."""
    table = WholeTable("#", pad_edge=False)
    for route in case["routes"]:
        table.add_column(route["route"], justify="right")
    for number in range(case["requests"]):
        sent = [route["sent"][number] for route in case["routes"]]
        table.add_row(f"{number}", *(f"server {one['replica']}: {_evaluated(one)}" for one in sent))
    return table


def _evaluated(sent: Data) -> str:
    return "failed" if sent["evaluated"] is None else f"{sent['evaluated']:,}"
