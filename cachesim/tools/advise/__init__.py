"""What would have helped? A case is run again with other flags, other builds and another client, and what matters is
shown: fewer tokens evaluated, right answers, the memory that it takes.

``search`` tries changes from cheap to dear, each in a whole run of the simulator; ``choose`` picks the few that matter.
"""

from cachesim.tools.advise.ranking import Advice, choose
from cachesim.tools.advise.search import AdviceSearch

__all__ = ["Advice", "AdviceSearch", "choose"]
