"""What a computation may use: device, backend, memory, jobs, cache, progress."""
