"""Those who talk to a receiver from outside: senders, and the reader that Spark runs."""
