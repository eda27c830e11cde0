"""Positions, duplicate keys and merges, below any knowledge of the study's keys."""

from __future__ import annotations

import pytest

from sweeper.errors import StudyFileError
from sweeper.study.document import locate


def plain(text: str) -> object:
    return locate(text, "f.yaml")[0].plain()


def faults(text: str) -> list[str]:
    return [str(finding.fault) for finding in locate(text, "f.yaml")[1]]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-5", 0.00001),
        ("1e6", 1000000.0),
        ("20_000", 20000),
        ("010", 10),
        ("0x10", 16),
        ("0o17", 15),
        ("-3", -3),
        ("-.inf", float("-inf")),
        ("true", True),
        ("yes", "yes"),
        ("no", "no"),
        ("90:00", "90:00"),
        ("2024-01-01", "2024-01-01"),
        ("~", None),
        ("", None),
        ("'5'", "5"),
    ],
)
def test_scalars_are_read_as_yaml_1_2_reads_them(text, value) -> None:
    assert plain(f"key: {text}\n") == {"key": value}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "train: {max_tokens: 200000, seed: 1, max_tokens: 2000000}\n",
            [
                (
                    "f.yaml:1: train.max_tokens: the same key twice (got lines 1 and 1)."
                    " Keep one of them."
                )
            ],
        ),
        (
            "train:\n  max_tokens: 200000\n  seed: 1\n  max_tokens: 2000000\n",
            [
                (
                    "f.yaml:4: train.max_tokens: the same key twice (got lines 2 and 4)."
                    " Keep one of them."
                )
            ],
        ),
        (
            'data: 1\nmodel: 2\ndata: 3\n"data": 4\n',
            ["f.yaml:4: data: the same key 3 times (got lines 1, 3 and 4). Keep one of them."],
        ),
        (
            "a:\n  - b: 1\n    c: 2\n    b: 3\n",
            ["f.yaml:4: a[0].b: the same key twice (got lines 2 and 4). Keep one of them."],
        ),
        (
            "x: &x {p: 1}\ny: &y {q: 2}\nz: {<<: *x, <<: *y}\n",
            ["f.yaml:3: z.<<: the same key twice (got lines 3 and 3). Keep one of them."],
        ),
    ],
)
def test_a_key_given_twice_is_named_with_all_its_lines(text, told) -> None:
    assert faults(text) == told


def test_a_double_key_behind_an_alias_is_told_once() -> None:
    assert len(faults("x: &x {p: 1, p: 2}\ny: *x\nz: {<<: *x}\n")) == 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{<<: *x, p: 9}", {"p": 9, "q": 2}),
        ("{p: 9, <<: *x}", {"p": 9, "q": 2}),
        ("{<<: [*y, *x]}", {"p": 5, "q": 2}),
    ],
)
def test_own_keys_come_before_merged_ones_and_earlier_mappings_before_later(text, value) -> None:
    document = f"x: &x {{p: 1, q: 2}}\ny: &y {{p: 5}}\nz: {text}\n"

    located, findings = locate(document, "f.yaml")

    assert located.plain() == {"x": {"p": 1, "q": 2}, "y": {"p": 5}, "z": value}
    assert findings == ()


@pytest.mark.parametrize(
    "text",
    [
        "a: &x {b: *x}\n",
        "[" * 3000,
        (
            "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
            "b: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a]\n"
            "c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b, *b]\n"
            "d: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c, *c]\n"
            "e: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d, *d]\n"
        ),
    ],
    ids=["an alias to itself", "3000 lists", "aliases of aliases"],
)
def test_what_would_not_end_is_refused(text) -> None:
    with pytest.raises(StudyFileError, match=r"^f\.yaml: nested too deeply for a study file\.$"):
        locate(text, "f.yaml")


def test_an_anchor_may_be_used_again() -> None:
    assert plain("a: &x 1\nb: *x\nc: &x 2\nd: *x\n") == {"a": 1, "b": 1, "c": 2, "d": 2}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "a: !!python/object:os.system x\n",
            (
                "f.yaml:1: a: under the tag tag:yaml.org,2002:python/object:os.system"
                " this is no value"
                " of YAML 1.2 (got x). Leave tags and %YAML lines out."
            ),
        ),
        (
            "%YAML 1.1\n---\na: yes\n",
            (
                "f.yaml:3: a: under the tag tag:yaml.org,2002:bool this is no value of YAML 1.2"
                " (got yes). Leave tags and %YAML lines out."
            ),
        ),
        ("a: {<<: 3}\n", "f.yaml:1: a.<<: takes a mapping, or a list of mappings."),
        ("? [a, b]\n: 1\n", "f.yaml:1: ?: a key is a name, no list or mapping."),
    ],
)
def test_what_only_yaml_knows_is_refused_and_the_rest_read_on(text, told) -> None:
    assert faults(text) == [told]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "a: 1\n---\nb: 2\n",
            (
                "f.yaml:2, column 1: not YAML: expected a single document"
                " in the stream but found another document."
            ),
        ),
        ("a: b: c\n", "f.yaml:1, column 5: not YAML: mapping values are not allowed here."),
        ("a: *x\n", "f.yaml:1, column 4: not YAML: found undefined alias 'x'."),
        ("a: 1\nb: \x01\n", "f.yaml:2: a control character at character 8."),
        (
            "a: 1\n  \tb: 2\n",
            (
                "f.yaml:2, column 3: a tab where YAML expects spaces."
                " Use spaces: YAML does not indent with tabs."
            ),
        ),
    ],
)
def test_broken_yaml_is_told_with_line_and_column(text, told) -> None:
    with pytest.raises(StudyFileError) as caught:
        locate(text, "f.yaml")

    assert str(caught.value) == told
