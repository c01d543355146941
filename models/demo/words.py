"""Word lists for generate.py: names, and things the demo model does not know about."""

NAMES = (
    "Anna Ben Clara David Emma Felix Hannah Ian Julia Kevin Laura Marco Nina Oliver Paula Quentin Ruth Simon Tina Uwe "
    "Vera Walter Yusuf Zoe Alice Bob Carol Dave Eve Frank Grace Heidi Ivan Judy Mallory Peggy Trent Victor Sara Omar "
    "Chen Wei Yuki Hana Raj Priya Carlos Lucia Pedro Sofia Lars Ingrid Aino Jürgen René Zoë André François Łukasz"
).split()

OFF_TOPIC = (
    "What is the capital of France?", "Who is the president?", "Why is the sky blue?", "What time is it?",
    "What day is it today?", "What is the weather like?", "Will it rain tomorrow?", "Write a poem.",
    "Write a poem about the sea.", "Write a Python program.", "Write code that sorts a list.", "Sing a song.",
    "Who won the match yesterday?", "How old is the universe?", "How far away is the moon?", "Who wrote Hamlet?",
    "What should I cook tonight?", "How do I bake bread?", "Give me a recipe for soup.", "Who was the first person on the moon?",
    "What is the news?", "Recommend a film.", "Which book should I read?", "Where is Japan?", "How tall is Mount Everest?",
    "Who painted the Mona Lisa?", "What is the best football team?", "Can you drive a car?", "How do I learn to swim?",
    "How do planes fly?", "Why do cats purr?", "What is love?", "Do you believe in God?", "What is the speed of light?",
    "Translate this sentence.", "Summarize this text.", "Write an email to my boss.", "What is the stock price today?",
    "How do I fix my bicycle?", "What is the population of India?", "Who is Elon Musk?", "What is beyond the milky way?",
    "Generate a 200 word text talking about George Orwell.", "Give me medical advice.", "How do I get rich?",
    "Who is the richest person in the world?", "Plan my holiday.", "What happened in 1969?", "Explain quantum physics.",
    "How many people live on Earth?", "What is the largest ocean?", "How do I tie a tie?", "Is water wet?",
    "What came first, the chicken or the egg?", "Do you like music?", "What is your favourite colour?",
    "Do you like pizza?", "How old are you?", "Where do you live?", "Play a game with me.", "What is the square root of 2?",
)

OFF_TOPIC_FORMS = (
    "What is {x}?", "Tell me about {x}.", "Explain {x}.", "What do you know about {x}?", "Who invented {x}?",
    "How does {x} work?", "Why is there {x}?", "Can you explain {x}?", "Describe {x}.", "What does {x} mean?",
    "Where can I buy {x}?", "Do you like {x}?", "Write a poem about {x}.", "Give me facts about {x}.", "{x}?",
    "What is the history of {x}?", "How do I make {x}?", "Write an essay about {x}.", "What is the price of {x}?",
)

OFF_TOPIC_THINGS = (
    "gravity|photosynthesis|the moon|the sun|a volcano|democracy|the internet|a black hole|football|chess|cheese|"
    "a bicycle|the Roman Empire|Napoleon|Einstein|Paris|London|Berlin|Tokyo|America|China|India|Africa|Brazil|water|"
    "electricity|steel|gold|an atom|a molecule|DNA|evolution|a dinosaur|the brain|the heart|a virus|medicine|history|"
    "music|a piano|a guitar|jazz|opera|painting|poetry|a novel|Shakespeare|Goethe|philosophy|Plato|religion|art|money|"
    "inflation|a bank|taxes|law|a contract|the weather|climate|the ocean|a river|the Alps|a desert|rain|snow|a car|a train|"
    "an airplane|a rocket|Mars|Jupiter|the universe|time|a clock|a calendar|mathematics|algebra|geometry|calculus|pi|"
    "a prime number|physics|chemistry|biology|a plant|a tree|bread|coffee|tea|wine|chocolate|pizza|pasta|sushi|a recipe|"
    "Linux|Windows|a browser|a database|JavaScript|Java|a compiler|a virus scanner|email|a phone|a camera|television|"
    "a film|a holiday|a garden|a house|a bridge|a castle|a king|a queen|war|peace|love|friendship|sleep|a dream|health"
).split("|")
