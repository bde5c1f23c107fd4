"""The rows of a CSV file with their lines, found slowly, in bounded memory and by the same rules as Arrow's."""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Callable, Iterator
from typing import BinaryIO, Literal, NamedTuple

#: Bytes of the longest line, so that a file without line ends is refused before it fills the memory.
LONGEST_LINE = 16 << 20
LINE_END = re.compile("\r\n|\r|\n")
#: The first line by which Excel is told the separator. Our own files never begin so: they quote such a name.
EXCEL_LINE = re.compile("(?:\xef\xbb\xbf)?sep=([,;\t|])(?:\r\n|\r|\n)", re.IGNORECASE)
# The rest of a quoted cell up to the quote that closes it; doubled quotes belong to the cell.
_CLOSING = re.compile('[^"]*+(?:""[^"]*+)*+"')


class Record(NamedTuple):
    """One row of a file, from `line` to line `last`, and from byte `start`; `text` holds its bytes as latin-1."""

    line: int
    last: int
    start: int
    text: str
    cells: int
    end: Literal["complete", "unclosed", "too long"]


def records(stream: BinaryIO, separator: str) -> Iterator[Record]:
    """The rows of `stream`, by the same rules as Arrow's reader and in bounded memory.

    Blank lines are left out, and so is a first line such as sep=; that tells Excel the separator.

    Formal guarantee: `line` counts physical lines from 1, ended by LF, CR or CRLF, those inside quotes too. After a
    record that is not complete there is no other.
    """
    lines = io.TextIOWrapper(stream, encoding="latin-1", newline="")
    try:
        yield from _records(functools.partial(lines.readline, LONGEST_LINE + 1), separator)
    finally:
        lines.detach()  # the stream is closed by whoever opened it


def _records(next_line: Callable[[], str], separator: str) -> Iterator[Record]:
    line, start, end = 0, 0, "complete"
    while end == "complete" and (text := next_line()):
        line += 1
        first, pieces, size, longest = line, [text], len(text), len(text)
        separators, is_open = _scan(text, separator, is_open=False)
        while is_open and size <= LONGEST_LINE and (text := next_line()):
            line += 1
            pieces.append(text)
            size, longest = size + len(text), max(longest, len(text))
            more, is_open = _scan(text, separator, is_open=True)
            separators += more
        end = "too long" if longest > LONGEST_LINE else "unclosed" if is_open else "complete"
        is_row = not LINE_END.fullmatch(pieces[0]) and not (first == 1 and EXCEL_LINE.fullmatch(pieces[0]))
        if len(pieces) > 1 or is_row:
            yield Record(first, line, start, "".join(pieces), separators + 1, end)
        start += size


def _scan(text: str, separator: str, *, is_open: bool) -> tuple[int, bool]:
    """The separators of `text` outside quotes, and whether it ends in a quoted cell (`is_open`: it starts in one)."""
    found, at = 0, 0
    if not is_open:
        text, found = separator + text, -1  # so that the first cell, too, follows a separator
    while True:
        if is_open:
            close = _CLOSING.match(text, at)
            if close is None:
                return found, True
            at = close.end()
        # Only a quote right after a separator opens a cell; any other is an ordinary character.
        opening = text.find(separator + '"', at)
        if opening < 0:
            return found + text.count(separator, at), False
        found += text.count(separator, at, opening + 1)
        at, is_open = opening + 2, True


def split(text: str, separator: str) -> list[str]:
    """The cells of one complete record."""
    text = re.sub("(\r\n|\r|\n)\\Z", "", text)
    cells, at = [], 0
    while True:
        cell = ""
        if text.startswith('"', at) and (close := _CLOSING.match(text, at + 1)):
            cell, at = close.group()[:-1].replace('""', '"'), close.end()
        end = text.find(separator, at)
        cells.append(cell + text[at : end if end >= 0 else len(text)])
        if end < 0:
            return cells
        at = end + 1


def has_stray_quote(text: str, separator: str) -> bool:
    """Whether a quote stands amid a cell of `text`: so it is where another separator cuts a quoted name in two."""
    quoted = f'(?:^|(?<={re.escape(separator)}))"{_CLOSING.pattern}'
    return '"' in re.sub(quoted, "", text)
