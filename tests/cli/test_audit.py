"""`sweeper audit`: what it prints, and its exit status."""

from __future__ import annotations

import json

from sweeper.report.auditing import LIMITS, PROVES


def test_a_sound_record_is_told_line_by_line_with_its_head_and_what_that_is_worth(sweeper, frozen):
    ran = sweeper("audit", frozen.file)

    head = json.loads(frozen.folder.chain.read_text().splitlines()[-1])["digest"]
    lines = ran.out.splitlines()
    assert ran.status == 0
    assert lines[:3] == [
        "ok    The chain in the database: 23 entries",
        "ok    Its mirror in the run folder: 23 entries",
        "ok    Trials on record: 10 attempts, 10 of them ended",
    ]
    assert lines[-3:] == [f"Head of the chain: {head}   (23 entries)", PROVES, LIMITS]


def test_what_was_found_is_told_under_what_it_is_about(sweeper, frozen):
    frozen.weights("half/2").write_text("other weights")

    ran = sweeper("audit", frozen.file)

    lines = ran.out.splitlines()
    place = lines.index("FOUND The frozen choice: half, with 10 checkpoints")
    assert ran.status == 3
    assert lines[place + 1].startswith("      half/2: the weights in trials/half-2/attempts/1/")
    assert "1 thing is not as it should be: what rests on it is not shown." in lines
    assert ran.err == ""


def test_a_head_kept_elsewhere_is_looked_for(sweeper, frozen):
    ran = sweeper("audit", frozen.file, "--head", "0123456789abcdef")

    assert ran.status == 3
    assert "FOUND The head kept elsewhere: 0123456789ab" in ran.out


def test_as_json_every_check_is_told(sweeper, frozen):
    ran = sweeper("audit", frozen.file, "--json")

    found = json.loads(ran.out)
    assert ran.status == 0
    assert (found["study"], found["is_sound"], found["entries"]) == ("rates", True, 23)
    assert [check["is_sound"] for check in found["checks"]] == [True] * 10
    assert (found["proves"], found["limits"]) == (PROVES, LIMITS)


def test_a_database_that_cannot_be_read_is_told_apart_from_what_was_found(sweeper, frozen):
    frozen.folder.database.write_bytes(b"no database" * 1000)

    ran = sweeper("audit", frozen.file)

    assert ran.status == 1
    assert ran.out == ""
