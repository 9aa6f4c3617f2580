"""One file per op family, one function per op. See registry.py for what a rule looks like."""
