"""Word lists for generate.py: names, and things the demo model does not know about."""

from pathlib import Path

NAMES = (
    "Anna Ben Clara David Emma Felix Hannah Ian Julia Kevin Laura Marco Nina Oliver Paula Quentin Ruth Simon Tina Uwe "
    "Vera Walter Yusuf Zoe Alice Bob Carol Dave Eve Frank Grace Heidi Ivan Judy Mallory Peggy Trent Victor Sara Omar "
    "Chen Wei Yuki Hana Raj Priya Carlos Lucia Pedro Sofia Lars Ingrid Aino Jürgen René Zoë André François Łukasz "
    "James Robert Michael William Thomas Charles Daniel Matthew Anthony Mark Steven Paul Andrew Joshua George Edward "
    "Brian Ronald Timothy Jason Jeffrey Ryan Jacob Gary Nicholas Eric Jonathan Stephen Larry Justin Scott Brandon "
    "Benjamin Samuel Gregory Patrick Jack Dennis Tyler Aaron Jose Henry Adam Douglas Nathan Zachary Kyle Noah Ethan "
    "Mary Patricia Jennifer Elizabeth Barbara Susan Jessica Karen Sarah Lisa Nancy Betty Sandra Ashley Kimberly Donna "
    "Michelle Amanda Melissa Deborah Stephanie Rebecca Sharon Cynthia Kathleen Amy Angela Shirley Brenda Pamela Nicole "
    "Samantha Katherine Christine Helen Debra Rachel Carolyn Janet Maria Olivia Heather Diane Julie Joyce Victoria Kelly "
    "Li Wang Liu Yang Huang Zhao Wu Zhou Xu Sun Ma Zhu Hu Guo Lin Luo Kenji Sakura Haruto Aiko Minh Linh Anh Thu Jin Min "
    "Ali Hassan Hussein Aisha Layla Khalid Tariq Zainab Ibrahim Yasmin Arjun Deepak Sanjay Anita Ravi Kavita Sunita Amit "
    "Ivana Boris Natasha Igor Yelena Sergei Vladimir Tatiana Mikhail Pavel Jana Milan Zoltan Istvan Agnieszka Piotr Anders "
    "Astrid Sven Freya Magnus Johan Mikael Pekka Tove Hans Greta Klaus Fritz Ursula Dieter Pierre Jean Camille Luc Amelie "
    "Chloe Luca Giulia Matteo Chiara Diego Miguel Carmen Isabel Javier Rosa Joao Ines Thiago Kofi Amara Chidi Zuri Tendai "
    "Sam Max Tom Tim Joe Jim Dan Ed Kai Mia Lea Leo Ida Eva Ella Mila Theo Finn Liam Owen Luke Sid Ted Ray Roy Guy Kit"
).split()

# Messages that have nothing to do with qrun, one on each line.
OFF_TOPIC = (Path(__file__).parent / "chatter.txt").read_text(encoding="utf-8").splitlines()

THINGS = (
    "gravity|photosynthesis|the moon|the sun|a volcano|democracy|the internet|a black hole|football|chess|cheese|"
    "a bicycle|the Roman Empire|Napoleon|Einstein|Paris|London|Berlin|Tokyo|America|China|India|Africa|Brazil|water|"
    "electricity|steel|gold|an atom|a molecule|DNA|evolution|a dinosaur|the brain|the heart|a virus|medicine|history|"
    "music|a piano|a guitar|jazz|opera|painting|poetry|a novel|Shakespeare|Goethe|philosophy|Plato|religion|art|money|"
    "inflation|a bank|taxes|law|a contract|the weather|climate|the ocean|a river|the Alps|a desert|rain|snow|a car|a train|"
    "an airplane|a rocket|Mars|Jupiter|the universe|time|a clock|a calendar|mathematics|algebra|geometry|calculus|pi|"
    "a prime number|physics|chemistry|biology|a plant|a tree|bread|coffee|tea|wine|chocolate|pizza|pasta|sushi|a recipe|"
    "Windows 95|a browser|a database|JavaScript|Java|a compiler|a virus scanner|email|a phone|a camera|television|"
    "a film|a holiday|a garden|a house|a bridge|a castle|a king|a queen|war|peace|love|friendship|sleep|a dream|health|"
    "a giraffe|a panda|koalas|butterflies|spiders|an ant|a shark|an eagle|sharks|an octopus|mushrooms|roses|a cactus|potatoes|tomatoes|"
    "rice|butter|sugar|salt|a sandwich|ice cream|beer|vodka|honey|cake|soup|breakfast|dinner|a restaurant|a hotel|a beach|a ship|"
    "a submarine|a helicopter|a bus|traffic|a motorcycle|petrol|oil|solar panels|nuclear power|a battery|a magnet|a laser|a telescope|"
    "a microscope|a robot arm|the Great Wall|the pyramids|the Statue of Liberty|Rome|Madrid|Moscow|Sydney|New York|California|Texas|Canada|"
    "Mexico|Egypt|Russia|Poland|Italy|Spain|Greece|Turkey|Korea|Vietnam|Norway|Iceland|Antarctica|the Amazon|the Sahara|the Moon landing|"
    "the Middle Ages|the Renaissance|the cold war|the First World War|communism|capitalism|socialism|the parliament|elections|the police|"
    "a lawyer|a doctor|a teacher|a nurse|a farmer|a soldier|school|university|homework|exams|a degree|a job|a boss|an interview|stocks|"
    "insurance|a mortgage|rent|the euro|the dollar|gold prices|marketing|a company|Google|Microsoft|Apple|Amazon|Tesla|Facebook|YouTube|Netflix|"
    "Instagram|Wikipedia|a website|a password|a hacker|wifi|Bluetooth|a printer|a keyboard|a mouse pad|a monitor|a tablet|video games|Minecraft|"
    "Tetris|Mario|Pokemon|Star Wars|Star Trek|Superman|Spider-Man|Mickey Mouse|Dracula|Frankenstein|Robin Hood|King Arthur|Zeus|Odin|Buddha|"
    "Beethoven|Mozart|Bach|Elvis|Madonna|Picasso|Van Gogh|Leonardo da Vinci|Newton|Galileo|Darwin|Marie Curie|Tesla coils|Aristotle|Socrates|"
    "Confucius|Gandhi|Lincoln|Churchill|Caesar|Columbus|Columbia|tennis|basketball|golf|cricket|rugby|boxing|yoga|running|swimming|the Olympics|"
    "a ball|a violin|drums|rock music|hip hop|ballet|theatre|a museum|photography|fashion|shoes|a hat|a dress|a ring|a diamond|a mirror|a chair|"
    "a table|a bed|a lamp|a window|a door|paint|wood|glass|plastic|paper|a pencil|a book|a letter|a newspaper|a magazine|a dictionary|grammar|"
    "Latin|Sanskrit|Esperanto|the alphabet|a verb|a noun|a metaphor|irony|humour|happiness|anger|fear|hope|trust|beauty|truth|freedom|justice|"
    "death|birth|marriage|divorce|children|a baby|a family|my mother|my boss|my neighbour|a stranger|a crowd|loneliness|stress|a headache|a cold|"
    "fever|cancer|diabetes|vitamins|a vaccine|a dentist|teeth|hair|skin|blood|bones|muscles|eyes|ears|memory|dreams|psychology|astrology|magic|"
    "ghosts|aliens|vampires|unicorns|zombies|witches|angels|heaven|hell|karma|luck|fate|a lottery|poker|dice|a puzzle|a maze|a riddle|origami|"
    "gardening|cooking|fishing|hunting|camping|hiking|climbing|skiing|sailing|surfing|diving|travelling|a passport|a visa|an airport|a map|a compass|"
    "the north pole|an earthquake|a tsunami|a hurricane|a tornado|lightning|thunder|fog|ice|a rainbow|the seasons|spring|winter|a leap year|"
    "a quark|an electron|a neutrino|relativity|entropy|energy|a force|pressure|temperature|sound|light|colours|a wave|radiation|X-rays|carbon|oxygen|"
    "hydrogen|iron|copper|silver|a crystal|an acid|soap|rust on cars|concrete|a brick|a tunnel|a tower|a canal|a lighthouse|a windmill|agriculture|"
    "recursion|a binary tree|quicksort|a linked list|a regular expression|HTML|CSS|SQL|PHP|Ruby|Perl|Haskell|Kotlin|Swift|Excel|Photoshop|Docker|"
    "Kubernetes|git|Linux kernels|Android|an iPhone|a router|a firewall|encryption|a search engine|cookies|spam|a podcast|a blog|a meme"
).split("|")

VERBS = (
    "run walk eat drink sleep swim fly jump sing dance read write draw paint cook bake clean wash buy sell build break fix open close drive ride "
    "throw catch kick push pull carry find lose hide win learn teach study speak listen hear see watch smell taste touch feel think know remember "
    "forget dream hope wish want need like love hate fear laugh cry smile shout whisper work play rest wait stay leave arrive travel visit meet "
    "call send bring take give keep save spend earn pay borrow lend steal count measure weigh cut dig plant grow water feed ride hunt fish climb fall"
).split()
PLACES = "in the garden|at school|on the moon|in the kitchen|at night|in winter|on Sunday|in Paris|under water|in the dark|at home|in the morning|on a train|with friends|without a car|every day|in ten minutes|before lunch".split("|")

QUALITIES = "big small old young fast slow hot cold heavy light long short deep tall rich poor happy sad clever green red blue yellow black white sweet sour loud quiet dangerous safe cheap expensive famous popular healthy strong weak beautiful ugly true false".split()
