"""TensorFlow and Keras in about half the time."""

import contextlib
import gc
import sys

# Keras looks for scikit-learn and matplotlib, TensorFlow's converters for jax, to wrap or convert
# what is made with them. tfnlp asks for none of that, and uses what it needs of them itself.
_EXTRAS = ("jax", "matplotlib", "sklearn")


@contextlib.contextmanager
def quick_imports():
    """While open, optional libraries seem absent to who imports them; imported before, they stay.

    For commands, which import TensorFlow only for themselves: `keras.wrappers` and
    `keras.visualization` stay without these libraries in such a process.

    Nor is garbage looked for meanwhile: nearly all that an import makes stays, and looking at it
    again and again is a sixth of the time.
    """
    hidden = [name for name in _EXTRAS if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
        for name in hidden:
            if sys.modules.get(name, name) is None:
                del sys.modules[name]
