package bench

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"

	"github.com/stratamem/strata/bench/locomo"
	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/storage/search"
)

// exchange is one turn as it is played: what comes from outside, and what the
// model answers.
type exchange struct {
	input, output []projection.Item
}

// bytes returns the length of what is said in it, tool calls included.
func (x *exchange) bytes() (n int) {
	for _, items := range [][]projection.Item{x.input, x.output} {
		for i := range items {
			n += len(items[i].Text()) + len(items[i].Arguments)
		}
	}
	return n
}

// chapter is some turns of a thread. If the next chapter is of another thread,
// this thread is over.
type chapter struct {
	thread string
	turns  []exchange
}

// script is an endless life, always the same.
type script = iter.Seq[chapter]

// chats plays conversations, each as a thread, in endless rounds; see
// [locomo.Rounds].
func chats(data []locomo.Conversation, seed uint64) script {
	return func(yield func(chapter) bool) {
		for c := range locomo.Rounds(data, seed) {
			if !yield(chapter{"chat-" + c.ID, exchanges(&c)}) {
				return
			}
		}
	}
}

// exchanges returns the turns of a conversation. A speaker called neither user
// nor assistant is the user if they speak first.
func exchanges(c *locomo.Conversation) []exchange {
	var turns []exchange
	for i := range c.Turns {
		it := item(&c.Turns[i], c.Turns[0].Speaker)
		n := len(turns)
		if it.Role == projection.Assistant {
			if n == 0 {
				turns = append(turns, exchange{})
				n++
			}
			turns[n-1].output = append(turns[n-1].output, it)
			continue
		}
		if n == 0 || len(turns[n-1].output) > 0 {
			turns = append(turns, exchange{})
			n++
		}
		turns[n-1].input = append(turns[n-1].input, it)
	}
	return turns
}

func item(d *search.Doc, first string) projection.Item {
	role := projection.Role(d.Speaker)
	if role == projection.User || role == projection.Assistant {
		return projection.Text(role, d.Text)
	}
	role = projection.Assistant
	if d.Speaker == first {
		role = projection.User
	}
	it := projection.Text(role, d.Text)
	it.Name = d.Speaker
	return it
}

// monologue is an endless thread of messages of 400 characters each way, cut
// from the words of the agent at work.
func monologue(seed uint64) script {
	const part = 100
	return func(yield func(chapter) bool) {
		for n := 0; ; n += part {
			w := worker{rand.New(rand.NewPCG(seed, uint64(n)))}
			turns := make([]exchange, part)
			for i := range turns {
				turns[i] = exchange{
					input:  []projection.Item{projection.Text(projection.User, w.prose(messageChars))},
					output: []projection.Item{projection.Text(projection.Assistant, w.prose(messageChars))},
				}
			}
			if !yield(chapter{"live", turns}) {
				return
			}
		}
	}
}

// sessions is an agent at work: threads of about forty turns in which it is asked
// for something, calls tools, reads what they return, and reports.
func sessions(seed uint64) script {
	return func(yield func(chapter) bool) {
		for n := 0; ; n++ {
			w := worker{rand.New(rand.NewPCG(seed, uint64(n)))}
			var turns []exchange
			for range 8 + w.IntN(5) {
				turns = append(turns, w.task(len(turns))...)
			}
			if !yield(chapter{fmt.Sprint("session-", n), turns}) {
				return
			}
		}
	}
}

// worker invents what an agent and its user say. Its texts are built alike, and
// differ in names and numbers.
type worker struct{ *rand.Rand }

// task is a request with the rounds of tool calls that it takes.
func (w worker) task(number int) []exchange {
	x := exchange{input: []projection.Item{projection.Text(projection.User, w.prose(200))}}
	var turns []exchange
	for i := range 1 + w.IntN(4) {
		id := fmt.Sprintf("call-%d-%d", number, i)
		tool := w.pick(toolNames)
		x.output = []projection.Item{
			projection.Text(projection.Assistant, w.sentence()),
			projection.Call(id, tool, fmt.Sprintf(`{"path":"%s/%s.go","limit":%d}`, w.pick(services), w.pick(things), 10+w.IntN(900))),
		}
		turns = append(turns, x)
		x = exchange{input: []projection.Item{projection.Result(id, w.output(500+w.IntN(5000)))}}
	}
	x.output = []projection.Item{projection.Text(projection.Assistant, w.prose(400+w.IntN(1600)))}
	return append(turns, x)
}

// output is what a tool returns: lines of a log.
func (w worker) output(n int) string {
	var b strings.Builder
	for b.Len() < n {
		fmt.Fprintf(&b, "%02d:%02d:%02d.%03d %s %s/%s.go:%d %s=%d took %d ms\n", w.IntN(24), w.IntN(60), w.IntN(60), w.IntN(1000),
			w.pick([]string{"INFO", "WARN", "ERROR"}), w.pick(services), w.pick(things), 1+w.IntN(2000), w.pick(things), w.IntN(100_000), w.IntN(5000))
	}
	return b.String()[:n]
}

// prose returns that many characters of sentences; the last may be cut.
func (w worker) prose(n int) string {
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(w.sentence())
		b.WriteByte(' ')
	}
	return b.String()[:n]
}

func (w worker) sentence() string {
	person, service, thing, number := w.pick(people), w.pick(services), w.pick(things), 2+w.IntN(5000)
	if w.IntN(20) == 0 {
		person = locomo.NewName(w.Rand) // somebody new
	}
	return strings.NewReplacer("{person}", person, "{service}", service, "{thing}", thing, "{n}", fmt.Sprint(number)).Replace(w.pick(remarks))
}

func (w worker) pick(from []string) string { return from[w.IntN(len(from))] }

var (
	people    = strings.Fields("Anna Bogdan Carmen Dmitri Elif Farid Greta Hiroshi Ines Jonas Katja Leila Marek Nadia Oskar Priya Quentin Rosa Sven Tamara")
	services  = strings.Fields("billing gateway ledger mailer planner queue registry router scheduler search store tracker uploader vault worker")
	things    = strings.Fields("batch buffer cache client cursor deadline event handler header index invoice lease limit lock message migration page parser payload pool quota record replica request response retry schema session shard snapshot stream table timeout token trace version window")
	toolNames = []string{"read_file", "search", "run_tests", "query_logs"}
	remarks   = []string{
		"{person} says that the {thing} of {service} fails once in {n} requests since the release.",
		"Can you find out why {service} waits for its {thing}, and tell {person} before Thursday?",
		"We decided to move the {thing} into {service}, because the old one took {n} ms.",
		"The {thing} is held for {n} ms while {service} reads the {thing} of the next {thing}.",
		"I would rather not touch {service} now; {person} is still at work on its {thing}.",
		"The test of the {thing} passes {n} times in a row, and then the {service} is out of memory.",
		"Please remember that {person} wants every {thing} of {service} behind a flag.",
		"I read the {thing} of {service} and saw {n} entries that nobody has asked for.",
		"The deadline for {service} is 14 March, and {person} reviews the {thing}.",
		"What changed is small: the {thing} is now made once, and {service} keeps it for {n} seconds.",
		"In Lisbon {person} measured {n} {thing}s a second on two cores, which is enough for {service}.",
		"After the change the {thing} takes a third of the time; {n} rows are left to be looked at.",
	}
)
