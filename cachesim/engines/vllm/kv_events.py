"""Events of the block pool as other programs receive them, with the hashes of the release.

The pool numbers its hashes. A published hash is the digest of the unit's tokens, its keys and the digest before it.
Source: vLLM vllm/distributed/kv_events.py, vllm/v1/core/block_pool.py, vllm/v1/core/kv_cache_utils.py (0.33.0).
"""

from __future__ import annotations

import hashlib
from pickle import dumps
from typing import TYPE_CHECKING, Any, Callable, Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput, NotInBuild, quoted
from cachesim.engines.server_parts import EventBatch, EventHashing, PublishedEvents
from cachesim.engines.vllm.core.block_pool import BlockPool
from cachesim.engines.vllm.kv_cache_interface import VllmConfig
from cachesim.engines.vllm.page_sizes import compressed_groups, has_latent_rows
from cachesim.engines.vllm.request import Request

if TYPE_CHECKING:
    from cachesim.engines.vllm.profiles import Rules

MEDIUM_GPU = "GPU"
DEFAULT_NONE_HASH_SEED = "vllm-none-hash"
PICKLE_PROTOCOL = 5                     # the highest one of every Python that the releases support
KINDS = {"full": "full_attention", "rswa": "full_attention", "swa": "sliding_window",
         "chunked": "chunked_local_attention", "mamba": "mamba"}  # fmt: skip
"""Kind of a group -> its name in events."""
LATENT_KINDS = {**KINDS, "full": "mla_attention", "swa": "sliding_window_mla"}
"""The names for a real model that keeps one row for all heads."""

Event = dict[str, Any]
Keys = tuple[Any, ...]


def sha256(value: Any) -> bytes:
    """Return the digest of the pickled value."""
    return hashlib.sha256(dumps(value, protocol=PICKLE_PROTOCOL)).digest()


def sha256_cbor(value: Any) -> bytes:
    """Return the digest of the value in canonical CBOR."""
    from cachesim.engines.vllm.canonical_cbor import canonical_cbor

    return hashlib.sha256(canonical_cbor(value)).digest()


HASH_FUNCTIONS: Mapping[str, Callable[[Any], bytes]] = {"sha256": sha256, "sha256_cbor": sha256_cbor}
"""Values of --prefix-caching-hash-algo whose hashes are computed."""


def hash_function(algorithm: str) -> Callable[[Any], bytes]:
    """Return the hash function of this name, by default that of the release. Raise BadInput for another one."""
    if algorithm not in HASH_FUNCTIONS and algorithm:
        raise BadInput(f"block hashes of {quoted(algorithm)} are not computed", hint=", ".join(HASH_FUNCTIONS))
    return HASH_FUNCTIONS[algorithm or "sha256"]


class RequestKeys(NamedTuple):
    """What identifies the blocks of a request besides their tokens, "" = none."""

    lora_name: str
    cache_salt: str

    def of_unit(self, start: int) -> tuple[str, ...]:
        """Return the keys of the unit that begins at a token: the adapter, and in the first unit the salt."""
        salt = self.cache_salt if start == 0 else ""
        return tuple(key for key in (self.lora_name, salt) if key)


def tagged_keys(keys: RequestKeys, start: int) -> Keys | None:
    """Return the keys that the hash of a unit includes, each with its source; None = no keys. The path of an adapter
    is assumed to be its name behind a slash."""
    found: list[tuple[str, ...]] = []
    if keys.lora_name:
        found.append(("lora", keys.lora_name, f"/{keys.lora_name}"))
    if keys.cache_salt and start == 0:
        found.append(("cache_salt", keys.cache_salt))
    return tuple(found) or None


def bare_keys(keys: RequestKeys, start: int) -> Keys | None:
    """Return the keys that the hash of a unit includes, without their source (until 0.30.0); None = no keys."""
    return keys.of_unit(start) or None


class BlockHasher:
    """Digests of the units of requests. ``digests``: by the pool's number of the hash."""

    def __init__(self, vllm_config: VllmConfig, rules: Rules, hashing: EventHashing) -> None:
        config = vllm_config.kv_cache_config
        self.unit = config.hash_block_size
        self.num_lookahead_tokens = config.speculation.num_hash_lookahead_tokens
        self.hash_keys = tagged_keys if rules.tags_hash_keys else bare_keys
        self.function = hash_function(hashing.algorithm)
        self.none_hash = self.function(DEFAULT_NONE_HASH_SEED if hashing.seed is None else hashing.seed)
        self.digests: dict[int, bytes] = {}

    def digest(self, request: Request, units: int) -> bytes:
        """Return the digest of the first ``units`` units of a request."""
        numbers = request.block_hashes
        known = units
        while known and numbers[known - 1] not in self.digests:
            known -= 1
        for at in range(known, units):
            parent = self.digests[numbers[at - 1]] if at else self.none_hash
            self.digests[numbers[at]] = self._digest_of_unit(request, at * self.unit, parent)
        return self.digests[numbers[units - 1]]

    def _digest_of_unit(self, request: Request, start: int, parent: bytes) -> bytes:
        end = start + self.unit
        keys: Any = self.hash_keys(RequestKeys(request.lora_request, request.cache_salt), start)
        if self.num_lookahead_tokens:
            keys = (keys, *self.lookahead_tokens(request, end))
        return self.function((parent, tuple(request.all_token_ids[start:end]), keys))

    def lookahead_tokens(self, request: Request, end: int) -> list[int]:
        """Return the tokens behind a unit that its hash includes."""
        return request.all_token_ids[end : end + self.num_lookahead_tokens]


def external_hash(digest: bytes) -> int:
    """Return a digest as events have it: its last 64 bits."""
    return int.from_bytes(digest[-8:], "big")


class KVEventQueue:
    """Events of a block pool that are not published yet. ``lora_ids``: numbers of the adapters."""

    def __init__(self, vllm_config: VllmConfig, rules: Rules, hashing: EventHashing,
                 lora_ids: Mapping[str, int]) -> None:
        self.groups = vllm_config.kv_cache_config.kv_cache_groups
        self.num_groups = len(self.groups)
        self.kinds = LATENT_KINDS if has_latent_rows(vllm_config.options) else KINDS
        self.hasher = BlockHasher(vllm_config, rules, hashing)
        self.lora_ids = lora_ids
        self.events: list[Event] = []

    def full_blocks_stored(self, request: Request, *, columns: range, ends: Sequence[int], block_size: int,
                           kv_cache_group_id: int) -> None:  # fmt: skip
        """Queue that complete blocks can be found. ``columns``: the complete blocks of the request; ``ends``: lengths
        [tokens] of the prefixes of those that are published."""
        start = columns.start * block_size
        end = columns.stop * block_size
        stored = [(last - block_size, last) for last in ends]
        self._stored(request, kv_cache_group_id, start=start, end=end, block_size=block_size, stored=stored)

    def partial_block_stored(self, request: Request, num_tokens: int, kv_cache_group_id: int) -> None:
        """Queue that a prefix that ends inside a block can be found: its last unit."""
        unit = self.hasher.unit
        start = num_tokens - unit
        stored = [(start, num_tokens)]
        self._stored(request, kv_cache_group_id, start=start, end=num_tokens, block_size=unit, stored=stored)

    def _stored(self, request: Request, group_id: int, *, start: int, end: int, block_size: int,
                stored: Sequence[tuple[int, int]]) -> None:  # fmt: skip
        """Queue that blocks from ``start`` to ``end`` [tokens] were stored. ``stored``: those with a hash."""
        group = self.groups[group_id]
        keys = RequestKeys(request.lora_request, request.cache_salt)
        more: Event = {}
        if stored:
            more["extra_keys"] = [list(keys.of_unit(first)) or None for first, _ in stored]
        more["group_idx"] = group_id
        more["kv_cache_spec_kind"] = self.kinds[group.kind]
        if group.kind == "swa":
            more["kv_cache_spec_sliding_window"] = group.window
        if self.hasher.num_lookahead_tokens:
            more["lookahead_token_ids"] = [self.hasher.lookahead_tokens(request, last) for _, last in stored]
        self.events.append({
            "type": "BlockStored",
            "block_hashes": [self._hash_at(request, last) for _, last in stored],
            "parent_block_hash": self._hash_at(request, start) if start else None,
            "token_ids": request.all_token_ids[start:end],
            "block_size": block_size,
            "lora_id": self.lora_ids.get(request.lora_request),
            "medium": MEDIUM_GPU,
            "lora_name": request.lora_request or None,
            **more,
        })  # fmt: skip

    def _hash_at(self, request: Request, num_tokens: int) -> int:
        """Return the published hash of a prefix of a request."""
        return external_hash(self.hasher.digest(request, num_tokens // self.hasher.unit))

    def block_removed(self, keys: Sequence[int]) -> None:
        """Queue that a block lost its keys."""
        for key in keys:
            number, group_id = divmod(key, self.num_groups)
            self.events.append({
                "type": "BlockRemoved",
                "block_hashes": [external_hash(self.hasher.digests[number])],
                "medium": MEDIUM_GPU,
                "group_idx": group_id,
            })  # fmt: skip

    def all_blocks_cleared(self) -> None:
        """Queue that the prefix cache was reset."""
        self.events.append({"type": "AllBlocksCleared"})


class KVEventPublisher(PublishedEvents):
    """The events of a server. They are published when the results of a step are processed."""

    def __init__(self, vllm_config: VllmConfig, rules: Rules, block_pool: BlockPool) -> None:
        self.vllm_config = vllm_config
        self.rules = rules
        self.block_pool = block_pool
        self.queue: KVEventQueue | None = None
        self.published: list[EventBatch] = []
        self.lora_ids: dict[str, int] = {}

    def request_received(self, lora_name: str) -> None:
        """Number the adapter of a request, "" = none, in the order in which requests name them."""
        if lora_name:
            self.lora_ids.setdefault(lora_name, len(self.lora_ids) + 1)

    def start(self, hashing: EventHashing) -> None:
        """Publish the events from now on. Raise BadInput for a hash function that is not computed, and for CPU
        offload, images and compressed rows, whose events are not modelled."""
        options = self.vllm_config.options
        if options.num_cpu_chunks:
            raise BadInput("KV events of CPU offload are not modelled", hint="num_cpu_chunks 0")
        if options.multimodal:
            raise BadInput("KV events of images are not modelled", hint="multimodal 0")
        if hashing.seed is None and not self.rules.seeds_hashes:
            raise NotInBuild(f"hashes of {self.rules.name} start with random bytes, other ones in every process",
                             hint="PYTHONHASHSEED, as the server's environment has it")  # fmt: skip
        if compressed_groups(options):
            raise BadInput("KV events of compressed rows are not modelled", hint="another model")
        self.queue = KVEventQueue(self.vllm_config, self.rules, hashing, self.lora_ids)
        self.block_pool.kv_event_queue = self.queue

    def publish(self) -> None:
        """Publish the queued events."""
        if self.queue is not None and self.queue.events:
            self.published.append(EventBatch(self.queue.events))
            self.queue.events = []

    def take(self) -> list[EventBatch]:
        """Return the batches that were published since the last call."""
        taken = self.published
        self.published = []
        return taken

    def assumptions(self) -> list[str]:
        """Return what hashes and fields assume of the server's command line."""
        if not self.lora_ids:
            return []
        return ["adapters: hashes assume the path /NAME, lora_id numbers them in the order of the requests"]
