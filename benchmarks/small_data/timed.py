"""A small convolutional network that is trained for given seconds of a processor."""

import math
import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from benchmarks.data import Array
from benchmarks.models import softmax_of

WIDTHS, BATCH = (32, 64, 128), 64
RATE, DECAY = 2e-3, 0.05
SHIFT = 8  # the largest shift is an eighth of a side


@dataclass
class TimedCNN:
    """Three convolutions with batch normalization, the mean of all places, one layer.

    Each batch is shifted at random, and half of it is mirrored if flips are asked for.
    Adam with weight decay; its rate falls along a cosine to 0 at the end of the time.
    """

    seconds: float  # processor seconds of the training
    flips: bool  # whether images are mirrored at random

    def fit(self, X: Array, y: Array) -> "TimedCNN":
        """Train on images (n, c, h, w) with labels from 0 on."""
        torch.manual_seed(0)
        images, labels = torch.as_tensor(X), torch.as_tensor(y).long()
        self.mean, self.std = images.mean(), images.std()
        images = (images - self.mean) / self.std
        self.net = nn.Sequential(
            *_layers(X.shape[1]), nn.Linear(WIDTHS[-1], int(y.max()) + 1)
        )
        optimizer = torch.optim.AdamW(self.net.parameters(), RATE, weight_decay=DECAY)
        self.net.train()
        self.n_epochs, start = 0.0, time.process_time()
        while True:
            for few in torch.randperm(len(images)).split(BATCH):
                share = (time.process_time() - start) / self.seconds
                if share >= 1.0:
                    return self
                rate = RATE * (1.0 + math.cos(math.pi * share)) / 2.0
                optimizer.param_groups[0]["lr"] = rate
                optimizer.zero_grad()
                scores = self.net(_moved(images[few], self.flips))
                nn.functional.cross_entropy(scores, labels[few]).backward()
                optimizer.step()
                self.n_epochs += len(few) / len(images)

    def predict_proba(self, X: Array) -> Array:
        """Return the probabilities (n, k) of labels: the softmax."""
        images = (torch.as_tensor(X) - self.mean) / self.std
        return softmax_of(self.net, images)


def _layers(n_channels: int) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for width in WIDTHS:
        layers += [
            nn.Conv2d(n_channels, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.MaxPool2d(2),
        ]
        n_channels = width
    return [*layers[:-1], nn.AdaptiveAvgPool2d(1), nn.Flatten()]


def _moved(images: Tensor, flips: bool) -> Tensor:
    """Return a batch that is shifted as one, and half of it mirrored."""
    sides = images.shape[2:]
    shifts = [int(torch.randint(-(s // SHIFT), s // SHIFT + 1, ())) for s in sides]
    padded = nn.functional.pad(images, [s // SHIFT for s in sides[::-1] for _ in "ab"])
    rows, columns = (
        slice(side // SHIFT + shift, side // SHIFT + shift + side)
        for side, shift in zip(sides, shifts, strict=True)
    )
    images = padded[:, :, rows, columns]
    if not flips:
        return images
    is_mirrored = (torch.rand(len(images)) < 0.5)[:, None, None, None]
    return torch.where(is_mirrored, images.flip(3), images)
