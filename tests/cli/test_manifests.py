"""Reading manifests: what is ambiguous or not JSON is refused, with its place."""

from pathlib import Path

import pytest

from corral.cli import manifests
from corral.cli.failures import Failure

AGENT = "kind: Agent\nmetadata: {name: a}\n"


def read(folder: Path, text: str, name: str = "m.yaml") -> list[dict[str, object]]:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return manifests.read(str(path))


def test_documents_lists_and_directories(tmp_path: Path) -> None:
    assert [d["kind"] for d in read(tmp_path, f"---\n{AGENT}---\n---\nkind: B\n...\n")] == ["Agent", "B"]
    assert [d["kind"] for d in read(tmp_path, "kind: List\nitems:\n- kind: A\n- kind: B\n")] == ["A", "B"]
    read(tmp_path, '{\n\t"kind": "J"}', "b.json")
    (tmp_path / "notes.txt").write_text("not: [a manifest", encoding="utf-8")
    assert [d["kind"] for d in manifests.read(str(tmp_path))] == ["J", "A", "B"]


def test_times_stay_text_and_yaml_1_1_words_stay_what_yaml_says(tmp_path: Path) -> None:
    (found,) = read(tmp_path, "kind: A\nat: 2026-01-31T09:00:00Z\nday: 2026-01-31\nanswer: n\nflag: on\n")
    assert found == {"kind": "A", "at": "2026-01-31T09:00:00Z", "day": "2026-01-31", "answer": "n", "flag": True}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: A\nspec:\n  x: 1\n  x: 2\n", "m.yaml, line 4, column 3: the key 'x' appears twice"),
        ("kind: A\nspec: {x: 1, x: 2}\n", "line 2, column 14: the key 'x' appears twice"),
        ("kind: A\non: x\n", "line 2, column 1: the key on is not text: quote it"),
        ("kind: A\n1: x\n", "the key 1 is not text"),
        ("kind: [A\n", "m.yaml, line 2"),
        ("kind: A\n\tx: 1\n", "line 2"),
        ("kind: A\nx: .inf\n", "what JSON cannot say"),
        ("kind: A\nx: !!binary aGk=\n", "what JSON cannot say"),
        ("kind: A\nx: !!python/object:os.system {}\n", "could not determine a constructor"),
        ("x: &a\n  y: *a\n", "what JSON cannot say"),
        ("- kind: A\n", "holds list where an object should be"),
        ("just text\n", "holds str where an object should be"),
        ("", "holds no object"),
    ],
)
def test_refusals(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(Failure) as caught:
        read(tmp_path, text)
    assert caught.value.code == 2
    assert message in caught.value.message


def test_merge_keys_are_no_duplicates(tmp_path: Path) -> None:
    (found,) = read(tmp_path, "base: &b {x: 1}\nkind: A\nspec:\n  <<: *b\n  y: 2\n")
    assert found["spec"] == {"x": 1, "y": 2}


def test_json_with_a_repeated_key(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="appears twice"):
        read(tmp_path, '{"kind": "A", "kind": "B"}', "m.json")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(Failure, match=r"absent\.yaml cannot be read: No such file"):
        manifests.read(str(tmp_path / "absent.yaml"))
    (tmp_path / "latin.yaml").write_bytes(b"kind: \xe4\n")
    with pytest.raises(Failure, match="is not UTF-8 text"):
        manifests.read(str(tmp_path / "latin.yaml"))
