"""Training of the embedded model: one command draws its pictures, trains it, examines it and saves it."""
