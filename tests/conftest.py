"""Loads the fixtures of `shared.py`; but not in the process that only deals tests out to workers,
for it would import every library before a worker begins.
"""


def pytest_configure(config):
    if config.option.collectonly or not config.getoption("numprocesses", None):
        config.pluginmanager.import_plugin("shared")
