"""What a coordinator left that died, put on record for whoever asks how the study stands.

Only what nobody can be at any more, and only if that takes no waiting: the next run does the rest.
"""

from __future__ import annotations

import logging

from sweeper.errors import SweeperError
from sweeper.store.recovery import LiveAttempt
from sweeper.study.folder import StudyFolder
from sweeper.study.loading import StudyFile
from sweeper.sweep.adopting import end_leftover, has_job, told
from sweeper.sweep.coordinator import only_coordinator
from sweeper.sweep.interventions import in_step
from sweeper.sweep.observer import Observer
from sweeper.sweep.study_run import terms_of
from sweeper.trial.folder import AttemptFolder
from sweeper.workers.aftermath import is_being_ended
from sweeper.workers.liveness import is_alive

_log = logging.getLogger(__name__)


def settle_leftovers(study_file: StudyFile, folder: StudyFolder, *, observer: Observer) -> None:
    """Ends on record, if nobody runs the study, the attempts whose owners on this host are dead.

    Left alone are jobs of an engine, attempts of other hosts, and those that a supervisor is just
    ending. Whoever may not write here, or cannot use the database, changes nothing.
    """
    try:
        with only_coordinator(folder):
            _settle(study_file, folder, observer)
    except (SweeperError, OSError) as error:
        _log.info("%s: %s", folder.path, error)


def _settle(study_file: StudyFile, folder: StudyFolder, observer: Observer) -> None:
    with in_step(study_file, folder) as store:
        terms = terms_of(study_file, store.study().budget_target_tokens)
        for live in store.live_attempts():
            if _is_left(live, folder):
                outcome = end_leftover(store, folder, live.claim, terms=terms)
                observer.message(told(live.claim, outcome))


def _is_left(live: LiveAttempt, folder: StudyFolder) -> bool:
    owner, attempt = live.claim.owner, AttemptFolder(folder.path / live.claim.folder)
    if is_alive(owner.host, owner.pid, owner.started_at) is not False:
        return False
    return not has_job(attempt) and not is_being_ended(attempt)
