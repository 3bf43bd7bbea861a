package otlptest_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stratamem/strata/cmd/strata/internal/otlptest"
)

// What is not OTLP over HTTP is refused, and does not count as received.
func TestReceiverRefuses(t *testing.T) {
	r := otlptest.Start(t)
	for _, test := range []struct {
		name, path, contentType, encoding, body string
		want                                    int
	}{
		{"JSON", "/v1/traces", "application/json", "", "{}", http.StatusBadRequest},
		{"no protobuf", "/v1/traces", "application/x-protobuf", "", "hello", http.StatusBadRequest},
		{"no gzip", "/v1/traces", "application/x-protobuf", "gzip", "hello", http.StatusBadRequest},
		{"another signal", "/v1/metrics", "application/x-protobuf", "", "", http.StatusNotFound},
		{"nothing", "/v1/traces", "application/x-protobuf", "", "", http.StatusOK},
	} {
		req, err := http.NewRequest("POST", r.URL+test.path, strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", test.contentType)
		req.Header.Set("Content-Encoding", test.encoding)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != test.want {
			t.Errorf("%s: status %d, want %d", test.name, resp.StatusCode, test.want)
		}
	}
	if r.Requests() != 1 || len(r.Tree()) != 0 {
		t.Errorf("%d requests and %d spans, want 1 and none", r.Requests(), len(r.Tree()))
	}
}

func TestParseLinesRefuses(t *testing.T) {
	for _, line := range []string{"{", `{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"AAAAAAAAAAAAAAAAAAAAZZ=="}]}]}]}`} {
		if _, err := otlptest.ParseLines([]byte(line)); err == nil {
			t.Errorf("%s: no error", line)
		}
	}
}
