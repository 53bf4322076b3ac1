"""Single-line faults in the notation, in scenarios, and in the replay of recordings."""

from __future__ import annotations

from tests.meta.floors.fault import Fault

NOTATION = [
    Fault("a flag that the table has lost", "scenarios/notation/flags.py",
          '    "seed": RequestFlag(truth, plain),\n', ""),
    Fault("one token more accepted than drafted", "scenarios/notation/flags.py",
          "pair[1] > pair[0]:", "pair[1] > pair[0] + 1:"),
    Fault("the second length of a word counts", "scenarios/notation/parse.py",
          "if self.words.get(piece.word, length) != length:", "if False:"),
    Fault("a file is restored that was not saved", "scenarios/notation/parse.py",
          'if do == "restore" and file not in self.saved:', "if False:"),
    Fault("columns count from 0", "scenarios/notation/parse.py",
          "{self.part.at + 1}, request", "{self.part.at}, request"),
    Fault("a hang-up behind the last token", "scenarios/notation/normalise.py",
          "and step.cancel_after >= length >= 0:", "and step.cancel_after > length >= 0:"),
    Fault("restoring goes while saving stays", "scenarios/notation/shrink_vector.py",
          "            saved.add(step.file)\n", "            pass\n"),
    Fault("chance goes on with the larger case", "scenarios/notation/shrink.py",
          "if _weight(small) < _weight(self.best):", "if _weight(small) > _weight(self.best):"),
    Fault("no word is ever long", "scenarios/notation/shrink.py", "if words and rng.chance(50):", "if False:"),
    Fault("two words made one lose a mark", "scenarios/notation/normalise.py",
          "if together and second not in marked and", "if together and"),
    Fault("more is asked for than allowed", "scenarios/notation/shrink.py",
          "return len(self.asked) > self.tries", "return False"),
]  # fmt: skip

SCENARIOS = [
    Fault("a draft that was right is replayed", "scenarios/runner.py", "2 if wrong > 0 and", "2 if wrong >= 0 and"),
    Fault("an answer is over before its further completions", "scenarios/runner.py",
          "over = answer.done and all(child.done for child in answer.children)", "over = answer.done"),
    Fault("a restart forgets its options", "scenarios/runner.py",
          "            self.options |= dict(action.server)\n", ""),
    Fault("who comes later comes a round too late", "scenarios/runner.py",
          "for _ in range(rounds):", "for _ in range(rounds + 1):"),
    Fault("a request behind the last one may be broken", "scenarios/load.py",
          "values[-1] >= requests:", "values[-1] > requests:"),
    Fault("an error is not worth a line", "scenarios/toml_writer.py", "<= {200}:", "<= {200, 500}:"),
    Fault("an option below its least value", "scenarios/option_checks.py",
          "if not flag.least <= value <= HIGHEST:", "if value > HIGHEST:"),
    Fault("nan is a share", "scenarios/option_checks.py", "if not 0 <= value <= 1: ", "if value < 0 or value > 1: "),
    Fault("two scenarios with one id", "scenarios/load.py", "if scenario.id in seen:", "if False:"),
    Fault("the token that was generated last is held", "scenarios/request_spec.py",
          "prompt + generated - 1 if generated else 1", "prompt + generated if generated else 1"),
    Fault("a file without what was drafted else", "scenarios/toml_writer.py", '          "draft_else", ', "          "),
    Fault("a step by itself still waits", "scenarios/schema.py", "together=False, after=0", "together=False"),
]  # fmt: skip

LIVE = [
    Fault("one line may be written before it happened", "replay/late_log_lines.py",
          "if seen < due:", "if seen + 1 < due:"),
    Fault("an undecided verdict agrees", "replay/replay.py",
          "all(equal is not None and equal != inexact for", "all(equal is None or equal != inexact for"),
    Fault("whether an answer was cut does not count", "replay/recorded_answers.py",
          '"id_slot", "truncated", ', '"id_slot", '),
    Fault("a step that says nothing agrees", "replay/replay.py",
          "if wrong is None and not states_result(step):", "if False:"),
    Fault("a draft is never rejected twice", "replay/replay.py", 'apart["event"] >= again', "False"),
    Fault("noticed hang-ups are no events", "replay/replay.py",
          "out.events_agree += cancels + sum", "out.events_agree += sum"),
    Fault("further completions stay for the next request", "replay/event_owners.py",
          "task.children, waiting = waiting, []", "task.children = waiting"),
    Fault("of two drafts at one place the second counts", "replay/recorded_requests.py",
          'for held, drafted in reversed(log.get("drafts") or ())', 'for held, drafted in log.get("drafts") or ()'),
    Fault("the last way to arrive is never tried", "replay/schedule_search.py",
          "if chosen[place].option + 1 < chosen[place].options:",
          "if chosen[place].option + 2 < chosen[place].options:"),
    Fault("rounding is another token", "replay/recorded_trace.py", "and margin > ROUNDING", "and margin >= 0"),
    Fault("a server that was awake slept", "replay/sleep_detection.py",
          "return fresh if _reach(fresh.fork(), step, theirs, records) > met else server",
          "return fresh if _reach(fresh.fork(), step, theirs, records) >= met else server"),
    Fault("a draft that was right to the end is one token short", "replay/recorded_requests.py",
          "Draft(ends[-1] - left - 1, left, left)", "Draft(ends[-1] - left, left, left)"),
    Fault("two texts that part share a token", "tools/live/token_map.py",
          "found.setdefault(text[n], set()).add(other[n])\n                found.setdefault(other[n]",
          "found.setdefault(other[n]"),
]  # fmt: skip

BELOW = [*NOTATION, *SCENARIOS, *LIVE]
