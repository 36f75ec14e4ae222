"""Which parameters are split over which devices: :class:`ParallelPlan`."""

from patchgen_core.parallel_plan.plan import ParallelPlan

__all__ = ["ParallelPlan"]
