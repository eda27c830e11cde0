"""The public text that the primer base model is pretrained on, as lists of documents.

Three sources, each fetched from a package or already on the machine: WordNet 3.0 (Debian
`wordnet-base`), the Jargon File 4.4.7 (Debian `dict-jargon`) and Python's own help topics. Nothing
of chatterbot-corpus may ever enter: it is what the quickstart fine-tunes on.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from held_out_topics import paragraphs, training_topics

PACKAGE_SHA256 = {
    "wordnet-base": "61060d960f9ada8fa120872312eccd3ecebfbab8c4579e4f5a74e1cf67620752",
    "dict-jargon": "405f8168d7994ed2cb71407bb95493daec2e9aa66fc0461dafa74a9d6728a8c1",
}
PACKAGE_VERSION = {"wordnet-base": "1:3.0-37", "dict-jargon": "4.4.7-3.1"}
PART_LETTERS = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}
KIND_OF_THING_PART = 4
PERSON = "18"
BASE64 = {
    c: i for i, c in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
}
QUESTIONS = {
    "noun": ("What is {a} {word}?", "What is {word}?", "Define {word}.", "What is {a} {word}?"),
    "name": ("What is {word}?", "Where or what is {word}?", "What do you know about {word}?"),
    "person": ("Who was {word}?", "Who is {word}?", "What do you know about {word}?"),
    "verb": ("What does it mean to {word}?", "What does {word} mean?", "Define {word}."),
    "adj": ("What does {word} mean?", "What does it mean to be {word}?", "Define {word}."),
    "adv": ("What does {word} mean?", "Define {word}."),
}


class CorpusError(Exception):
    """Raised when a source can not be fetched or is not the version that is recorded here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Synset:
    """One meaning in WordNet: its words, its gloss and its pointers to other meanings."""

    key: str
    part: str
    lexicographer: str
    words: tuple[str, ...]
    gloss: str
    pointers: tuple[tuple[str, str], ...]


def fetch_packages(folder: Path) -> Path:
    """Downloads and unpacks the Debian packages into `folder`; returns the unpacked root.

    A package file that already lies in `folder` is used, after the same check.

    Raises:
        CorpusError: A package can not be had, or its SHA-256 is not the recorded one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    root = folder / "unpacked"
    for name, expected in PACKAGE_SHA256.items():
        package = _find_or_download(name, folder)
        found = hashlib.sha256(package.read_bytes()).hexdigest()
        if found != expected:
            raise CorpusError(
                f"{package}: SHA-256 is {found}, expected {expected} ({name} "
                f"{PACKAGE_VERSION[name]}); fetch that version into {folder} and run again"
            )
        subprocess.run(["dpkg-deb", "-x", str(package), str(root)], check=True)
    return root


def wordnet_documents(root: Path) -> list[str]:
    """Returns WordNet as short questions with answers, and its example sentences."""
    synsets = {s.key: s for part in PART_LETTERS for s in _synsets(root, part)}
    documents: list[str] = []
    for synset in synsets.values():
        definition, examples = _split_gloss(synset.gloss)
        documents.append(f"{_question(synset)}\n{_sentence(definition)}")
        if examples:
            documents.append(" ".join(_sentence(example) for example in examples))
        documents.extend(_related(synset, synsets))
    return documents


def jargon_documents(root: Path) -> list[str]:
    """Returns the entries of the Jargon File, unwrapped, half of them as questions."""
    folder = root / "usr/share/dictd"
    text = gzip.decompress((folder / "jargon.dict.dz").read_bytes())
    places = set()
    for line in (folder / "jargon.index").read_text(encoding="utf-8").splitlines():
        word, start, length = line.split("\t")
        if not word.startswith("00"):
            places.add((_number(start), _number(length)))
    entries = [text[start : start + length].decode() for start, length in sorted(places)]
    return [_entry(entry, place) for place, entry in enumerate(entries)]


def topic_documents() -> tuple[list[str], list[str]]:
    """Returns the help topics that are not held out: whole, and paragraph by paragraph."""
    whole = list(training_topics().values())
    return whole, [part for text in whole for part in paragraphs(text)]


def _find_or_download(name: str, folder: Path) -> Path:
    """Returns the package file in `folder`, asking apt-get for it when it is not there."""
    if not list(folder.glob(f"{name}_*.deb")):
        command = ["apt-get", "download", f"{name}={PACKAGE_VERSION[name]}"]
        try:
            subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise CorpusError(
                f"`{' '.join(command)}` failed ({error}); on a machine without that Debian "
                f"package, put its .deb file into {folder} and run again"
            ) from error
    return min(folder.glob(f"{name}_*.deb"))


def _synsets(root: Path, part: str) -> Iterator[Synset]:
    """Reads one of WordNet's data files; its format is described in wndb(5WN)."""
    for line in (root / f"usr/share/wordnet/data.{part}").read_text("utf-8").splitlines():
        if line.startswith(" "):
            continue
        head, gloss = line.split(" | ", 1)
        fields = head.split()
        after_words = 4 + 2 * int(fields[3], 16)
        pointers = fields[after_words + 1 : after_words + 1 + 4 * int(fields[after_words])]
        yield Synset(
            key=PART_LETTERS[part] + fields[0],
            part=part,
            lexicographer=fields[1],
            words=tuple(_plain(word) for word in fields[4:after_words:2]),
            gloss=gloss.strip(),
            pointers=tuple(
                (symbol, target_part.replace("s", "a") + target)
                for symbol, target, target_part in zip(
                    pointers[::4], pointers[1::4], pointers[2::4], strict=True
                )
            ),
        )


def _plain(word: str) -> str:
    """Undoes WordNet's spelling: underscores for spaces, "(p)" after some adjectives."""
    return re.sub(r"\((a|p|ip)\)$", "", word).replace("_", " ")


def _split_gloss(gloss: str) -> tuple[str, list[str]]:
    """Splits a gloss into its definition and the quoted examples that follow it."""
    definition = gloss.split('; "', maxsplit=1)[0].strip(' "')
    examples = re.findall(r'"([^"]{12,})"', gloss[len(definition) :])
    return definition, [example.strip(" ;,") for example in examples]


def _question(synset: Synset) -> str:
    """Asks for a synset's meaning; which word and wording is fixed by its place in WordNet."""
    place = int(synset.key[1:])
    kind = synset.part
    word = synset.words[place % len(synset.words)]
    if any(symbol == "@i" for symbol, _ in synset.pointers):
        kind = "person" if synset.lexicographer == PERSON else "name"
        word = max(synset.words, key=len)
    wordings = QUESTIONS[kind]
    wording = wordings[place // 7 % len(wordings)]
    return _sentence(wording.format(word=word, a=_article(word)))


def _related(synset: Synset, synsets: dict[str, Synset]) -> Iterator[str]:
    """Yields questions about opposites, and about the kind of thing that a noun is."""
    word = synset.words[0]
    for symbol, target in synset.pointers:
        other = synsets[target].words[0]
        if symbol == "!":
            yield f"What is the opposite of {word}?\n{_sentence(other)}"
        elif symbol == "@" and synset.part == "noun":
            if int(synset.key[1:]) % KIND_OF_THING_PART == 0:
                kind = f"{_article(word)} {word} is a kind of {other}"
                yield f"What kind of thing is {_article(word)} {word}?\n{_sentence(kind)}"
            return


def _article(word: str) -> str:
    return "an" if word[0].lower() in "aeiou" else "a"


def _sentence(text: str) -> str:
    """Gives a text a capital letter and a full stop, where it has none."""
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else text + "."


def _number(digits: str) -> int:
    """Reads a number of a dictd index, which is written in base 64."""
    total = 0
    for digit in digits:
        total = 64 * total + BASE64[digit]
    return total


def _entry(entry: str, place: int) -> str:
    """Rewrites one dictionary entry as text: no pronunciation, no braces, lines unwrapped."""
    head, *rest = paragraphs(re.sub(r"\{\s*|\s*\}", "", entry))
    term = head.splitlines()[0].strip()
    meaning = "\n\n".join(" ".join(part.split()) for part in rest)
    return f"What is {term}?\n{meaning}" if place % 2 else f"{term}: {meaning}"
