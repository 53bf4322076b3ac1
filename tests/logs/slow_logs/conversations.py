"""Conversations of agents for recordings: each function asks a server six to ten requests."""

from __future__ import annotations

from typing import Callable, Mapping

from tests.logs.slow_logs.recorded_server import RecordedServer

SLOW = 6.0              # seconds of a slow prompt
LONG = 5.0              # seconds of a slow part of a prompt
SHORT = 0.4             # seconds of a message of a user
Conversation = Callable[[RecordedServer], None]


def _predict(server: RecordedServer) -> int:
    return 8 + server.rng.below(24)


def _next_seconds(server: RecordedServer) -> float:
    """Return the length of the next message [seconds]: usually a long tool result."""
    return LONG if server.rng.chance(85) else SHORT


def _drifted(server: RecordedServer, answer: list[int]) -> list[int]:
    """Return an answer as a client sends it back; one of three has another token, as after a new tokenisation."""
    if len(answer) > 3 and server.rng.chance(33):
        at = server.rng.below(len(answer) - 1)
        return [*answer[:at], 91, *answer[at + 1 :]]
    return answer


def append(server: RecordedServer) -> None:
    """Every prompt continues the one before."""
    prompt = server.text_for(SLOW)
    for number in range(7):
        answer = server.ask("a", "append" if number else "first", prompt, _predict(server))
        prompt = [*prompt, *_drifted(server, answer), *server.text_for(_next_seconds(server))]


def edit_early(server: RecordedServer) -> None:
    """The client changes an early part of the prompt, twice."""
    prompt = server.text_for(SLOW)
    for number in range(8):
        what = "append" if number else "first"
        if number in (3, 6):
            at = len(prompt) * (5 + server.rng.below(60)) // 100
            prompt = [*prompt[:at], *server.text(10 + server.rng.below(50)), *prompt[at + server.rng.below(20) :]]
            what = "edited early"
        answer = server.ask("a", what, prompt, _predict(server))
        prompt = [*prompt, *answer, *server.text_for(_next_seconds(server))]


def strip_reasoning(server: RecordedServer) -> None:
    """The client omits the first part of every answer but the last."""
    history = server.text_for(SLOW)
    for number in range(7):
        what = "answer stripped of its beginning" if number else "first"
        answer = server.ask("a", what, history, 24 + server.rng.below(16))
        history = [*history, *answer[len(answer) * 2 // 3 :], *server.text_for(_next_seconds(server))]


def regenerate(server: RecordedServer) -> None:
    """The client sends some prompts twice, and one a third time."""
    prompt = server.text_for(SLOW)
    for number in range(4):
        answer = server.ask("a", "append" if number else "first", prompt, _predict(server))
        if number != 2:
            answer = server.ask("a", "the same prompt again", prompt, _predict(server))
        prompt = [*prompt, *answer, *server.text_for(LONG if number else SHORT)]


def alternate(server: RecordedServer) -> None:
    """Two conversations take turns."""
    prompts = {"a": server.text_for(SLOW), "b": server.text_for(SLOW)}
    for number in range(8):
        name = "ab"[number % 2]
        answer = server.ask(name, "append" if number > 1 else "first", prompts[name], _predict(server))
        prompts[name] = [*prompts[name], *answer, *server.text_for(_next_seconds(server))]


def sub_agent(server: RecordedServer) -> None:
    """Sub-agents with a prompt of their own interrupt a conversation."""
    common = server.text(300)
    prompt = [*common, *server.text_for(SLOW)]
    for number in range(4):
        answer = server.ask("main", "append" if number else "first", prompt, _predict(server))
        prompt = [*prompt, *answer, *server.text_for(_next_seconds(server))]
        if number in (1, 2):
            task = [*common, *server.text_for(LONG)]
            done = server.ask(f"sub {number}", "first of a sub-agent", task, _predict(server))
            server.ask(f"sub {number}", "append", [*task, *done, *server.text_for(SHORT)], _predict(server))


def cancel(server: RecordedServer) -> None:
    """The client cancels a prompt, an answer and another conversation."""
    prompt = server.text_for(SLOW)
    answer = server.ask("a", "first", prompt, _predict(server))
    prompt = [*prompt, *answer, *server.text_for(SLOW + 2)]
    server.cancel("a", "cancelled during the prompt", prompt, 2.0 + server.rng.below(25) / 10)
    answer = server.ask("a", "retried after the cancel", prompt, _predict(server))
    prompt = [*prompt, *answer, *server.text_for(SHORT)]
    part = server.cancel_answer("a", "cancelled during the answer", prompt, 5 + server.rng.below(10))
    prompt = [*prompt, *part, *server.text_for(SHORT)]
    answer = server.ask("a", "append", prompt, _predict(server))
    server.cancel("b", "other prompt, cancelled", server.text_for(SLOW), 2.0 + server.rng.below(20) / 10)
    prompt = [*prompt, *answer, *server.text_for(SHORT)]
    server.ask("a", "append", prompt, _predict(server))


def parallel(server: RecordedServer) -> None:
    """Two conversations send each request at the same time."""
    common = server.text(server.rng.below(800))
    prompts = [[*common, *server.text_for(LONG / 2)] for _ in range(2)]
    for number in range(4):
        what = f"{'append' if number else 'first'}, two at once"
        calls = [(name, what, prompts[at], _predict(server)) for at, name in enumerate("ab")]
        answers = server.ask_at_once(calls)
        prompts = [
            [*prompt, *answer, *server.text_for(_next_seconds(server) / 1.5)]
            for prompt, answer in zip(prompts, answers, strict=True)
        ]


def titles(server: RecordedServer) -> None:
    """After a turn the client asks for a title of the conversation, with another prompt."""
    prompt = server.text_for(SLOW)
    for number in range(4):
        answer = server.ask("a", "append" if number else "first", prompt, _predict(server))
        title = [*server.text(60), *prompt[-900:], *answer]
        server.ask("title", "title of the conversation", title, 8)
        prompt = [*prompt, *answer, *server.text_for(LONG)]


def front_cut(server: RecordedServer) -> None:
    """The client removes the oldest turns when the history is long."""
    system, turns = server.text(400), [server.text_for(SLOW)]
    for number in range(7):
        what = "append" if number else "first"
        if number in (3, 5):
            turns = turns[len(turns) // 2 :]
            what = "front of the history removed"
        prompt = [*system, *(token for turn in turns for token in turn)]
        answer = server.ask("a", what, prompt, _predict(server))
        turns += [[*answer, *server.text_for(_next_seconds(server))]]


def no_cache(server: RecordedServer) -> None:
    """Some requests forbid reuse."""
    prompt = server.text_for(LONG)
    for number in range(6):
        refused = number in (2, 4)
        what = "cache_prompt = false" if refused else "append" if number else "first"
        answer = server.ask("a", what, prompt, _predict(server), cache_prompt=not refused)
        prompt = [*prompt, *answer, *server.text_for(_next_seconds(server))]


CONVERSATIONS: Mapping[str, Conversation] = {
    "append": append, "edit_early": edit_early, "strip_reasoning": strip_reasoning, "regenerate": regenerate,
    "alternate": alternate, "sub_agent": sub_agent, "cancel": cancel, "parallel": parallel, "titles": titles,
    "front_cut": front_cut, "no_cache": no_cache,
}  # fmt: skip
