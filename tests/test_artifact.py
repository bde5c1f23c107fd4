"""The `.twin` file: written whole, read back exactly, and refused in all other cases, with a sentence."""

import io
import json
import stat
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinify_lite import artifact
from twinify_lite.artifact import array_bytes, json_bytes
from twinify_lite.errors import ArtifactError

MEMBERS = {
    "twin.json": json_bytes({"kind": "stub", "rows": 1000}),
    "schema.toml": b'[columns.age]\nkind = "integer"\n',
    "statement.json": json_bytes({"private": True}),
    "fitted.json": json_bytes({"columns": ["age", "sex"]}),
    "arrays/weights.npy": array_bytes(np.linspace(0, 1, 60, dtype=np.float32).reshape(3, 20)),
    "arrays/zeros.npy": array_bytes(np.zeros(100_000)),
    "texts/model.py": b"def model():\n    pass\n",
}


@pytest.fixture
def path(tmp_path):
    target = tmp_path / "a.twin"
    artifact.write(target, MEMBERS)
    return target


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    target = tmp_path_factory.mktemp("valid") / "a.twin"
    artifact.write(target, {name: data for name, data in MEMBERS.items() if name != "arrays/zeros.npy"})
    return target.read_bytes()


def parts(path):
    """Names and bytes as they lie in the zip."""
    with zipfile.ZipFile(path) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def rezip(path, members, **settings):
    """A zip of pairs (name or ZipInfo, bytes), as a stranger would make it."""
    with zipfile.ZipFile(path, "w", **settings) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return path


def refusal(path):
    with pytest.raises(ArtifactError) as caught:
        artifact.read(path)
    assert caught.value.exit_code == 1
    assert str(path) in str(caught.value)
    return str(caught.value)


def with_manifest(members):
    """What `members` would be with a manifest that lists them: a careful forger's file."""
    import hashlib

    facts = {name: {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)} for name, data in members.items()}
    return {"manifest.json": json_bytes({"format": 1, "package": "x", "members": facts}), **members}


# -- writing and reading -----------------------------------------------------------------------------------------------


def test_what_is_written_is_read(path):
    assert artifact.read(path) == MEMBERS


def test_the_same_members_give_the_same_bytes(path, tmp_path):
    artifact.write(tmp_path / "b.twin", dict(reversed(MEMBERS.items())))
    assert (tmp_path / "b.twin").read_bytes() == path.read_bytes()


def test_other_programs_can_read_it(path):
    members = parts(path)
    manifest = json.loads(members["manifest.json"])
    assert manifest["format"] == 1
    assert manifest["members"].keys() == members.keys() - {"manifest.json"}
    np.testing.assert_array_equal(np.load(io.BytesIO(members["arrays/zeros.npy"])), np.zeros(100_000))


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30))
def test_any_name_is_kept_and_none_leads_out_of_the_folder(name):
    stored = artifact._stored_name(f"arrays/{name}")
    assert artifact._given_name(stored) == f"arrays/{name}"
    assert stored.isascii()
    folder, rest = stored.split("/")
    assert folder == "arrays"
    assert not rest.startswith(".")


def test_a_failure_leaves_the_old_file_and_nothing_else(path, tmp_path):
    before = path.read_bytes()
    with pytest.raises(ArtifactError, match="no member"):
        artifact.write(path, {**MEMBERS, "evil.exe": b""})
    with pytest.raises(TypeError):
        artifact.write(path, {**MEMBERS, "texts/a": 5})
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["a.twin"]


# -- damage ------------------------------------------------------------------------------------------------------------


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_a_damaged_file_is_refused_or_reads_the_same(valid, tmp_path_factory, data):
    damaged = bytearray(valid)
    for _ in range(data.draw(st.integers(0, 3))):
        damaged[data.draw(st.integers(0, len(valid) - 1))] ^= data.draw(st.integers(1, 255))
    start = data.draw(st.sampled_from([0, 0, 0, 1, 30]))
    damaged = damaged[start : data.draw(st.one_of(st.just(len(valid)), st.integers(0, len(valid))))]
    target = tmp_path_factory.getbasetemp() / "damaged.twin"
    target.write_bytes(damaged)
    try:
        members = artifact.read(target)
    except ArtifactError:
        return
    assert members == {name: data for name, data in MEMBERS.items() if name != "arrays/zeros.npy"}


@pytest.mark.parametrize(
    "where", ["zipfile.ZipFile.__init__", "zipfile.ZipExtFile.read", "twinify_lite.artifact._facts"]
)
def test_memory_that_runs_out_is_not_taken_for_damage(valid, tmp_path, monkeypatch, where):
    path = tmp_path / "whole.twin"
    path.write_bytes(valid)
    monkeypatch.setattr(where, lambda *_, **__: (_ for _ in ()).throw(MemoryError))
    with pytest.raises(MemoryError):
        artifact.read(path)


@pytest.mark.parametrize("content", [b"", b"PK", b"age,sex\n1,f\n", b"PK\x03\x04 and no more", b"\0" * 1000])
def test_what_is_no_twin_is_refused(tmp_path, content):
    (tmp_path / "a.twin").write_bytes(content)
    assert "twin" in refusal(tmp_path / "a.twin")


def test_a_file_that_is_not_there_or_a_folder_is_refused(tmp_path):
    assert "There is no file" in refusal(tmp_path / "no.twin")
    assert "folder" in refusal(tmp_path)


def test_a_zip_of_something_else_is_refused(tmp_path):
    assert "no manifest.json" in refusal(rezip(tmp_path / "a.twin", [("readme.txt", b"hello")]))


def test_changed_swapped_missing_and_extra_members_are_refused(path, tmp_path):
    members = parts(path)
    other = tmp_path / "b.twin"
    assert "was changed" in refusal(
        rezip(other, {**members, "schema.toml": b"#" * len(members["schema.toml"])}.items())
    )
    assert "another size" in refusal(rezip(other, {**members, "schema.toml": b""}.items()))
    swapped = {**members, "twin.json": members["fitted.json"], "fitted.json": members["twin.json"]}
    assert "twin.json" in refusal(rezip(other, swapped.items()))
    missing = [(name, data) for name, data in members.items() if name != "arrays/weights.npy"]
    assert "lacks arrays/weights.npy" in refusal(rezip(other, missing))
    assert "does not list" in refusal(rezip(other, {**members, "arrays/more.npy": b""}.items()))


def test_a_twin_without_a_statement_is_refused_even_if_its_manifest_agrees(path, tmp_path):
    members = {name: data for name, data in MEMBERS.items() if name != "statement.json"}
    assert "lacks statement.json" in refusal(rezip(tmp_path / "b.twin", with_manifest(members).items()))


def test_a_newer_format_says_to_upgrade(path, tmp_path):
    members = parts(path)
    manifest = {**json.loads(members["manifest.json"]), "format": 2}
    newer = {**members, "manifest.json": json_bytes(manifest), "new/thing.bin": b"?"}
    assert "newer version" in refusal(rezip(tmp_path / "b.twin", newer.items()))
    assert "pip install --upgrade" in refusal(tmp_path / "b.twin")


@pytest.mark.parametrize("version", [0, -1, "1", None, 1.0, True, [1]])
def test_a_format_that_is_none_is_refused(path, tmp_path, version):
    members = parts(path)
    manifest = {**json.loads(members["manifest.json"]), "format": version}
    assert "no format" in refusal(
        rezip(tmp_path / "b.twin", {**members, "manifest.json": json_bytes(manifest)}.items())
    )


# -- malice ------------------------------------------------------------------------------------------------------------


NAMES = [
    "/etc/passwd",
    "../up.txt",
    "arrays/../../up",
    "arrays\\up",
    "C:/x",
    "texts/.hidden",
    "arrays/a b",
    "arrays/%2f",
]
NAMES += ["texts/", "other/x", "arrays/\x1b[31m", "Schema.toml", "arrays/%41", "texts/x/y"]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_the_writer_would_not_write_is_refused(tmp_path, name):
    said = refusal(rezip(tmp_path / "b.twin", with_manifest({**MEMBERS, name: b"x"}).items()))
    assert "\x1b" not in said


def test_two_members_of_one_name_are_refused(path, tmp_path):
    with pytest.warns(UserWarning, match="Duplicate name"):
        rezip(tmp_path / "b.twin", [*parts(path).items(), ("schema.toml", b"x")])
    assert "two members" in refusal(tmp_path / "b.twin")


def test_a_link_is_refused(path, tmp_path):
    link = zipfile.ZipInfo("schema.toml")
    link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    members = parts(path)
    target = members.pop("schema.toml")
    assert "plain file" in refusal(rezip(tmp_path / "b.twin", [*members.items(), (link, target)]))


def test_a_bomb_is_refused_before_it_is_unpacked(path, tmp_path, monkeypatch):
    bomb = {**MEMBERS, "arrays/bomb.npy": bytes(50_000_000)}
    rezip(tmp_path / "b.twin", with_manifest(bomb).items(), compression=zipfile.ZIP_DEFLATED)
    assert (tmp_path / "b.twin").stat().st_size < 100_000
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_: pytest.fail("it was unpacked"))
    assert "far more than it holds" in refusal(tmp_path / "b.twin")


def test_sizes_that_lie_do_not_unpack_more(path, tmp_path):
    data = zipfile.ZIP_DEFLATED
    rezip(tmp_path / "b.twin", with_manifest({**MEMBERS, "arrays/x.npy": bytes(1_000_000)}).items(), compression=data)
    raw = (tmp_path / "b.twin").read_bytes()
    (tmp_path / "b.twin").write_bytes(raw.replace((1_000_000).to_bytes(4, "little"), (1000).to_bytes(4, "little")))
    refusal(tmp_path / "b.twin")


def test_more_members_than_any_twin_has_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(artifact, "MOST_MEMBERS", 3)
    assert "more than 3 members" in refusal(rezip(tmp_path / "b.twin", with_manifest(MEMBERS).items()))
