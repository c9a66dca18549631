"""What a run says when it needs more memory than there is."""

import os

import pytest
import tensorflow as tf

from tfnlp.families import FAMILIES
from tfnlp.runs.devices import check_rows, devices, total_memory

# What TensorFlow 2.21 says.
OOM = (
    "{{function_node __wrapped__Fill_device_/job:localhost/replica:0/task:0/device:CPU:0}} OOM "
    "when allocating tensor with shape[4194304,4194304] and type float on /job:localhost/replica:0/"
    "task:0/device:CPU:0 by allocator cpu [Op:Fill]\n"
)


def test_total_memory_is_at_most_that_of_the_machine():
    with open("/proc/meminfo", encoding="ascii") as file:
        machine = 1024 * int(file.readline().split()[1])
    assert 0 < total_memory() <= machine == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_every_family_counts_the_rows_of_a_batch(family):
    required = {"text": "t", "output": "o", "batch_size": 2**32 - 1}
    config = family.settings.make(**required)
    with pytest.raises(ValueError, match="`batch_size`"):
        check_rows(family, config, None)
    check_rows(family, config.replace(batch_size=8), None)


def test_a_full_device_is_one_line():
    config = FAMILIES["bert"].settings.make(text="t", output="o", strategy="cpu")
    with pytest.raises(MemoryError) as caught, devices(config):
        raise tf.errors.ResourceExhaustedError(None, None, OOM)
    line = str(caught.value)
    assert "(a tensor of [4194304,4194304])" in line and "choose a smaller batch" in line
    assert "\n" not in line
