"""Batches of lines into events, in order (contracts §5.5).

Owns: that a batch is whole lines, that seqs are contiguous, and which chunk events are worth keeping. Must not know:
frames, files, torn tails. Invariant: every line is decoded and checked, kept or not; what is refused is refused by the
line-by-line way, so that both ways give the same answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from acp_bridge.session.codec import MalformedRecord, Record, Vocabulary
from acp_bridge.session.events import AssistantChunk, AssistantMessage, Event, StepEnd

__all__ = ["Events"]


class Events:
    """The events of a log, added batch by batch. `count` is the next seq.

    Without `all_chunks`, those of a reply go as soon as it is complete, as in the log in memory: a long log then costs
    no more memory than the conversation in it.
    """

    def __init__(self, vocabulary: Vocabulary, *, all_chunks: bool = True) -> None:
        self.count = 0
        self._vocabulary = vocabulary
        self._all_chunks = all_chunks
        self._kept: list[Event] = []
        self._open: list[Event | Record] = []

    def batch(self, content: bytes) -> None:
        """A writer never splits a record over batches, so one ends at a line end.

        Raises MalformedRecord, UnknownEventType.
        """
        records = self._vocabulary.decode_lines(content)
        due = range(self.count, self.count + len(records or ()))
        if records is not None and [record.seq for record in records] == list(due):
            self._add_all(records)
            return
        lines = content.split(b"\n")
        if lines.pop():
            raise MalformedRecord("the frame ends in the middle of a record")
        for line in lines:
            event = self._vocabulary.decode_event(line)
            if event.seq != self.count:
                raise MalformedRecord(f"event {event.seq} stands where event {self.count} is due")
            self.add(event)

    def add(self, event: Event) -> None:
        """The event with seq `count`."""
        self.count += 1
        if type(event.data) is AssistantChunk and not self._all_chunks:
            self._open.append(event)
        else:
            self._keep(event)

    def kept(self) -> list[Event]:
        """In seq order."""
        chunks = [found if isinstance(found, Event) else found.event() for found in self._open]
        return sorted([*self._kept, *chunks], key=_seq) if chunks else self._kept

    def _add_all(self, records: Sequence[Record]) -> None:
        self.count += len(records)
        for record in records:
            if type(record.data) is AssistantChunk and not self._all_chunks:
                self._open.append(record)
            else:
                self._keep(record.event())

    def _keep(self, event: Event) -> None:
        if self._open and isinstance(event.data, AssistantMessage | StepEnd):
            self._open = []
        self._kept.append(event)


def _seq(event: Event) -> int:
    return event.seq
