"""How much of a run changes when a share of it is played again at other batch sizes and numbers of workers.

The repeats are run folders of their own below the run's ``flip-rate``; the run itself is only read. Can be deleted alone.
"""
