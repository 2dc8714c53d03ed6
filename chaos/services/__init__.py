"""External systems that sinks write to, started, killed, paused and stopped for real."""
