package main

// topic is something that one of two people tells the other, with a question
// about it.
type topic struct {
	category int // 1 several turns answer, 2 when, 4 one turn answers
	ask      string
	values   []string // for {x}
	lines    []string // A is the one who tells, B the other; those with * answer
}

var topics = []topic{
	{4, "What breed is the dog {who} adopted?", []string{"greyhound", "spaniel", "collie"}, []string{"A: We finally went to the animal shelter and adopted a dog.", "B: How sweet! Which breed did you choose?", "A*: A retired {x}, seven years old and very calm."}},
	{4, "Which instrument is {who} learning?", []string{"cello", "accordion", "oboe"}, []string{"A*: I started learning the {x}, my neighbours hate it already.", "B: Practice makes perfect."}},
	{2, "When did {who} run the marathon?", []string{"Rotterdam", "Valencia"}, []string{"A*: Last Sunday I ran the {x} marathon, my legs are still sore.", "B: That is an achievement!"}},
	{2, "When is the wedding of {who}'s sister?", []string{"lakeside", "castle"}, []string{"A*: My sister gets married on the 14th, a {x} wedding.", "B: Bring me some cake."}},
	{4, "What did the dentist find in {who}'s tooth?", []string{"a crack", "a cavity"}, []string{"A: The dentist looked at my tooth this morning.", "B: And, is it bad?", "A*: There is {x}, he wants to drill next week."}},
	{4, "How much did {who} pay for the used car?", []string{"4,200", "6,900"}, []string{"A: We bought a used car, a small red one.", "B: Was it expensive?", "A*: {x} euros, after an hour of bargaining."}},
	{4, "Why did {who} quit the choir?", []string{"rehearsals clash with night shifts", "the conductor shouts too much"}, []string{"A: I quit the choir after nine years.", "B: Oh no, what went wrong?", "A*: It is simple, {x}."}},
	{1, "Which vegetables does {who} grow in the garden?", []string{"beetroot", "leeks"}, []string{"A*: The garden is finally planted, rows of {x} along the fence.", "B: I envy your soil.", "A*: There are pumpkins growing behind the shed too."}},
	{4, "Where did {who} lose the passport?", []string{"on the ferry", "in a taxi"}, []string{"A*: I lost my passport {x} and spent a day at the consulate.", "B: What a nightmare."}},
	{4, "What is {who} allergic to?", []string{"cashews", "shellfish"}, []string{"A*: The test came back, I am allergic to {x}.", "B: So no more surprises at restaurants."}},
	{2, "When does {who}'s lease end?", []string{"September", "November"}, []string{"A*: Our lease ends in {x} and the landlord will not renew it.", "B: You can store boxes in my cellar."}},
	{4, "What present did {who} give to their grandfather?", []string{"a telescope", "a chess clock"}, []string{"A: Grandpa turned eighty.", "B: What did you get him as a present?", "A*: I gave him {x}, he nearly cried."}},
	{4, "Which exam did {who} fail?", []string{"organic chemistry", "tax law"}, []string{"A*: I failed the {x} exam by two points.", "B: You can sit it again."}},
	{1, "Which countries did {who} cycle through?", []string{"Slovenia", "Latvia"}, []string{"A*: We cycled through {x} first, camping by rivers.", "B: On those old bicycles?", "A*: Yes, and then across Hungary, with four punctures."}},
	{4, "What colour is {who}'s new kitchen?", []string{"mustard yellow", "dark blue"}, []string{"A: The kitchen renovation is done.", "B: Did you settle on a colour?", "A*: We went for {x} with oak handles."}},
	{4, "Who repaired {who}'s roof?", []string{"cousin Marek", "a firm from Leeds"}, []string{"A*: After the storm {x} repaired our roof in two days.", "B: Lucky, mine still leaks."}},
	{2, "When did {who} move to the new office?", []string{"harbour", "station"}, []string{"A*: Yesterday we moved to the new office near the {x}.", "B: Do you have a window now?"}},
	{4, "What did {who} name the sailing boat?", []string{"Marigold", "Second Wind"}, []string{"A: The sailing boat is in the water at last.", "B: Boats need a name.", "A*: She is called {x}."}},
	{4, "Which language course did {who} enrol in?", []string{"Finnish", "Portuguese"}, []string{"A*: I enrolled in an evening course, {x} for beginners.", "B: Say something!"}},
	{4, "What does {who} cook for Thanksgiving?", []string{"mushroom pie", "roast duck"}, []string{"A*: For Thanksgiving I always cook {x}, it is my aunt's recipe.", "B: I am inviting myself."}},
	{1, "What injuries did {who} have from skiing?", []string{"a broken wrist", "a torn ligament"}, []string{"A*: Skiing went badly, I came home with {x}.", "B: Ouch, anything else?", "A*: Two bruised ribs on top of it."}},
	{4, "How does {who} commute to work?", []string{"by tram", "by kayak"}, []string{"A*: These days I commute {x}, it takes half an hour.", "B: Better than traffic jams."}},
	{4, "Which newspaper published {who}'s letter?", []string{"the Herald", "the Courier"}, []string{"A*: A newspaper published my letter about the library closing, {x} of all of them.", "B: Let me frame it."}},
	{4, "What did {who} inherit from their uncle?", []string{"a vineyard", "an old printing press"}, []string{"A: My uncle's will was read today.", "B: Did he leave you something?", "A*: I inherited {x}, believe it or not."}},
	{2, "When was {who}'s bicycle stolen?", []string{"cinema", "bakery"}, []string{"A*: Somebody stole my bicycle on Friday, right outside the {x}.", "B: Did you report it?"}},
	{4, "What is the topic of {who}'s thesis?", []string{"glacier melt", "medieval bridges"}, []string{"A: My supervisor approved the thesis proposal.", "B: Remind me what it is about?", "A*: It is on {x}, with field work in spring."}},
	{4, "Which medicine does {who} take for migraine?", []string{"triptans", "magnesium"}, []string{"A*: The neurologist put me on {x} for the migraines.", "B: I hope it helps."}},
	{4, "Who taught {who} to knit?", []string{"a nurse", "their stepfather"}, []string{"A*: I can knit now, {x} taught me during the long winter.", "B: Then I want a scarf."}},
	{4, "What did {who} see at the observatory?", []string{"the rings of Saturn", "a comet"}, []string{"A*: At the observatory we saw {x}, clear as a photograph.", "B: I have only ever seen the moon."}},
	{2, "When will {who} start the new job?", []string{"museum", "hospital"}, []string{"A*: I start the new job at the {x} on March 1.", "B: Congratulations, you earned it."}},
	{4, "Which stamp completes {who}'s collection?", []string{"the Zanzibar one", "a blue Mauritius"}, []string{"A*: One stamp is missing in my collection, {x}.", "B: I will look in the attic."}},
	{4, "What is wrong with {who}'s boiler?", []string{"the pump is dead", "the pilot light goes out"}, []string{"A: We have had no hot water, the boiler gave up.", "B: Did the plumber find out why?", "A*: He says {x}."}},
	{4, "Which film made {who} cry?", []string{"the one about the lighthouse keeper", "that Korean one"}, []string{"A*: I cried through a whole film last night, {x}.", "B: You always do."}},
	{1, "Which charities does {who} donate to?", []string{"a lifeboat charity", "a hospice"}, []string{"A*: Every winter I donate to {x}.", "B: That is generous.", "A*: And some money goes to the food bank."}},
}

var (
	names     = []string{"Ines", "Tobias", "Nadia", "Felix", "Ruth", "Omar", "Greta", "Hugo", "Lena", "Pavel", "Carmen", "Idris", "Sofie", "Bruno", "Yara", "Matteo", "Elif", "Jonas", "Priya", "Anton", "Clara", "Desmond", "Freya", "Kofi"}
	greetings = []string{"Hello", "Hi there", "Good to hear from you,", "Long time no see,", "Hey"}
	farewells = []string{"I have to go, talk soon.", "Dinner is ready, bye!", "Let us continue next time.", "My train is here, take care."}
	chatter   = []string{
		"How are things on your side?", "It has been raining since the morning.", "I slept badly again.", "Work was a mess this week.",
		"My phone keeps ringing, sorry.", "I need more coffee.", "The children are loud today.", "That made me laugh.",
		"You always know what to say.", "I could use a holiday.", "Traffic was terrible on the way home.", "Tell me more about it some day.",
		"The new neighbours seem friendly.", "I burned the toast again.", "Everything is more expensive these days.", "I read half a book on the train.",
		"We should meet in person again.", "My back hurts from sitting.", "The weekend was far too short.", "I watched the match with friends.",
		"Our heating was off for a day.", "Mum sends her love.", "I am trying to go to bed earlier.", "That sounds about right.",
	}
)
