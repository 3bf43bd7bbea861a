// Package strata holds no code: it is where the documentation of the module
// begins. Strata is layered memory for Go agents.
//
// An agent's loop imports three packages: memory runs the layers around each
// model call, layers has ready ones, and storage/mem or storage/bolt keeps what
// they learn. What the model sees is a projection.View; projection/tiktoken
// counts it exactly. Another engine is written from storage and proved by
// storage/storagetest. The tool is cmd/strata.
package strata
