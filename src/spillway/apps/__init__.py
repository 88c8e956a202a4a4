"""The papers' applications: each a graph, a generator of its input, a reader of real files, and the truth to it."""

from collections.abc import Mapping
from types import MappingProxyType

from spillway.apps.app import App, Option
from spillway.apps.bargain import APP as BARGAIN
from spillway.apps.ecg import APP as ECG
from spillway.apps.fab import APP as FAB
from spillway.apps.flows import APP as FLOWS
from spillway.apps.grep import APP as GREP
from spillway.apps.heavy_hitters import APP as HITTERS
from spillway.apps.online_join import APP as JOIN
from spillway.apps.online_lr import APP as LR
from spillway.apps.vitals import APP as VITALS
from spillway.apps.wordcount import APP as WORDCOUNT

APPS: Mapping[str, App] = MappingProxyType(
    {app.name: app for app in (GREP, WORDCOUNT, FLOWS, HITTERS, JOIN, LR, BARGAIN, ECG, VITALS, FAB)}
)
"""The applications by name."""

__all__ = ["APPS", "App", "Option"]
