package transcript

import (
	"encoding/json"

	"github.com/stratamem/strata/projection"
)

// sessionLine is a line of a session file of Claude Code. Its maker does not
// document the format; these are the fields of versions 1.0 to 2.1.
type sessionLine struct {
	Type        string          `json:"type"`
	UUID        string          `json:"uuid"`
	ParentUUID  string          `json:"parentUuid"`
	SessionID   string          `json:"sessionId"`
	AgentID     string          `json:"agentId"`
	Timestamp   json.RawMessage `json:"timestamp"`
	IsSidechain bool            `json:"isSidechain"`
	IsMeta      bool            `json:"isMeta"`           // added by the program, for the model
	IsSummary   bool            `json:"isCompactSummary"` // of what precedes it in the file
	IsAPIError  bool            `json:"isApiErrorMessage"`
	Message     *struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"message"`
}

// session reads one line of a session into e. One answer of the model is
// several lines, each with a block of it. It returns the line's uuid.
func (r *Reader) session(raw []byte, e *Entry) string {
	var l sessionLine
	if err := json.Unmarshal(raw, &l); err != nil {
		r.fault("%s", broken(err))
		return ""
	}
	switch {
	case l.Type == "":
		r.fault("a line without a type")
		return ""
	case l.Type != "user" && l.Type != "assistant", l.IsMeta, l.IsSummary, l.IsAPIError:
		r.skipped.Meta++ // summary, system, file-history-snapshot, queue-operation, progress and so on
		return ""
	case l.Message == nil:
		r.fault("a line of type %s without a message", l.Type)
		return ""
	case l.UUID != "" && r.seen[digestOf(l.UUID)]:
		r.skipped.Repeated++
		return ""
	case l.IsSidechain && !r.opts.Sidechains:
		r.skipped.Sidechains++
		return ""
	}
	if l.UUID != "" {
		r.seen[digestOf(l.UUID)] = true
	}
	e.Thread = r.threadOf(&l)
	e.Time = r.time(l.Timestamp)
	e.Model = l.Type == "assistant"
	role := projection.User
	if e.Model {
		role = projection.Assistant
	}
	e.Items = r.content(e.Thread, role, "", l.Message.Content)
	if len(e.Items) == 0 && len(r.faults) == 0 {
		r.skipped.Meta++ // an empty text, or an encrypted thought
	}
	return l.UUID
}

// threadOf returns the thread of a line: its session, or a sub-agent in it. If
// sub-agents have no names, the first line of each stands for it.
func (r *Reader) threadOf(l *sessionLine) string {
	thread := l.SessionID
	if thread == "" {
		thread = r.opts.Thread
	}
	if !l.IsSidechain {
		return thread
	}
	if l.AgentID != "" {
		return thread + "/" + l.AgentID
	}
	root, ok := r.roots[l.ParentUUID]
	if !ok {
		root = l.UUID
	}
	r.roots[l.UUID] = root
	return thread + "/" + root
}
