"""One-line faults in tools that a review planted by hand and no test found then."""

from __future__ import annotations

from tests.meta.floors.fault import Fault

MORE_TOOLS = [
    Fault("a span before the start moves it back", "tools/search/campaign.py",
          "start = max(start, behind)", "start = behind"),
    Fault("all changes together are an origin", "tools/advise/since.py",
          "if len(left) < len(changes) else []", "if len(left) <= len(changes) else []"),
    Fault("the newest of equal entries goes", "tools/picture/lanes.py", "min(mine)", "max(mine)"),
    Fault("a task that ended in time is odd", "tools/live/llama_server/tasks.py",
          "task.end < sent.n_prompt", "task.end <= sent.n_prompt"),
    Fault("lengths between two windows stay", "tools/live/llama_server/verify/fit.py",
          "if n < min(old, new) else", "if n < old else"),
]  # fmt: skip
