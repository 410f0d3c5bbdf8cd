"""Scattering against its definition by plain convolutions, and against Kymatio 0.3."""

import numpy as np
import pytest
import torch

from skconvgp.image_maps import Scattering

# Of Kymatio 0.3.0 in float32, for `waves_of_pixels`: rows 0 and 2, columns 0 and 1.
KYMATIO = {
    0: (1.5815165, 0.24792986),
    1: (0.065955184, 0.35856783),
    5: (0.10932104, 0.07248492),
    8: (0.060311273, 0.1814291),
    9: (0.109341875, 0.21175978),
    12: (0.28544036, 0.24303462),
    16: (0.18846712, 0.08705153),
    17: (0.019650906, 0.02089782),
    30: (0.0136229405, 0.02737699),
    55: (0.022071447, 0.0048655057),
    80: (0.013624543, 0.029031048),
}
# Kymatio has 3.1415 for pi in each of up to three filters.
KYMATIO_PI = 1.0 - 3 * 3e-5


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def waves_of_pixels():
    rows, columns = np.mgrid[:16, :12]
    return np.sin(0.7 * rows + 0.3 * columns) + np.cos(0.2 * rows * columns)


def gabor(size, width, theta, frequency, slant):
    """A Gaussian window times a plane wave, as a sum over copies of the image."""
    total = np.zeros(size, dtype=complex)
    for i in range(-2, 3):
        for j in range(-2, 3):
            rows, columns = np.mgrid[: size[0], : size[1]]
            rows, columns = rows + i * size[0], columns + j * size[1]
            along = rows * np.cos(theta) + columns * np.sin(theta)
            across = columns * np.cos(theta) - rows * np.sin(theta)
            window = np.exp(-(along**2 + slant**2 * across**2) / (2 * width**2))
            total += window * np.exp(1j * frequency * along)
    return total * slant / (2 * np.pi * width**2)


def morlet(size, j, angle, n_angles):
    theta = (int(n_angles / 2 - 1) - angle) * np.pi / n_angles
    settings = size, 0.8 * 2**j, theta
    wave = gabor(*settings, 0.75 * np.pi / 2**j, 4 / n_angles)
    envelope = gabor(*settings, 0.0, 4 / n_angles)
    return wave - wave.sum() / envelope.sum() * envelope


def convolve(image, kernel):
    return np.fft.ifft2(np.fft.fft2(image) * np.fft.fft2(kernel))


def kept_of(kernel, step):
    """A filter for every `step`-th pixel, without the frequencies these cannot hold."""
    spectrum = np.fft.fft2(kernel)
    for axis, length in enumerate(spectrum.shape):
        first, cut = length // (2 * step), length - length // step
        spectrum = np.delete(spectrum, slice(first, first + cut), axis)
    return np.fft.ifft2(spectrum)


def definition(image, n_scales, n_angles, order):
    """Coefficients of an image by convolutions with spatial filters."""
    step = 2**n_scales
    sizes = [(length // step + 2) * step for length in image.shape]
    before = [(m - length) // 2 for m, length in zip(sizes, image.shape, strict=True)]
    after = [
        m - length - first
        for m, length, first in zip(sizes, image.shape, before, strict=True)
    ]
    padded = np.pad(image, list(zip(before, after, strict=True)), mode="reflect")
    low = gabor(sizes, 0.8 * 2 ** (n_scales - 1), 0.0, 0.0, 1.0)

    def average(moduli, j):
        at_pixels = convolve(moduli, kept_of(low, 2**j)).real
        rest = 2 ** (n_scales - j)
        return at_pixels[::rest, ::rest][1:-1, 1:-1]

    first, second = [], []
    for j in range(n_scales):
        for angle in range(n_angles):
            wave = morlet(sizes, j, angle, n_angles)
            moduli = np.abs(convolve(padded, wave))[:: 2**j, :: 2**j]
            first.append(average(moduli, j))
            for j2 in range(j + 1, n_scales if order == 2 else 0):
                for angle2 in range(n_angles):
                    wave2 = kept_of(morlet(sizes, j2, angle2, n_angles), 2**j)
                    gap = 2 ** (j2 - j)
                    moduli2 = np.abs(convolve(moduli, wave2))[::gap, ::gap]
                    second.append(average(moduli2, j2))
    return np.stack([average(padded, 0), *first, *second])


@pytest.mark.parametrize(
    ("shape", "n_scales", "n_angles", "order"),
    [((8, 8), 2, 5, 2), ((13, 9), 2, 4, 2), ((16, 20), 3, 3, 2), ((9, 8), 1, 5, 1)],
)
def test_coefficients_are_those_of_the_definition(
    shape, n_scales, n_angles, order, rng
):
    images = rng.normal(size=(2, 3, *shape))
    scattering = Scattering(n_scales, n_angles, order)
    found = scattering(torch.from_numpy(images)).numpy()
    expected = [
        [definition(channel, n_scales, n_angles, order) for channel in image]
        for image in images
    ]
    assert found.shape == (2, *scattering.shape((3, *shape)))
    np.testing.assert_allclose(
        found.reshape(2, 3, -1, *found.shape[-2:]), expected, rtol=0, atol=1e-12
    )


def test_coefficients_are_those_of_kymatio():
    image = torch.from_numpy(waves_of_pixels())[None, None]
    found = Scattering(2, 8, 2)(image)[0]
    assert found.shape == (81, 4, 3)
    for index, values in KYMATIO.items():
        ours = [float(found[index, 0, 0]), float(found[index, 2, 1])]
        np.testing.assert_allclose(ours, values, rtol=1 - KYMATIO_PI, atol=3e-7)


def test_constant_images_have_no_coefficients_but_their_mean():
    found = Scattering(2, 8, 2)(torch.full((1, 1, 16, 16), 3.0, dtype=torch.float64))
    torch.testing.assert_close(found[0, 0], torch.full((4, 4), 3.0).double())
    assert float(found[0, 1:].abs().max()) < 1e-12


def test_coefficients_move_less_than_the_image(rng):
    """A shift by a pixel changes an image far more than its coefficients."""
    noise = torch.from_numpy(rng.normal(size=(4, 1, 40, 40)))
    images, moved = noise[..., 4:36, 4:36], noise[..., 4:36, 5:37]
    scattering = Scattering(3, 4, 2)

    def change(one, other):
        return float((one - other).norm() / one.norm())

    assert change(images, moved) > 1.2
    assert change(scattering(images), scattering(moved)) < 0.4


def test_coefficients_move_with_the_image(rng):
    """By a pixel of theirs where the image moves by 2^J pixels."""
    image = torch.zeros(1, 1, 32, 32, dtype=torch.float64)
    image[..., 12:16, 12:16] = torch.from_numpy(rng.normal(size=(4, 4)))
    scattering = Scattering(2, 8, 2)
    before = scattering(image)
    after = scattering(image.roll((4, -4), (2, 3)))
    assert float(before[..., :-1, 1:].abs().max()) > 0.1
    torch.testing.assert_close(
        after[..., 1:, :-1], before[..., :-1, 1:], rtol=0, atol=1e-12
    )


def test_a_transposed_image_has_transposed_coefficients_of_other_angles(rng):
    image = torch.from_numpy(rng.normal(size=(1, 1, 16, 12)))
    scattering = Scattering(2, 8, 1)
    found, turned = scattering(image)[0], scattering(image.mT)[0]
    for j in range(2):
        for angle in range(8):  # theta becomes pi / 2 - theta, up to pi
            other = turned[1 + 8 * j + (2 - angle) % 8]
            expected = found[1 + 8 * j + angle].mT
            torch.testing.assert_close(other, expected, rtol=0, atol=1e-12)


def test_single_precision_is_as_exact_as_it_can_be(rng):
    images = torch.from_numpy(rng.normal(size=(3, 2, 16, 16)))
    scattering = Scattering(2, 8, 2)
    exact, single = scattering(images), scattering(images.float())
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), exact, rtol=0, atol=3e-6)


def test_derivatives_are_those_of_differences(rng):
    image = torch.from_numpy(rng.normal(size=(1, 1, 8, 8))).requires_grad_()
    assert torch.autograd.gradcheck(Scattering(2, 4, 2), image, fast_mode=True)
    blank = torch.zeros(1, 1, 8, 8, dtype=torch.float64, requires_grad=True)
    Scattering(2, 4, 2)(blank).sum().backward()
    assert blank.grad.isfinite().all()
