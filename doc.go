// Package strata contains no code: it is the entry point to the module's
// documentation. Strata is layered memory for Go agents.
//
// An agent's loop imports three packages: memory runs the layers around each
// model call, layers has ready-made ones, and storage/mem or storage/bolt keeps
// what they learn. What the model sees is a projection.View;
// projection/tiktoken counts its tokens exactly. To write another storage
// engine, implement the contract in storage and test it with
// storage/storagetest. The tool is cmd/strata.
package strata
