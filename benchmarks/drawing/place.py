"""What a row ran on, and how much work it was given."""

from typing import Any

import torch
from calibrating.source import Figures
from peers.machine import machine


def ran_on(device: str) -> Figures:
    """Return the names of the processor and of the card, for a row."""
    is_card = device != "cpu" and torch.cuda.is_available()
    card = torch.cuda.get_device_name() if is_card else None
    return {"processor": machine()["processor"], "card": card}


def scaled(settings: dict[str, Any], effort: float) -> dict[str, Any]:
    """Return settings with as many times the steps or epochs."""
    return settings | {
        name: max(4, round(settings[name] * effort))
        for name in ("max_iter", "burn_in", "thin")
        if name in settings
    }
