"""Outputs of the encoder for images, which requests share until others need their place.

Source: vLLM vllm/v1/core/encoder_cache_manager.py (0.33.0).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cachesim.base.errors import Crash
from cachesim.engines.vllm.request import EncoderInput, Request

if TYPE_CHECKING:
    from cachesim.engines.vllm.profiles import Rules


class EncoderPlan(NamedTuple):
    """Images that a step encodes for a request (``inputs``), or finds again in the same step (``duplicates``);
    ``num_new_tokens``: tokens of the step that they allow; ``budget``: tokens that the encoder can still take."""

    num_new_tokens: int
    budget: int
    inputs: list[EncoderInput]
    duplicates: list[EncoderInput]


class EncoderCacheManager:
    """The outputs by image. ``cached``: requests that use each; ``freeable``: tokens of each that none uses, in the
    order in which they make room; ``num_freeable_slots``: places that are free, or can be."""

    def __init__(self, cache_size: int, rules: Rules, num_prefill_lookahead: int) -> None:
        self.cache_size = cache_size
        self.rules = rules
        self.num_prefill_lookahead = num_prefill_lookahead
        self.cached: dict[int, set[int]] = {}
        self.freeable: dict[int, int] = {}
        self.inputs_of: dict[int, dict[int, EncoderInput]] = {}        # request -> its images, by their number
        self.num_free_slots = cache_size
        self.num_freeable_slots = cache_size

    def try_schedule(self, request: Request, start: int, num_new_tokens: int, budget: int) -> EncoderPlan:
        """Return the images that a chunk needs, and its tokens: it ends before an image that cannot be encoded now.
        ``budget``: tokens that the encoder can still take in this step."""
        plan = EncoderPlan(num_new_tokens, budget, [], [])
        end = start + num_new_tokens + self.num_prefill_lookahead
        for image in request.mm_features if num_new_tokens else ():
            if image.end <= start or image.offset >= end:
                continue
            if any(other.identifier == image.identifier for other in plan.inputs):
                plan.duplicates.append(image)
            elif not self.check_and_update_cache(request, image):
                taken = sum(other.length for other in plan.inputs)
                if not self.can_allocate(image, plan.budget, taken):
                    return plan._replace(num_new_tokens=self.rules.before_image(
                        start, num_new_tokens, image.offset, self.num_prefill_lookahead))
                plan.inputs.append(image)
                plan = plan._replace(budget=plan.budget - image.length)
        return plan

    def allocate_inputs(self, request: Request, plan: EncoderPlan) -> None:
        """Reserve the places of the images that a step encodes for a request."""
        for image in plan.inputs:
            self.allocate(request, image)
        for image in plan.duplicates:
            self.check_and_update_cache(request, image)

    def free_computed_inputs(self, request: Request) -> None:
        """End the use of the images of a request whose rows are computed."""
        computed = request.num_computed_tokens - request.num_output_placeholders
        computed -= self.rules.keep_image(self.num_prefill_lookahead)
        for image in self.inputs(request):
            if image.end <= computed:
                self.free_encoder_input(request, image)

    def check_and_update_cache(self, request: Request, image: EncoderInput) -> bool:
        """True if an image is encoded; then the request uses it."""
        users = self.cached.get(image.identifier)
        if users is None:
            return False
        if not users:
            self.num_freeable_slots -= self.freeable.pop(image.identifier)
        self._use(request, image)
        return True

    def can_allocate(self, image: EncoderInput, budget: int, num_embeds_to_schedule: int) -> bool:
        """True if an image can be encoded; others make room for it and for those that are encoded with it."""
        needed = image.length + num_embeds_to_schedule
        if image.length > budget or needed > self.num_freeable_slots:
            return False
        while needed > self.num_free_slots:
            identifier = next(iter(self.freeable))
            self.num_free_slots += self.freeable.pop(identifier)
            del self.cached[identifier]
        return True

    def allocate(self, request: Request, image: EncoderInput) -> None:
        """Reserve the place of an image that is encoded."""
        self.cached.setdefault(image.identifier, set())
        self._use(request, image)
        self.num_free_slots -= image.length
        self.num_freeable_slots -= image.length

    def _use(self, request: Request, image: EncoderInput) -> None:
        self.cached[image.identifier].add(request.request_id)
        self.inputs_of.setdefault(request.request_id, {})[image.number] = image

    def free_encoder_input(self, request: Request, image: EncoderInput) -> None:
        """End the use of an image by a request, unless it has it a second time."""
        used = self.inputs_of.get(request.request_id, {})
        used.pop(image.number, None)
        users = self.cached.get(image.identifier)
        is_repeated = any(other.identifier == image.identifier for other in used.values())
        if not users or (is_repeated and self.rules.holds_repeated()):
            return
        users.discard(request.request_id)
        if not users:
            self.freeable[image.identifier] = image.length
            self.num_freeable_slots += image.length

    def inputs(self, request: Request) -> list[EncoderInput]:
        """Return the images that a request uses."""
        used = self.inputs_of.get(request.request_id, {})
        return [used[number] for number in sorted(used)]

    def free(self, request: Request) -> None:
        """End the use of all images by a request."""
        for image in self.inputs(request):
            self.free_encoder_input(request, image)

    def check(self) -> None:
        """Raise Crash unless the places of the images and their users agree with what the requests use."""
        users = dict[int, set[int]]()
        lengths = dict(self.freeable)
        for request_id, used in self.inputs_of.items():
            for image in used.values():
                users.setdefault(image.identifier, set()).add(request_id)
                lengths[image.identifier] = image.length
        if not self.rules.holds_repeated():          # a request may use an image again that it gave up
            users = {identifier: users[identifier] for identifier, listed in self.cached.items() if listed}
        if self.cached != users | {identifier: set() for identifier in self.freeable}:
            raise Crash(f"images {self.cached} are listed, of which requests use {users}")
        free = self.cache_size - sum(lengths.values())
        if (free, free + sum(self.freeable.values())) != (self.num_free_slots, self.num_freeable_slots):
            raise Crash(f"{free} places for images are free, counted are {self.num_free_slots}, and "
                        f"{self.num_freeable_slots} with those of unused images")  # fmt: skip
