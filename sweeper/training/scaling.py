"""Loss scaling for float16: torch's scaler, and what must not advance when we refuse an update.

In other precisions the scaler is disabled: its methods then do nothing but call through.
"""

from __future__ import annotations

import torch
from torch.amp import GradScaler

from sweeper.training.precision import ResolvedPrecision


def make_scaler(precision: ResolvedPrecision, device: torch.device) -> GradScaler:
    """Returns torch's scaler with its own settings, disabled unless the precision is float16."""
    return GradScaler(device.type, enabled=precision == "float16")


def ready_scaler(
    given: GradScaler | None, precision: ResolvedPrecision, device: torch.device
) -> GradScaler:
    """Returns the given scaler, or else the one that the precision asks for, with a scale in it.

    torch puts the scale there with the first loss; a rank may have none in the first window.
    """
    scaler = given or make_scaler(precision, device)
    scaler.scale(torch.zeros((), device=device))
    return scaler


def loss_scale(scaler: GradScaler) -> float | None:
    """Returns what the loss is multiplied by; None without loss scaling."""
    return float(scaler.get_scale()) if scaler.is_enabled() else None


def finish_window(scaler: GradScaler, *, ran: bool, overflowed: bool) -> None:
    """Moves the scale on after a window, as torch's rule has it, and only if it applies.

    The scaler has to be updated after every window that was unscaled, or the next one cannot be.
    But an update that the loop refused though its gradients were finite is no proof that the scale
    is a good one: the tracker towards the next growth stays where it was.

    Args:
        ran: Whether the update was made.
        overflowed: Whether a scaled gradient was not finite.
    """
    if not scaler.is_enabled():
        return
    before = scaler.state_dict()
    scaler.update()
    if not ran and not overflowed:
        scaler.load_state_dict(before)
