"""Single-line faults in the tools, most of them planted by hand in a review and missed by the tests of that time."""

from __future__ import annotations

from tests.meta.floors.fault import Fault

SERVER_LOGS = [
    Fault("a batch of a request whose beginning is not in the log tells what was reused",
          "tools/server_logs/line_handlers.py", "p0 is not None and request.whole and not request.evaluation_begun:",
          "p0 is not None and not request.evaluation_begun:"),
    Fault("a repeated prompt loses its last token", "tools/server_logs/log_causes.py",
          "evaluated - max(1, n_tokens - request.lcp))",
          "evaluated - (n_tokens - request.lcp))"),
    Fault("a client that extends the slot changed the answer", "tools/server_logs/log_causes.py",
          "if lcp >= size - 1:", "if lcp >= size:"),
]  # fmt: skip

REQUEST_BODIES = [
    Fault("a prompt shares a prefix with the next in order only", "tools/request_bodies/shared_prefixes.py",
          "sizes[number] = max(behind[left], behind[at])", "sizes[number] = behind[at]"),
    Fault("an imported scenario has no user marks", "tools/request_bodies/import_scenario.py",
          "user=at == request.user))", "user=False))"),
]  # fmt: skip

HTTP_CHECK = [
    Fault("one spoilt answer condemns a server under concurrency", "tools/conformance/http_check/suite.py",
          "RACY = 8, 2 ", "RACY = 8, 1 "),
    Fault("counts of a server that reused just the prefix are thrown away",
          "tools/conformance/http_check/warm_run.py",
          "if not here < said.cached <= there:", "if not here <= said.cached <= there:"),
]  # fmt: skip

CLI = [
    Fault("what stands behind -- asks for JSON", "cli/output_options.py",
          'return "--json" in (list(argv)[: list(argv).index("--")] if "--" in argv else argv)',
          'return "--json" in argv'),
    Fault("a switch of a server takes whatever comes next", "tools/run/engine_flags.py",
          'if todo and todo[-1] in ("on", "off") else', "if todo else"),
    Fault("the value of an option of ours is a server's flag", "tools/run/engine_flags.py",
          "if todo and word in ours and ours[word].nargs is None:", "if False:"),
]  # fmt: skip

REVIEWED = [
    Fault("any numbers are the answer", "tools/lessons/quiz.py", "if found == list(answers):", "if found:"),
    Fault("requests that touch are at work together", "tools/workload/recorded_session.py",
          "together = one.start < first_over", "together = one.start <= first_over"),
    Fault("a span before the start moves it back", "tools/search/campaign.py",
          "start = max(start, behind)", "start = behind"),
    Fault("all changes together are an origin", "tools/advise/ranking.py",
          "if len(left) < len(changes) else []", "if len(left) <= len(changes) else []"),
    Fault("the newest of equal entries goes", "tools/picture/slot_lanes.py", "min(mine)", "max(mine)"),
    Fault("a task that ended in time is odd", "tools/live/llama_server/tasks.py",
          "task.end < sent.n_prompt", "task.end <= sent.n_prompt"),
    Fault("lengths between two windows stay", "tools/live/llama_server/verify/case.py",
          "if n < min(old, new) else", "if n < old else"),
]  # fmt: skip

TOOLS = [*SERVER_LOGS, *REQUEST_BODIES, *HTTP_CHECK, *CLI, *REVIEWED]
