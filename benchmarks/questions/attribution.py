"""Maps: how soon a prediction ends if what they point at is deleted."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from benchmarks.data import Array, Samples
from benchmarks.data import draw as drawn
from benchmarks.measure import Stopwatch
from benchmarks.report import Figures
from skconvgp import ImageClassifier, PatchGPClassifier
from skconvgp.questions import attribution

KEYS = ("data", "draw", "method")
# Names of sets, and training images.
DATA = {"digits, 400": ("digits", 400), "mnist, 1000": ("mnist", 1000)}
CAPTUM = "network, captum's integrated gradients"
# A model, and the options of its maps; those of a model without any are at random.
METHODS: dict[str, tuple[str, Any]] = {
    "patches, positions": ("patches", {}),
    "patches, positions less those of a black image": ("patches", {"baseline": 0.0}),
    "patches, gradients": ("patches", {"method": "gradients"}),
    "patches, occlusion": ("patches", {"method": "occlusion"}),
    "patches, random": ("patches", None),
    "images, gradients": ("images", {"method": "gradients"}),
    "images, occlusion": ("images", {"method": "occlusion"}),
    "images, random": ("images", None),
    CAPTUM: ("network", {}),
    "network, random": ("network", None),
}
NEEDS = {CAPTUM: "captum", "network, random": "captum"}
N_TEST, N_STEPS = 50, 20
EPOCHS, BATCH, RATE = 60, 50, 1e-3
SHOWN = ("accuracy", "deletion", "insertion", "ask_cpu_seconds_of_1000")


def measure(data: str, draw: int, methods: list[str]) -> Iterator[Figures]:
    """Yield a row for each method."""
    some, fitted = drawn(*DATA[data], draw), {}
    order = np.random.default_rng(draw).permutation(len(some.y_test))[:N_TEST]
    X, y = some.X_test[order], some.y_test[order]
    for method in methods:
        name, options = METHODS[method]
        if name not in fitted:
            fitted[name] = MODELS[name](some)
        model = fitted[name]
        labels = model.predict(X)
        watch = Stopwatch()
        if options is None:
            maps = np.random.default_rng(draw).random((len(X), *X.shape[2:]))
        else:
            maps = model.maps(X, labels, options)
        seconds = watch.read("ask_")
        deletion, insertion = curves(model.probability, X, labels, maps)
        yield {
            "method": method,
            "n_test": len(X),
            "accuracy": float((labels == y).mean()),
            "deletion": float(deletion.mean()),
            "insertion": float(insertion.mean()),
            "deletion_curve": deletion.round(4).tolist(),
            "insertion_curve": insertion.round(4).tolist(),
            **{f"{one}_of_1000": 1e3 * s / len(X) for one, s in seconds.items()},
        }


def curves(
    probability: Callable[[Array, Array], Array], X: Array, labels: Array, maps: Array
) -> tuple[Array, Array]:
    """Return mean probabilities of labels with shares of the pixels, black otherwise.

    Pixels are deleted from those with the largest contributions on, and inserted in the
    same order.
    """
    ranks = np.argsort(np.argsort(-maps.reshape(len(X), -1), 1), 1) / maps[0].size
    ranks = ranks.reshape(len(X), 1, *maps.shape[1:])
    shares = np.linspace(0.0, 1.0, N_STEPS + 1)
    deleted = [probability(X * (ranks >= share), labels).mean() for share in shares]
    inserted = [probability(X * (ranks < share), labels).mean() for share in shares]
    return np.array(deleted), np.array(inserted)


class Ours:
    """A classifier of ours."""

    def __init__(self, gp: Any, some: Samples) -> None:
        self.gp = gp.fit(some.X, some.y)
        self.predict = self.gp.predict

    def probability(self, X: Array, labels: Array) -> Array:
        """Return the probability of the label of each image."""
        columns = np.searchsorted(self.gp.classes_, labels)
        found: Array = self.gp.predict_proba(X)[np.arange(len(X)), columns]
        return found

    def maps(self, X: Array, labels: Array, options: Any) -> Array:
        """Return the maps of labels."""
        return attribution(self.gp, X, labels, **options)


class Network:
    """A convolutional network of torch, with maps of captum."""

    def __init__(self, some: Samples) -> None:
        torch.manual_seed(0)
        channels, side = some.X.shape[1], some.X.shape[2]
        layers = torch.nn
        self.net = layers.Sequential(
            layers.Conv2d(channels, 32, 3, padding=1),
            layers.ReLU(),
            layers.Conv2d(32, 32, 3, padding=1),
            layers.ReLU(),
            layers.MaxPool2d(2),
            layers.Flatten(),
            layers.Linear(32 * (side // 2) ** 2, 64),
            layers.ReLU(),
            layers.Linear(64, 10),
        )
        X, y = torch.as_tensor(some.X), torch.as_tensor(some.y).long()
        adam = torch.optim.Adam(self.net.parameters(), lr=RATE)
        for _ in range(EPOCHS):
            for part in torch.randperm(len(X)).split(BATCH):
                adam.zero_grad()
                layers.functional.cross_entropy(self.net(X[part]), y[part]).backward()
                adam.step()

    def predict(self, X: Array) -> Array:
        """Return labels."""
        with torch.no_grad():
            return self.net(torch.as_tensor(X)).argmax(1).numpy()

    def probability(self, X: Array, labels: Array) -> Array:
        """Return the probability of the label of each image."""
        with torch.no_grad():
            outputs = self.net(torch.as_tensor(X.astype(np.float32)))
        found: Array = outputs.softmax(1).numpy()[np.arange(len(X)), labels]
        return found

    def maps(self, X: Array, labels: Array, options: Any) -> Array:  # noqa: ARG002
        """Return integrated gradients of the outputs of labels, from black images."""
        from captum.attr import IntegratedGradients

        given, target = torch.as_tensor(X), torch.as_tensor(labels)
        found: Array = (
            IntegratedGradients(self.net)
            .attribute(given, target=target, n_steps=50)
            .detach()
            .numpy()
            .sum(1)
        )
        return found


MODELS: dict[str, Callable[[Samples], Any]] = {
    "patches": lambda some: Ours(PatchGPClassifier(random_state=0), some),
    "images": lambda some: Ours(ImageClassifier(random_state=0), some),
    "network": Network,
}
