package main

func Example() {
	main()
	// Output:
	// day 1: 49 of 250 tokens, the first 3 items stay; history begins at item 0 (first projection)
	// day 2: 88 of 250 tokens, the first 5 items stay; history begins at item 0
	// day 3: 127 of 250 tokens, the first 7 items stay; history begins at item 0
	// day 4: 189 of 250 tokens, the first 10 items stay; history begins at item 0
	// day 5: 228 of 250 tokens, the first 12 items stay; history begins at item 0
	// day 6: 173 of 250 tokens, the first 9 items stay; history begins at item 4 (history is over its budget)
	// day 7: 212 of 250 tokens, the first 11 items stay; history begins at item 4
	// day 8: 173 of 250 tokens, the first 9 items stay; history begins at item 8 (history is over its budget)
	//   system   "You help with a garden."
	//   anchor   "<plan>\nBeans go along the fence, tomatoes under the roof.\n</plan>"
	//   history  "Day 5: what is to be done?"
	//   history  "Water the beans in the morning, and look for snails under the leaves. That will do for today."
	//   history  "Day 6: what is to be done?"
	//   history  "Water the beans in the morning, and look for snails under the leaves. That will do for today."
	//   history  "Day 7: what is to be done?"
	//   history  "Water the beans in the morning, and look for snails under the leaves. That will do for today."
	//   history  "Day 8: what is to be done?"
	//   live     "<weather>\n27 degrees, no rain\n</weather>"
}
