"""A record that tests tamper with, and what an audit finds then."""

import sqlite3

import pytest


@pytest.fixture
def change():
    """Changes a study's database behind everybody's back."""

    def run(study, statement):
        connection = sqlite3.connect(study.folder.database)
        changed = connection.execute(statement).rowcount
        connection.commit()
        connection.close()
        assert changed > 0

    return run


@pytest.fixture
def findings():
    """Returns what the check of that name finds, or all of them together."""
    from sweeper.report.auditing import audit

    def found(study, about=None):
        checks = audit(study.file).checks
        assert about is None or about in {check.about for check in checks}
        return [
            sentence
            for check in checks
            if about in (None, check.about)
            for sentence in check.findings
        ]

    return found
