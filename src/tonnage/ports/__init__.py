"""The ports: what the loops ask of the world, never how it is answered; world and twin both answer.

Contract suites under `tests/contract/` hold every implementation of a port to it.
"""
