"""The checks that run models and kernels, as the gate asks for them; torch stays in another process."""
