"""How do the strategies write files?

`FileTransactions` (file_transactions.py), masked_files.py and log_files.py are targets; row_formats.py lays out rows;
disk_real.py and disk_memory.py are the disks below the interface of file_system.py.
file_readers.py reads what is committed. May import: the sink protocol, strategies.
"""
