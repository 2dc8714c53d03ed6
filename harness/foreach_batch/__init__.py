"""Does a foreachBatch function deliver each row exactly once?

certify_function.py runs the two campaigns: at every line of the function in a simulated query (simulated_batches.py),
then by kills of a real query's driver (streaming_driver_supervisor.py). batch_state_machine.py is the order in which
Spark writes offsets/N, calls the function and writes commits/N. The main type is `FunctionResults`.
May import: campaign and everything below.
"""
