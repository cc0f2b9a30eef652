"""The loader: what it accepts, and that everything else is refused with file and line."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from problems.errors import ConfigError
from skills.frontmatter import parse
from skills.skill import bundled_skills, listing, load_skill, load_skills, merge_skills, mount

GOOD = """---
name: NAME
description: "Reads rows once: for memory-bound kernels."
license: Apache-2.0
metadata:
  author: kagent
  version: "1.0"
allowed-tools: Read Bash(git:*)
---
# Rows

See [the details](references/rows.md#why) and `[](float x) { return x; }`.
"""


def write_skill(folder: Path, name: str = "rows", text: str | None = None) -> Path:
    skill = folder / name
    (skill / "references").mkdir(parents=True)
    (skill / "references" / "rows.md").write_text("# Details\n")
    (skill / "SKILL.md").write_text(text or GOOD.replace("NAME", name))
    return skill


def test_loads_a_skill(tmp_path: Path) -> None:
    write_skill(tmp_path)
    (tmp_path / "README.md").write_text("not a skill\n")
    (tmp_path / "__pycache__").mkdir()
    (skill,) = load_skills(tmp_path)
    assert skill.name == "rows"
    assert skill.description == "Reads rows once: for memory-bound kernels."
    assert skill.metadata == {"author": "kagent", "version": "1.0"}
    assert skill.allowed_tools == "Read Bash(git:*)"
    assert skill.body.startswith("# Rows\n")
    assert [file.path for file in skill.files] == ["SKILL.md", "references/rows.md"]


def test_digest_covers_every_path_and_byte(tmp_path: Path) -> None:
    skill = write_skill(tmp_path / "one")
    first = load_skill(skill).digest
    assert load_skill(write_skill(tmp_path / "two")).digest == first
    (skill / "references" / "rows.md").write_text("# Other details\n")
    second = load_skill(skill).digest
    (skill / "references" / "empty.md").write_text("")
    assert len({first, second, load_skill(skill).digest}) == 3


def frontmatter(*lines: str, name: str = "rows") -> str:
    return "\n".join(["---", f"name: {name}", *lines, "---", "# Body", ""])


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("# No frontmatter\n", 1, "must start with a line '---'"),
        ("---\nname: rows\n", 1, "no closing line"),
        (frontmatter("description: d", "author: me"), 4, "unknown key 'author'; keys: name, "),
        (frontmatter("description: d", "description: e"), 4, "'description' is there twice"),
        (frontmatter(), 1, "description: Field required"),
        (frontmatter("description:"), 3, "a value is missing"),
        (frontmatter("description: a <b> tag"), 3, "must be text without < and >"),
        (frontmatter('description: "  "'), 3, "must be text without < and >"),
        (frontmatter(f"description: {'d' * 1025}"), 3, "at most 1024 characters"),
        (frontmatter("description: d", f"compatibility: {'c' * 501}"), 4, "at most 500"),
        (frontmatter("description: a: b"), 3, "this YAML is not supported"),
        (frontmatter("description: a #b"), 3, "this YAML is not supported"),
        (frontmatter("description: >-", "  folded"), 3, "this YAML is not supported"),
        (frontmatter("description: [a, b]"), 3, "this YAML is not supported"),
        (frontmatter("description: true"), 3, "is not text in YAML"),
        (frontmatter('description: "open'), 3, "the quoted text is malformed"),
        (frontmatter("description: 'it's'"), 3, "no closing quote"),
        (frontmatter("description: d", "  more text"), 4, "expected 'key: value'"),
        (frontmatter("description: d", "metadata:", "  version: 1.0"), 5, "is not text in YAML"),
        (frontmatter("description: d", "metadata:", "   deep: x"), 5, "expected 'key: value'"),
        (frontmatter("description: d", "metadata: x"), 4, "metadata: Input should be"),
        (frontmatter("description: d", name="lines"), 2, "'lines' is not the folder's name"),
        (frontmatter("description: d") + "[x](../../etc/passwd)\n", 6, "leads to no file"),
        (frontmatter("description: d") + "[x](references/absent.md)\n", 6, "leads to no file"),
        (frontmatter("description: d").replace("# Body", ""), 5, "the body is empty"),
        (frontmatter("description: d") + "x\n" * 500, 505, "longer than 500 lines"),
        (frontmatter("description: d") + "x" * 20_001, 5, "more than 20000"),
    ],
)
def test_refuses_a_malformed_skill(tmp_path: Path, text: str, line: int, reason: str) -> None:
    skill = write_skill(tmp_path, text=text)
    with pytest.raises(ConfigError) as error:
        load_skills(tmp_path)
    assert str(error.value).startswith(f"{skill / 'SKILL.md'}:{line}: ")
    assert reason in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["Rows", "rows_2", "-rows", "rows-", "ro--ws", "r" * 65])
def test_refuses_a_name_that_is_not_kebab_case(tmp_path: Path, name: str) -> None:
    skill = write_skill(tmp_path, name)
    with pytest.raises(ConfigError, match=r"SKILL\.md:2: "):
        load_skill(skill)


@given(text=st.text(alphabet="abz:#-'\"[]{}&*!|>% \n<0.\t~\\", max_size=40))
def test_the_frontmatter_parser_answers_or_refuses(text: str) -> None:
    try:
        document = parse(f"---\nname: rows\ndescription: {text}\n---\nbody\n", "SKILL.md")
    except ConfigError as error:
        message = str(error)
    else:
        message = "SKILL.md:"
        assert isinstance(document.fields["description"], str)
    assert message.startswith("SKILL.md:")


def make_pipe(skill: Path) -> None:
    os.mkfifo(skill / "references" / "pipe")


def write_notes(skill: Path, path: str) -> None:
    (skill / path).write_text("x")


def test_refuses_links_special_files_and_strange_places(tmp_path: Path) -> None:
    cases: dict[str, Callable[[Path], object]] = {
        "link": lambda s: (s / "references" / "x.md").symlink_to("/etc/passwd"),
        "folder-link": lambda s: (s / "scripts").symlink_to("/etc"),
        "pipe": make_pipe,
        "top-file": lambda s: write_notes(s, "notes.md"),
        "nested": lambda s: write_notes(s, "references/SKILL.md"),
        "odd-name": lambda s: write_notes(s, "references/a b.md"),
        "hidden": lambda s: write_notes(s, "references/.env"),
        "too-large": lambda s: (s / "references" / "big").write_bytes(bytes((1 << 20) + 1)),
    }
    for name, spoil in cases.items():
        skill = write_skill(tmp_path, name)
        spoil(skill)
        with pytest.raises(ConfigError, match=rf"/{name}/.*:1: "):
            load_skill(skill)


def test_refuses_a_linked_skill_folder(tmp_path: Path) -> None:
    write_skill(tmp_path / "elsewhere")
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills" / "rows").symlink_to(tmp_path / "elsewhere" / "rows")
    with pytest.raises(ConfigError, match="symbolic link"):
        load_skills(tmp_path / "skills")


def test_refuses_what_is_no_folder_of_skills(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such folder"):
        load_skills(tmp_path / "absent")
    with pytest.raises(ConfigError, match="give the folder that holds it"):
        load_skills(write_skill(tmp_path))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=r"empty/SKILL\.md:1: is missing"):
        load_skills(tmp_path)


def test_refuses_the_same_name_twice(tmp_path: Path) -> None:
    one, two = (load_skill(write_skill(tmp_path / side)) for side in ("one", "two"))
    with pytest.raises(ConfigError, match=r"SKILL\.md:1: a skill named 'rows' is already there"):
        merge_skills([one], [two])


def test_listing_names_what_it_leaves_out(tmp_path: Path) -> None:
    for name in ("columns", "rows", "tiles"):
        write_skill(tmp_path, name)
    skills = load_skills(tmp_path)
    assert listing(skills, 1000).count("\n") == 2
    short = listing(skills, 120)
    assert short.splitlines() == [
        "- columns: Reads rows once: for memory-bound kernels.",
        "Left out at the limit of 120 characters: rows, tiles",
    ]
    assert len(short) <= 120
    with pytest.raises(ConfigError, match="do not even hold the names of 3 skills"):
        listing(skills, 20)
    assert listing((), 0) == ""


def test_mount_makes_read_only_copies(tmp_path: Path) -> None:
    skills = [load_skill(write_skill(tmp_path / "source"))]
    mount(skills, tmp_path / "mounted")
    copy = tmp_path / "mounted" / "rows"
    assert load_skill(copy).digest == skills[0].digest
    assert {path.stat().st_mode & 0o222 for path in (copy, *copy.rglob("*"))} == {0}
    with pytest.raises(ConfigError, match="already there"):
        mount(skills, tmp_path / "mounted")


def test_mount_refuses_a_skill_that_changed(tmp_path: Path) -> None:
    skill = load_skill(write_skill(tmp_path))
    (skill.folder / "references" / "rows.md").write_text("changed")
    with pytest.raises(ConfigError, match="changed since it was loaded"):
        mount([skill], tmp_path / "mounted")


def test_every_bundled_skill_is_valid() -> None:
    names = [skill.name for skill in bundled_skills()]
    assert {"cpp", "framework-awareness"} <= set(names)
