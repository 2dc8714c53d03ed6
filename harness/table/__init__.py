"""The comparison table: every strategy on every target, what is expected of it beside what was measured."""
