"""What the Gaussian process of numbers refuses."""

import numpy as np
import pytest
import scipy.sparse

from crowdwise.data.ratings import Ratings
from crowdwise.errors import InputError
from crowdwise.methods.ratings.gp_crowd_regression import GPCrowdRegression


def ratings() -> Ratings:
    return Ratings.from_matrix(np.random.default_rng(0).normal(size=(12, 3)))


def test_thousands_of_sparse_columns_are_refused_with_the_way_out() -> None:
    wide = scipy.sparse.random(12, 26_735, density=0.001, random_state=0, format="csr")
    with pytest.raises(InputError, match=r"26,735 sparse columns: .*TruncatedSVD\(100\)"):
        GPCrowdRegression().fit(wide, ratings())


@pytest.mark.filterwarnings("ignore::crowdwise.errors.ConvergenceWarning")
def test_few_sparse_columns_are_as_dense_ones() -> None:
    few = scipy.sparse.random(12, 5, density=0.5, random_state=0, format="csr")
    sparse, dense = (GPCrowdRegression(max_iter=3).fit(X, ratings()).result_.estimate for X in (few, few.toarray()))
    np.testing.assert_allclose(sparse, dense)
