"""Advice for a case: runs with other flags, other builds and other requests, compared by answers, evaluated tokens and
memory.

``search`` tries changes in order of cost, each in a complete run; ``choose`` selects the few that matter.
"""

from cachesim.tools.advise.ranking import Advice, choose
from cachesim.tools.advise.search import AdviceSearch

__all__ = ["Advice", "AdviceSearch", "choose"]
