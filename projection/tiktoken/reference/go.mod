// The comparison with tiktoken-go, which brings 7 MB of vocabularies that the
// library does not need.
module github.com/stratamem/strata/projection/tiktoken/reference

go 1.26.0

require (
	github.com/google/go-cmp v0.7.0
	github.com/pkoukk/tiktoken-go v0.1.8
	github.com/pkoukk/tiktoken-go-loader v0.0.2
	github.com/stratamem/strata v0.1.0
)

require (
	github.com/dlclark/regexp2 v1.10.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/stretchr/testify v1.12.1 // indirect
)
