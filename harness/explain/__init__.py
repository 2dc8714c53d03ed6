"""Live demonstrations of every row of the semantics: `sinkproof explain S07`."""
