"""What it did to the answer: output scores, and the metrics of fault injection built on them."""

from spillway.score.affected import affected_seqs, select
from spillway.score.evaluation import evaluate
from spillway.score.local import LocalImpact, local_errors, local_impact
from spillway.score.osf import Count, Mean, OutputScore, Sum, local_scores, score
from spillway.score.quality import OutageImpact, outage_impact, quality_score
from spillway.score.significance import DataDependency, Sensitivity, data_dependency, sensitivity

__all__ = [
    "Count",
    "DataDependency",
    "LocalImpact",
    "Mean",
    "OutageImpact",
    "OutputScore",
    "Sensitivity",
    "Sum",
    "affected_seqs",
    "data_dependency",
    "evaluate",
    "local_errors",
    "local_impact",
    "local_scores",
    "outage_impact",
    "quality_score",
    "score",
    "select",
    "sensitivity",
]
