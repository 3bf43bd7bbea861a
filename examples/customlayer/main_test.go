package main

func Example() {
	main()
	// Output:
	// <mood>
	// The user complained 2 times: apologise, be brief.
	// </mood>
}
