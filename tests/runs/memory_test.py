"""What a run says when it needs more memory than there is."""

import contextlib
import os

import pytest
import tensorflow as tf

import tfnlp
from tests.support import golden
from tfnlp.families import FAMILIES
from tfnlp.families.fitting import adaptation_asked, check_adaptation
from tfnlp.runs.devices import check_rows, devices, total_memory
from tfnlp.runs.task_folder import check_features
from tfnlp.settings.tasks import ClassifySettings
from tfnlp.tasks import Classify

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


def test_updates_of_a_rank_that_is_not_low_are_refused():
    loaded = tfnlp.load(golden("bert_xsmall_dummy_pt"))
    for rank in (20, 21, 10**6):
        settings = ClassifySettings.make(model="m", train="t", output="o", lora=rank)
        with pytest.raises(ValueError) if rank > 20 else contextlib.nullcontext() as caught:
            check_adaptation(adaptation_asked(settings), loaded, None)
        if rank > 20:
            assert f"`lora` {rank:,} is no low rank" in str(caught.value)


def test_networks_on_features_are_counted_before_they_are_made():
    """A biLSTM of 10^6 units has 8 x 10^12 numbers for its states alone, each kept four times."""
    loaded = tfnlp.load(golden("bert_xsmall_dummy_pt"))
    config = {"spec": Classify(labels=("no", "yes")).config(), "features": "last"}
    for units, layers in ((50, 2), (10**6, 1), (50, 10**9)):
        config["head"] = {"units": units, "lstm_layers": layers, "dropout": 0.1}
        if units * layers == 100:
            check_features(loaded, config, None, "adamw")
            continue
        with pytest.raises(ValueError) as caught:
            check_features(loaded, config, None, "adamw")
        said = str(caught.value)
        assert f"`units` {units:,}, `lstm_layers` {layers:,}" in said
        gigabytes = float(said.split(" needs ")[1].split()[0].replace(",", ""))
        assert gigabytes > 4 * 4 * 8 * units * units * layers / 1e9
