"""Single-line faults in the tools, most of them planted by hand in a review and missed by the tests of that time."""

from __future__ import annotations

from tests.meta.floors.fault import Fault

SERVER_LOGS = [
    Fault("a batch of a request whose beginning is not in the log tells what was reused",
          "tools/server_logs/derivations.py", "return lines[:1] if early else []", "return lines[:1]"),
    Fault("a repeated prompt loses its last token", "tools/server_logs/log_causes.py",
          "evaluated - max(1, n_tokens - request.lcp))",
          "evaluated - (n_tokens - request.lcp))"),
    Fault("a client that extends the slot changed the answer", "tools/server_logs/client_changes.py",
          "common.low >= held.high:", "common.low > held.high:"),
]  # fmt: skip

REQUEST_BODIES = [
    Fault("a prompt shares a prefix with the next in order only", "tools/request_bodies/shared_prefixes.py",
          "sizes[number] = max(behind[left], behind[at])", "sizes[number] = behind[at]"),
    Fault("an imported scenario has no user marks", "tools/request_bodies/import_scenario.py",
          "user=at == request.user))", "user=False))"),
]  # fmt: skip

HTTP_CHECK = [
    Fault("one spoilt answer condemns a server under concurrency", "tools/conformance/http_check/confirming_search.py",
          "RACY = 8, 2 ", "RACY = 8, 1 "),
    Fault("counts of a server that reused just the prefix are thrown away",
          "tools/conformance/http_check/warm_run.py",
          "if not here < said.cached <= there:", "if not here <= said.cached <= there:"),
    Fault("what a batch changes is a fault of the cache", "tools/conformance/http_check/confirming_search.py",
          "if again and names is COMPARING and history.has_bursts and (shape", "if False and (shape"),
    Fault("a difference that was seen once is a failure", "tools/conformance/http_check/confirming_search.py",
          'state="undecided", why=f"{often}', 'state="failed", why=f"{often}'),
    Fault("drafts are at fault if answers without them are wrong, too",
          "tools/conformance/http_check/confirming_search.py", "if plain.gap or any(", "if plain.gap or all("),
    Fault("conversations at once exceed the context", "tools/conformance/http_check/parallel_histories.py",
          "// (max(number, CONVERSATIONS) + 1) - ROOM", "- ROOM"),
    Fault("what is undecided is green in CI", "tools/conformance/ci_reports.py",
          '"undecided": "error", ', '"undecided": "", '),
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

WATCH = [
    Fault("the end of one direction closes both", "tools/watch/relay.py",
          "return not (self.peer is not None and self.peer._has_ended)", "return False"),
    Fault("a full client does not stop the server", "tools/watch/relay.py",
          "self._is_full = True\n        if self.peer is not None and self.peer.transport is not None:\n"
          "            self.peer.transport.pause_reading()", "self._is_full = True"),
    Fault("a reset of the server is a clean end", "tools/watch/relay.py", "peer.reset()", "peer.transport.close()"),
    Fault("a reply waits for the cause of the request before", "tools/watch/relay.py",
          "self._is_awaited, self._cause = True, None", "self._is_awaited = True"),
    Fault("a request that was not compared has a header", "tools/watch/cause_header.py",
          "if not value or end < 0 or", "if end < 0 or"),
    Fault("the header stands before the others", "tools/watch/cause_header.py",
          'data[:end] + b"\\r\\n" + NAME + b": " + value + data[end:]',
          'data[: data.find(b"\\r\\n")] + b"\\r\\n" + NAME + b": " + value + data[data.find(b"\\r\\n") :]'),
    Fault("other machines reach the relay", "tools/watch/command.py", "if not address.is_loopback:", "if False:"),
    Fault("the queue has no bound", "tools/watch/frames.py", "> self._most and kind in (REQUEST, REPLY):",
          "> self._most and kind in ():"),
    Fault("a head that arrives whole has no bound", "tools/watch/exchanges.py", "PIECE = 1 << 14", "PIECE = 1 << 24"),
    Fault("a dropped part of a body is not noticed", "tools/watch/exchanges.py",
          "self._current.leave_out(NOT_COPIED)", "pass"),
    Fault("bodies are stored without being asked", "tools/watch/analysis.py",
          "if compared and self._from.saved is not None:", "if compared:"),
    Fault("an interrupt loses the totals", "tools/watch/command.py",
          "getattr(signal, name), signal.SIG_IGN)", "getattr(signal, name), signal.SIG_DFL)"),
    Fault("replies do not wait for a log that is read later", "tools/watch/joined_rows.py",
          "one.since += one.looks > 0", "one.since += 1"),
    Fault("any candidate of the prompt cache was loaded", "tools/watch/listed_lines.py",
          "if all(share in one[1] for share in shares)", "if True"),
    Fault("a release after a listed line is lost", "tools/watch/listed_lines.py",
          "if self._never.fullmatch(line, at):", "if self._never.match(line, at):"),
    Fault("a rotated log is not followed", "tools/watch/log_follower.py",
          "return (found.st_dev, found.st_ino) != (held.st_dev, held.st_ino)", "return False"),
    Fault("a long line is kept", "tools/watch/log_follower.py", "elif len(rest) > LONGEST:", "elif False:"),
    Fault("old bodies are kept", "tools/watch/recent_bodies.py",
          "if self.size > self._most:", "if False:"),
    Fault("an image is kept", "tools/watch/shortened_body.py", "if len(raw) > LONG else raw", "if False else raw"),
    Fault("bodies in flight have no bound", "tools/watch/held_bytes.py", "> self._most:", "> 1 << 60:"),
    Fault("once ends at a line that is longer than a piece", "tools/watch/analysis.py",
          "or log.has_more or not self._from.once", "or not self._from.once"),
    Fault("a body is compared after the deadline", "tools/watch/joined_rows.py",
          "if self.is_over() else", "if False else"),
    Fault("a secret is stored", "tools/watch/saved_bodies.py", "name in SECRETS", "name in ()"),
]  # fmt: skip

TOOLS = [*WATCH, *SERVER_LOGS, *REQUEST_BODIES, *HTTP_CHECK, *CLI, *REVIEWED]
