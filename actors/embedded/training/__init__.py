"""How the embedded model was made: one command draws its pictures, trains it, examines it and saves it."""
