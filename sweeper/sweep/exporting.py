"""Puts a trial's weights into a folder for others: checked, cleaned of this machine, shown to load.

The folder appears whole or not at all. What in it tells of this machine alone is taken out: where
the base model lay, how the tokenizer was found.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sweeper.errors import Fault, PlanError, RunFolderError, StudyConflict, UserError
from sweeper.files import bring_to_disk, bring_tree_to_disk, write_whole
from sweeper.study.base_model import BaseModel, base_model
from sweeper.study.child import ChildCall, Progress, run_child
from sweeper.study.folder import StudyFolder
from sweeper.study.loading import load_study
from sweeper.study.spec import TrialSpec
from sweeper.study.storage import variables
from sweeper.sweep.afterwards import refuse_another_model, slot_alike
from sweeper.training.folder_digest import folder_digest
from sweeper.trial.export.package import Exported, ExportedFile
from sweeper.trial.export.request import ExportAnswer, ExportRequest
from sweeper.trial.folder import AttemptFolder
from sweeper.workers.environment import trial_environment

MODULE = "sweeper.trial.export"
CARD = "README.md"

_ADAPTER_CONFIG = "adapter_config.json"
_OF_ADAPTERS = frozenset({_ADAPTER_CONFIG, "adapter_model.safetensors"})
_LEFT_OUT = frozenset({CARD})
"""peft's own card: a form to be filled in, with the path of the base model in it."""
_OF_THIS_MACHINE = ("_name_or_path", "name_or_path", "is_local", "local_files_only")
"""Keys of configurations that say where a model or tokenizer was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOrder:
    """What is to be exported, and how.

    Attributes:
        folder: The run folder of the study.
        trial: `arm/seed`.
        weights: Folder of the saved adapter or model, in the run folder.
        sha256: Over its files, as it is on record.
        validation_loss: On record for these weights.
        environment: What the trial ran on, by field.
        destination: The folder that is to appear.
        merged: Whether an adapter becomes one model with its base.
        verify: Whether the exported files are evaluated before they are left.
    """

    folder: StudyFolder
    trial: str
    weights: str
    sha256: str
    validation_loss: float
    environment: Mapping[str, str]
    destination: Path
    merged: bool = False
    verify: bool = True


WriteCard = Callable[[Exported], str]
"""Returns the model card; what it says is the report's to put together."""


def export(order: ExportOrder, write_card: WriteCard, *, progress: Progress) -> Exported:
    """Makes the folder and returns what it holds.

    Raises:
        StudyConflict: The weights are gone or not those on record, or the base model is another.
        PlanError: The folder is taken, they cannot be merged, or there is no device to do so.
        UserError: The child found that the export does not give the loss on record.
        RunFolderError: The folder cannot be written.
        SweeperError: The child failed in another way.
    """
    destination = order.destination.resolve()
    _refuse_taken(destination)
    weights = order.folder.path.resolve() / order.weights
    _refuse_other_weights(order, weights)
    spec = _told(AttemptFolder(weights.parent).spec)
    _refuse_merge(order, spec)
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{destination.name}.", dir=destination.parent))
        try:
            done = _make(order, weights, spec, work, progress)
            folder = work / "export"
            write_whole(folder / CARD, write_card(done))
            bring_tree_to_disk(folder)
            folder.rename(destination)
            bring_to_disk(destination.parent)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    except OSError as error:
        what = "the export cannot be written"
        raise RunFolderError(
            Fault(what=what, where=str(destination), got=error.strerror or str(error))
        ) from error
    return done


def _refuse_taken(destination: Path) -> None:
    is_free = not destination.exists() or (destination.is_dir() and not any(destination.iterdir()))
    if not is_free:
        raise PlanError(
            Fault(
                what="there is something already where the export is to appear",
                where=str(destination),
                expected="a folder that does not exist, or an empty one",
                hint="Name another folder",
            )
        )


def _refuse_other_weights(order: ExportOrder, weights: Path) -> None:
    hint = "Put the folder back as the trial left it; `sweeper audit STUDY` checks what was frozen"
    if not weights.is_dir():
        what = "the weights are gone"
        raise StudyConflict(Fault(what=what, where=str(weights), expected=order.sha256, hint=hint))
    found = folder_digest(weights)
    if found != order.sha256:
        what = "not the weights that are on record"
        raise StudyConflict(
            Fault(what=what, where=str(weights), got=found, expected=order.sha256, hint=hint)
        )


def _told(file: Path) -> TrialSpec:
    """Returns what the trial was told.

    Raises:
        StudyConflict: It is not there any more, or cannot be read.
    """
    try:
        return TrialSpec.read(file)
    except (OSError, ValueError) as error:
        hint = "Put the attempt's folder back as the trial left it"
        what = "what the trial was told is gone"
        raise StudyConflict(Fault(what=what, where=str(file), hint=hint)) from error


def _refuse_merge(order: ExportOrder, spec: TrialSpec) -> None:
    if not order.merged:
        return
    if spec.tune == "full":
        raise PlanError(
            Fault(
                what="there is no adapter to merge: the whole model was trained",
                where="--merged",
                hint="Leave the option out: the export is a model of its own",
            )
        )
    if spec.model.quantization is not None:
        raise PlanError(
            Fault(
                what="an adapter that was trained over weights in four bits is not merged: the "
                "result would have to be rounded to four bits again, and be another model",
                where="--merged",
                got=spec.model.quantization,
                hint="Export the adapter, to be used with the same quantization",
            )
        )


def _make(
    order: ExportOrder, weights: Path, spec: TrialSpec, work: Path, progress: Progress
) -> Exported:
    folder = work / "export"
    folder.mkdir()
    is_adapter, base = spec.tune == "lora", base_model(spec.model)
    left_out = _LEFT_OUT | (_OF_ADAPTERS if order.merged else frozenset())
    _copy(weights, folder, left_out=left_out)
    if (folder / _ADAPTER_CONFIG).exists():
        _name_base(folder / _ADAPTER_CONFIG, base)
    _clean(folder)
    answer = _completed(order, weights, spec, work, progress)
    _clean(folder)
    return Exported(
        base=base,
        spec=spec,
        is_adapter=is_adapter and not order.merged,
        merged=order.merged,
        validation_loss=answer.validation_loss,
        tolerance=answer.tolerance,
        files=_listed(folder),
    )


def _copy(weights: Path, folder: Path, *, left_out: frozenset[str]) -> None:
    for file in sorted(path for path in weights.rglob("*") if path.is_file()):
        name = file.relative_to(weights)
        if name.as_posix() not in left_out:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, folder / name)


def _name_base(config: Path, base: BaseModel) -> None:
    """Writes what others call the base; nothing where that is not known.

    The name of a folder would be taken for a hub's model of that name.
    """
    entries = json.loads(config.read_bytes())
    entries |= {"base_model_name_or_path": base.hub_id, "revision": base.revision}
    config.write_text(json.dumps(entries, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _clean(folder: Path) -> None:
    """Takes out of configurations what says where this machine had found things."""
    for file in folder.glob("*config.json"):
        entries = json.loads(file.read_bytes())
        kept = {name: each for name, each in entries.items() if name not in _OF_THIS_MACHINE}
        if kept != entries:
            text = json.dumps(kept, indent=2, ensure_ascii=False)
            file.write_text(f"{text}\n", encoding="utf-8")


def _completed(
    order: ExportOrder, weights: Path, spec: TrialSpec, work: Path, progress: Progress
) -> ExportAnswer:
    """Has the child merge and evaluate, as far as that is asked for."""
    if not order.merged and not order.verify:
        return ExportAnswer(validation_loss=None, tolerance=None)
    refuse_another_model(order.folder)
    run = load_study(order.folder.recorded_study).study.run
    slot = slot_alike(run, order.environment, name="export", no_gpu=_no_gpu(order))
    request, answer = work / "request.json", work / "answer.json"
    told = ExportRequest(
        spec=str(AttemptFolder(weights.parent).spec),
        prepared=str(order.folder.prepared.resolve()),
        weights=str(weights),
        folder=str(work / "export"),
        is_adapter=spec.tune == "lora",
        merge=order.merged,
        verify=order.verify,
        validation_loss=order.validation_loss,
    )
    write_whole(request, told.to_json(), durable=False)
    destination = order.destination.resolve()
    log = destination.with_name(f"{destination.name}.export.log")
    call = ChildCall(
        module=MODULE,
        arguments=(str(request), str(answer)),
        purpose=f"exporting {order.trial}",
        log=log,
        environment=trial_environment(AttemptFolder(work), slot),
        hidden=variables(run.storage),
    )
    try:
        run_child(call, progress)
    except UserError:
        log.unlink(missing_ok=True)
        raise
    log.unlink(missing_ok=True)
    return ExportAnswer.read(answer)


def _no_gpu(order: ExportOrder) -> Fault:
    return Fault(
        what="the trial ran on a GPU, and there is none here to load the export on",
        where=order.trial,
        expected=order.environment.get("device"),
        hint="Export it where it ran; an adapter is also exported with --no-verify",
    )


def _listed(folder: Path) -> tuple[ExportedFile, ...]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return tuple(
        ExportedFile(
            name=file.relative_to(folder).as_posix(),
            size_bytes=file.stat().st_size,
            sha256=_sha256(file),
        )
        for file in files
    )


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
