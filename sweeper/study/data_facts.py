"""What the record keeps of a study's data from its beginning: digests, counts and overlaps."""

from __future__ import annotations

from sweeper.data.manifest import Manifest, Overlap, SealedManifest, SplitManifest
from sweeper.study.document import Plain


def data_facts(manifest: Manifest) -> dict[str, Plain]:
    """Returns what was prepared, and what is known of the sealed test split, as plain values."""
    return {
        "model": manifest.model_digest,
        "tokenizer": manifest.tokenizer_digest,
        "splits": {name: _split(split) for name, split in manifest.splits.items()},
        "test": None if manifest.test is None else _sealed(manifest.test),
        "overlaps": [_overlap(overlap) for overlap in manifest.overlaps],
    }


def _split(split: SplitManifest) -> Plain:
    return {
        "records": split.records,
        "target_tokens": split.target_tokens,
        "records_digest": split.records_digest,
        "tokens_digest": split.tokens_digest,
    }


def _sealed(test: SealedManifest) -> Plain:
    return {
        "records": test.records,
        "records_digest": test.records_digest,
        "overlap_checked": test.overlap_checked,
    }


def _overlap(overlap: Overlap) -> Plain:
    return {
        "kind": overlap.kind,
        "split": overlap.split,
        "held_out": overlap.held_out,
        "count": overlap.count,
    }
