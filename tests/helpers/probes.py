"""Traces by random vectors, with their errors."""


def trace_with(solver, state, change):
    """Return an estimate of the trace of M^-1 with a matrix, and its error."""
    left, right, diag = solver.inverse_factors(state)
    columns = (left * (change @ right)).sum(0)
    forms = solver.n_probes * columns[: solver.n_probes]
    known = float(columns[solver.n_probes :].sum() + diag @ change.diagonal())
    return known + float(forms.mean()), float(forms.std()) / solver.n_probes**0.5
