"""Draw five classifiers of few images: their accuracy and their processor seconds.

Run as ``python docs/figures/five_marks.py <target>``; the README shows
docs/_static/five_marks.png. Reads benchmarks/results/small_data.json. As SVG each
panel is a picture, which phones show below each other, with one for dark pages.
"""

import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
from small_data_table import DATA, RESULTS, averages
from speed_table import read_record

PANELS = [("mnist", 500), ("cifar10", 500)]
TICKS = [1, 10, 100, 1000]
# Name and place of the label: left, right, above or below; ours have a colour.
MARKS = {
    "ImageClassifier": ("ImageClassifier", "above", "#d94801", "*"),
    "PatchGPClassifier": ("PatchGPClassifier", "left", "#4292c6", "s"),
    "scattering, whitening, SVC": ("SVC on whitened\nscattering", "left", "", "D"),
    "CNN, ten times the seconds": ("trained CNN", "below", "", "o"),
    "SVC": ("SVC on pixels", "right", "", "v"),
}
OFFSETS = {"left": (-9, 0), "right": (9, 0), "above": (0, 9), "below": (0, -9)}
ALIGNED = {
    "left": {"ha": "right", "va": "center"},
    "right": {"ha": "left", "va": "center"},
    "above": {"ha": "center", "va": "bottom"},
    "below": {"ha": "center", "va": "top"},
}
LIGHT = {"ink": "#222222", "grid": "#e5e5e5", "other": "#666666"}
DARK = {"ink": "#e6e6e6", "grid": "#3a3f44", "other": "#b0b0b0"}


def main(target: Path) -> None:
    """Draw both panels side by side, or as SVG each for light and for dark pages."""
    if target.suffix != ".svg":
        save(target, PANELS, LIGHT)
        return
    for panel in PANELS:
        name = f"{target.stem}_{panel[0]}"
        save(target.with_stem(name), [panel], LIGHT)
        save(target.with_stem(f"{name}_dark"), [panel], DARK)


def save(target: Path, panels: list[tuple[str, int]], colors: dict[str, str]) -> None:
    """Draw and save panels; an SVG has no background."""
    record = read_record(RESULTS)
    rows = record["few_images"] if record else []
    mpl.rcParams.update({"svg.hashsalt": "skconvgp", "font.family": "DejaVu Sans"})
    mpl.rcParams.update(
        dict.fromkeys(("text.color", "axes.labelcolor"), colors["ink"])
        | dict.fromkeys(("xtick.color", "ytick.color"), colors["ink"])
    )
    size = 4.2 * len(panels), 3.5
    figure, every = plt.subplots(1, len(panels), figsize=size, squeeze=False)
    for axes, (data, n_train) in zip(every[0], panels, strict=True):
        draw(axes, averages(rows, data, n_train), colors)
        axes.set_title(f"{DATA[data]}, {n_train} training images", fontsize=11)
        axes.set_xlabel("processor seconds")
        if data == panels[0][0]:
            axes.set_ylabel("accuracy in percent")
    figure.tight_layout(w_pad=2.5)
    settings: dict[str, Any] = {"dpi": 200}
    if target.suffix == ".svg":
        settings = {"metadata": {"Date": None}, "transparent": True}
    figure.savefig(target, **settings)
    plt.close(figure)


def draw(axes: Any, found: dict[str, Any], colors: dict[str, str]) -> None:
    """Draw and label marks: seconds of a fit and of 1000 predictions."""
    for name, (label, side, own, marker) in MARKS.items():
        if name not in found:
            continue
        row = found[name]
        seconds = row["fit_cpu_seconds"] + row["predict_cpu_seconds_of_1000"]
        point = seconds, 100 * (1 - row["error"])
        color = own or colors["other"]
        size = 17 if marker == "*" else 8
        axes.plot(*point, marker, color=color, markersize=size)
        axes.annotate(
            label,
            point,
            OFFSETS[side],
            textcoords="offset points",
            color=color,
            fontsize=9.5,
            fontweight="bold" if marker == "*" else "normal",
            **ALIGNED[side],
        )
    axes.set_xscale("log")
    axes.set_xlim(0.015, 2000)
    axes.set_xticks(TICKS, labels=[f"{tick:g}" for tick in TICKS])
    axes.set_xticks([], minor=True)
    axes.margins(y=0.17)
    axes.grid(color=colors["grid"])
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["bottom", "left"]].set_color(colors["other"])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
