package soma_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/bolt"
	"github.com/stratamem/strata/storage/mem"
)

// entities is how many there are in the store of a benchmark; STRATA_ENTITIES
// sets another number. Of these, emerging are in that layer.
var entities = 10_000

const emerging = 1_000

func init() {
	if n, err := strconv.Atoi(os.Getenv("STRATA_ENTITIES")); err == nil {
		entities = n
	}
}

// emptyStore is a bolt store.
func emptyStore(b *testing.B) (*soma.Store, storage.Adapter) {
	b.Helper()
	db, err := bolt.Open(b.Context(), filepath.Join(b.TempDir(), "soma.db"), &bolt.Options{Durability: storage.None})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	s, err := soma.Open(b.Context(), db, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s, db
}

// benchStore is a bolt store of entities of 1 KiB.
func benchStore(b *testing.B) (*soma.Store, storage.Adapter) {
	b.Helper()
	s, db := emptyStore(b)
	words := strings.Fields("gateway retry backoff ledger queue invoice replica schema cutover rollback index shard lease quorum timeout")
	var ops []storage.Op
	for i := range entities {
		var body strings.Builder
		for j := range 100 {
			fmt.Fprintf(&body, "%s%d ", words[(i*7+j*(i%13+1))%len(words)], (i*31+j*17)%997)
		}
		e := map[string]any{
			"type": "insight", "name": fmt.Sprint("insight ", i), "status": "active", "layer": "archive", "source_worker": "harvester",
			"created": "2026-05-04T09:00:00.000Z", "updated": "2026-05-04T09:00:00.000Z", "tags": []string{"t" + fmt.Sprint(i%50)}, "body": body.String()[:800],
		}
		if i%(entities/emerging) == 0 {
			e["layer"], e["confidence_score"], e["evidence_links"], e["decay_at"] = "emerging", float64(i%100)/100, []string{}, "2027-05-04T09:00:00.000Z"
		}
		document, err := json.Marshal(e)
		if err != nil {
			b.Fatal(err)
		}
		if ops = append(ops, storage.Put(fmt.Sprintf("insight/i%06d", i), document)); len(ops) == 1000 {
			if err := db.Apply(b.Context(), ops...); err != nil {
				b.Fatal(err)
			}
			ops = nil
		}
	}
	return s, db
}

// BenchmarkQuery compares reading the emerging layer with a
// scan of 1,000 stored documents by the engine alone, and with the same that
// decodes them.
func BenchmarkQuery(b *testing.B) {
	s, db := benchStore(b)
	var of, scan, decode, pending time.Duration
	timed := func(total *time.Duration, f func() int) {
		start := time.Now()
		if n := f(); n != emerging {
			b.Fatalf("%d entities", n)
		}
		*total += time.Since(start)
	}
	for b.Loop() {
		timed(&of, func() (n int) {
			for _, err := range s.Query(b.Context(), soma.Query{Layer: soma.Emerging}) {
				if err != nil {
					b.Fatal(err)
				}
				n++
			}
			return n
		})
		timed(&pending, func() int {
			list, err := s.Pending(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			return len(list)
		})
		for total, read := range map[*time.Duration]bool{&scan: false, &decode: true} {
			timed(total, func() (n int) {
				for e, err := range storage.Scan(b.Context(), db, "insight/", &storage.ScanOptions{Limit: emerging}) {
					var fields map[string]any
					if read && err == nil {
						err = json.Unmarshal(e.Value, &fields)
					}
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
				return n
			})
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(of.Microseconds())/float64(b.N), "query-µs")
	b.ReportMetric(float64(pending.Microseconds())/float64(b.N), "pending-µs")
	b.ReportMetric(float64(of)/float64(scan), "x-scan")
	b.ReportMetric(float64(of)/float64(decode), "x-decoded")
}

// BenchmarkSearch measures full-text search of all entities.
func BenchmarkSearch(b *testing.B) {
	s, _ := benchStore(b)
	find := func(text string) {
		n := 0
		for _, err := range s.Query(b.Context(), soma.Query{Text: text, Limit: 10}) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n == 0 {
			b.Fatalf("nothing is found for %q", text)
		}
	}
	start := time.Now()
	find("gateway1") // indexes all
	index := time.Since(start)
	var took []time.Duration
	i := 0
	for b.Loop() {
		start := time.Now()
		find(fmt.Sprintf("retry%d backoff%d ledger", i%997, (i*7)%997))
		took = append(took, time.Since(start))
		i++
	}
	slices.Sort(took)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(index.Seconds(), "index-s")
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
}

// BenchmarkCreate measures creating an entity among few and among many, with its
// history, its links and its place in the index.
func BenchmarkCreate(b *testing.B) {
	for name, open := range map[string]func(*testing.B) (*soma.Store, storage.Adapter){"few": emptyStore, "many": benchStore} {
		b.Run(name, func(b *testing.B) {
			s, _ := open(b)
			w := s.As(soma.Person("bench"))
			i := 0
			for b.Loop() {
				i++
				e := archived(fmt.Sprint("made ", i), strings.Repeat("gateway retry backoff ", 30))
				if _, err := w.Create(b.Context(), e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCanon is what a turn and a guard pay to read canon of 200 entries, and
// the decisions about it.
func BenchmarkCanon(b *testing.B) {
	s, _ := emptyStore(b)
	w := s.As(soma.Person("anna"))
	for i := range 200 {
		e, err := w.Create(b.Context(), &soma.Entity{
			Type: "policy", Name: fmt.Sprint("rule ", i), Layer: soma.Emerging, Body: "Never call it.", DecayAt: s.ComputeL3DecayAt(time.Now()),
			Fields: map[string]any{soma.FieldConfidence: 0.5, soma.FieldEvidence: []any{}, "condition": `tool == "x"`, "enforcement": "error"},
		})
		if err == nil {
			_, err = w.Promote(b.Context(), e.ID, e.Digest(), "")
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.Run("guide", func(b *testing.B) {
		for b.Loop() {
			if list, err := s.Guide(b.Context(), "canon", "", "", 0); err != nil || len(list) != 200 {
				b.Fatal(len(list), err)
			}
		}
	})
	b.Run("constraints", func(b *testing.B) {
		for b.Loop() {
			if list, err := s.PolicySource(0).Constraints(b.Context(), ""); err != nil || len(list) != 200 {
				b.Fatal(len(list), err)
			}
		}
	})
}

// BenchmarkScan is what is paid to look for a few entities among many that the
// index selects: the least that a turn, a guard and the worker of decay pay.
func BenchmarkScan(b *testing.B) {
	const few = 8
	for _, n := range []int{1_000, 10_000} {
		ctx, db := b.Context(), mem.New()
		s, err := soma.Open(ctx, db, &soma.Options{Now: func() time.Time { return time.Date(2026, 5, 20, 9, 0, 0, 0, time.UTC) }})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { s.Close() })
		var ops []storage.Op
		for i := range n {
			e := map[string]any{
				"name": fmt.Sprint("entity ", i), "created": "2026-05-04T09:00:00.000Z",
				"updated": fmt.Sprintf("2026-05-%02dT09:00:00.000Z", 5+i%10), "tags": []string{"t" + fmt.Sprint(i%50), "graph-inferred"},
				"related": []string{"decision/a", "decision/b"}, "body": strings.Repeat("The gateway's retries back off: see [[decision/a]].\n", 20),
			}
			kind := "insight"
			switch i % 4 {
			case 0:
				e["layer"], e["source_worker"], e["team_id"], e["decay_at"] = "working", "team-context", fmt.Sprint("team", i%10), "2026-06-04T09:00:00.000Z"
			case 1, 2:
				e["layer"], e["source_worker"], e["decay_at"], e["proposal_status"] = "emerging", "synthesizer", "2027-05-04T09:00:00.000Z", "pending"
				e["confidence_score"], e["evidence_links"] = float64(i%100)/100, []string{"[[decision/a]]", "[[decision/b]]"}
			case 3:
				kind = "execution"
				e["layer"], e["source_worker"], e["agent_id"], e["status"] = "archive", "harvester", fmt.Sprint("agent", i%10), "completed"
				e["created"] = "2026-05-19T09:00:00.000Z"
			}
			document, err := json.Marshal(e)
			if err != nil {
				b.Fatal(err)
			}
			if ops = append(ops, storage.Put(fmt.Sprintf("%s/i%06d", kind, i), document)); len(ops) == 1000 {
				if err := db.Apply(ctx, ops...); err != nil {
					b.Fatal(err)
				}
				ops = nil
			}
		}
		consult := func(intent soma.Intent, team string) func() int {
			return func() int {
				list, err := s.Consult(ctx, intent, soma.Query{Team: team, Limit: few})
				if err != nil {
					b.Fatal(err)
				}
				return len(list)
			}
		}
		for name, scan := range map[string]func() int{
			"advise": consult(soma.Advise, ""),
			"brief":  consult(soma.Brief, "team4"),
			"list": func() (n int) {
				q := soma.Query{Layer: soma.Emerging, UpdatedFrom: time.Date(2026, 5, 14, 0, 0, 0, 0, time.UTC), Limit: few}
				for _, err := range s.Query(ctx, q) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
				return n
			},
			"decay": func() int {
				done, err := s.As(soma.Worker("decay")).ProcessDecay(ctx)
				if err != nil {
					b.Fatal(err)
				}
				return few + len(done.Moved) + len(done.Bad)
			},
			"read": func() int {
				if _, err := s.Read(ctx, "insight/i000001"); err != nil {
					b.Fatal(err)
				}
				return few
			},
			"guard": func() int {
				if s.PolicySource(0).RecentFailureRate(ctx, "agent3") != 0 {
					b.Fatal("it failed")
				}
				return few
			},
		} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if n := scan(); n != few {
						b.Fatal(n)
					}
				}
			})
		}
	}
}
