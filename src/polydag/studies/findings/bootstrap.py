"""How often each edge recurs in bootstrap resamples."""

from __future__ import annotations

import warnings
from typing import Any

from polydag.errors import DataWarning
from polydag.studies.config.shapes import Config
from polydag.studies.findings.interface import Findings
from polydag.studies.findings.parties import disclosure


def findings(model: Any, learner: Any, source: Any, config: Config) -> Findings:
    """The frequency of every edge over resamples of the source; `model` was fitted to the source itself."""
    from polydag.federated.session import one_after_the_other
    from polydag.learners import Bootstrap

    jobs = config.jobs if config.cluster is None else -1
    again = Bootstrap(learner, n_resamples=config.bootstrap, n_jobs=jobs, random_state=config.seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # the fit to the data itself has given them already
        again.fit(source)
    if not hasattr(source, "parties"):
        return Findings(confidence=again.confidence_)
    left = one_after_the_other([model.disclosure_, again.disclosure_])
    return Findings(
        notes=("Each bootstrap resample summed the parties' statistics again, under the same protection.",),
        confidence=again.confidence_,
        documents={"disclosure": disclosure(left, source.privacy.mode)},
    )
