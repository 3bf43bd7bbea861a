package thread

import "time"

// Status is how a hook call went.
type Status string

// The statuses of a hook call.
const (
	StatusOK      Status = "ok"
	StatusError   Status = "error"   // it returned an error or panicked
	StatusTimeout Status = "timeout" // it did not return in time
	StatusSkipped Status = "skipped" // not called: the layer is disabled, or the phase was cancelled
)

// HookReport says how one hook call went.
type HookReport struct {
	Layer  string        `json:"layer"`
	Hook   string        `json:"hook"`
	Status Status        `json:"status"`
	Took   time.Duration `json:"took"`            // nanoseconds in JSON
	Items  int           `json:"items,omitempty"` // number of items in its output
	Note   string        `json:"note,omitempty"`  // why a Recall returned nothing, or what a failure means
	Error  string        `json:"error,omitempty"`
	Err    error         `json:"-"` // the error itself, unless the report was read from a store
}
