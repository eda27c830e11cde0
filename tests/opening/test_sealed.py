"""The test records, held against their seal: from a file, out of one source, given by digest."""

import json
from pathlib import Path

import pytest

from sweeper.data.manifest import Manifest
from sweeper.data.options import DataOptions, FieldNames, SealedSource, Source, SplitShares
from sweeper.data.preparing import prepare
from sweeper.data.record import records_digest
from sweeper.data.request import ModelSource, PrepareRequest
from sweeper.data.splits import SplitSource, load_split
from sweeper.errors import DataError, ModelError
from sweeper.opening.sealed import find_overlaps, read_sealed, tokenise_sealed


def records(first, count, answer="yes"):
    return [
        {"prompt": f"secret {number}?", "answer": answer} for number in range(first, first + count)
    ]


@pytest.fixture
def study(tmp_path, make_model):
    """A folder to prepare data in: `prepared(test)` writes the splits and prepares them."""
    return Study(tmp_path, ModelSource(path=str(make_model(tmp_path / "model", eos="</s>"))))


class Study:
    def __init__(self, folder: Path, model: ModelSource) -> None:
        self.folder = folder
        self.model = model
        self.out = folder / "prepared"

    def write(self, name, rows):
        file = self.folder / f"{name}.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return str(file)

    def options(self, **changes):
        given = {
            "train": Source(path=self.write("train", records(0, 6))),
            "validation": Source(path=self.write("validation", records(100, 3))),
            "max_length": 64,
        }
        return DataOptions(**(given | changes))

    def prepared(self, options) -> Manifest:
        return prepare(PrepareRequest(model=self.model, data=options), self.out)


def digest_of(path):
    source = SplitSource(name="x", path=Path(path), format="auto", fields=FieldNames())
    return records_digest(record.digest for record in load_split(source).records)


def test_the_records_of_a_file_are_those_that_were_sealed(study):
    options = study.options(test=SealedSource(path=study.write("test", records(200, 4))))
    manifest = study.prepared(options)

    test = read_sealed(options, manifest)

    assert [record.record.prompt for record in test.records] == [
        "secret 200?",
        "secret 201?",
        "secret 202?",
        "secret 203?",
    ]


def test_the_records_may_be_written_otherwise_as_long_as_they_say_the_same(study):
    path = study.write("test", records(200, 2))
    options = study.options(test=SealedSource(path=path))
    manifest = study.prepared(options)
    Path(path).write_text(
        '[{"answer": "yes ", "prompt": "secret 200?"}, {"prompt": "secret 201?", "answer": "yes"}]'
    )

    assert len(read_sealed(options, manifest).records) == 2


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(records(200, 3), id="one is missing"),
        pytest.param(records(200, 4)[::-1], id="another order"),
        pytest.param(records(200, 4, answer="no"), id="other answers"),
        pytest.param([{"text": "secret"}], id="another format"),
        pytest.param([{"secret key": 1}], id="no format"),
    ],
)
def test_other_records_are_refused_and_nothing_of_them_is_said(study, rows):
    options = study.options(test=SealedSource(path=study.write("test", records(200, 4))))
    manifest = study.prepared(options)
    study.write("test", rows)

    with pytest.raises(DataError, match="not the test records that were sealed") as refused:
        read_sealed(options, manifest)

    assert "secret" not in str(refused.value)


def test_one_source_is_divided_as_it_was_while_preparing(study):
    options = DataOptions(
        source=Source(path=study.write("source", records(0, 60))),
        split=SplitShares(validation=0.2, test=0.2),
        max_length=64,
    )
    manifest = study.prepared(options)

    test = read_sealed(options, manifest)

    assert len(test.records) == manifest.test.records
    split = [manifest.splits[name].records_read for name in ("train", "validation")]
    assert sum(split) + len(test.records) == 60


def test_records_that_were_known_by_their_digest_alone_are_compared_now(study):
    path = study.write("later", [*records(2, 2), *records(200, 2), *records(5, 1, answer="no")])
    sealed = study.options(test=SealedSource(sha256=digest_of(path)))
    manifest = study.prepared(sealed)
    supplied = sealed.model_copy(update={"test": SealedSource(path=path)})

    test = read_sealed(supplied, manifest)
    found = find_overlaps(test, supplied, manifest, study.out)

    assert [(o.split, o.kind, o.count, o.record_numbers) for o in found] == [
        ("train", "exact", 2, (3, 4)),
        ("train", "prompt", 1, (6,)),
        ("validation", "exact", 0, ()),
        ("validation", "prompt", 0, ()),
    ]


def test_test_records_in_another_split_are_counted_as_often_as_they_are_there(study):
    """The third record of train stands twice in the test split, and a new record once."""
    path = study.write("later", [*records(2, 1), *records(2, 1), *records(200, 1)])
    sealed = study.options(test=SealedSource(sha256=digest_of(path)))
    manifest = study.prepared(sealed)
    supplied = sealed.model_copy(update={"test": SealedSource(path=path)})

    found = find_overlaps(read_sealed(supplied, manifest), supplied, manifest, study.out)

    assert [(o.split, o.kind, o.count, o.test_records) for o in found] == [
        ("train", "exact", 1, 2),
        ("train", "prompt", 0, None),
        ("validation", "exact", 0, 0),
        ("validation", "prompt", 0, None),
    ]


def test_prompts_cannot_be_compared_once_the_other_files_are_gone(study):
    path = study.write("later", records(2, 2))
    sealed = study.options(test=SealedSource(sha256=digest_of(path)))
    manifest = study.prepared(sealed)
    supplied = sealed.model_copy(update={"test": SealedSource(path=path)})
    Path(sealed.validation.path).unlink()

    found = find_overlaps(read_sealed(supplied, manifest), supplied, manifest, study.out)

    assert [(o.split, o.kind, o.count) for o in found] == [
        ("train", "exact", 2),
        ("train", "prompt", None),
        ("validation", "exact", 0),
        ("validation", "prompt", None),
    ]


def test_what_was_compared_while_preparing_is_reported_from_then(study):
    test = study.write("test", records(3, 1, answer="no"))
    options = study.options(test=SealedSource(path=test))
    manifest = study.prepared(options)
    Path(options.train.path).unlink()

    found = find_overlaps(read_sealed(options, manifest), options, manifest, study.out)

    assert [(o.count, o.record_numbers) for o in found[:2]] == [(0, ()), (1, (4,))]


def test_tokens_are_made_as_those_of_the_other_splits(study):
    from sweeper.data.prepared import PreparedSplit

    same = records(100, 3)
    options = study.options(test=SealedSource(sha256=digest_of(study.write("test", same))))
    manifest = study.prepared(options)
    supplied = options.model_copy(update={"test": SealedSource(path=study.write("test", same))})

    split = tokenise_sealed(
        read_sealed(supplied, manifest), study.model, supplied, manifest, study.folder / "tokens"
    )

    validation = PreparedSplit.open(study.out, "validation")
    assert split.token_ids.tolist() == validation.token_ids.tolist()
    assert split.supervised.tolist() == validation.supervised.tolist()
    assert split.offsets.tolist() == validation.offsets.tolist()


@pytest.mark.parametrize(
    ("file", "fault"),
    [
        ("config.json", "not the model that the study was prepared with"),
        ("tokenizer_config.json", "not the model that the study was prepared with"),
    ],
)
def test_another_model_or_tokenizer_makes_no_tokens(study, file, fault):
    options = study.options(test=SealedSource(path=study.write("test", records(200, 4))))
    manifest = study.prepared(options)
    changed = Path(study.model.path) / file
    changed.write_text(changed.read_text().replace("{", '{"a": 1, ', 1))

    with pytest.raises(ModelError, match=fault):
        tokenise_sealed(
            read_sealed(options, manifest), study.model, options, manifest, study.folder / "tokens"
        )


def test_a_tokenizer_that_saves_otherwise_is_another_one(study):
    options = study.options(test=SealedSource(path=study.write("test", records(200, 4))))
    manifest = study.prepared(options)
    other = manifest.model_copy(update={"tokenizer_digest": "0" * 64})

    with pytest.raises(ModelError, match="not the tokenizer"):
        tokenise_sealed(
            read_sealed(options, other), study.model, options, other, study.folder / "tokens"
        )


def test_a_record_that_is_too_long_is_named_by_its_place(study):
    options = study.options(
        test=SealedSource(path=study.write("test", records(200, 2, answer="secret " * 20))),
        overlong="refuse",
    )
    manifest = study.prepared(options)

    with pytest.raises(DataError, match=r"record 1 \(line 1\); record 2 \(line 2\)") as refused:
        tokenise_sealed(
            read_sealed(options, manifest), study.model, options, manifest, study.folder / "tokens"
        )

    assert "secret" not in str(refused.value)
