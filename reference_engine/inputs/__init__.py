"""Where do the rows of a pipeline come from?

Sources over real inputs that can be replayed by split and offset: files of JSON lines or Parquet, Kafka topics.
May import: dataflow.
"""
