"""What `tfnlp.hub.Layer` finds out of the thing that it calls."""

import inspect

import tensorflow as tf

from tfnlp.hub.loading.traces import described


def callable_of(module, label, signature):
    """What is called: the module, or one of its signatures."""
    if signature is None:
        if callable(module):
            return module
        names = ", ".join(getattr(module, "signatures", ())) or "none"
        raise ValueError(f"SavedModel {label} is not callable; give one of its signatures: {names}")
    signatures = getattr(module, "signatures", {})
    if signature not in signatures:
        names = ", ".join(signatures) or "none"
        raise ValueError(f"signature={signature!r} is not one of those of {label}: {names}")
    return signatures[signature]


def argument_names(function, traces):
    """Names of what the function takes besides its inputs; `mask` only where it was traced."""
    if traces:
        names = {name for trace in traces for name in trace.arguments}
        masked = any(isinstance(t.arguments.get("mask"), tf.TypeSpec) for t in traces)
        return names if masked else names - {"mask"}
    call = function if hasattr(function, "python_function") else function.__call__
    return set(inspect.signature(getattr(call, "python_function", call)).parameters)


def output_keys(signature):
    return ", ".join(sorted(signature.structured_outputs))


def reshaped(outputs, shapes, inputs, apply):
    """`apply(output, shape)` to each of the outputs, the batch size being that of the inputs."""
    if isinstance(outputs, dict):
        return {k: reshaped(x, shapes[k], inputs, apply) for k, x in outputs.items()}
    if isinstance(outputs, list | tuple):
        pairs = zip(outputs, shapes, strict=True)
        return [reshaped(x, shape, inputs, apply) for x, shape in pairs]
    batch = tf.nest.flatten(inputs)[0].shape[0]
    if not tf.TensorShape([batch, *shapes]).is_compatible_with(tf.TensorShape(outputs.shape)):
        raise ValueError(f"output_shape={shapes!r}, but the module returns {described(outputs)}")
    return apply(outputs, (batch, *shapes))


def dtype_policy(traces, dtype):
    """The dtype of a single tensor that is not of floats, by which Sequential models make their
    input; else the policy asked for."""
    taken = {getattr(trace.inputs, "dtype", None) for trace in traces}
    if len(taken) == 1 and None not in taken and not next(iter(taken)).is_floating:
        return taken.pop().name
    try:  # `dtype=tf.string` is no policy, but is what tutorials of TF-Hub have
        return dtype if tf.as_dtype(dtype).is_floating else None
    except TypeError:
        return dtype
