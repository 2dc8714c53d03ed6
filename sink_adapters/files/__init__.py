"""How do the strategies write files?

`FileTransactions` (file_transactions.py), masked_files.py and log_files.py are targets; row_formats.py lays out rows;
disk_real.py and disk_memory.py are the two disks below the seam. May import: the sink protocol, strategies.
"""
