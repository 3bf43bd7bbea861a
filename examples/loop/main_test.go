package main

func Example() {
	main()
	// Output:
	// user       Hi! My name is Anna and I live in Lisbon.
	//
	// user       Hi! My name is Anna and I live in Lisbon.
	// assistant  Noted.
	// user       The deadline for the report is 2026-03-14.
	// system     <working-memory add>
	// profile.location: Lisbon
	// profile.name: Anna
	// </working-memory>
	//
	// system     <working-memory>
	// deadlines.report: 2026-03-14
	// profile.location: Lisbon
	// profile.name: Anna
	// </working-memory>
	// user       Hello again. What do you know about me?
}
