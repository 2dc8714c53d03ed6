"""What is certified?

`Contract` (contract.py) wraps what the user wrote; `load` (loading.py) finds it by its locator: a registered pair, a
class, a foreachBatch function or a command. Beside it: claims, the scratch folder, services, the sink's own files.
May import: sink_adapters, chaos, reports.document.
"""
