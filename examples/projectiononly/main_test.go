package main

func Example() {
	main()
	// Output:
	// day 1: 53 of 250 tokens, the first 3 items stay; history begins at item 0 (first projection)
	// day 2: 92 of 250 tokens, the first 5 items stay; history begins at item 0
	// day 3: 131 of 250 tokens, the first 7 items stay; history begins at item 0
	// day 4: 194 of 250 tokens, the first 10 items stay; history begins at item 0
	// day 5: 233 of 250 tokens, the first 12 items stay; history begins at item 0
	// day 6: 176 of 250 tokens, the first 9 items stay; history begins at item 4 (history is over its budget)
	// day 7: 215 of 250 tokens, the first 11 items stay; history begins at item 4
	// day 8: 176 of 250 tokens, the first 9 items stay; history begins at item 8 (history is over its budget)
	//   system   "You help with a garden."
	//   anchor   "<plan data>\nBeans go along the fence, tomatoes under the roof.\n</plan>"
	//   history  "Day 5: what is to be done?"
	//   history  "Water the beans in the morning, and look for snails under the leaves. That will do for today."
	//   history  "Day 6: what is to be done?"
	//   history  "Water the beans in the morning, and look for snails under the leaves. That will do for today."
	//   history  "Day 7: what is to be done?"
	//   history  "Water the beans in the morning, and look for snails under the leaves. That will do for today."
	//   history  "Day 8: what is to be done?"
	//   live     "<weather data>\n27 degrees, no rain\n</weather>"
}
