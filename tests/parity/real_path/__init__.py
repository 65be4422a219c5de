"""Scenarios through the real path: topics of a broker, transactions, changelogs, caches, kills and restarts.

:mod:`preparing` puts a scenario's input into an order that a cluster keeps, :mod:`caching` turns caches on and says
what of the output is then still defined, :mod:`tasks` runs one scenario through tasks in a process that is killed now
and then, :mod:`application` many of them as one application through Spark, and :mod:`committed` compares with the test
driver. ``python -m tests.parity.real_path.run`` runs many.
"""
