package main

func Example() {
	main()
	// Output:
	// <findings data>
	// the data fits one machine
	// bbolt is one file
	// badger writes faster
	// </findings>
}
