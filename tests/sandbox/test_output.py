"""What is kept of an output and how it reads (field case T1)."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_bridge_plugins.tools_shell.output import HEAD, LIMIT, TAIL, Keeper, shares


def kept(data: bytes, block: int = 1000, limit: int = LIMIT) -> str:
    keeper = Keeper()
    for start in range(0, len(data), block):
        keeper.add(data[start : start + block])
    assert keeper.total == len(data)
    return keeper.text(limit)


@pytest.mark.parametrize("size", [0, 1, HEAD, HEAD + 1, LIMIT - 1, LIMIT])
def test_up_to_the_limit_everything_is_kept(size: int) -> None:
    assert kept(b"x" * size) == "x" * size


def test_of_a_long_output_both_ends_are_kept_and_the_gap_is_counted() -> None:
    text = kept(b"".join(b"%07d\n" % number for number in range(100_000)))
    first, note, last = text.partition("[734464 bytes left out]\n")
    assert note
    assert first == "".join(f"{number:07}\n" for number in range(HEAD // 8))
    assert last == "".join(f"{number:07}\n" for number in range(100_000 - TAIL // 8, 100_000))


@given(
    blocks=st.lists(st.integers(1, 3 * LIMIT), max_size=6),
    limit=st.integers(8, LIMIT),
    unit=st.sampled_from(["x", "é", "€", "😀"]),
)
def test_shown_and_left_out_bytes_add_up_wherever_blocks_and_limits_fall(
    blocks: list[int], limit: int, unit: str
) -> None:
    keeper = Keeper()
    endless = unit.encode() * (sum(blocks) + 1)
    sent = 0
    for size in blocks:
        keeper.add(endless[sent : sent + size])
        sent += size
    keeper.add(endless[sent : sent + (-sent) % len(unit.encode())])
    text = keeper.text(limit)
    assert "�" not in text
    first, note, rest = text.partition("[")
    missing = int(rest.partition(" ")[0]) if note else 0
    shown = text.count(unit) * len(unit.encode())
    assert shown + missing == keeper.total
    assert shown <= limit
    assert set(first.removesuffix("\n")) <= {unit}


@given(st.binary(max_size=3000), st.integers(1, 500))
def test_any_bytes_in_any_blocks_read_the_same_and_can_be_sent(data: bytes, block: int) -> None:
    text = kept(data, block)
    assert text == kept(data, 5000)
    text.encode()
    assert not any(character < " " and character not in "\t\n" for character in text)


def test_memory_stays_bounded_for_one_line_of_fifty_megabytes() -> None:
    keeper, block = Keeper(), memoryview(bytearray(b"x" * (1 << 20)))
    tracemalloc.start()
    for _ in range(50):
        keeper.add(block)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert keeper.total == 50 << 20
    assert peak < 10 * LIMIT


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (b"a\r\nb\r\n", "a\nb\n"),
        (b"10%\r20%\r100%\ndone\n", "100%\ndone\n"),
        (b"10%\r", "10%"),
        (b"\x1b[1;31mred\x1b[0m \x1b]8;;http://x\x1b\\link\x1b]8;;\x07", "red link"),
        (b"\x1b[2K\x1b(B\x1b=text", "text"),
        (b"one\x1b]0;title\ntwo\x1bPmore\nthree", "one\ntwo\nthree"),
        (b"N\x08NA\x08A", "NA"),
        (b"a long enough line\x07\n", "a long enough line�\n"),
        (b"a long enough line\xff\n", "a long enough line�\n"),
        ("tab\tüß 😀".encode(), "tab\tüß 😀"),
    ],
)
def test_what_terminals_swallow_is_left_out_and_strange_characters_are_marked(written: bytes, read: str) -> None:
    assert kept(written) == read


@pytest.mark.parametrize("size", [100, 10 * LIMIT])
def test_bytes_that_are_no_text_are_named_and_not_shown(size: int) -> None:
    data = bytes(range(256)) * size
    assert kept(data) == f"[{len(data)} bytes that are not text]"


@pytest.mark.parametrize(
    ("stdout", "stderr", "expected"),
    [
        (10, 20, (10, 20)),
        (LIMIT, 0, (LIMIT, 0)),
        (0, 9 * LIMIT, (0, LIMIT)),
        (9 * LIMIT, 100, (LIMIT - 100, 100)),
        (9 * LIMIT, 9 * LIMIT, (LIMIT * 3 // 4, LIMIT // 4)),
        (LIMIT // 2, 9 * LIMIT, (LIMIT // 2, LIMIT // 2)),
    ],
)
def test_the_streams_share_one_limit_and_stderr_is_sure_of_a_quarter(
    stdout: int, stderr: int, expected: tuple[int, int]
) -> None:
    assert shares(stdout, stderr) == expected
