"""What can a client do? Changes of a line, each only where the line shows the pattern that it is for."""

from __future__ import annotations

from typing import Callable, Iterator, NamedTuple

from cachesim.engines.manual import Manual
from cachesim.scenarios.notation.tree import PLAIN, Asked, ScenarioLine
from cachesim.tools.advise.conversations import NOBODY, bare, common, conversations, parents, requests
from cachesim.tools.advise.history import changing_last, keep_answers, marked, uncut, with_requests


class ClientChange(NamedTuple):
    """A change of what the client sends: its name, what the client does then, and the change, which returns None where
    there is nothing to change. ``needs``: the fields of a request that the server must look at."""

    name: str
    text: str
    change: Callable[[ScenarioLine], ScenarioLine | None]
    needs: str = ""


def _every(change: Callable[[Asked], Asked]) -> Callable[[ScenarioLine], ScenarioLine | None]:
    """The same change of every request."""

    def all_of(line: ScenarioLine) -> ScenarioLine | None:
        done = with_requests(line, {i: change(step) for i, step in requests(line)})
        return None if done == line else done

    return all_of


def pinned(slots: int) -> Callable[[ScenarioLine], ScenarioLine | None]:
    """Each conversation has a slot of its own, as far as there are so many."""

    def pin(line: ScenarioLine) -> ScenarioLine | None:
        of = conversations(line)
        if len(set(of.values())) < 2:
            return None
        done = with_requests(line, {i: step._replace(id_slot=of[i] % slots) for i, step in requests(line)})
        return None if done == line else done

    return pin


def warmed(line: ScenarioLine) -> ScenarioLine | None:
    """The text that all conversations begin with is sent once, by itself, before them."""
    line = uncut(line)
    steps, of = dict(requests(line)), parents(line)
    heads = [steps[i].prompt for i, parent in of.items() if parent == NOBODY]
    if len(heads) < 2 or any(step.chat for step in steps.values()):
        return None
    n = common([bare(text) for text in heads])
    if not n or any(len(text) == n for text in heads):
        return None
    return line._replace(steps=(PLAIN._replace(prompt=heads[0][:n]), *line.steps))


def own_slots(slots: int) -> ClientChange:
    """Each conversation names a slot of its own, of so many."""
    return ClientChange("id_slot", "give each conversation a slot of its own (id_slot)", pinned(slots), "id_slot")


def client_changes(manual: Manual) -> Iterator[ClientChange]:
    """What a client of this server could do whatever its options, from cheap to dear."""
    changes = [
        ClientChange("cache_prompt", "send cache_prompt true", _every(lambda one: one._replace(cache_prompt=True))),
        ClientChange("no seed", "send no seed, so that requests are batched",
                     _every(lambda one: one._replace(seed=False)), "seed"),
        ClientChange("keep the answer", "send every answer back whole, its reasoning too", keep_answers),
        ClientChange("changing part last", "put the part that changes behind everything that stays", changing_last),
        ClientChange("one after another", "wait for an answer before the next request is sent",
                     _every(lambda one: one._replace(together=False, after=0))),
        ClientChange("no id_slot", "name no slot (id_slot)", _every(lambda one: one._replace(id_slot=-1)), "id_slot"),
        ClientChange("mark messages", "send messages (/v1/chat/completions), so that user messages are marked", marked,
                     "user_starts"),
        ClientChange("warm up", "send the text that all conversations begin with once, before them", warmed),
    ]  # fmt: skip
    return (one for one in changes if not one.needs or one.needs in manual.takes)
