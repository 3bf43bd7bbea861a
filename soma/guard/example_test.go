package guard_test

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/stratamem/strata/soma/guard"
)

// A loop asks before every tool call and reports every call that it makes.
func Example() {
	policies := guard.New([]guard.Rule{
		{
			ID: "canon-no-recursive-rm", Condition: "tool == 'shell' and args.command matches `\\brm\\s+-\\w*r`",
			Enforcement: guard.Error, Message: "Directories are not removed. Move them to trash/ instead.",
		},
		{
			ID: "canon-retry-budget", Condition: `streak("call") >= 2`,
			Enforcement: guard.Warn, Message: "This tool keeps failing. Try another way.",
		},
		{
			ID: "canon-stop-when-broken", Condition: `streak("call") >= 3`,
			Enforcement: guard.Abort, Message: "This tool is broken. Report it.",
		},
	})
	if faults := policies.Faults(); faults != nil {
		fmt.Println(faults)
	}
	window := guard.NewWindow(nil)

	// What the model asks for, turn by turn.
	for _, command := range []string{"ls", "rm -rf build", "make", "make", "make"} {
		args, err := json.Marshal(map[string]string{"command": command})
		if err != nil {
			fmt.Println(err)
			return
		}
		call := guard.Call{Agent: "coder", Tool: "shell", Arguments: args}
		verdict := policies.Check(call, window)
		fmt.Printf("%s: %v\n", command, verdict)
		if verdict.End {
			break
		}
		if verdict.Action == guard.Block {
			continue // the verdict is the result that the model sees
		}
		finish := window.Start(guard.Subject{Agent: call.Agent, Tool: call.Tool})
		finish(errors.Is(run(command), errFailed))
	}
	fmt.Println("reported")

	// Output:
	// ls: allow
	// rm -rf build: block: Directories are not removed. Move them to trash/ instead. (canon-no-recursive-rm)
	// make: allow
	// make: allow
	// make: warn: This tool keeps failing. Try another way. (canon-retry-budget)
	// reported
}

var errFailed = errors.New("exit status 2")

func run(command string) error {
	if command == "make" {
		return errFailed
	}
	return nil
}
