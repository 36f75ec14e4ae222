"""What VeOmni's models need on a CPU, with stand-ins for packages that it imports and that no model calls here."""

import importlib.util
import sys
from contextlib import contextmanager
from importlib.machinery import ModuleSpec


def setup(models):
    stand_in()
    from veomni.distributed.parallel_plan import ParallelPlan
    from veomni.ops.dispatch import KERNEL_REGISTRY, OpSlot

    models.add_slots(OpSlot, KERNEL_REGISTRY.list_available)
    models.add_plans(ParallelPlan, lambda plan: plan.extra_parallel_plan)
    models.run_inside(losses)


def stand_in():
    absent = [name for name in ("httpx", "psutil") if importlib.util.find_spec(name) is None]
    for name in (*absent, "transformers.dependency_versions_check"):
        module = sys.modules[name] = importlib.util.module_from_spec(ModuleSpec(name, None))
        module.HTTPError, module.dep_version_check = OSError, print


@contextmanager
def losses():
    """VeOmni's losses give three values, of which upstream's models expect one."""
    from transformers.loss.loss_utils import LOSS_MAPPING
    from veomni.ops.kernels.cross_entropy import install_loss_mapping

    upstream = dict(LOSS_MAPPING)
    install_loss_mapping("eager")
    try:
        yield
    finally:
        LOSS_MAPPING.update(upstream)
