"""
=================
Files of pictures
=================

Files in a folder are seldom alike: some are wide and some are tall, some are grey, some
have no background, and a camera held upright stores its photographs lying down.
:class:`~skconvgp.transforms.ReadImages` makes images of one size of them. As the first
step of a pipeline it lets the pipeline take paths of files, when it is fitted and when
it predicts.
"""

# %%
# A folder
# --------
#
# The files are made here, of scikit-learn's digits: dark ink on light paper, which is
# wider or taller than the digit. There are five kinds of them.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from skconvgp import ImageClassifier
from skconvgp.datasets import load_image_folder
from skconvgp.transforms import ReadImages

KINDS = ["grey", "colours", "no background", "16 bits", "turned camera"]
rng = np.random.default_rng(0)


def ink_of(digit):
    """Return how much ink there is at each place of a paper of random shape, 0 to 1."""
    side, longer = rng.integers(40, 80), rng.uniform(1.2, 1.8)
    drawn = Image.fromarray(digit.astype(np.float32) / 16)
    drawn = np.asarray(drawn.resize((side, side), Image.Resampling.BICUBIC))
    before, after = rng.multinomial(int(side * (longer - 1)), [0.5, 0.5])
    sides = [(0, 0), (before, after)]
    return np.pad(drawn, sides if rng.random() < 0.5 else sides[::-1]).clip(0, 1)


def write(path, digit, kind):
    """Write a file of a kind."""
    ink = ink_of(digit)
    grey = (255 * (1 - ink)).astype(np.uint8)
    if kind == "colours":
        paper, pen = rng.uniform(180, 255, 3), rng.uniform(0, 80, 3)
        colours = paper + (pen - paper) * ink[..., None]
        Image.fromarray(colours.astype(np.uint8)).save(path.with_suffix(".jpg"))
    elif kind == "no background":
        picture = Image.new("RGBA", grey.shape[::-1], "navy")
        picture.putalpha(Image.fromarray(255 - grey))
        picture.save(path)
    elif kind == "16 bits":
        Image.fromarray((65535 * (1 - ink)).astype(np.uint16)).save(path)
    elif kind == "turned camera":
        exif = Image.Exif()
        exif[0x0112] = 6  # to be turned by a right angle when it is shown
        lying = np.ascontiguousarray(np.rot90(grey))
        Image.fromarray(lying).save(path.with_suffix(".jpg"), exif=exif)
    else:
        Image.fromarray(grey).save(path)


workspace = tempfile.TemporaryDirectory()
folder = Path(workspace.name) / "digits"
digits = load_digits()
for i, (digit, label) in enumerate(
    zip(digits.images[:300], digits.target, strict=False)
):
    of_class = folder / str(label)
    of_class.mkdir(parents=True, exist_ok=True)
    write(of_class / f"{i:03}.png", digit, KINDS[i % len(KINDS)])

# %%
# As they are stored, and as they are read
# ----------------------------------------
#
# :func:`~skconvgp.datasets.load_image_folder` reads all files, and takes names of
# folders as classes. The first row shows files as they are stored; where there is no
# background, one sees the page. Below are images of 24x24 pixels. "pad" keeps the whole
# picture, with black beside it. "crop" keeps the middle, where these digits are.
# "stretch" keeps all of it, but not the proportions.

ways = ["pad", "crop", "stretch"]
read = {way: load_image_folder(folder, size=24, resize=way) for way in ways}
files = read["pad"].filenames
by_number = np.argsort([Path(file).stem for file in files])

fig, axes = plt.subplots(4, 10, figsize=(9, 4.4), layout="constrained")
for column, i, kind in zip(axes.T, by_number, 2 * KINDS, strict=False):
    with Image.open(files[i]) as stored:
        white = 65535 if stored.mode == "I;16" else 255
        column[0].imshow(stored, cmap="gray", vmin=0, vmax=white)
    column[0].set_title(kind, fontsize=8)
    for ax, way in zip(column[1:], ways, strict=True):
        ax.imshow(np.moveaxis(read[way].data[i], 0, -1))
for ax, name in zip(axes[:, 0], ["stored", *ways], strict=True):
    ax.set_ylabel(name)
for ax in axes.flat:
    ax.set(xticks=[], yticks=[])

# %%
# A pipeline of files
# -------------------
#
# Training files and test files are lists of paths now. ``mode="L"`` makes all pictures
# grey, as the colours of ink and paper say nothing about a digit. The digits are in the
# middle, so that "crop" loses only paper and shows them largest. Black bars beside
# light paper are edges that say nothing: ``padding=1.0`` continues the paper instead.

labels = read["pad"].target
train, test, y_train, y_test = train_test_split(
    files, labels, train_size=60, stratify=labels, random_state=0
)
for way, padding in [("pad", 0.0), ("pad", 1.0), ("crop", 0.0), ("stretch", 0.0)]:
    reading = ReadImages(size=24, resize=way, mode="L", padding=padding)
    model = make_pipeline(reading, ImageClassifier(random_state=0))
    accuracy = model.fit(train, y_train).score(test, y_test)
    print(f"{way:8} padding={padding}  {accuracy:.0%} of {len(test)} test files")

# %%
# The model can be saved, and each file is read as those of the fit, whatever its size
# and its kind. A file that cannot be read is named. If there are several, all are named
# at once.

damaged = folder / "damaged.png"
damaged.write_bytes(Path(test[0]).read_bytes()[:200])
try:
    model.predict([test[0], damaged, folder / "missing.png"])
except ValueError as error:
    print(str(error).replace(workspace.name, "..."))

workspace.cleanup()
