"""The process in which the gateway runs an adapter class: ``python3 -m aicodebox.bridge package.module:Class``.

The gateway writes one JSON object per line to standard input and reads one per line from standard output.

The first line from here is ``{"ready": {…}}`` (name, binary, models, efforts, auth_paths, version), or
``{"failed": message}`` and the end of the process.

A call carries ``id``, ``do`` and ``run``, a number that finds the RunRequest again; ``request`` (its fields) makes a
new one. The answer carries the id, in any order, and ``ok`` or ``error: {type, message}``:

=======  ==================  ==============================================================
do       with                ok
=======  ==================  ==============================================================
plan     request             argv, set, unset: the environment as a change of this process's
lines    lines               events, error: what stopped it after them
parse    stdout              text, session_id, parsed, parse_error, provider_error, usage,
                            events (pairs of type and JSON) and events_dropped when wanted
close                        (no answer)
ping                         (at once, from the thread that reads)
=======  ==================  ==============================================================

Error types: ``refused`` (ValueError of ``validate``), ``raised`` (any other exception), ``unknown_run`` (send the
request along), ``bad_call``.
"""
