"""What a demonstration might have come to."""

from spillway.benches.demonstration import Outcome


def outcomes(error: float, *, recall: float, batches_s: tuple[float, ...] = (0.2, 0.2)) -> dict[str, Outcome]:
    """All is well but for the approximate run, whose bound is 10; the others take 0.2 s a batch, Spark 0.5."""

    def one(
        error: float, bound: float | None, recall: float = 1.0, batches_s: tuple[float, ...] = (0.2, 0.2)
    ) -> Outcome:
        return Outcome(
            protection="some",
            losses=3,
            error=error,
            bound=bound,
            backups=2,
            backup_chances=4,
            backup_bytes=100,
            batches_s=batches_s,
            tuples_per_s=1e6,
            recall=recall,
            precision=1.0,
        )

    return {
        "ideal": one(0.0, 0.0),
        "nothing": one(99.0, None),
        "approximate": one(error, 10.0, recall, batches_s),
        "exact": one(0.0, 0.0),
        "spark": one(0.0, 0.0, batches_s=(0.5, 0.5)),
    }
