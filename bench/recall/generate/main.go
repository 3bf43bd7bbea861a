// Command generate writes the conversations with which recall is tested, since
// no data set may be shipped. They are made from the topics in topics.go and a
// seed, in the format of LoCoMo: go run ./bench/recall/generate >
// bench/recall/testdata/fixture.json
//
// They do not measure how good recall is, since the same author wrote questions
// and answers. They make sure that what worked still does.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"time"
)

const (
	seed          = 4
	conversations = 12
	sessions      = 8
	absent        = 7 // topics of which a conversation has only the question
)

func main() {
	if err := write(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func write(w io.Writer) error {
	rng := rand.New(rand.NewPCG(seed, seed))
	var list []map[string]any
	for i := range conversations {
		list = append(list, conversation(rng, i))
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", " ")
	return enc.Encode(list)
}

type turn struct {
	Speaker string `json:"speaker"`
	ID      string `json:"dia_id"`
	Text    string `json:"text"`
}

type question struct {
	Question string   `json:"question"`
	Category int      `json:"category"`
	Evidence []string `json:"evidence"`
}

func conversation(rng *rand.Rand, number int) map[string]any {
	pair := [2]string{names[number*2%len(names)], names[(number*2+1)%len(names)]}
	order := rng.Perm(len(topics))
	var asked []question
	for _, at := range order[:absent] {
		asked = append(asked, question{fill(topics[at].ask, pair[rng.IntN(2)], ""), 5, []string{}})
	}
	order = order[absent:]
	talk := map[string]any{"speaker_a": pair[0], "speaker_b": pair[1]}
	day := time.Date(2024, 1, 3+number, 9, 30, 0, 0, time.UTC)
	for s := range sessions {
		var turns []turn
		say := func(who int, text string) string {
			id := fmt.Sprintf("D%d:%d", s+1, len(turns)+1)
			turns = append(turns, turn{pair[who], id, text})
			return id
		}
		small := func(who int) { say(who, pick(rng, chatter)) }
		say(0, pick(rng, greetings)+" "+pair[1]+"!")
		small(1)
		from, to := len(order)*s/sessions, len(order)*(s+1)/sessions
		for _, at := range order[from:to] {
			t := &topics[at]
			who := rng.IntN(2)
			value := pick(rng, t.values)
			q := question{Question: fill(t.ask, pair[who], value), Category: t.category}
			for _, line := range t.lines {
				speaker, text, _ := strings.Cut(line, ": ")
				evidence := strings.HasSuffix(speaker, "*")
				n := who
				if speaker[0] == 'B' {
					n = 1 - who
				}
				if id := say(n, fill(text, pair[who], value)); evidence {
					q.Evidence = append(q.Evidence, id)
				}
			}
			asked = append(asked, q)
			for range rng.IntN(3) {
				small(rng.IntN(2))
			}
		}
		say(1, pick(rng, farewells))
		key := fmt.Sprintf("session_%d", s+1)
		talk[key] = turns
		talk[key+"_date_time"] = strings.ToLower(day.Format("3:04 PM")) + day.Format(" on 2 January, 2006")
		day = day.AddDate(0, 0, 9+rng.IntN(20)).Add(time.Duration(rng.IntN(300)) * time.Minute)
	}
	return map[string]any{"sample_id": fmt.Sprintf("made-%d", number+1), "conversation": talk, "qa": asked}
}

func pick(rng *rand.Rand, list []string) string { return list[rng.IntN(len(list))] }

func fill(text, who, value string) string {
	return strings.NewReplacer("{who}", who, "{x}", value).Replace(text)
}
