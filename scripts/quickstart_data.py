"""Writes the quickstart's data: questions with answers in three splits, and a retention split.

    python scripts/quickstart_data.py

The questions come from the installed chatterbot-corpus package (BSD), the retention texts from
Python's own help topics; neither is copied into the repository. The same installed versions give
the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from held_out_topics import held_out_topics, paragraphs
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

ANSWER_LIMIT_CHARACTERS = 120
BUCKETS = {0: "test", 1: "validation"}
RETENTION_RECORDS = 60
RETENTION_BYTES = range(80, 281)  # at most 128 tokens of primer-1m, end token included
INSTALL = "pip install chatterbot-corpus==1.3.3"
Record = dict[str, str]


class DataError(Exception):
    """Raised when the package that holds the questions is missing or can not be read."""


def split_key(prompt: str) -> str:
    """Makes prompts that differ only in case or white space one."""
    return " ".join(prompt.split()).lower()


def split_of(prompt: str) -> str:
    """Places a prompt by its hash, so that no prompt can be in two splits, whatever its rows."""
    bucket = int(hashlib.sha256(split_key(prompt).encode()).hexdigest(), 16) % 10
    return BUCKETS.get(bucket, "train")


def first_answers(pairs: Iterator[Record]) -> list[Record]:
    """Keeps, of each prompt, the first answer that is short enough.

    The corpus repeats most prompts with several answers: split by row, a test question would
    have been seen in training.
    """
    kept: dict[str, Record] = {}
    for pair in pairs:
        if len(pair["answer"]) < ANSWER_LIMIT_CHARACTERS:
            kept.setdefault(split_key(pair["prompt"]), pair)
    return list(kept.values())


def read_corpus() -> Iterator[Record]:
    """Yields the opening question and answer of every English conversation.

    Raises:
        DataError: chatterbot-corpus is not installed, or one of its files has another shape.
    """
    package = importlib.util.find_spec("chatterbot_corpus")
    if package is None or not package.submodule_search_locations:
        raise DataError(f"chatterbot-corpus is not installed; run `{INSTALL}`, then this again")
    folder = Path(package.submodule_search_locations[0]) / "data" / "english"
    files = sorted(folder.glob("*.yml"))
    if not files:
        raise DataError(f"{folder} holds no .yml files; run `{INSTALL}`, then this again")
    for file in files:
        for turns in _conversations(file):
            match turns:
                case [str(prompt), str(answer), *_] if prompt.strip() and answer.strip():
                    source = f"chatterbot-corpus/{file.stem}"
                    yield {"prompt": prompt, "answer": answer, "source": source}


def retention_records() -> list[Record]:
    """Returns short paragraphs of the held-out topics, spread over them by hash."""
    texts = {
        part
        for topic in held_out_topics().values()
        for part in paragraphs(topic)
        if len(part.encode()) in RETENTION_BYTES
    }
    chosen = sorted(texts, key=lambda part: hashlib.sha256(part.encode()).hexdigest())
    return [{"text": part} for part in chosen[:RETENTION_RECORDS]]


def write_records(path: Path, records: list[Record]) -> None:
    """Writes one JSON object per line; the file appears whole or not at all."""
    lines = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with temporary.open("wb") as stream:
            stream.write(lines.encode("utf-8"))
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def main() -> int:
    """Reads the command line, writes the four files, and prints what each one holds."""
    default = Path(__file__).resolve().parent.parent / "studies" / "data"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=default, help="[studies/data]")
    output: Path = parser.parse_args().output
    try:
        questions = first_answers(read_corpus())
    except DataError as error:
        print(error, file=sys.stderr)
        return 2
    files = {
        f"qa-{split}.jsonl": [q for q in questions if split_of(q["prompt"]) == split]
        for split in ("train", "validation", "test")
    }
    files["topics-retention.jsonl"] = retention_records()
    output.mkdir(parents=True, exist_ok=True)
    for name, records in files.items():
        write_records(output / name, records)
        print(f"{output / name}: {len(records)} records")
    corpus = importlib.metadata.version("chatterbot-corpus")
    print(f"from chatterbot-corpus {corpus} and the help topics of Python {sys.version.split()[0]}")
    return 0


def _conversations(file: Path) -> list[list[object]]:
    """Reads one YAML file of the corpus; its conversations are lists of turns."""
    try:
        content = YAML(typ="safe").load(file.read_text(encoding="utf-8"))
        return [list(turns) for turns in content["conversations"]]
    except (YAMLError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise DataError(f"{file} is not a chatterbot-corpus file: {error!r}") from error


if __name__ == "__main__":
    sys.exit(main())
