"""What happened at the target in the run of a finding: which attempt changed what, and which rows a reader saw when?

`TargetRecord` (target_record.py) is a part of the document, target_words.py says it in words. Imports nothing but
what a key means, and words for numbers.
"""
