package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/projection"
)

// testEndpoint speaks the API of chat completions, as far as the tool uses it.
// What it answers depends on the model that is asked for.
type testEndpoint struct {
	*httptest.Server
	hanging chan struct{} // receives when a request of model "hang" is there

	mu       sync.Mutex
	requests []chatRequest
}

type chatRequest struct {
	Model    string        `json:"model"`
	Messages []chatMessage `json:"messages"`
	Tools    []struct {
		Function struct {
			Name       string         `json:"name"`
			Parameters map[string]any `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
	Stream bool `json:"stream"`
	Key    string
}

type chatMessage struct {
	Role      string `json:"role"`
	Content   any    `json:"content"`
	CallID    string `json:"tool_call_id"`
	ToolCalls []struct {
		ID       string `json:"id"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

func startEndpoint() *testEndpoint {
	e := &testEndpoint{hanging: make(chan struct{}, 1)}
	e.Server = httptest.NewServer(http.HandlerFunc(e.serve))
	return e
}

func (e *testEndpoint) serve(w http.ResponseWriter, r *http.Request) {
	var req chatRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil || r.URL.Path != "/v1/chat/completions" {
		http.Error(w, `{"error": {"message": "no such thing"}}`, http.StatusNotFound)
		return
	}
	req.Key = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	e.mu.Lock()
	e.requests = append(e.requests, req)
	e.mu.Unlock()
	if req.Model == "locked" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"error": {"message": "who are you?", "type": "auth"}}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(delta string) {
		fmt.Fprintf(w, "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":%q,\"choices\":[{\"index\":0,\"delta\":%s}]}\n\n", req.Model, delta)
		w.(http.Flusher).Flush()
	}
	answered := slices.ContainsFunc(req.Messages, func(m chatMessage) bool { return m.Role == "tool" })
	switch {
	case req.Model == "hang":
		send(`{"role":"assistant","content":"Let me"}`)
		e.hanging <- struct{}{}
		<-r.Context().Done()
		return
	case req.Model == "loop" && len(req.Tools) > 0:
		send(`{"role":"assistant","tool_calls":[{"index":0,"id":"call_x","type":"function","function":{"name":"working-memory_read","arguments":"{}"}}]}`)
	case req.Model == "noter" && !answered && len(req.Tools) > 0:
		send(`{"role":"assistant","tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"working-memory_update","arguments":""}}]}`)
		send(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"notes\":{\"profile\":"}}]}`)
		send(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"name\":\"Ada\"}}}"}}]}`)
		send(`{"tool_calls":[{"index":1,"id":"call_2","type":"function","function":{"name":"working-memory_nonsense","arguments":"{}"}}]}`)
	default:
		send(`{"role":"assistant","content":"I heard "}`)
		send(`{"content":"you.\u001b[2J"}`)
	}
	fmt.Fprintf(w, "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":%q,\"choices\":[],\"usage\":{\"prompt_tokens\":120,\"completion_tokens\":7,\"total_tokens\":127,\"prompt_tokens_details\":{\"cached_tokens\":64}}}\n\n", req.Model)
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// transcriptFile writes a transcript of user messages and returns its path.
func transcriptFile(t *testing.T, said ...string) string {
	t.Helper()
	var b strings.Builder
	for _, text := range said {
		fmt.Fprintf(&b, "{\"role\": \"user\", \"content\": %q}\n{\"role\": \"assistant\", \"content\": \"recorded\"}\n", text)
	}
	return writeFile(t, "chat.jsonl", b.String())
}

// turnsOf returns the turn events of JSON output.
func turnsOf(t *testing.T, out string) []event {
	t.Helper()
	var turns []event
	for line := range strings.Lines(out) {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		if e.Event == eventTurn {
			turns = append(turns, e)
		}
	}
	return turns
}

func TestEndpointAnswers(t *testing.T) {
	e := startEndpoint()
	defer e.Close()
	db := filepath.Join(t.TempDir(), "a.db")
	status, out, errs := call(t.Context(), map[string]string{"OPENAI_API_KEY": "sk-test"},
		"run", transcriptFile(t, "Hello, I am Ada."), "--db", db, "--base-url", e.URL+"/v1", "--model", "noter", "--json")
	if status != exitOK {
		t.Fatalf("status %d: %s", status, errs)
	}
	turns := turnsOf(t, out)
	if len(turns) != 2 {
		t.Fatalf("%d rounds, want 2: the call of the tools and the answer", len(turns))
	}
	want := []said{
		{Kind: projection.ToolResult, Name: "working-memory_update"},
		{Kind: projection.ToolResult, Name: "working-memory_nonsense"},
	}
	got := turns[1].Input
	if len(got) != 2 || !strings.Contains(got[1].Text, "unknown tool") {
		t.Fatalf("tool results %+v", got)
	}
	for i := range got {
		got[i].Text = ""
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tool results (-want +got):\n%s", diff)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.requests) != 2 {
		t.Fatalf("%d requests, want 2", len(e.requests))
	}
	second := e.requests[1]
	if second.Key != "sk-test" || !second.Stream || len(second.Tools) == 0 || second.Tools[0].Function.Parameters["type"] != "object" {
		t.Errorf("second request: key %q, stream %v, %d tools", second.Key, second.Stream, len(second.Tools))
	}
	var roles []string
	for _, m := range second.Messages {
		roles = append(roles, m.Role)
	}
	calls := strings.Index(strings.Join(roles, " "), "user assistant tool tool")
	if calls < 0 {
		t.Errorf("roles %v: want the results directly behind the calls", roles)
	}
	// What the tool noted is remembered, and in the prompt of the next run.
	status, out, errs = call(t.Context(), nil, "show", "layers", "--db", db, "--layer", "working-memory")
	if status != exitOK || !strings.Contains(out, "Ada") {
		t.Errorf("status %d, working memory %q %s", status, out, errs)
	}
}

func TestEndpointRoundsAreBounded(t *testing.T) {
	e := startEndpoint()
	defer e.Close()
	status, out, errs := call(t.Context(), nil, "run", transcriptFile(t, "Again!"), "--db", "mem:", "--base-url", e.URL+"/v1", "--model", "loop", "--json")
	if status != exitOK {
		t.Fatalf("status %d: %s", status, errs)
	}
	turns := turnsOf(t, out)
	if len(turns) != maxRounds || len(e.requests) != maxRounds || len(e.requests[maxRounds-1].Tools) != 0 {
		t.Errorf("%d rounds, %d requests", len(turns), len(e.requests))
	}
	if last := turns[len(turns)-1].Output; len(last) != 1 || last[0].Kind != projection.Message {
		t.Errorf("last output %+v, want a message", last)
	}
}

// TestEndpointReplaces: what the recorded model did and another answers anew is counted.
func TestEndpointReplaces(t *testing.T) {
	e := startEndpoint()
	defer e.Close()
	path := filepath.Join(t.TempDir(), "chat.jsonl")
	if err := os.WriteFile(path, []byte(`{"role":"user","content":"Hello"}
{"role":"assistant","content":null,"tool_calls":[{"id":"a","function":{"name":"x","arguments":"{}"}},{"id":"b","function":{"name":"x","arguments":"{}"}}]}
{"role":"tool","tool_call_id":"a","content":"1"}
{"role":"tool","tool_call_id":"b","content":"2"}
{"role":"assistant","content":"Done"}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, errs := call(t.Context(), nil, "run", path, "--db", "mem:", "--base-url", e.URL+"/v1", "--model", "any", "--json")
	if status != exitOK || !strings.Contains(out, `"replaced":{"tool_calls":2,"tool_results":2}`) {
		t.Errorf("status %d: %s %s", status, out, errs)
	}
}

func TestEndpointRefuses(t *testing.T) {
	e := startEndpoint()
	defer e.Close()
	for _, test := range []struct{ model, url, want string }{
		{"locked", e.URL + "/v1", "set OPENAI_API_KEY"},
		{"any", e.URL, "check --base-url"},
	} {
		status, _, errs := call(t.Context(), nil, "run", transcriptFile(t, "Hello"), "--db", "mem:", "--base-url", test.url, "--model", test.model)
		if status != exitFailure || !strings.Contains(errs, test.want) {
			t.Errorf("%s: status %d: %s", test.model, status, errs)
		}
	}
}

// Between a call and its result nothing else may stand.
func TestChatMessagesOrder(t *testing.T) {
	image := projection.Text(projection.User, "look")
	image.Parts = append(image.Parts, projection.Part{Type: projection.ImagePart, Data: []byte("x"), MediaType: "image/png"})
	items := []projection.Item{
		projection.Text(projection.System, "system"), image,
		projection.Thought("hm"), projection.Text(projection.Assistant, "wait"),
		projection.Call("1", "a", "{}"), projection.Call("2", "b", "{}"),
		projection.Text(projection.System, "an update"),
		projection.Result("1", "one"), projection.Result("2", "two"),
		projection.Text(projection.User, "and?"),
	}
	view := &projection.View{Segments: []projection.Segment{{Band: projection.BandHistory, Items: items, From: -1}}}
	data, err := json.Marshal(chatMessages(view, false))
	if err != nil {
		t.Fatal(err)
	}
	var got []chatMessage
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	var roles []string
	for _, m := range got {
		roles = append(roles, m.Role)
	}
	if diff := cmp.Diff([]string{"system", "user", "assistant", "tool", "tool", "system", "user"}, roles); diff != "" {
		t.Errorf("roles (-want +got):\n%s", diff)
	}
	if len(got) > 2 && len(got[2].ToolCalls) != 2 {
		t.Errorf("the assistant's message has %d calls, want 2", len(got[2].ToolCalls))
	}
	if !strings.Contains(string(data), "data:image/png;base64,eA==") {
		t.Errorf("the image is missing: %s", data)
	}
}

// Instructions at the beginning are system messages. Later ones stay in their place,
// and data is the user's, marked.
func TestChatMessagesAuthority(t *testing.T) {
	block := func(role projection.Role, layer, text string, remembered bool) projection.Item {
		it := projection.Text(role, text)
		it.Layer, it.Remembered = layer, remembered
		return it
	}
	view := &projection.View{Segments: []projection.Segment{
		{Band: projection.BandSystem, Items: []projection.Item{projection.Text(projection.System, "You help.")}, From: -1},
		{Band: projection.BandAnchor, Items: []projection.Item{
			block(projection.System, "rules", "<rules>\nBe kind.\n</rules>", false), block(projection.User, "notes", "<notes data>\nx\n</notes>", true),
		}, From: -1},
		{Band: projection.BandHistory, Items: []projection.Item{
			projection.Text(projection.System, "said so"), projection.Text(projection.User, "hi"), block(projection.System, "rules", "<rules replace>\nBe brief.\n</rules>", false),
		}, From: 0},
		{Band: projection.BandLive, Items: []projection.Item{block(projection.User, "recall", "<recall data>\ny\n</recall>", true)}, From: -1},
	}}
	for developer, want := range map[bool]string{
		true:  "system system user system user developer user",
		false: "system system user system user user user",
	} {
		data, err := json.Marshal(chatMessages(view, developer))
		if err != nil {
			t.Fatal(err)
		}
		var got []chatMessage
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		var roles []string
		for _, m := range got {
			roles = append(roles, m.Role)
		}
		if strings.Join(roles, " ") != want {
			t.Errorf("developer %t: roles %v, want %s", developer, roles, want)
		}
	}
	for url, want := range map[string]bool{
		"https://api.openai.com/v1": true, "https://eu.api.openai.com/v1": true, "https://x.openai.azure.com/openai/v1/": true,
		"http://localhost:11434/v1": false, "https://openai.com.evil.example/v1": false, "https://notopenai.com": false, "": false, ":": false,
	} {
		if isOpenAI(url) != want {
			t.Errorf("%q is OpenAI's: %t", url, !want)
		}
	}
}
