"""What a follow-up study takes from an earlier one: its frozen choice, and where that came from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sweeper.selection.chain import EntryKind, Link
from sweeper.selection.wording import listing, plain
from sweeper.study.document import Plain
from sweeper.study.fingerprint import Protocol

BASELINE_FACTS = "baseline"
"""In a plan's data, and so in the chain's first entry: the taken choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenChoice:
    """The frozen choice of an earlier study, which is this study's baseline.

    Attributes:
        study: The earlier study's name; the record has no path.
        arm: The chosen arm.
        learning_rate: Its peak rate.
        fingerprint: Of the earlier study.
        entry: Digest of the entry of its chain with the frozen choice.
        at: When it was frozen.
        sentence: Why it was chosen.
        answer: What the earlier study answers.
        open_trials: Its trials that never came to an end: the choice is partial then.
        is_spent: Whether the earlier test split had been opened before this choice was frozen.
        test: Digest of the earlier study's test split; None without one.
        test_begun_at: When opening that was first begun, as far as is known.
        test_opened_at: When there was a first result; None: nobody has seen losses on it.
        chosen_under: All settings of the chosen arm; None once the choice is on record, where the
            fingerprint of the study that took it stands for them.
        budget_target_tokens: Likewise, what each of the earlier trials was to read.
    """

    study: str
    arm: str
    learning_rate: float
    fingerprint: str
    entry: str
    at: str
    sentence: str
    answer: str
    open_trials: tuple[str, ...] = ()
    is_spent: bool = False
    test: str | None = None
    test_begun_at: str | None = None
    test_opened_at: str | None = None
    chosen_under: Protocol | None = None
    budget_target_tokens: int | None = None

    def in_protocol(self) -> Plain:
        """Returns what is fingerprinted of it: another choice is another study."""
        return {
            "study": self.study,
            "arm": self.arm,
            "fingerprint": self.fingerprint,
            "entry": self.entry,
        }

    def to_facts(self) -> dict[str, Plain]:
        """Returns what stays on record with the study that took it."""
        return {name: _plain(getattr(self, name)) for name in _FACTS}

    @classmethod
    def from_facts(cls, facts: Mapping[str, object]) -> TakenChoice:
        """Returns what `to_facts` described.

        Raises:
            ValueError: It is none.
        """
        try:
            known = {name: facts[name] for name in _FACTS}
            known["open_trials"] = _texts(known["open_trials"])
            return cls(**known)  # type: ignore[arg-type]  # as `to_facts` has written them
        except (KeyError, TypeError) as error:
            raise ValueError(f"no choice of an earlier study: {error!r}") from error

    @property
    def origin(self) -> str:
        """Where the baseline comes from, on one line."""
        return (
            f"baseline from the frozen choice of study {self.study}: arm {self.arm}, "
            f"{plain(self.learning_rate)}"
        )

    def cautions(self, test: str | None) -> tuple[str, ...]:
        """Returns what the choice does not stand for, as sentences.

        Args:
            test: Digest of this study's test split; None without one.
        """
        return tuple(self._cautions(test))

    def _cautions(self, test: str | None) -> Iterator[str]:
        if self.open_trials:
            yield (
                f"The choice of study {self.study} is partial: {listing(self.open_trials)} never "
                "came to an end there."
            )
        if self.is_spent:
            yield (
                f"Study {self.study} froze this choice after its test split had been opened: the "
                "baseline was not chosen blind to it."
            )
        if (seen := self.seen(test)) is not None:
            yield seen

    def seen(self, test: str | None) -> str | None:
        """Returns what the earlier study has seen of this study's test split, if anything.

        Args:
            test: Digest of this study's test split; None without one.
        """
        if test is None or test != self.test:
            return None
        if self.test_opened_at is not None:
            return (
                f"The test split is the one that study {self.study}, which the baseline is from, "
                f"opened at {self.test_opened_at}: losses on it have been seen, the baseline's "
                "settings among them. What was settled here after that was not settled blind to it."
            )
        if self.test_begun_at is not None:
            return (
                f"The test split is the one that study {self.study}, which the baseline is from, "
                f"began to open at {self.test_begun_at}, without a result: losses on it may have "
                "been seen."
            )
        return None


_FACTS = (
    *("study", "arm", "learning_rate", "fingerprint", "entry", "at", "sentence", "answer"),
    *("open_trials", "is_spent", "test", "test_begun_at", "test_opened_at"),
)


def sealed_test(protocol: Mapping[str, object]) -> str | None:
    """Returns the digest of the test split of the study with that protocol; None without one."""
    value: object = protocol
    for key in ("data", "splits", "test"):
        value = value.get(key) if isinstance(value, Mapping) else None
    return None if value is None else str(value)


def taken_in(links: Sequence[Link]) -> TakenChoice | None:
    """Returns what a study's chain says it took; None where its file gives the rate itself.

    Raises:
        ValueError: The first entry is none of ours.
    """
    created = next((link for link in links if link.kind == EntryKind.STUDY_CREATED), None)
    data = None if created is None else created.facts.get("data")
    return taken_of(data) if isinstance(data, Mapping) else None


def taken_of(data: Mapping[str, object]) -> TakenChoice | None:
    """Returns what was taken, of a plan's data.

    Raises:
        ValueError: What stands there is none.
    """
    facts = data.get(BASELINE_FACTS)
    if facts is None:
        return None
    if not isinstance(facts, Mapping):
        raise ValueError(f"no choice of an earlier study: {facts!r}")  # noqa: TRY004  # not a type of ours
    return TakenChoice.from_facts(facts)


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise TypeError(f"not a list: {value!r}")
    return tuple(str(each) for each in value)


def _plain(value: object) -> Plain:
    if isinstance(value, tuple):
        return [str(each) for each in value]
    assert value is None or isinstance(value, str | int | float | bool)
    return value
