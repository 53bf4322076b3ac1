"""Settings of the server of a scenario: the options that it gives, and the sizes of the pool that are assumed because
it does not give them."""

from __future__ import annotations

from typing import Mapping

from cachesim.engines.capabilities import AssumedSizes, Option, RequestSize
from cachesim.engines.registry import engine_named
from cachesim.scenarios.schema import Scenario


def assumed_sizes(scenario: Scenario) -> AssumedSizes:
    """Return the sizes of a pool that holds all requests, or as many as its device, as far as the scenario does not
    give them; none for an engine whose server does not derive them from the memory of its device. Raise BadInput for
    bad options."""
    pool = engine_named(scenario.engine).manual.assumed
    if pool is None:
        return AssumedSizes({})
    requests = [RequestSize(len(step.request.prompt), max(0, step.request.n_predict)) for step in scenario.steps]
    return pool.fit(scenario.model, scenario.server, requests)


def assumed_options(scenario: Scenario) -> Mapping[str, Option]:
    """Return the assumed sizes of the pool of a scenario's server by option. Raise BadInput for bad options."""
    return assumed_sizes(scenario).options


def server_options(scenario: Scenario) -> dict[str, Option]:
    """Return the options of the server of a scenario, the assumed ones among them. Raise BadInput."""
    return {**assumed_options(scenario), **scenario.server}
