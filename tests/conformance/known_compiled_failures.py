"""What the databases find at odds with eager mode where they are compiled, and why."""

REASONS: dict[str, dict[str, str]] = {"ops": {}, "modules": {}, "optimizers": {}}
