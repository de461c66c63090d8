"""The benchmarks behind scripts/bench: what a call costs beside what the disk alone costs."""
