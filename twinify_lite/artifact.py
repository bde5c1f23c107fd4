"""The `.twin` file: one zip of JSON, TOML, `.npy` and texts, with a manifest of what is in it.

    manifest.json    the format's version, the package that wrote it, size and SHA-256 of every other member
    twin.json, schema.toml, statement.json, fitted.json, arrays/<name>.npy, texts/<name>

Nothing in it is ever run or unpickled, and nothing is unpacked to the disk. The manifest finds damage and mixed-up
parts, not forgers: who can write the file can write the manifest too. What keeps a statement honest is
`verification`, which recomputes it.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import stat
import urllib.parse
import zipfile
from collections.abc import Mapping
from typing import Any

from twinify_lite import __version__
from twinify_lite.artifact_parts import array_bytes, array_from_bytes, json_bytes, json_from_bytes
from twinify_lite.errors import ArtifactError

__all__ = ["FORMAT", "array_bytes", "array_from_bytes", "json_bytes", "json_from_bytes", "read", "read_twin", "write"]

FORMAT = 1
MANIFEST = "manifest.json"
REQUIRED = ("twin.json", "schema.toml", "statement.json", "fitted.json")
FOLDERS = ("arrays", "texts")
MOST_MEMBERS = 10_000
MOST_BYTES = 2 << 30
#: How much larger a member may be than what is stored of it. The writer stores as it is what would shrink by more.
MOST_SHRUNK = 100
_LONGEST_NAME = 4096
_MADE = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip can tell: the same twin gives the same bytes


def write(path: str | os.PathLike[str], members: Mapping[str, bytes]) -> None:
    """Write `members` and their manifest to `path`.

    A name is one of `REQUIRED`, or that of a folder, a slash, and any text. Formal guarantee: the file is whole or,
    after any error, as it was before; the same members give the same bytes; `read` gives back the same members.
    """
    from twinify_lite.table.writing import replacing

    _require_path(path)
    stored = {_stored_name(name): data for name, data in sorted(members.items())}
    with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, data in {MANIFEST: _manifest(stored), **stored}.items():
            _add(archive, name, data)


def read(path: str | os.PathLike[str]) -> dict[str, bytes]:
    """The members that `write` was given, every one of them checked.

    Formal guarantee: a file that is not exactly as it was written, in all that is returned, raises `ArtifactError` and
    nothing else; at most `MOST_BYTES` are held besides the file, and no more than a hundred times its size. A
    `MemoryError` says nothing about the file.
    """
    name = _require_path(path)
    data = _bytes_of(name)
    try:
        found, problem = _members(data, name), None
    except MemoryError:
        raise
    except ArtifactError as error:
        found, problem = {}, str(error)
    except Exception:
        # `zipfile` and `zlib` have a dozen ways to say that bytes make no sense; none of them helps the reader.
        found, problem = {}, f"it is damaged. {_AGAIN}"
    if problem is not None:
        raise ArtifactError(f"{name} cannot be read: {problem}")
    return found


def read_twin(path: str | os.PathLike[str]) -> dict[str, bytes]:
    """The members of a twin. A checkpoint, which has the same form, is refused."""
    members = read(path)
    facts = json_from_bytes(members["twin.json"], "twin.json")
    if isinstance(facts, dict) and facts.get("checkpoint") is True:
        raise ArtifactError(
            f"{os.fspath(path)} is the checkpoint of a fit that was interrupted, not a twin. Continue it: the command "
            "that began it, with --resume."
        )
    return members


_AGAIN = "Copy it again from where it was made, and compare the sizes."


def _require_path(path: str | os.PathLike[str]) -> str:
    if not isinstance(path, str | os.PathLike):
        raise ArtifactError(f"A twin is a file: give its path, such as data.twin, not of type {type(path).__name__}.")
    name = os.fspath(path)
    if not name or "\0" in name:
        raise ArtifactError(f"{name!r} is no name of a file. Give a .twin file.")
    return name


# -- names -------------------------------------------------------------------------------------------------------------


def _stored_name(name: str) -> str:
    """The name in the zip: plain ASCII, with no way out of its folder, whatever a column is called."""
    folder, slash, rest = name.partition("/")
    if name in REQUIRED:
        return name
    if not (slash and rest and folder in FOLDERS):
        raise ArtifactError(f"A twin has no member {name!r}. It has {', '.join(REQUIRED)}, arrays/... and texts/....")
    quoted = urllib.parse.quote(rest, safe="")
    if quoted.startswith("."):
        quoted = "%2E" + quoted[1:]
    if len(quoted) > _LONGEST_NAME:
        raise ArtifactError(f"The name of a member of {folder}/ is longer than a twin can hold. Use shorter names.")
    return f"{folder}/{quoted}"


def _given_name(stored: str) -> str:
    given = urllib.parse.unquote(stored, errors="strict")
    if _stored_name(given) != stored:
        raise ArtifactError(f"{stored!r} is not a name that a twin's member has. {_AGAIN}")
    return given


# -- writing -----------------------------------------------------------------------------------------------------------


def _manifest(stored: Mapping[str, bytes]) -> bytes:
    facts = {name: {"sha256": _hash(data), "size": len(data)} for name, data in stored.items()}
    return json_bytes({"format": FORMAT, "package": f"twinify_lite {__version__}", "members": facts})


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    import zlib

    info = zipfile.ZipInfo(name, _MADE)
    info.create_system = 3  # as on Unix, on every system
    info.external_attr = (stat.S_IFREG | 0o644) << 16
    small = len(zlib.compress(data, 6))
    info.compress_type = zipfile.ZIP_DEFLATED if small < len(data) < small * MOST_SHRUNK / 2 else zipfile.ZIP_STORED
    archive.writestr(info, data, compresslevel=6)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# -- reading -----------------------------------------------------------------------------------------------------------


def _bytes_of(name: str) -> bytes:
    """The file at once, so that it cannot change between its checks."""
    if os.path.isdir(name):
        raise ArtifactError(f"{name} is a folder. Give the name of a .twin file in it.")
    try:
        with open(name, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise ArtifactError(f"There is no file {name}. Make it: twin fit DATA --epsilon E -o {name}.") from None
    except OSError as error:
        raise ArtifactError(f"{name} cannot be read: {os.strerror(error.errno or 0)}.") from None
    except ValueError:  # letters that no file's name can have
        raise ArtifactError(f"{name!r} is no name of a file. Give a .twin file.") from None
    if len(data) > MOST_BYTES:
        raise ArtifactError(f"{name} is larger than any twin ({MOST_BYTES >> 30} GB). Give a .twin file.")
    return data


def _members(data: bytes, name: str) -> dict[str, bytes]:
    if not data.startswith(b"PK\x03\x04"):
        raise ArtifactError(_what_instead(name, data[:64]))
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except MemoryError:
        raise
    except Exception:
        raise ArtifactError(f"it is cut off or damaged. {_AGAIN}") from None
    with archive:
        infos = archive.infolist()
        _check_sizes(infos, len(data))
        _check_entries(infos)
        stored = {info.filename: info for info in infos}
        if MANIFEST not in stored:
            raise ArtifactError("it is a zip, but not a twin: it has no manifest.json.")
        facts = _facts(_unpacked(archive, stored.pop(MANIFEST)))
        _check_lists(stored, facts)
        members = {name: _unpacked(archive, info) for name, info in stored.items()}
    changed = sorted(name for name, data in members.items() if _hash(data) != facts[name]["sha256"])
    if changed:
        raise ArtifactError(f"{', '.join(changed)} was changed after it was written. {_AGAIN}")
    given = {_given_name(name): data for name, data in members.items()}
    lacking = [name for name in REQUIRED if name not in given]
    if lacking:
        raise ArtifactError(f"it lacks {', '.join(lacking)}. {_AGAIN}")
    return given


def _what_instead(name: str, first: bytes) -> str:
    """What a file is that is no twin, and which command takes it."""
    from twinify_lite.table.formats import looks_like_table

    if looks_like_table(name, first):
        return f"it is a table, not a twin. Make a twin of it first: twin fit {name} --epsilon 1."
    if name.endswith(".toml"):
        return f"it is a schema, not a twin. Fit a twin with it: twin fit DATA --schema {name} --epsilon 1."
    return "it is not a twin. Give a file that `twin fit` or `Twin.save` wrote."


def _check_sizes(infos: list[zipfile.ZipInfo], size: int) -> None:
    """Refuse a bomb by what it says of itself; what is unpacked later is never more than that."""
    total = sum(info.file_size for info in infos)
    if len(infos) > MOST_MEMBERS:
        raise ArtifactError(f"it has more than {MOST_MEMBERS} members, which no twin has.")
    swollen = any(info.file_size > MOST_SHRUNK * max(info.compress_size, 1) for info in infos)
    if total > MOST_BYTES or total > MOST_SHRUNK * size or swollen:
        raise ArtifactError("it would unpack to far more than it holds, which no twin does.")


def _check_entries(infos: list[zipfile.ZipInfo]) -> None:
    """Refuse whatever the writer never writes: links, folders, encryption, other packings, names that lead away."""
    names = [info.orig_filename for info in infos]
    if len(set(names)) < len(names):
        raise ArtifactError("it has two members of one name.")
    for info in infos:
        kind = stat.S_IFMT(info.external_attr >> 16)
        plain = kind in (0, stat.S_IFREG) and not info.flag_bits & 0x1
        known = info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
        safe = re.fullmatch(r"[A-Za-z0-9_~%-][A-Za-z0-9_.~%/-]*", info.orig_filename)
        if not (plain and known and safe) or ".." in info.orig_filename.split("/") or info.is_dir():
            raise ArtifactError(f"its member {info.orig_filename!r} is not a plain file, as all of a twin's are.")


def _unpacked(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    try:
        with archive.open(info) as member:
            data = member.read(info.file_size + 1)
    except MemoryError:
        raise
    except Exception:
        raise ArtifactError(f"{info.filename} is damaged. {_AGAIN}") from None
    if len(data) != info.file_size:
        raise ArtifactError(f"{info.filename} is damaged. {_AGAIN}")
    return data


def _facts(manifest: bytes) -> dict[str, dict[str, Any]]:
    """What the manifest says of each member, of a version that is known here."""
    document = json_from_bytes(manifest, MANIFEST)
    version = document.get("format") if isinstance(document, dict) else None
    if type(version) is int and version > FORMAT:
        raise ArtifactError(
            f"it was made by a newer version of twinify_lite (format {version}; this one reads up to {FORMAT}). "
            "Upgrade: pip install --upgrade twinify-lite."
        )
    if type(version) is not int or version < 1:
        raise ArtifactError("its manifest names no format that this version knows.")
    facts = document.get("members")
    sound = isinstance(facts, dict) and all(
        isinstance(fact, dict) and {"sha256", "size"} <= fact.keys() for fact in facts.values()
    )
    if not sound:
        raise ArtifactError("its manifest does not list its members.")
    return facts


def _check_lists(stored: Mapping[str, zipfile.ZipInfo], facts: Mapping[str, dict[str, Any]]) -> None:
    lacking, beyond = sorted(facts.keys() - stored.keys()), sorted(stored.keys() - facts.keys())
    if lacking:
        raise ArtifactError(f"it lacks {', '.join(lacking)}, which its manifest lists. {_AGAIN}")
    if beyond:
        raise ArtifactError(f"it has {', '.join(beyond)}, which its manifest does not list. {_AGAIN}")
    wrong = sorted(name for name, info in stored.items() if facts[name]["size"] != info.file_size)
    if wrong:
        raise ArtifactError(f"{', '.join(wrong)} has another size than its manifest says. {_AGAIN}")
