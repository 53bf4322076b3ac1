"""``watch --kv-events``: rows, gaps that the publisher fills or not, bodies, files that grow, and refused arguments."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import closing, contextmanager, suppress

import pytest

from cachesim.base import exits
from cachesim.base.limits import KV_MESSAGE_BYTES, WATCHED_BYTES
from cachesim.cli.main import main
from cachesim.tools.server_logs.kv_events.block_history import BlockHistory
from cachesim.tools.server_logs.kv_events.message_reader import message_of_line
from cachesim.tools.server_logs.kv_events.prompt_blocks import PromptBlocks
from cachesim.tools.watch.event_endpoint import WAITING, EventEndpoint
from tests.shared import ROOT

SECONDS = 60_000                 # milliseconds in which a subscriber must come


def stored(*hashes, parent=None, tokens=()):
    """Return a store of blocks of two tokens."""
    return {"type": "BlockStored", "block_hashes": list(hashes), "parent_block_hash": parent,
            "token_ids": list(tokens) or [0] * 2 * len(hashes), "block_size": 2, "lora_id": None,
            "medium": "GPU"}  # fmt: skip


def removed(*hashes):
    return {"type": "BlockRemoved", "block_hashes": list(hashes), "medium": "GPU"}


def line(seq, *events):
    """Return a message as a line."""
    return json.dumps({"topic": "", "seq": seq, "payload": [0.5, list(events), 0]}) + "\n"


class Publisher:
    """Publisher of the wire format of ``ZmqEventPublisher`` that sends a message at each call."""

    def __init__(self, folder):
        zmq = pytest.importorskip("zmq", reason="the extra `kv-events` is not installed")
        self.encode = pytest.importorskip("msgspec").msgpack.encode
        self.context = zmq.Context()
        self.sockets = self.context.socket(zmq.XPUB), self.context.socket(zmq.ROUTER)
        self.addresses = [f"ipc://{folder}/events", f"ipc://{folder}/replay"]
        self.sockets[0].setsockopt(zmq.XPUB_NODROP, 1)          # it waits for the subscriber
        self.sockets[0].setsockopt(zmq.SNDHWM, 1)
        for made, address in zip(self.sockets, self.addresses, strict=True):
            made.bind(address)
        self.kept = []

    def wait(self):
        """Wait for a subscriber."""
        while self.sockets[0].poll(SECONDS) and self.sockets[0].recv() != b"\x01":
            pass

    def send(self, seq, *events, payload=None, lost=False):
        frames = seq.to_bytes(8, "big"), payload or self.encode([0.5, events, 0])
        self.kept.append(frames)
        if not lost:
            self.sockets[0].send_multipart((b"kv", *frames))

    def replay(self, topic=(b"kv",)):
        """Answer a request for kept messages; return its number. ``topic``: () = as earlier releases."""
        assert self.sockets[1].poll(SECONDS)
        client, empty, start = self.sockets[1].recv_multipart()
        for seq, payload in self.kept:
            if seq >= start:
                self.sockets[1].send_multipart((client, empty, *topic, seq, payload))
        self.sockets[1].send_multipart((client, empty, *(b"" for _ in topic), b"\xff" * 8, b""))
        return int.from_bytes(start, "big")


@pytest.fixture
def publisher(tmp_path_factory):
    found = Publisher(tmp_path_factory.mktemp("zmq"))
    yield found
    found.context.destroy(linger=0)


@contextmanager
def watching(*words):
    """Start the command; yield the process and a function that returns its next object."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)         # background jobs ignore SIGINT
    with subprocess.Popen([sys.executable, "-m", "cachesim", "watch", "--json", *words], cwd=ROOT, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:  # fmt: skip
        signal.signal(signal.SIGINT, handler)
        try:
            yield process, lambda: json.loads(process.stdout.readline())
        finally:
            process.kill()


def totals(process):
    """Interrupt a process; return its totals."""
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == exits.INTERRUPTED and "Traceback" not in err
    return json.loads(out)["events"]


def test_an_endpoint_is_watched_with_bodies_that_come_meanwhile(publisher, tmp_path):
    bodies = tmp_path / "bodies.jsonl"
    bodies.write_text('{"prompt": [5, 6, 7, 8]}\n{"prompt": "text"}\n')
    with watching("--kv-events", publisher.addresses[0], "--bodies", str(bodies)) as (process, following):
        publisher.wait()
        publisher.send(0, stored(1, 2, tokens=(5, 6, 7, 8)))
        publisher.send(1, removed(1, 2), stored(3))
        publisher.send(2, stored(1, tokens=(5, 6)))
        first = following()["missed"]
        with bodies.open("a") as file:
            file.write('{"prompt": [5, 6, 7, 8, 9]}\n')
        publisher.send(3, stored(2, parent=1, tokens=(7, 8)))
        second = following()["missed"]
        end = totals(process)
    assert [(row["message"], row["requests"], row["undecided"]) for row in (first, second)] == [
        (2, [0], False), (3, [0, 2], False)]  # fmt: skip
    assert first["left"] == {"message": 1, "ts": 0.5, "why": "removed", "stored": 1}
    assert (end["messages"], end["missed_blocks"], end["answered"], end["undecided"]) == (4, 2, True, False)
    assert (end["bodies"], end["bodies_without_tokens"]) == (3, 1)
    assert end["requests"] == [{"request": 0, "blocks": 2, "tokens": 4, "alone": 1},
                               {"request": 2, "blocks": 1, "tokens": 2, "alone": 0}]  # fmt: skip


@pytest.mark.parametrize(("is_kept", "topic"), [(True, (b"kv",)), (True, ()), (False, ())])
def test_a_lost_message_is_read_again_or_leaves_later_rows_undecided(publisher, is_kept, topic):
    events, replay = publisher.addresses
    with watching("--kv-events", events, *(["--kv-replay", replay] if is_kept else [])) as (process, following):
        publisher.wait()
        publisher.send(0, stored(1))
        publisher.send(1, removed(1))
        publisher.send(2, stored(1), removed(1), lost=True)
        publisher.send(3, stored(1))
        if is_kept:
            assert publisher.replay(topic) == 2
            assert following()["missed"]["message"] == 2
        row = following()["missed"]
        end = totals(process)
    assert row["message"] == 3 and row["left"]["message"] == (2 if is_kept else 1)
    assert row["undecided"] is not is_kept and end["undecided"] is not is_kept
    assert (end["missing"], end["replayed"]) == ((0, 1) if is_kept else (1, 0))


def test_messages_that_cannot_be_read_are_counted(publisher):
    with watching("--kv-events", publisher.addresses[0]) as (process, following):
        publisher.wait()
        publisher.send(0, stored(1), removed(1))
        publisher.send(1, payload=b"\xc1")
        publisher.send(2, {"type": "BlockMoved", "x": 1}, ["BlockRemoved", [9], "GPU", None, None, None, 4])
        publisher.sockets[0].send_multipart((b"kv", b"two frames"))
        publisher.send(3, stored(1))
        row, end = following()["missed"], totals(process)
    assert row["undecided"] and (end["unreadable"], end["missing"], end["messages"]) == (2, 1, 3)
    assert {one["name"] for one in end["unknown_fields"]} == {"BlockMoved", "BlockRemoved.6"}


def test_messages_that_wait_are_bounded_and_the_others_wait_at_the_publisher(publisher):
    zmq = pytest.importorskip("zmq")
    publisher.sockets[0].setsockopt(zmq.SNDTIMEO, 1_000)
    with closing(EventEndpoint(publisher.addresses[0])) as endpoint:
        publisher.wait()
        sent = 0
        with suppress(zmq.Again):
            while sent < 3 * WAITING:
                publisher.send(sent, payload=publisher.encode([0.5, [], 0, bytes(2**18)]))
                sent += 1
        assert WAITING <= sent < WAITING + 20
        assert WAITING * KV_MESSAGE_BYTES.value <= WATCHED_BYTES.value
        read = 0
        while read < sent:
            read += len([*endpoint.messages(SECONDS / 1000)])


def test_a_message_that_is_too_large_is_lost_and_its_number_shows_it(publisher):
    with watching("--kv-events", publisher.addresses[0]) as (process, following):
        publisher.wait()
        publisher.send(0, stored(1), removed(1))
        publisher.send(1, payload=bytes(KV_MESSAGE_BYTES.value + 1))
        publisher.wait()                                    # the connection ended, and there is another one
        publisher.send(2, stored(1))
        row, end = following()["missed"], totals(process)
    assert row["undecided"] and (end["messages"], end["missing"]) == (2, 1)


def test_prompts_beyond_the_tokens_that_are_kept_are_forgotten_the_oldest_first():
    prompts = PromptBlocks({}, most_tokens=90)
    place = (("", None), None, None)
    store = {"block_hashes": [1], "token_ids": [5, 6], "block_size": 2}
    for number in range(3):
        assert prompts.add(number, [5, 6] + [0] * 30)
    assert (prompts.of_event(place, store), prompts.joined, prompts.forgotten) == ([frozenset([2])], 1, 2)
    assert not prompts.add(3, [1 << 64])


def test_a_file_is_watched_up_to_its_end(tmp_path, capsys):
    file = tmp_path / "events.jsonl"
    file.write_text(line(0, stored(1), removed(1)) + "{broken\n" + line(1, stored(1)).strip())
    assert main(["watch", "--kv-events", str(file), "--once", "--json"]) == exits.UNDECIDED
    row, end = map(json.loads, capsys.readouterr().out.splitlines())
    assert row["missed"]["message"] == 1 and end["events"]["unreadable"] == 1
    file.write_text(line(0, stored(1), removed(1)) + line(1, stored(1)))
    assert main(["watch", "--kv-events", str(file), "--once"]) == exits.HOLDS
    assert capsys.readouterr().out.startswith("message 1 at 0.5: 1 block, 2 tokens stored again")


def test_blocks_beyond_the_limit_are_forgotten_those_that_left_first():
    history = BlockHistory(lambda place, event: [None] * len(event["block_hashes"]), most=3)
    for text in (line(0, stored(1, 2, 3), removed(2, 1)), line(1, stored(4)), line(2, stored(1, 2))):
        history.read(message_of_line(text.encode()))
    assert history.counts["forgotten"] == 2 and [one.block_hashes for one in history.missed] == [[1]]


@pytest.mark.parametrize(("words", "named"), [
    (("--bodies", "b"), "--kv-events"), (("--tokenizer", "t"), "--kv-events"),
    (("--kv-events", "e", "--template", "t"), "--bodies"), (("--kv-replay", "tcp://127.0.0.1:1"), "--kv-events"),
    (("LOG", "--kv-events", "e"), "LOG"), (("--kv-events", "e", "--listen", "127.0.0.1:0"), "--listen"),
    (("--kv-events", "tcp://127.0.0.1:5557", "--once"), "--once"), (("--kv-events", "missing.jsonl"), "missing.jsonl"),
    (("--kv-events", "e.msgpack"), "e.msgpack"),
    (("--kv-events", "e", "--kv-replay", "tcp://127.0.0.1:1"), "--kv-replay"),
    *((("--kv-events", url), repr(named)) for url, named in (
        ("tcp://*:5557", "*"), ("tcp://10.0.0.1:5557", "10.0.0.1"), ("tcp://example.org:1", "example.org"),
        ("tcp://127.0.0.1", "tcp://127.0.0.1"), ("tcp://127.0.0.1:0", "tcp://127.0.0.1:0"),
        ("tcp://127.0.0.1:65536", "tcp://127.0.0.1:65536"), ("tcp://a@127.0.0.1:1", "tcp://a@127.0.0.1:1"),
        ("http://127.0.0.1:1", "http://127.0.0.1:1"), ("ipc://", "ipc://"), ("inproc://x", "inproc://x"),
        ("tcp://127.0.0.1:80/x", "tcp://127.0.0.1:80/x"))),
    (("--kv-events", "ipc:///tmp/" + "é" * 80), "ipc:///tmp/é"),
])  # fmt: skip
def test_unusable_arguments_are_named(words, named, capsys):
    assert main(["watch", *words]) == exits.BAD_INPUT
    [line] = capsys.readouterr().err.splitlines()
    assert named in line


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "zmq", None)
    assert main(["watch", "--kv-events", "tcp://127.0.0.1:5557"]) == exits.BAD_INPUT
    assert "pip install" in capsys.readouterr().err
