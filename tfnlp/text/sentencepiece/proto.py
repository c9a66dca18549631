"""The parts of a sentencepiece model's protocol buffer that are read and written here.

Field numbers are those of sentencepiece_model.proto. The module that comes with the library needs a
newer protobuf than TensorFlow has. Fields that are not named here are kept as they are.
"""

import functools
from typing import Any

_FIELDS = {  # message: name, number, type, label
    "SentencePiece": [
        ("piece", 1, "STRING", "OPTIONAL"),
        ("score", 2, "FLOAT", "OPTIONAL"),
        ("type", 3, "INT32", "OPTIONAL"),  # 1: normal, 2: unknown, 3: control
    ],
    "TrainerSpec": [
        ("model_type", 3, "INT32", "OPTIONAL"),  # 1: unigram
        ("unk_id", 40, "INT32", "OPTIONAL"),
        ("bos_id", 41, "INT32", "OPTIONAL"),
        ("eos_id", 42, "INT32", "OPTIONAL"),
        ("pad_id", 43, "INT32", "OPTIONAL"),
        ("unk_piece", 45, "STRING", "OPTIONAL"),
        ("pad_piece", 48, "STRING", "OPTIONAL"),
    ],
    "NormalizerSpec": [("precompiled_charsmap", 2, "BYTES", "OPTIONAL")],
    "ModelProto": [
        ("pieces", 1, "SentencePiece", "REPEATED"),
        ("trainer_spec", 2, "TrainerSpec", "OPTIONAL"),
        ("normalizer_spec", 3, "NormalizerSpec", "OPTIONAL"),
    ],
}
_PACKAGE = "tfnlp.sentencepiece"


@functools.cache
def _message() -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(
        name="tfnlp/sentencepiece.proto", package=_PACKAGE, syntax="proto2"
    )
    kinds = descriptor_pb2.FieldDescriptorProto
    for message, fields in _FIELDS.items():
        described = file.message_type.add(name=message)
        for name, number, kind, label in fields:
            field = described.field.add(
                name=name, number=number, label=getattr(kinds, f"LABEL_{label}")
            )
            if kind in _FIELDS:
                field.type, field.type_name = kinds.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
            else:
                field.type = getattr(kinds, f"TYPE_{kind}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.ModelProto"))


def model_proto(model: bytes = b"") -> Any:
    """Return the message of a model's content, or an empty one."""
    message = _message()()
    message.ParseFromString(model)
    return message
