"""What is certified?

`Contract` (contract.py) wraps what the user wrote; `load` (loading.py) finds it by its locator: a registered pair, a
class, a foreachBatch function or a command. Also here: claims and grades, the scratch folder, services, and which files
are the sink's own.
May import: reference_engine, sink_adapters, chaos, reports.document.
"""
