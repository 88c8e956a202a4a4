"""The one place that makes things durable. Which to use when:

* ``durable``: one local file, there whole or not at all (``write_whole``), or made once and never again
  (``create_whole``). Pages, profiles, records, claims.
* ``folders``: a folder of such files on any file system, local or remote (``open_folder``). Whatever lies where a user
  said ``backups=`` or ``checkpoint=``.
* ``envelope``: a small JSON file that says of itself whether it is damaged and which format it has (``seal``,
  ``unseal``); one that must not be lost is succeeded by a newer one rather than replaced (``newest_intact``).
* ``arrow_files``: record batches that are written once, read back and removed as a whole (``ArrowFiles``), in files
  whose names say what they hold and whether they still hold it.
* ``log``: record batches that are added one by one at the end of a local file (``Log``, ``read_log``), cheaply enough
  for every batch, and that a reader may follow.
* ``journal``: the same for small entries of JSON, made durable one by one, which another process may go on with
  (``Journal``).
* ``frames``: how both of them lie in a file.
* ``checksums``: how all of them tell damage from content.

Nothing that is read here can run code. State in memory is no business of this package: it is mapped, and lost with its
machine (``state.memory``).
"""
