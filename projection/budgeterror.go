package projection

import (
	"errors"
	"fmt"
)

// ErrBudget is matched by every [*BudgetError].
var ErrBudget = errors.New("prompt over budget")

// BudgetError means that what must be in a view exceeds its cap. All sizes are
// tokens. Raise the budget, or shorten what is largest.
type BudgetError struct {
	Cap      int
	System   int
	User     int // the newest user message
	Exchange int // the newest tool exchange, with its results cut as short as possible
	Required int // layers that are never cut
	Tail     int
}

func (e *BudgetError) Error() string {
	return fmt.Sprintf("assemble view: %v: %d tokens allowed, but system %d, newest user message %d, newest tool exchange %d, required layers %d, tail %d",
		ErrBudget, e.Cap, e.System, e.User, e.Exchange, e.Required, e.Tail)
}

// Is reports that the error is [ErrBudget].
func (e *BudgetError) Is(target error) bool { return target == ErrBudget }
