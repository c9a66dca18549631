"""Settings of an MPNet."""

import dataclasses

from tfnlp.settings.roberta import XlmRobertaSettings


@dataclasses.dataclass(kw_only=True)
class MPNetSettings(XlmRobertaSettings):
    """Masked LM alone on windows of sentences, without the permutations of the paper.

    The recipe is RoBERTa's, as in the paper (section 3.1).
    """
