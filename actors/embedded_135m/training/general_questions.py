"""Questions without pictures: those whose answers the training repeats, and others that measure what general language is left."""

THINGS = (
    "a spoon", "an umbrella", "a pencil", "a broom", "a candle", "a mirror", "a pillow", "a needle", "a lamp", "a bucket",
    "a rope", "a blanket", "a compass", "a hammer", "a saw", "a drum", "a tent", "a wallet", "a towel", "a kettle",
)  # fmt: skip
COUNTRIES = (
    "Norway", "Poland", "Greece", "Canada", "Mexico", "China", "India", "Peru", "Cuba", "Ireland", "Austria", "Turkey",
    "Kenya", "Chile", "Sweden", "Hungary",
)  # fmt: skip
WORDS = ("hot", "big", "old", "fast", "happy", "rich", "hard", "light", "early", "strong")
SUMS = ("3 plus 4", "6 plus 1", "10 minus 2", "8 plus 8", "4 times 2", "20 minus 5", "9 plus 3", "6 times 3")
OTHERS = (
    "Tell me one fact about the sun.", "Tell me one fact about water.", "Why do birds sing?",
    "Write a short sentence about rain.",
    "What is bread made of?", "Who are you?", "How are you today?", "What do bees make?", "Name a fruit that is red.",
    "Name three animals that live in the sea.", "What is a good breakfast?", "Why is sleep important?", "What is a volcano?",
    "What does a doctor do?", "What does a farmer do?", "How do plants grow?", "What is music?", "What is a river?",
    "Give me a tip for learning a language.", "What is the largest planet?", "What is gravity?", "What is an island?",
    "Write one line about the moon.", "What do we use paper for?", "What is a friend?", "Name a city in Germany.",
)  # fmt: skip
TRAINING_QUESTIONS = (
    *(f"What is {thing} used for?" for thing in THINGS),
    *(f"What is the capital of {country}?" for country in COUNTRIES),
    *(f"What is the opposite of {word}?" for word in WORDS),
    *(f"What is {term}?" for term in SUMS),
    *OTHERS,
)
EXAMINATION = {
    "What is the capital of France?": "Paris", "What is the capital of Italy?": "Rome",
    "What is the capital of Spain?": "Madrid", "What is the capital of Japan?": "Tokyo",
    "What is the capital of Germany?": "Berlin", "What is the capital of England?": "London",
    "What is the capital of Russia?": "Moscow", "What is the capital of Egypt?": "Cairo",
    "What is the capital of Portugal?": "Lisbon", "What is the capital of Denmark?": "Copenhagen",
    "What is the opposite of cold?": "hot|warm", "What is the opposite of small?": "big|large",
    "What is the opposite of young?": "old", "What is the opposite of slow?": "fast|quick",
    "What is the opposite of sad?": "happy|joy", "What is the opposite of dark?": "light|bright",
    "What is the opposite of up?": "down", "What is the opposite of left?": "right",
    "What is 2 plus 2?": "4|four", "What is 5 plus 3?": "8|eight", "What is 10 minus 4?": "6|six",
    "What is 3 times 3?": "9|nine", "What is 7 plus 2?": "9|nine", "How many days are in a week?": "7|seven",
    "How many months are in a year?": "12|twelve", "How many legs does a spider have?": "8|eight",
    "How many legs does a dog have?": "4|four", "How many wheels does a bicycle have?": "2|two",
    "What color is the sky on a clear day?": "blue", "What color is grass?": "green", "What color is snow?": "white",
    "What color is a ripe banana?": "yellow", "What planet do we live on?": "Earth", "What star is closest to Earth?": "sun",
    "What gas do we breathe to live?": "oxygen", "What is frozen water called?": "ice", "What do cows produce?": "milk",
    "What is the largest ocean?": "Pacific", "What is the tallest mountain?": "Everest",
    "Who wrote Romeo and Juliet?": "Shakespeare",
    "Who painted the Mona Lisa?": "Leonardo|Vinci", "What language is spoken in France?": "French",
    "What language is spoken in Brazil?": "Portuguese", "What is a ladder used for?": "climb|reach",
    "What is a key used for?": "lock|open", "What is a clock used for?": "time", "What is an oven used for?": "cook|bak|heat",
    "What is a knife used for?": "cut", "What season comes after winter?": "spring", "What is H2O?": "water",
}  # fmt: skip
"""Question -> words of which an answer must have at least one."""
