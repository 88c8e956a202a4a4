"""What it did to the answer: output scores, the metrics of fault injection built on them, and reliability levels."""

from spillway.score.affected import affected_seqs, select
from spillway.score.evaluation import evaluate
from spillway.score.local import LocalImpact, local_errors, local_impact
from spillway.score.osf import Count, Mean, OutputScore, Sum, local_scores, score
from spillway.score.quality import OutageImpact, outage_impact, quality_score
from spillway.score.reliability import Level, Reliability, Witness
from spillway.score.reliability_contract import Kept, kept
from spillway.score.reliability_tables import compare
from spillway.score.significance import DataDependency, Sensitivity, data_dependency, sensitivity

__all__ = [
    "Count",
    "DataDependency",
    "Kept",
    "Level",
    "LocalImpact",
    "Mean",
    "OutageImpact",
    "OutputScore",
    "Reliability",
    "Sensitivity",
    "Sum",
    "Witness",
    "affected_seqs",
    "compare",
    "data_dependency",
    "evaluate",
    "kept",
    "local_errors",
    "local_impact",
    "local_scores",
    "outage_impact",
    "quality_score",
    "score",
    "select",
    "sensitivity",
]
