"""Functions of arrays: Gram matrices, their derivatives, kernels of scikit-learn."""
