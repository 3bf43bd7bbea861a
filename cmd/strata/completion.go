package main

import (
	"github.com/spf13/cobra"

	"github.com/stratamem/strata/bench"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/storage/open"
)

// complete makes a shell complete the values of flags, for the verbs below cmd,
// that take one of a few words.
func complete(cmd *cobra.Command) {
	for _, verb := range cmd.Commands() {
		complete(verb)
	}
	words := map[string][]string{
		"overflow": {string(projection.Truncate), string(projection.SlidingWindow), string(projection.Summarize)},
		"layers":   {"ready", "synthetic"},
		"engines":  bench.StorageEngines,
		"layer":    layerWords(cmd),
	}
	for name, some := range words {
		if cmd.Flags().Lookup(name) != nil {
			must(cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(some, cobra.ShellCompDirectiveNoFileComp)))
		}
	}
	var specs []string // as the names of stores begin
	for _, scheme := range open.Schemes() {
		specs = append(specs, scheme+":")
	}
	stores := cobra.FixedCompletions(specs, cobra.ShellCompDirectiveNoSpace)
	if cmd.Flags().Lookup("db") != nil {
		must(cmd.RegisterFlagCompletionFunc("db", stores))
	}
	if cmd.Name() == "copy" {
		cmd.ValidArgsFunction = stores
	}
}

// layerWords are the layers that a verb knows: of memory, or of knowledge.
func layerWords(cmd *cobra.Command) (words []string) {
	switch cmd.CommandPath() {
	case "strata show", "strata recall":
		for _, l := range readyLayers("") {
			words = append(words, l.Spec().ID)
		}
		return words
	}
	for _, l := range soma.Layers {
		if l != soma.Canon || cmd.Name() != "new" { // nobody writes to it
			words = append(words, string(l))
		}
	}
	return words
}

// must panics: a flag that exists has only one completion.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
