"""The frontier of a plot of settings: what needs less memory or evaluates fewer tokens than all others."""

from cachesim.tools.advise.agent_plot import frontier
from cachesim.tools.advise.agent_search import AgentCost, CostlySetting, FittedSetting


def setting(total, evaluated, unanswered=0):
    cost = AgentCost(prompt=100, evaluated=evaluated, least=0, requests=4, unanswered=unanswered)
    return CostlySetting(FittedSetting({}, total, 0, 0, False), cost)


def test_a_setting_that_needs_more_memory_must_evaluate_fewer_tokens():
    small, worse, equal, large = setting(1, 60), setting(2, 70), setting(2, 60), setting(3, 40)
    assert frontier([large, equal, worse, small]) == [small, large]
    assert frontier([setting(1, 10, unanswered=1), small, large]) == [small, large]
    assert frontier([setting(1, 90), small]) == [small]
