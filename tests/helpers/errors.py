"""Whose words an error has."""

import dis

OURS = (ValueError, TypeError, MemoryError, FloatingPointError)


def is_ours(error: BaseException) -> bool:
    """Return whether an error was raised by a statement of this package.

    Errors of torch and numpy leave the package at a call, not at a `raise`.
    """
    trace = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    raised = {one.offset for one in dis.get_instructions(code) if "RAISE" in one.opname}
    is_inside = trace.tb_frame.f_globals.get("__name__", "").startswith("skconvgp.")
    return isinstance(error, OURS) and is_inside and trace.tb_lasti in raised
