"""A topic of Kafka as a source.

* ``offsets``: what the next batch reads, and how its tuples are numbered;
* ``decoding``: what is in a record, as Arrow;
* ``broker``: the servers, asked by ``confluent-kafka``;
* ``topic``: all of that together, as the user declares it.
"""
