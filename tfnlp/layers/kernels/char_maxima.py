"""The largest answer of each filter of a character network over all places in a word.

A CPU makes the answers of all filters of one width by one product, and takes their maximum after
it. On a TPU these answers would go through HBM several times, in both directions. There the filters
of all widths are columns of one matrix, of as many rows as the widest needs (fewer rows would leave
the matrix units partly empty); the products of one place after the other keep only the largest
answer so far and its place.
"""

from collections.abc import Callable, Sequence

from keras import ops

from tfnlp.layers.kernels.backend import by_target, with_gradient
from tfnlp.layers.types import Tensor


def char_maxima(x: Tensor, kernels: Sequence[Tensor]) -> Tensor:
    """Return `max_t sum_k x_{t+k} K_k` for every filter, over the places where it is inside.

    Args:
        x: characters `[C, N, E]`.
        kernels: `[w, E, n_w]` each, in the dtype of x.

    Returns:
        `[N, F]`, F the sum of the n_w.
    """
    widths = [kernel.shape[0] for kernel in kernels]
    if x.shape[0] is None or widths != sorted(widths):
        return plain_char_maxima(x, *kernels)
    return by_target(maxima_by_place, plain_char_maxima, x, *kernels)


def plain_char_maxima(x: Tensor, *kernels: Tensor) -> Tensor:
    """Return what `char_maxima` returns, width by width."""
    return ops.concatenate([_maxima_of_width(x, kernel) for kernel in kernels], -1)


def _maxima_of_width(x: Tensor, kernel: Tensor) -> Tensor:
    width, size, number = kernel.shape
    places = ops.shape(x)[0] - width + 1
    patches = ops.concatenate([x[i : places + i] for i in range(width)], -1)  # [C', N, wE]
    patches = ops.reshape(patches, (-1, width * size))
    answers = ops.matmul(patches, ops.reshape(kernel, (width * size, -1)))  # [C' N, n]
    return ops.max(ops.reshape(answers, (places, -1, number)), axis=0)


def maxima_by_place(x: Tensor, *kernels: Tensor) -> Tensor:
    """Return what `char_maxima` returns, place by place, with a hand-written gradient.

    C is static, and no filter is narrower than the one before it.

    Of several equal answers the first has the gradient; `ops.max` divides it among them. They are
    mostly of equal characters, and then the sums over the characters are equal, too.
    """
    shapes = [kernel.shape for kernel in kernels]

    @with_gradient
    def maxima(x: Tensor, *kernels: Tensor) -> tuple[Tensor, Callable[..., tuple[Tensor, ...]]]:
        joined = _joined(kernels)  # [WE, F]
        best, place = _best_places(x, joined, shapes)

        def gradient(d_best: Tensor) -> tuple[Tensor, ...]:
            dx, d_joined = _gradients(x, joined, place, d_best)
            return dx, *_split(d_joined, shapes)

        return best, gradient

    return maxima(x, *kernels)


def _joined(kernels: Sequence[Tensor]) -> Tensor:
    """Return the kernels side by side, `[WE, F]`, with zeros below those of narrow filters."""
    widest = kernels[-1].shape[0]
    columns = []
    for kernel in kernels:
        width, size, number = kernel.shape
        rows = ops.reshape(kernel, (width * size, number))
        columns.append(ops.pad(rows, [[0, (widest - width) * size], [0, 0]]))
    return ops.concatenate(columns, -1)


def _split(joined: Tensor, shapes: Sequence[tuple[int, ...]]) -> list[Tensor]:
    """Return the parts of which `_joined` made a matrix."""
    kernels, first = [], 0
    for width, size, number in shapes:
        part = joined[: width * size, first : first + number]
        kernels.append(ops.reshape(part, (width, size, number)))
        first += number
    return kernels


def _best_places(
    x: Tensor, joined: Tensor, shapes: Sequence[tuple[int, ...]]
) -> tuple[Tensor, Tensor]:
    """Return the largest answers and their places, as numbers of the dtype of x: `[N, F]` each."""
    count, size, widest = x.shape[0], x.shape[-1], shapes[-1][0]
    best = place = None
    for first in range(count):
        width = min(widest, count - first)  # characters that are left
        columns = sum(number for w, _, number in shapes if w <= width)
        if columns == 0:
            break
        patch = ops.concatenate([x[first + i] for i in range(width)], -1)  # [N, wE]
        answers = ops.matmul(patch, joined[: width * size, :columns])
        if best is None:
            best, place = answers, ops.zeros_like(answers, "float32")
            continue
        more = answers > best[:, :columns]
        new = ops.where(more, answers, best[:, :columns])
        new_place = ops.where(more, ops.full((), first, "float32"), place[:, :columns])
        best = ops.concatenate([new, best[:, columns:]], -1)
        place = ops.concatenate([new_place, place[:, columns:]], -1)
    return best, place


def _gradients(x: Tensor, joined: Tensor, place: Tensor, d_best: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of x and of the joined kernels."""
    count, number, size = x.shape[0], ops.shape(x)[1], x.shape[-1]
    widest = joined.shape[0] // size
    places = ops.arange(count, dtype="float32")[:, None, None]
    answers = ops.where(place[None] == places, d_best[None], ops.zeros((), d_best.dtype))
    answers = ops.reshape(answers, (-1, joined.shape[1]))  # [C N, F]
    after = ops.pad(x, [[0, widest - 1], [0, 0], [0, 0]])
    patches = ops.concatenate([after[i : count + i] for i in range(widest)], -1)
    patches = ops.reshape(patches, (-1, widest * size))  # [C N, WE]
    d_joined = ops.matmul(ops.transpose(patches), answers)
    d_patches = ops.matmul(answers, ops.transpose(joined))
    d_patches = ops.reshape(d_patches, (count, number, widest, size))
    d_patches = ops.pad(d_patches, [[widest - 1, 0], [0, 0], [0, 0], [0, 0]])
    starts = [widest - 1 - i for i in range(widest)]
    dx = sum(d_patches[s : s + count, :, i] for i, s in enumerate(starts))
    return dx, d_joined
