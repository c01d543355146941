"""A plugin for pytest in llama-server's suite: only the cases of peer-suite.txt, and those marked as different must fail."""

import pathlib
import sys

import pytest

LIST = pathlib.Path(__file__).with_name("peer-suite.txt")


def expected():
    """Of each case in the list: how qrun differs, or None if it passes."""
    cases = {}
    for line in LIST.read_text().splitlines():
        if line.startswith("#"):
            continue
        mark, case = line.split(" ", 1)
        case, _, reason = case.partition(" -- ")
        if case in cases or mark not in ("pass", "differs") or (mark == "differs") != bool(reason):
            raise pytest.UsageError(f"{LIST.name}: {line}")
        cases[case] = reason or None
    return cases


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    # Before its first case the suite starts a server for each model that it would download.
    sys.modules["utils"].ServerPreset.load_all = lambda: None
    cases = expected()
    missing = cases.keys() - {item.nodeid for item in items}
    if missing:
        raise pytest.UsageError(f"{LIST.name}: the suite has no {', '.join(sorted(missing))}")
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in cases])
    items[:] = [item for item in items if item.nodeid in cases]
    for item in items:
        if cases[item.nodeid]:
            item.add_marker(pytest.mark.xfail(reason=cases[item.nodeid], strict=True))
