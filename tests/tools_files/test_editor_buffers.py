"""File tools over the editor's buffers, with the editors' known habits (field cases E4, E5; editors, rule 20)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from acp_bridge.errors import ConnectionClosed, PeerError, RequestTimedOut
from acp_bridge.session.events import AbortReason
from acp_bridge_plugins.tools_files.edit_file import EditFile
from acp_bridge_plugins.tools_files.read_file import UNSAVED, ReadFile
from acp_bridge_plugins.tools_files.saving import REFORMATTED
from acp_bridge_plugins.tools_files.write_file import WriteFile
from tests.tools_files.bench import Bench

pytestmark = pytest.mark.anyio


class Editor:
    """Holds buffers by path; `save` turns the text it is sent into the bytes it puts on disk."""

    can_read = True
    can_write = True

    def __init__(self, save: Callable[[str], bytes | None] = str.encode) -> None:
        self.buffers: dict[str, str | None] = {}
        self.save = save
        self.error: Exception | None = None
        self.sent: list[str] = []

    async def read(self, path: str) -> str | None:
        if path in self.buffers:
            return self.buffers[path]
        file = Path(path)
        return file.read_bytes().decode("utf-8", "replace") if file.exists() else ""

    async def write(self, path: str, text: str) -> None:
        self.sent.append(text)
        data = self.save(text)
        if data is not None:
            Path(path).write_bytes(data)
            self.buffers[path] = text
        if self.error is not None:
            raise self.error


@pytest.fixture
def editor(bench: Bench) -> Editor:
    bench.editor = editor = Editor()
    return editor


async def test_a_file_is_written_through_the_editor(bench: Bench, editor: Editor) -> None:
    path = bench.file("f", b"one\n")
    outcome = await bench.run(EditFile(), path="f", old_text="one", new_text="1")
    assert editor.sent == ["1\n"]
    assert path.read_bytes() == b"1\n"
    assert outcome.text == "Edited f (1 replacement)."


async def test_a_new_file_is_written_through_the_editor_with_its_directories(bench: Bench, editor: Editor) -> None:
    await bench.run(WriteFile(), path="a/b/f", content="one\n")
    assert editor.sent == ["one\n"]
    assert (bench.root / "a/b/f").read_bytes() == b"one\n"


async def test_unsaved_text_is_what_the_model_reads_and_it_is_told(bench: Bench, editor: Editor) -> None:
    path = bench.file("f", b"disk\n")
    editor.buffers[str(path)] = "typed\n"
    outcome = await bench.run(ReadFile(), path="f")
    assert outcome.text == f"typed\n\n[{UNSAVED}]"


@pytest.mark.parametrize("buffer", ["one\ntwo\n", "one\r\ntwo\r\n", "one\ntwo", "\ufeffone\ntwo\n"])
async def test_a_buffer_that_differs_in_line_ends_only_is_not_unsaved(
    bench: Bench, editor: Editor, buffer: str
) -> None:
    path = bench.file("f", b"one\r\ntwo\r\n")
    editor.buffers[str(path)] = buffer
    assert (await bench.run(ReadFile(), path="f")).text == "one\ntwo\n"
    await bench.run(EditFile(), path="f", old_text="two", new_text="2\n3")
    assert path.read_bytes() == b"one\r\n2\r\n3\r\n"


@pytest.mark.parametrize("answer", [None, ""])
async def test_an_answer_for_want_of_a_better_one_is_not_believed(
    bench: Bench, editor: Editor, answer: str | None
) -> None:
    path = bench.file("f", b"disk\n")
    editor.buffers[str(path)] = answer
    assert (await bench.run(ReadFile(), path="f")).text == "disk\n"
    await bench.run(EditFile(), path="f", old_text="disk", new_text="new")
    assert path.read_bytes() == b"new\n"


async def test_an_empty_answer_for_a_missing_file_is_a_missing_file(bench: Bench, editor: Editor) -> None:
    assert "does not exist" in await bench.refused(ReadFile(), path="f")
    assert "does not exist" in await bench.refused(EditFile(), path="f", old_text="a", new_text="b")


async def test_a_buffer_without_a_file_can_be_read_and_written(bench: Bench, editor: Editor) -> None:
    editor.buffers[f"{bench.root}/f"] = "draft\n"
    assert "draft\n" in (await bench.run(ReadFile(), path="f")).text
    execution = await bench.prepared(EditFile(), path="f", old_text="draft", new_text="final")
    assert execution.prepared is not None
    assert execution.prepared.presentation.diffs[0].old_text is None
    await EditFile().execute(execution)
    assert (bench.root / "f").read_bytes() == b"final\n"


async def test_an_edit_starts_from_unsaved_text_shows_it_and_keeps_it(bench: Bench, editor: Editor) -> None:
    path = bench.file("f", b"one\ntwo\n")
    editor.buffers[str(path)] = "one\ntyped\n"
    execution = await bench.prepared(EditFile(), path="f", old_text="one", new_text="1")
    assert execution.prepared is not None
    card = execution.prepared.presentation
    assert (card.diffs[0].old_text, card.diffs[0].new_text) == ("one\ntwo\n", "1\ntyped\n")
    assert "unsaved changes" in (card.text or "")
    assert "differed from the file on disk" in (await EditFile().execute(execution)).text
    assert path.read_bytes() == b"1\ntyped\n"


async def test_unsaved_text_is_not_overwritten_when_the_editor_cannot_write(bench: Bench, editor: Editor) -> None:
    path = bench.file("f", b"disk\n")
    editor.buffers[str(path)] = "typed\n"
    editor.can_write = False
    for tool, arguments in ((EditFile(), {"old_text": "typed", "new_text": "x"}), (WriteFile(), {"content": "x"})):
        assert "unsaved changes" in await bench.refused(tool, path="f", **arguments)
    assert path.read_bytes() == b"disk\n"


async def test_an_unsaved_file_in_an_unknown_encoding_is_left_to_the_user(bench: Bench, editor: Editor) -> None:
    path = bench.file("f", b"caf\xe9\ntwo\n")
    editor.buffers[str(path)] = "café\ntwo\ntyped\n"
    assert "unsaved changes" in await bench.refused(EditFile(), path="f", old_text="two", new_text="2")
    editor.buffers[str(path)] = "café\ntwo\n"
    await bench.run(EditFile(), path="f", old_text="two", new_text="2")
    assert path.read_bytes() == b"caf\xe9\n2\n"
    assert editor.sent == []


async def test_unsaved_text_is_read_as_it_is_over_a_file_in_an_unknown_encoding(bench: Bench, editor: Editor) -> None:
    path = bench.file("f", b"caf\xe9\n")
    editor.buffers[str(path)] = "café Ã¼ 中\n"
    assert (await bench.run(ReadFile(), path="f")).text == f"café Ã¼ 中\n\n[{UNSAVED}]"


@pytest.mark.parametrize("can_write", [True, False])
async def test_typing_while_the_person_decides_is_never_lost(bench: Bench, editor: Editor, can_write: bool) -> None:
    path = bench.file("f", b"one\ntwo\n")
    editor.can_write = can_write

    def typing() -> None:
        editor.buffers[str(path)] = "one\ntwo, typed\n"

    sentence = await bench.refused(EditFile(), path="f", old_text="one", new_text="1", meanwhile=typing)
    assert "changed since it was shown" in sentence
    assert editor.sent == []
    assert path.read_bytes() == b"one\ntwo\n"


async def test_a_change_by_a_command_under_a_stale_buffer_is_told_and_shown(bench: Bench, editor: Editor) -> None:
    path = bench.file("f", b"one\nnew line of a command\n")
    editor.buffers[str(path)] = "one\n"
    assert UNSAVED in (await bench.run(ReadFile(), path="f")).text
    execution = await bench.prepared(EditFile(), path="f", old_text="one", new_text="1")
    assert execution.prepared is not None
    card = execution.prepared.presentation
    assert (card.diffs[0].old_text, card.diffs[0].new_text) == ("one\nnew line of a command\n", "1\n")
    assert "changed from outside" in (card.text or "")


@pytest.mark.parametrize(
    "error",
    [PeerError("fs/write_text_file", -32603, "no"), RequestTimedOut("fs/write_text_file", 30), ConnectionClosed()],
)
async def test_when_the_editor_fails_to_write_the_file_is_written_to_disk(
    bench: Bench, editor: Editor, error: Exception
) -> None:
    path = bench.file("f", b"one\n")
    editor.save, editor.error = (lambda text: None), error
    await bench.run(EditFile(), path="f", old_text="one", new_text="1")
    assert path.read_bytes() == b"1\n"


async def test_a_write_that_only_claims_success_is_made_up_for(bench: Bench, editor: Editor) -> None:
    path = bench.file("f", b"one\n")
    editor.save = lambda text: None
    await bench.run(EditFile(), path="f", old_text="one", new_text="1")
    assert path.read_bytes() == b"1\n"


async def test_an_error_after_a_write_that_happened_is_no_failure(bench: Bench, editor: Editor) -> None:
    path = bench.file("f", b"one\n")
    editor.error = PeerError("fs/write_text_file", -32603, "odd result")
    assert (await bench.run(EditFile(), path="f", old_text="one", new_text="1")).text == "Edited f (1 replacement)."
    assert path.read_bytes() == b"1\n"


async def test_format_on_save_is_told_to_the_model_and_left_alone(bench: Bench, editor: Editor) -> None:
    path = bench.file("f", b"one\n")
    editor.save = lambda text: f"formatted {text}".encode()
    outcome = await bench.run(EditFile(), path="f", old_text="one", new_text="1")
    assert outcome.text == f"Edited f (1 replacement). {REFORMATTED}"
    assert path.read_bytes() == b"formatted 1\n"


async def test_a_failed_write_that_left_something_else_is_a_failure(bench: Bench, editor: Editor) -> None:
    path = bench.file("f", b"one\n")
    editor.save, editor.error = (lambda text: b"half"), PeerError("fs/write_text_file", -32603, "disk full")
    assert "could not be saved as planned" in await bench.refused(EditFile(), path="f", old_text="one", new_text="1")
    assert path.read_bytes() == b"half"


@pytest.mark.parametrize(
    "before",
    [b"one\r\ntwo\r\n", b"\xef\xbb\xbfone\ntwo\n", "one\r\ntwo\r\n".encode("utf-16"), b"one\ntwo", b"one\rtwo\n"],
    ids=["CRLF", "BOM", "UTF-16", "no last line end", "mixed"],
)
async def test_an_editor_that_saves_everything_as_plain_lf_loses_nothing(
    bench: Bench, editor: Editor, before: bytes
) -> None:
    path = bench.file("f", before)
    coding = "utf-16" if before.startswith(b"\xff\xfe") else "utf-8"
    editor.buffers[str(path)] = before.decode(coding).replace("\r\n", "\n").replace("\r", "\n")
    editor.save = lambda text: (text.removesuffix("\n") + "\n").encode()
    await bench.run(EditFile(), path="f", old_text="one", new_text="1")
    assert path.read_bytes().decode(coding) == before.decode(coding).replace("one", "1")
    assert path.read_bytes()[:2] == (before[:2] if before[:1] in b"\xef\xff" else path.read_bytes()[:2])


async def test_an_editor_that_holds_lines_adds_no_empty_line_at_the_end(bench: Bench, editor: Editor) -> None:
    path = bench.file("f", b"one\ntwo\n")
    editor.buffers[str(path)] = "one\ntwo"
    editor.save = lambda text: (text + "\n").encode()
    await bench.run(EditFile(), path="f", old_text="two", new_text="2")
    assert editor.sent == ["one\n2"]
    assert path.read_bytes() == b"one\n2\n"


async def test_the_editor_is_not_asked_about_files_outside_the_roots(bench: Bench, editor: Editor) -> None:
    target = bench.outside / "f"
    target.write_bytes(b"disk\n")
    editor.buffers[str(target)] = "buffer\n"
    bench.mode = "danger-full-access"
    assert (await bench.run(ReadFile(), path=str(target))).text == "disk\n"
    await bench.run(EditFile(), path=str(target), old_text="disk", new_text="new")
    assert editor.sent == []
    assert target.read_bytes() == b"new\n"


async def test_a_directory_swapped_for_a_link_is_noticed_before_the_editor_writes(bench: Bench, editor: Editor) -> None:
    bench.file("d/f", b"one\n")
    (bench.outside / "f").write_bytes(b"one\n")

    def swapped() -> None:
        (bench.root / "d").rename(bench.root / "moved")
        (bench.root / "d").symlink_to(bench.outside)

    sentence = await bench.refused(EditFile(), path="d/f", old_text="one", new_text="1", meanwhile=swapped)
    assert "changed since it was shown" in sentence
    assert editor.sent == []
    assert (bench.outside / "f").read_bytes() == b"one\n"


class Silent(Editor):
    """Never answers, as editors do that do not know a request."""

    def __init__(self, *, reads: bool) -> None:
        super().__init__()
        self.reads = reads
        self.asked = anyio.Event()

    async def read(self, path: str) -> str | None:
        if not self.reads:
            await self._never()
        return await super().read(path)

    async def write(self, path: str, text: str) -> None:
        await self._never()

    async def _never(self) -> None:
        self.asked.set()
        await anyio.sleep_forever()


@pytest.mark.parametrize("reads", [True, False])
async def test_an_abort_frees_a_call_from_an_editor_that_never_answers(bench: Bench, reads: bool) -> None:
    path = bench.file("f", b"one\n")
    bench.editor = editor = Silent(reads=reads)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:

            async def edit() -> None:
                await bench.refused(EditFile(), code="ABORTED", path="f", old_text="one", new_text="1")

            tasks.start_soon(edit)
            await editor.asked.wait()
            bench.signal.abort(AbortReason("user"))
    assert path.read_bytes() == b"one\n"
