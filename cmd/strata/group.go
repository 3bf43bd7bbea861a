package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// addVerbs adds verbs to a command that does nothing without one.
func addVerbs(cmd *cobra.Command, verbs ...*cobra.Command) {
	cmd.AddCommand(verbs...)
	var names []string
	for _, v := range verbs {
		names = append(names, v.Name())
	}
	last := len(names) - 1
	there := strings.Join(names[:last], ", ") + " and " + names[last]
	cmd.DisableFlagParsing = true // otherwise the error would be about the flags of a verb that does not exist
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 || args[0] == "--help" || args[0] == "-h" {
			return cmd.Help()
		}
		if verb := verbOf(cmd.Root(), otherGroup[cmd.Name()], args); verb != nil {
			return usagef("%s: there is no verb %s: use '%s'", cmd.Name(), verb.Name(), verb.CommandPath())
		}
		return usagef("%s: unknown verb %q: there are %s", cmd.Name(), args[0], there)
	}
}

// otherGroup pairs groups of verbs that are easily confused: knowledge is in a
// vault, or in a store of another engine.
var otherGroup = map[string]string{"vault": "knowledge", "knowledge": "vault"}

// verbOf returns the verb of a group that is among args, or nil.
func verbOf(root *cobra.Command, group string, args []string) *cobra.Command {
	for _, g := range root.Commands() {
		for _, verb := range g.Commands() {
			if g.Name() == group && slices.Contains(args, verb.Name()) {
				return verb
			}
		}
	}
	return nil
}
