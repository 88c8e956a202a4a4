"""The one place that makes things durable: whole files, folders on any filesystem, checksummed envelopes, logs."""
