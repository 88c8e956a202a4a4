"""The process that forks Python workers where executors live for seconds: quicker to start than ``daemon``.

That one loads every kernel there is, and pandas, which Arrow looks for with the first array it makes: four seconds of
every executor that is started. Here only kernels of counts are loaded, and pandas is said not to be there.
"""

import gc
import sys

from pyspark import daemon


class WithoutPandas:
    """Finds no pandas, and leaves the rest to others."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not loaded here", name=name)


if __name__ == "__main__":
    sys.meta_path.insert(0, WithoutPandas)
    # For the workers, which find it loaded.
    import spillway.spark.task  # noqa: F401
    from spillway.engine.warm import warm_for
    from spillway.operators.counting import Count
    from spillway.spark.daemon import worker

    warm_for([Count("numbers", key="number")])
    daemon.worker = worker
    gc.collect()
    gc.freeze()
    daemon.manager()
