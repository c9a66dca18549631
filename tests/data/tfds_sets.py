"""Prepared TFDS data sets, made offline."""


def prepare(folder, name, features, examples, config=None, version="1.0.0"):
    """Write a data set as TFDS prepares it.

    It is not registered: reading finds the folder, or TFDS's own class of that name.

    Args:
        folder: of all data sets, as in the variable TFDS_DATA_DIR.
        name: in camel case, such as "ImdbReviews".
        features: a dict of TFDS features.
        examples: dicts of all splits' examples by their names; a list is "train" and "test".
        config: name of the configuration.
        version: of the data set.
    """
    import tensorflow_datasets as tfds
    from tensorflow_datasets.core import registered

    def info(self):
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features))

    def splits(self, download_manager):
        parts = examples if isinstance(examples, dict) else dict(train=examples, test=examples)
        return {split: iter(list(enumerate(rows))) for split, rows in parts.items()}

    members = {
        "VERSION": tfds.core.Version(version),
        "BUILDER_CONFIGS": [tfds.core.BuilderConfig(name=config)] if config else [],
        "_info": info,
        "_split_generators": splits,
        "_generate_examples": lambda self: (),  # abstract in TFDS
    }
    with registered.skip_registration():
        builder = type(name, (tfds.core.GeneratorBasedBuilder,), members)(data_dir=folder)
    builder.download_and_prepare()
