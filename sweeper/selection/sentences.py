"""The sentence of each verdict.

A sentence says what was seen, how sure it is, and over how many seeds. An amount is given in the
direction the sentence names; an interval of a signed difference says "arm - baseline".
"""

from __future__ import annotations

from collections.abc import Sequence

from sweeper.records import Reason
from sweeper.selection.case import Case, Measured
from sweeper.selection.differences import Difference
from sweeper.selection.evidence import BASELINE, CellEvidence
from sweeper.selection.examples import ExampleDifference
from sweeper.selection.statistics import clopper_pearson
from sweeper.selection.wording import (
    amount,
    away,
    ended,
    ended_with_blame,
    interval_text,
    listing,
    p_text,
    percent,
    plain,
    seeds_text,
)

FEWEST_PAIRS_FOR_A_SIGN_TEST = 6
"""With fewer, no sign-flip p can reach 5 %."""


def not_comparable(case: Case) -> str:
    """Names the first gate that was broken, and how many more findings there are."""
    first, others = case.breaks[0], len(case.breaks) - 1
    more = {0: "", 1: " One more such finding is listed."}
    return (
        f"{case.arm} is not comparable with {BASELINE}: in seed {first.seed} {first.sentence}. "
        "No difference is reported." + more.get(others, f" {others} more such findings are listed.")
    )


def baseline_unstable(case: Case) -> str:
    """Says how the baseline failed, and how the arm did if it did."""
    stops = [cell for cell in case.baseline_cells if cell.is_stopped]
    own = [cell for cell in case.cells if cell.is_stopped]
    sentence = (
        f"{_stops('The baseline itself', stops, len(case.cells))} So no improvement over it can "
        "be stated."
    )
    return f"{sentence} {_stops(case.arm, own, len(case.cells))}" if own else sentence


def unstable(case: Case) -> str:
    """Says how often, how and when the arm failed, and how little that number of seeds shows."""
    stops = [cell for cell in case.cells if cell.is_stopped]
    settled = sum(not cell.is_missing for cell in case.cells)
    rate = clopper_pearson(len(stops), settled)
    assert rate is not None
    sentence = (
        f"{_stops(case.arm, stops, len(case.cells))} It is not eligible. With "
        f"{seeds_text(settled)} its failure rate is only known to lie between "
        f"{percent(rate.low)} and {percent(rate.high)}."
    )
    return f"{sentence} {_missing(case)}" if case.missing_pairs else sentence


def incomplete(case: Case) -> str:
    """Says whose doing each missing pair is, and what the pairs present show so far."""
    closing = " The study is closed: the arm counts with p = 1." if case.study.closed else ""
    return f"{_missing(case)}{_so_far(case)}{closing}"


def too_few_seeds(case: Case) -> str:
    """Gives the difference and why it shows nothing."""
    difference = case.difference
    assert difference is not None
    ended_by = _ended_by(case.arm, difference)
    if difference.n == 1:
        return (
            f"{ended_by} in the one seed run. One seed cannot show whether this is more than "
            "chance."
        )
    return (
        f"{ended_by} on average over {seeds_text(difference.n)} (lower in "
        f"{difference.lower_in} of {seeds_text(difference.n)}). Two seeds cannot show whether "
        "this is more than chance."
    )


def zero_spread(case: Case) -> str:
    """Says what does not vary although the seed does."""
    difference = case.difference
    assert difference is not None
    alike = (
        f"all seeds gave the same difference from {BASELINE}"
        if difference.differences_alike
        else f"all seeds gave {BASELINE} the same loss"
    )
    return (
        f"No claim about {case.arm}: {alike}. Check that the seed reaches data order, "
        "initialisation and dropout."
    )


def below_noise_floor(measured: Measured) -> str:
    """Says that seeds agree on a difference that the same run once more exceeds."""
    return (
        f"No claim about {measured.arm}: {_direction(measured)} than {BASELINE} by "
        f"{_size(measured)} nats per target token ({_evidence(measured)}), which is less than the "
        f"{plain(measured.noise_floor)} by which two runs of {BASELINE} with the same seed differ."
    )


def better_or_worse(measured: Measured) -> str:
    """Says by how much the arm is better or worse, and what stands behind it."""
    word = "better" if measured.mean < 0 else "worse"
    return (
        f"{measured.arm} is {word} than {BASELINE}{on_this_split(measured.examples)}: "
        f"{_direction(measured)} by {_size(measured)} nats per target token "
        f"({_evidence(measured)}).{_reservations(measured)}"
    )


def below_delta(measured: Measured) -> str:
    """Says that a difference is real, and smaller than what matters."""
    return (
        f"{measured.arm} is reliably {_direction(measured)} than {BASELINE}"
        f"{on_this_split(measured.examples)}, by "
        f"{_size(measured)} nats per target token ({_evidence(measured)}), which is less than the "
        f"{plain(measured.study.smallest_difference)} declared to matter: {BASELINE} is kept."
        f"{_reservations(measured)}"
    )


def equivalent(measured: Measured) -> str:
    """Says that no difference that matters is left possible."""
    return (
        f"{measured.arm} differs from {BASELINE} by less than "
        f"{plain(measured.study.smallest_difference)} nats per target token (90 % interval of "
        f"{measured.arm} - {BASELINE} {interval_text(measured.interval_90, measured.error)}, "
        f"paired over {seeds_text(measured.difference.n)}).{_reservations(measured)}"
    )


def no_difference(measured: Measured) -> str:
    """Says what was seen, and what the study could have seen."""
    resolution = measured.difference.resolution
    assert resolution is not None
    return (
        f"No reliable difference between {measured.arm} and {BASELINE} ({measured.arm} - "
        f"{BASELINE} = {amount(measured.mean, measured.error)} nats per target token, 95 % "
        f"interval {interval_text(measured.interval_95, measured.error)}, paired over "
        f"{seeds_text(measured.difference.n)}). This does not show that they are equal: with this "
        f"spread the study could only have seen about {resolution:.1g} nats."
    )


def _direction(measured: Measured) -> str:
    return "lower" if measured.mean < 0 else "higher"


def _size(measured: Measured) -> str:
    return amount(abs(measured.mean), measured.error)


def _evidence(measured: Measured) -> str:
    """The interval of the amount in the sentence's own direction, and what stands behind it."""
    interval = away(measured.interval_95, measured.mean)
    n = measured.difference.n
    return (
        f"95 % interval {interval_text(interval, measured.error)}, paired over {seeds_text(n)}, "
        f"Holm {p_text(measured.p_holm)}{_sign_flip(measured.difference)}; lower in "
        f"{measured.difference.lower_in} of {seeds_text(n)}"
    )


def _sign_flip(difference: Difference) -> str:
    """The test that assumes no normal distribution, from the number of seeds on that it takes."""
    if difference.n < FEWEST_PAIRS_FOR_A_SIGN_TEST or difference.sign_flip_p is None:
        return ""
    return f", sign-flip {p_text(difference.sign_flip_p)}"


def on_this_split(examples: ExampleDifference | None) -> str:
    """Limits a claim to the validation split, when other records may bring another answer."""
    return " on this validation split" if examples and examples.only_on_this_split else ""


def _reservations(measured: Measured) -> str:
    text = _disagreement(measured) + _other_records(measured)
    if measured.is_provisional:
        text += (
            f" {seeds_text(measured.difference.n)} allow only a provisional statement: no sign "
            f"test reaches 5 % with fewer than {FEWEST_PAIRS_FOR_A_SIGN_TEST}."
        )
    return text


def _disagreement(measured: Measured) -> str:
    """Holm's test and the simultaneous interval can differ; then the sentence says so."""
    interval = measured.difference.simultaneous
    if not measured.is_reliable or interval is None or not interval.holds(0.0):
        return ""
    level = 100 * measured.difference.simultaneous_level
    return (
        f" The simultaneous {level:.4g} % interval of {measured.arm} - {BASELINE} "
        f"({interval_text(interval, measured.error)}) includes 0 although Holm's test passes: "
        "take it as barely shown."
    )


def _other_records(measured: Measured) -> str:
    examples = measured.examples
    if examples is None or examples.two_sources is None or not examples.only_on_this_split:
        return ""
    wider = interval_text(examples.two_sources.interval_95, examples.two_sources.error)
    return (
        f" Allowing for other seeds and other records, the 95 % interval of {measured.arm} - "
        f"{BASELINE} is {wider}, which includes 0."
    )


def _ended_by(arm: str, difference: Difference) -> str:
    assert difference.mean is not None
    direction = "higher" if difference.mean > 0 else "lower"
    size = amount(abs(difference.mean), difference.standard_error)
    return f"{arm} ended {size} nats per target token {direction} than {BASELINE}"


def _so_far(case: Case) -> str:
    difference = case.difference
    if difference is None or difference.n == 0:
        return " No pair is complete."
    return (
        f" Partial, over {seeds_text(difference.n)} of {difference.n_planned}: "
        f"{_ended_by(case.arm, difference)}; no claim is made from a part."
    )


def _stops(subject: str, stops: Sequence[CellEvidence], n: int) -> str:
    reasons = sorted({_reason(cell) for cell in stops})
    if len(reasons) == 1:
        return f"{subject} {ended(reasons[0])} in {len(stops)} of {seeds_text(n)} {_where(stops)}."
    groups = [[cell for cell in stops if _reason(cell) is reason] for reason in reasons]
    parts = [
        f"it {ended(reason)} in {len(group)} {_where(group)}"
        for reason, group in zip(reasons, groups, strict=True)
    ]
    return f"{subject} was stopped in {len(stops)} of {seeds_text(n)}: {listing(parts)}."


def _where(stops: Sequence[CellEvidence]) -> str:
    tokens = [cell.stopped_at_target_tokens for cell in stops]
    known = [str(count) for count in tokens if count is not None]
    if len(known) < len(tokens):
        known.append("an unrecorded number of")
    losses = [cell.last_finite_loss for cell in stops]
    shown = ["none" if loss is None else plain(loss) for loss in losses]
    word = "loss" if len(shown) == 1 else "losses"
    return f"(at {listing(known)} target tokens; last finite {word} {listing(shown)})"


def _reason(cell: CellEvidence) -> Reason:
    assert cell.ending is not None
    return cell.ending


def _missing(case: Case) -> str:
    missing = case.missing_pairs
    parts = [f"in seed {mine.seed} {_who(mine, theirs)}" for mine, theirs in missing]
    count = f"{len(missing)} of {len(case.cells)} pairs"
    verb = "is" if len(missing) == 1 else "are"
    return f"{case.arm} is incomplete, {count} {verb} missing: {'; '.join(parts)}."


def _who(mine: CellEvidence, theirs: CellEvidence) -> str:
    parts = [
        f"{cell.arm} {ended_with_blame(cell.ending, cell.detail)}"
        for cell in (theirs, mine)
        if cell.is_missing
    ]
    return listing(parts)
