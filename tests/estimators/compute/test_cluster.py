"""A real cluster of two processes, through joblib."""

import joblib
import numpy as np
import pytest
from sklearn.utils.fixes import parse_version

from skconvgp import ConvNetGPClassifier, gram_matrix
from skconvgp.kernels import convnet
from tests.helpers.estimators import digits

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.slow

KERNEL = convnet(depth=1, kernel_size=3)
BUDGET = "400 KB"  # many blocks


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            memory_limit=None,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def test_a_cluster_gives_the_same_bits_and_gets_the_images_once(client, monkeypatch):
    X, _ = digits(120)
    expected = gram_matrix(KERNEL, X, memory_budget=BUDGET, n_jobs=2)
    sent = []
    scatter = distributed.Client.scatter

    def weighed(self, data, *args, **settings):
        sent.append(data)
        return scatter(self, data, *args, **settings)

    monkeypatch.setattr(distributed.Client, "scatter", weighed)
    with joblib.parallel_config("dask"):
        gram = gram_matrix(KERNEL, X, memory_budget=BUDGET)
    np.testing.assert_array_equal(gram, expected)
    images = [one for one in sent if one.shape[1:] == (1, 8, 8)]
    np.testing.assert_array_equal(np.concatenate(images).reshape(X.shape), X)
    # Without generators, before joblib 1.4, it computes in rounds, and sends in each.
    if parse_version(joblib.__version__) >= parse_version("1.4"):
        assert len({id(one) for one in sent}) == len(sent)


def test_a_classifier_on_a_cluster_is_that_of_threads(client):
    X, y = digits(60)
    gp = ConvNetGPClassifier(KERNEL, memory_budget=BUDGET, n_jobs=2).fit(X, y)
    with joblib.parallel_config("dask"):
        other = ConvNetGPClassifier(KERNEL, memory_budget=BUDGET).fit(X, y)
        y_prob = other.predict_proba(X)
    np.testing.assert_array_equal(other.dual_coef_, gp.dual_coef_)
    np.testing.assert_array_equal(y_prob, gp.predict_proba(X))
