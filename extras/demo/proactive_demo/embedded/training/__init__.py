"""Training of the embedded model: one command draws its pictures, trains it and saves it."""
