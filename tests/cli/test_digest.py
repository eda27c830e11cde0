"""`sweeper digest` prints what `data.test: {sha256: ...}` takes."""

import hashlib
import json

import pytest

from sweeper.data.options import SealedSource


@pytest.fixture
def file(tmp_path):
    rows = [{"prompt": "What?", "answer": "This."}, {"prompt": "Who?", "answer": "She."}]
    path = tmp_path / "test.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def by_hand(*records):
    """SHA-256 over the SHA-256 of each canonical record, in order."""
    digests = [hashlib.sha256(record.encode()).digest() for record in records]
    return hashlib.sha256(b"".join(digests)).hexdigest()


EXPECTED = by_hand('{"answer":"This.","prompt":"What?"}', '{"answer":"She.","prompt":"Who?"}')


def test_the_digest_is_over_the_ordered_canonical_records(sweeper, file):
    ran = sweeper("digest", file)

    assert (ran.status, ran.out) == (0, f"{EXPECTED}\n")
    assert ran.err == (
        f"2 records, format prompt_answer. In a study file: data.test: {{sha256: {EXPECTED}}}\n"
    )
    assert SealedSource(sha256=ran.out.strip())


def test_key_order_white_space_and_form_do_not_count(sweeper, file):
    file.write_text(
        '[{"answer": "This. ", "prompt": "What?"},\n {"answer": "She.", "prompt": " Who?"}]'
    )

    assert sweeper("digest", file).out == f"{EXPECTED}\n"


def test_order_counts(sweeper, file):
    file.write_text("".join(reversed(file.read_text().splitlines(keepends=True))))

    assert sweeper("digest", file).out != f"{EXPECTED}\n"


def test_columns_may_have_other_names(sweeper, file):
    file.write_text(file.read_text().replace("prompt", "question").replace("answer", "reply"))

    ran = sweeper("digest", file, "--field", "prompt=question", "--field", "answer=reply")

    assert ran.out == f"{EXPECTED}\n"


def test_json(sweeper, file):
    ran = sweeper("digest", file, "--json", "--format", "prompt_answer")

    assert json.loads(ran.out) == {
        "file": str(file),
        "sha256": EXPECTED,
        "records": 2,
        "format": "prompt_answer",
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--format", "csv"], "there is no such format"),
        (["--field", "prompt"], "no names of columns"),
        (["--field", "prompt="], "no names of columns"),
        (["--field", "who=question"], "no names of columns"),
        (["--field", "prompt=a", "--field", "prompt=b"], "no names of columns"),
        (["--format", "text"], "the text is missing"),
    ],
)
def test_what_cannot_be_read_is_said(sweeper, file, options, message):
    ran = sweeper("digest", file, *options)

    assert (ran.status, ran.out) == (2, "")
    assert message in ran.err
