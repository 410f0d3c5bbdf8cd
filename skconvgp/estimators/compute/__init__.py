"""Resources of a computation: device, backend, memory, jobs, cache, progress."""
