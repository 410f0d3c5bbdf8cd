"""The images: for learning and training, for validation, for tests."""

from completing.images import Part, Split

from skconvgp.datasets import fetch_cifar10, fetch_mnist

DATA = {"mnist": fetch_mnist, "cifar10": fetch_cifar10}
VALIDATION = 10_000  # the first training image that is for validation


def load(name: str, n_train: int, n_new: int) -> Split:
    """Return images; n_new for validation and as many for tests."""
    X, y = DATA[name](n_samples=VALIDATION + n_new, return_X_y=True)
    X_test, y_test = DATA[name](subset="test", n_samples=n_new, return_X_y=True)
    return Split(
        Part(X, y).first(n_train),
        Part(X[VALIDATION:], y[VALIDATION:]),
        Part(X_test, y_test),
    )
