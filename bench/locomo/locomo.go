// Package locomo reads conversations in the format of LoCoMo's file, which the
// benchmarks use for their data. It only reads: it neither judges nor plays.
//
// The one decision: a turn is a document of package search, speaker and time
// included, so that it can be indexed as it is.
package locomo

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stratamem/strata/storage/search"
)

// Conversation is a conversation of several sessions, with questions about it.
type Conversation struct {
	ID        string
	Turns     []search.Doc   // in order; IDs are those of the data set
	Acts      map[string]Act // by the ID of a turn, for those that have a role
	Questions []Question
	Complete  bool // the questions name everything that bears on them, so that the rest does not
}

// Act is what a turn is in a thread with an assistant.
type Act struct {
	Role   string // "user", "assistant", "call" or "tool"
	Name   string // the tool of a call and of its result
	Call   string // the ID of the turn that a result answers
	Failed bool   // a result that reports an error
	Thread string // the thread of the session; "" if not given
}

// Question is a question with the turns that answer it.
type Question struct {
	Text     string
	Category int      // 1 multi-hop, 2 temporal, 3 open-domain, 4 single-hop, 5 adversarial, 6 nothing is needed
	Evidence []string // ids of turns; empty if nothing in the conversation answers it

	// Quotes has the words of long evidence that answer, by the ID of its turn:
	// showing the turn without them does not answer.
	Quotes  map[string]string
	Related []string // ids of turns that bear on the question besides the evidence

	// For what changed: the kind of case ("move", "plan", "number", "decision"),
	// the turns that hold what is true now and what no longer is, and what must be
	// shown: "current", "both", or "unchanged" if nothing changed.
	Kind                string
	Current, Superseded []string
	Expect              string
}

// sample is a conversation in LoCoMo's JSON.
type sample struct {
	ID           string                     `json:"sample_id"`
	Conversation map[string]json.RawMessage `json:"conversation"`
	Complete     bool                       `json:"complete"`
	QA           []struct {
		Question   string            `json:"question"`
		Category   json.RawMessage   `json:"category"`
		Evidence   json.RawMessage   `json:"evidence"`
		Quotes     map[string]string `json:"quotes"`
		Related    []string          `json:"related"`
		Kind       string            `json:"kind"`
		Current    []string          `json:"current"`
		Superseded []string          `json:"superseded"`
		Expect     string            `json:"expect"`
	} `json:"qa"`
}

type turn struct {
	Speaker string `json:"speaker"`
	ID      string `json:"dia_id"`
	Text    string `json:"text"`
	Caption string `json:"blip_caption,omitempty"`
	Role    string `json:"role,omitempty"`
	Name    string `json:"name,omitempty"`
	Call    string `json:"call,omitempty"`
	Failed  bool   `json:"failed,omitempty"`
}

// Load reads a file in the form of LoCoMo (Maharana et al., "Evaluating Very
// Long-Term Conversational Memory of LLM Agents", 2024): a list of
// conversations with the keys sample_id, conversation and qa, or one
// conversation. In conversation, session_N is a list of turns with speaker,
// dia_id, text and at times blip_caption, the description of a picture that is
// shared; and session_N_date_time looks like "1:56 pm on 8 May, 2023".
//
// The turns of a session are a second apart, in order. Evidence that names no
// turn is left out; "D8:6; D9:17" names two.
//
// Threads with an assistant may have keys that LoCoMo lacks: role, name, call
// and failed in a turn, session_N_thread next to session_N, complete in a
// conversation, and quotes, related, kind, current, superseded and expect in a
// question. See [Act] and [Question].
func Load(path string) ([]Conversation, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read data: %w", err)
	}
	var samples []sample
	if err := json.Unmarshal(data, &samples); err != nil {
		var one sample
		if json.Unmarshal(data, &one) != nil || one.Conversation == nil {
			return nil, fmt.Errorf("read data: it is not in the form of LoCoMo: %w", err)
		}
		samples = []sample{one}
	}
	var list []Conversation
	for i := range samples {
		c, err := samples[i].conversation()
		if err != nil {
			return nil, fmt.Errorf("read data: conversation %d: %w", i+1, err)
		}
		if c.ID == "" {
			c.ID = strconv.Itoa(i + 1)
		}
		list = append(list, c)
	}
	if len(list) == 0 {
		return nil, errors.New("read data: there is no conversation")
	}
	return list, nil
}

var sessionKey = regexp.MustCompile(`^session_(\d+)$`)

func (s *sample) conversation() (Conversation, error) {
	c := Conversation{ID: s.ID, Complete: s.Complete}
	var numbers []int
	for key := range s.Conversation {
		if m := sessionKey.FindStringSubmatch(key); m != nil {
			n, err := strconv.Atoi(m[1])
			if err != nil {
				return c, err
			}
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	known := make(map[string]bool)
	for _, n := range numbers {
		key := "session_" + strconv.Itoa(n)
		var turns []turn
		if err := json.Unmarshal(s.Conversation[key], &turns); err != nil {
			return c, fmt.Errorf("%s: %w", key, err)
		}
		var date, thread string
		for name, text := range map[string]*string{key + "_date_time": &date, key + "_thread": &thread} {
			if raw, ok := s.Conversation[name]; ok {
				if err := json.Unmarshal(raw, text); err != nil {
					return c, fmt.Errorf("%s: %w", name, err)
				}
			}
		}
		start := parseTime(date)
		for i, t := range turns {
			if t.ID == "" || known[t.ID] {
				continue
			}
			known[t.ID] = true
			d := search.Doc{ID: t.ID, Session: key, Speaker: t.Speaker, Text: t.Text}
			if t.Caption != "" {
				d.Text += " [" + t.Caption + "]"
			}
			if !start.IsZero() {
				d.Time = start.Add(time.Duration(i) * time.Second)
			}
			c.Turns = append(c.Turns, d)
			if t.Role == "" {
				continue
			}
			if c.Acts == nil {
				c.Acts = make(map[string]Act)
			}
			c.Acts[t.ID] = Act{t.Role, t.Name, t.Call, t.Failed, thread}
		}
	}
	for _, q := range s.QA {
		category, _ := strconv.Atoi(strings.Trim(string(q.Category), `"`))
		c.Questions = append(c.Questions, Question{
			Text: q.Question, Category: category, Evidence: evidence(q.Evidence, known),
			Quotes: q.Quotes, Related: q.Related, Kind: q.Kind, Current: q.Current, Superseded: q.Superseded, Expect: q.Expect,
		})
	}
	return c, nil
}

var turnID = regexp.MustCompile(`D\d+:\d+`)

// evidence finds the ids of turns in whatever form names them, each once.
func evidence(raw json.RawMessage, known map[string]bool) []string {
	var ids []string
	for _, id := range turnID.FindAllString(string(raw), -1) {
		if known[id] && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// parseTime parses the time of a session; it returns zero for an unknown form.
func parseTime(text string) time.Time {
	for _, layout := range []string{
		"3:04 pm on 2 January, 2006", "2 January, 2006", "2006-01-02 15:04:05", time.RFC3339,
		"2006-01-02", "02.01.2006, 15:04:05", "January 2, 2006", "15:04 on 2 January, 2006",
	} {
		if t, err := time.Parse(layout, strings.TrimSpace(text)); err == nil {
			return t
		}
	}
	return time.Time{}
}
