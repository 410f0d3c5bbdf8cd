"""Reading: samples whose features are summed, in the two ways to read these."""

from typing import TypeAlias

from skconvgp.processes.fits._held_rows import HeldReading
from skconvgp.processes.fits._image_rows import ImageReading

Reading: TypeAlias = HeldReading | ImageReading
