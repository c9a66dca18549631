"""Python runs this first in the processes that tests start: it lets TensorFlow load quickly there.

While TensorFlow or Keras is being imported, the optional libraries that both look for seem absent,
as in `tfnlp.quick_imports`; whoever wants these libraries later gets them. Garbage is looked for
more rarely than usual, as in `conftest`.
"""

import gc
import sys

gc.set_threshold(50_000, 20, 100)


class _Absent:
    """An import hook that comes before all others."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in ("jax", "matplotlib", "sklearn"):
            return None
        for library in ("tensorflow", "keras", "tf_keras"):
            spec = getattr(sys.modules.get(library), "__spec__", None)
            if getattr(spec, "_initializing", False):
                raise ImportError(f"{name} is hidden while {library} loads", name=name)
        return None


sys.meta_path.insert(0, _Absent)
