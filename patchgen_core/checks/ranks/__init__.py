"""The ranks of this machine's CPU that the checks ``plan`` and ``sharded`` run models on."""
