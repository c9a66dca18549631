"""Empty packages in place of TensorFlow and others that a machine lacks; import it before tfnlp.

Modules that only name them import; what calls them does nothing of use.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types

NAMES = ("tensorflow", "tensorflow_text", "sentencex")
MISSING = [name for name in NAMES if importlib.util.find_spec(name) is None]


class _Attributes(type):
    def __getattr__(cls, name):
        if name.startswith("__") and name != "__internal__":
            raise AttributeError(name)
        return _Nothing


class _Nothing(metaclass=_Attributes):
    """A class, a decorator or a value, as it is needed."""

    def __init__(self, *args, **settings):
        pass

    def __call__(self, *args, **settings):
        return args[0] if len(args) == 1 and callable(args[0]) and not settings else self

    def __getattr__(self, name):
        return getattr(_Nothing, name)

    def __class_getitem__(cls, index):
        return cls


class _Module(types.ModuleType):
    __path__ = []

    def __getattr__(self, name):
        return getattr(_Nothing, name)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in MISSING:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return _Module(spec.name)

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, _Finder())
