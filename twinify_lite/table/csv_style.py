"""How a CSV file is written: what separates its cells, its decimal mark, its encoding."""

from __future__ import annotations

import codecs
import dataclasses

from twinify_lite.errors import TableError

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
DECIMALS = (".", ",")
ENCODINGS = ("utf-8", "latin-1", "cp1252")


@dataclasses.dataclass(frozen=True)
class CsvStyle:
    """How a CSV file is written: its separator, its decimal mark and its encoding. Checked when it is made."""

    separator: str = ","
    decimal: str = "."
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        object.__setattr__(self, "separator", {"tab": "\t", "\\t": "\t"}.get(self.separator, self.separator))
        object.__setattr__(self, "encoding", _known_encoding(self.encoding))
        problems = []
        if self.separator not in SEPARATORS:
            allowed = ", ".join(f"{mark!r} ({name})" for mark, name in SEPARATORS.items())
            problems.append(f"The separator must be one of {allowed}: --separator ';' (`separator=\";\"`).")
        if self.decimal not in DECIMALS:
            problems.append("The decimal mark must be '.' or ',': --decimal ',' (`decimal=\",\"`).")
        if self.encoding not in ENCODINGS:
            problems.append(f"The encoding must be one of {', '.join(ENCODINGS)}: --encoding latin-1.")
        if problems:
            raise TableError("\n".join(problems))


def _known_encoding(name: str) -> str:
    try:
        found = codecs.lookup(name).name
    except (LookupError, TypeError):
        return name
    return {"iso8859-1": "latin-1", "utf-8-sig": "utf-8"}.get(found, found)
