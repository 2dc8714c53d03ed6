"""Three shells around one core: simulated, process, spark."""
