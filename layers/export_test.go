package layers

// When is what the tests hold TellsWhen against.
var (
	When      = when
	TellsWhen = tellsWhen
)

// Edited is edited.
var Edited = edited
