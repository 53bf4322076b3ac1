"""Random numbers that a test gives, for the parts that draw."""

from __future__ import annotations

from cachesim.model.hash_mixing import Rng


class Given(Rng):
    """Random numbers from the test: ``move`` for a number below 100, an end of each range, an element of each choice,
    and answers to ``chance`` in their order, then False. ``percents``: the chances that were asked."""

    def __init__(self, move=0, end=-1, choice=0, answers=()):
        super().__init__(0)
        self.move, self.end, self.choice, self.answers = move, end, choice, [*answers]
        self.percents, self.ranges, self.choices = [], [], []

    def below(self, n):
        return self.move if n == 100 else (0, n - 1)[self.end]

    def between(self, low, high):
        self.ranges.append((low, high))
        return (low, high)[self.end]

    def one(self, of):
        self.choices.append(tuple(of))
        return of[self.choice]

    def chance(self, percent):
        self.percents.append(percent)
        return self.answers.pop(0) if self.answers else False
