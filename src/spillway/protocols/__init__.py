"""Who owns, who saves together, who is active: pure state machines, events in and actions out, no clock and no I/O."""
