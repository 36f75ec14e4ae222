"""VeOmni's own parallel state follows that of the gate's ranks."""

import veomni_setup


def setup(models):
    veomni_setup.setup(models)
    from patchgen_core.runtime.parallel import add_parallel_state_hook

    add_parallel_state_hook(follow)


def follow(state):
    from veomni.distributed import parallel_state

    parallel_state.clear_parallel_state()
    if state.world_size > 1:
        parallel_state.init_parallel_state(
            dp_size=state.dp_size,
            dp_shard_size=state.dp_size,
            ulysses_size=state.sp_size,
            device_type="cpu",
            extra_parallel_sizes=(state.ep_size,),
        )
