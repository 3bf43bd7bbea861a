package main

func Example() {
	main()
	// Output:
	// <findings>
	// the data fits one machine
	// bbolt is one file
	// badger writes faster
	// </findings>
}
