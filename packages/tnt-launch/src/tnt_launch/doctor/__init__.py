"""`tarantella doctor`: what is wrong with an installation or with hosts, and what to do about it.

On each host a process looks at it and tells facts as lines of JSON (`tarantella.doctor`, which may
import everything). Here facts become findings, by pure functions, and findings a table:

    reached hosts -> one process on each -> facts -> checks -> findings -> table
"""
