"""The nouns: every kind of object, declared once, in one file each.

The API validates and documents from these classes, the store keeps them, the SDK hands them out, the CLI prints and
explains them, and the docs are generated from them. Nothing here does I/O.
"""

import sys

from corral.base import plugins

from ._meta import CREATED_BY, Condition, ObjectMeta
from ._problem import Cause, Problem, Reason
from ._resource import API_VERSION, Column, Resource, Spec, Status, Subresource
from ._scheme import Scheme, parse

_here = sys.modules[__name__]
scheme = Scheme(plugins.load(_here, name) for name in plugins.names(_here))

__all__ = [
    "API_VERSION",
    "CREATED_BY",
    "Cause",
    "Column",
    "Condition",
    "ObjectMeta",
    "Problem",
    "Reason",
    "Resource",
    "Scheme",
    "Spec",
    "Status",
    "Subresource",
    "parse",
    "scheme",
]
