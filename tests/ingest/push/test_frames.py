"""Frames as bytes: what was encoded is decoded, whatever is broken is not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hudisql.ingest.push.frames import (
    FRAME_MAGIC,
    NewFrame,
    PayloadFormat,
    acknowledged_after,
    decode_frame,
    decode_frames,
    encode_frame,
)

FRAMES = st.builds(
    NewFrame,
    table=st.text(st.characters(codec="utf-8"), min_size=1, max_size=40),
    format=st.sampled_from(PayloadFormat),
    payload=st.binary(max_size=300),
    rows=st.integers(0, 2**32 - 1),
    key=st.text(st.characters(codec="utf-8"), max_size=20),
)
SEEDS = st.integers(0, 2**32 - 1)


def encoded(frames: list[NewFrame], seed: int, synced: int = 0) -> bytes:
    return b"".join(
        part
        for number, frame in enumerate(frames, start=1)
        for part in encode_frame(frame, seed, sequence=number, synced=synced, arrival_ms=number * 1000)
    )


@given(st.lists(FRAMES, max_size=5), SEEDS, st.binary(max_size=30))
def test_frames_are_read_as_written_and_whatever_follows_is_none(
    frames: list[NewFrame], seed: int, tail: bytes
) -> None:
    content = encoded(frames, seed)
    read = list(decode_frames(memoryview(content + tail), 0, seed))
    assert [
        NewFrame(
            each.table, each.format, content[each.payload_offset :][: each.payload_bytes], each.rows, each.key
        )
        for each in read
    ] == frames
    assert [each.sequence for each in read] == list(range(1, len(frames) + 1))
    assert sum(each.size for each in read) == sum(frame.size for frame in frames) == len(content)


@given(FRAMES, SEEDS, st.data())
def test_no_frame_with_a_changed_byte_or_a_missing_end_is_whole(
    frame: NewFrame, seed: int, data: st.DataObject
) -> None:
    content = bytearray(encoded([frame], seed))
    end = data.draw(st.integers(0, len(content) - 1))
    assert decode_frame(memoryview(bytes(content[:end])), 0, seed) is None
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    assert decode_frame(memoryview(bytes(content)), 0, seed) is None
    assert decode_frame(memoryview(encoded([frame], seed)), 0, seed ^ 1) is None


def test_a_frame_within_a_payload_is_none_of_the_log() -> None:
    inner = NewFrame("s.t", PayloadFormat.NDJSON, b"forged")
    payload = encoded([inner], seed=1, synced=1 << 20)
    assert payload.startswith(FRAME_MAGIC)
    content = encoded([NewFrame("s.t", PayloadFormat.NDJSON, payload)], seed=2)[:-1]
    assert decode_frame(memoryview(content), 0, 2) is None
    assert not acknowledged_after(memoryview(content), 0, 2)


def test_a_broken_frame_was_acknowledged_if_a_later_one_says_so() -> None:
    frame = NewFrame("s.t", PayloadFormat.NDJSON, b"row")
    whole = memoryview(b"broken" + encoded([frame], 7, synced=6))
    assert acknowledged_after(whole, 0, 7)
    assert not acknowledged_after(memoryview(b"broken" + encoded([frame], 7, synced=0)), 0, 7)
