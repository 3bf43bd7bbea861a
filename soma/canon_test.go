package soma_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stratamem/strata/soma"
	"github.com/stratamem/strata/soma/guard"
	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/mem"
)

// guards returns what a guard says of a call of a tool, as a host would ask.
func (w *world) guards(tool, team string) guard.Verdict {
	list, err := w.PolicySource(0).Constraints(w.Context(), team)
	if err != nil {
		return guard.Closed(err.Error()).Check(guard.Call{Tool: tool}, nil)
	}
	var rules []guard.Rule
	for _, c := range list {
		rules = append(rules, guard.Rule{ID: c.ID, Name: c.Name, Condition: c.Condition, Enforcement: guard.Enforcement(c.Enforcement), Message: c.Message})
	}
	return guard.New(rules).Check(guard.Call{Tool: tool, Team: team}, nil)
}

// rule makes a policy of canon, canon-no-<tool>, against calls of a tool.
func (w *world) rule(tool, enforcement string, change func(e *soma.Entity)) *soma.Entity {
	w.Helper()
	e := w.proposed("no "+tool, 0.9)
	e.Type, e.Body = "policy", "Never call it.\n\nNot even once."
	e.Fields["condition"], e.Fields["enforcement"], e.Fields["uses"] = `tool == "`+tool+`"`, enforcement, json.Number("3")
	if change != nil {
		change(e)
	}
	w.create(synthesizer, e)
	canon, err := w.promote(anna, "no-"+tool, "it broke things")
	w.check(err)
	return canon
}

// withheld returns what is quarantined as "id doubt".
func (w *world) withheld() (list []string) {
	w.Helper()
	all, err := w.Quarantined(w.Context())
	w.check(err)
	for _, h := range all {
		if h.Reason == "" || h.Repair == "" {
			w.Errorf("%s: reason %q, repair %q", h.ID, h.Reason, h.Repair)
		}
		list = append(list, h.ID+" "+string(h.Doubt))
	}
	return list
}

// edit changes a stored value past everything.
func (w *world) edit(key, old, text string) {
	w.Helper()
	value, _, err := w.db.Get(w.Context(), key)
	w.check(err)
	if !strings.Contains(string(value), old) {
		w.Fatalf("%s has no %q: %s", key, old, value)
	}
	w.check(storage.Set(w.Context(), w.db, key, []byte(strings.Replace(string(value), old, text, 1))))
}

// decisions returns the keys of the records about an entry.
func (w *world) decisions(key string) (list []string) {
	w.Helper()
	for record, err := range w.db.List(w.Context(), soma.GovernancePrefix+key+"/") {
		w.check(err)
		list = append(list, record)
	}
	return list
}

// file returns a file of a vault, changed by f; nil deletes it.
func (w *world) file(name string, f func(text []byte) []byte) {
	w.Helper()
	path := filepath.Join(w.dir, filepath.FromSlash(name))
	text, err := os.ReadFile(path)
	w.check(err)
	if text = f(text); text == nil {
		w.check(os.Remove(path))
		return
	}
	w.check(os.WriteFile(path, text, 0o600))
}

const shell = "policy/canon-no-shell"

// A policy that was ratified is not without effect, whatever becomes of it.
func TestPoliciesFailClosed(t *testing.T) {
	file := func(change func(text []byte) []byte) func(w *world) {
		return func(w *world) { w.file(shell+".md", change) }
	}
	put := func(at, text string) func(w *world) {
		return file(func(old []byte) []byte {
			if !bytes.Contains(old, []byte(at)) {
				t.Fatalf("no %q in %s", at, old)
			}
			return bytes.Replace(old, []byte(at), []byte(text), 1)
		})
	}
	const marks = "<<<<<<< HEAD\n%s=======\nx: 1\n>>>>>>> other\n"
	cases := []struct {
		name   string
		engine string // "": all
		do     func(w *world)
		doubt  soma.Doubt
		all    bool // every call is blocked
	}{
		{"body edited", "", func(w *world) { w.edit(shell, "even once", "ever twice") }, soma.Differs, false},
		{"condition edited", "", func(w *world) { w.edit(shell, `== \"shell\"`, `== \"nothing\"`) }, soma.Differs, false},
		{"condition gone", "", func(w *world) { w.edit(shell, `"condition"`, `"comment"`) }, soma.Differs, false},
		{"enforcement edited", "", func(w *world) { w.edit(shell, `"error"`, `"info"`) }, soma.Differs, false},
		{"JSON type changed", "", func(w *world) { w.edit(shell, `"uses":3`, `"uses":"3"`) }, soma.Differs, false},
		{"blank in a field", "", func(w *world) { w.edit(shell, `"ratified_by":"anna"`, `"ratified_by":"anna "`) }, soma.Differs, false},
		{"moved to the archive", "", func(w *world) { w.edit(shell, `"layer":"canon"`, `"layer":"archive"`) }, soma.Differs, false},
		{"moved to a team", "", func(w *world) { w.edit(shell, `"layer":"canon"`, `"layer":"canon","team_id":"red"`) }, soma.Differs, false},
		{"retired by hand", "", func(w *world) {
			w.edit(shell, `"layer":"canon"`, `"layer":"canon","retired_at":"2026-01-01T00:00:00.000Z"`)
		}, soma.Differs, false},
		{"deleted", "", func(w *world) { w.check(storage.Delete(w.Context(), w.db, shell)) }, soma.Missing, false},
		{"decision deleted", "", func(w *world) {
			for _, record := range w.decisions(shell) {
				w.check(storage.Delete(w.Context(), w.db, record))
			}
		}, soma.Unrecorded, true},
		{"decision and document edited", "", func(w *world) {
			w.edit(w.decisions(shell)[0], `\"shell\"`, `\"nothing\"`)
			w.edit(shell, `== \"shell\"`, `== \"nothing\"`)
		}, soma.Unreadable, true},
		{"decision of another entry", "", func(w *world) {
			value, _, err := w.db.Get(w.Context(), w.decisions("policy/canon-no-mail")[0])
			w.check(err)
			record := w.decisions(shell)[0]
			w.check(storage.Delete(w.Context(), w.db, record))
			w.check(storage.Set(w.Context(), w.db, soma.GovernancePrefix+shell+"/"+filepath.Base(w.decisions("policy/canon-no-mail")[0]), value))
		}, soma.Unreadable, true},
		{"written past a review", "", func(w *world) {
			w.check(storage.Set(w.Context(), w.db, shell+"-2", []byte(`{"name":"x","layer":"canon","status":"enforcing","enforcement":"info","condition":"false"}`)))
		}, soma.Unrecorded, true},
		{"bytes flipped", "bolt", func(w *world) { w.flip(`"id":"canon-no-shell","name"`) }, soma.Unreadable, false},
		{"bytes flipped in badger", "badger", func(w *world) { w.flip(`"id":"canon-no-shell","name"`) }, soma.Unreadable, false},
		{"bytes of all policies flipped", "bolt", func(w *world) { w.flip("even once") }, soma.Unreadable, true},
		{"decision flipped", "bolt", func(w *world) { w.flip(`"reviewer"`) }, soma.Unreadable, true},
		{"final newline", "vault", nil, "", false},
		{"cut in the front matter", "vault", file(func(text []byte) []byte { return text[:60] }), soma.Unreadable, false},
		{"cut in the body", "vault", file(func(text []byte) []byte { return text[:len(text)-9] }), soma.Differs, false},
		{"empty", "vault", file(func([]byte) []byte { return []byte{} }), soma.Differs, false},
		{"bit flipped", "vault", put("Never", "Nevar"), soma.Differs, false},
		{"not UTF-8", "vault", put("Never", "\xff\xfe"), soma.Unreadable, false},
		{"file deleted", "vault", file(func([]byte) []byte { return nil }), soma.Missing, false},
		{"conflict in the front matter", "vault", put("name: ", strings.Replace(marks, "%s", "name: y\n", 1)+"name: "), soma.Unreadable, false},
		{"conflict in the body", "vault", put("Never", strings.Replace(marks, "%s", "y\n", 1)+"Never"), soma.Differs, false},
		{"a file that is no document", "vault", func(w *world) {
			w.check(os.WriteFile(filepath.Join(w.dir, "policy", "new.md"), []byte("---\n<<<<<<< HEAD\n"), 0o600))
		}, soma.Unreadable, true},
		{"a directory that is a file", "vault", func(w *world) {
			w.check(os.RemoveAll(filepath.Join(w.dir, "policy")))
			w.check(os.WriteFile(filepath.Join(w.dir, "policy"), nil, 0o600))
		}, soma.Unreadable, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for _, engine := range []string{"mem", "bolt", "badger", "vault"} {
				if c.engine != "" && engine != c.engine {
					continue
				}
				t.Run(engine, func(t *testing.T) {
					w := newWorld(t, engine)
					w.rule("shell", "error", nil)
					w.rule("mail", "warn", nil)
					if got := w.guards("shell", "").Action; got != guard.Block || w.guards("read", "").Action != guard.Allow {
						t.Fatalf("before: %v", got)
					}
					if c.do != nil {
						c.do(w)
					}
					got, other := w.guards("shell", ""), w.guards("read", "").Action
					if got.Action != guard.Block || other != map[bool]guard.Action{false: guard.Allow, true: guard.Block}[c.all] {
						t.Errorf("a call it was against: %v; another: %v", got, other)
					}
					if w.guards("mail", "").Action == guard.Allow {
						t.Error("the other policy has no effect")
					}
					if c.doubt == "" {
						w.same("withheld", w.withheld(), []string(nil))
						return
					}
					if !strings.Contains(got.String(), "is withheld") {
						t.Errorf("it does not say why: %s", got)
					}
					list := w.withheld()
					if !slices.ContainsFunc(list, func(s string) bool { return strings.HasSuffix(s, " "+string(c.doubt)) }) {
						t.Errorf("quarantined: %q, want one that is %s", list, c.doubt)
					}
					if _, err := w.Guide(w.Context(), "canon", "", "", 0); err != nil {
						t.Errorf("no run begins: %v", err)
					}
				})
			}
		})
	}
}

// TestDecisionsThatCannotBeListed: the only policy is gone, and where its decision
// was there is something that has no records. No list says that there ever was one.
func TestDecisionsThatCannotBeListed(t *testing.T) {
	for _, dir := range []string{"_governance", "_governance/policy"} {
		for name, put := range map[string]func(at, hidden string) error{
			"a link": func(at, hidden string) error { return os.Symlink(hidden, at) },
			"a file": func(at, _ string) error { return os.WriteFile(at, nil, 0o600) },
		} {
			t.Run(dir+" is "+name, func(t *testing.T) {
				w := newWorld(t, "vault")
				w.rule("shell", "error", nil)
				w.check(os.Remove(filepath.Join(w.dir, shell+".md")))
				at, hidden := filepath.Join(w.dir, dir), filepath.Join(w.dir, ".hidden")
				w.check(os.Rename(at, hidden))
				w.check(put(at, hidden))
				if got := w.guards("shell", ""); got.Action != guard.Block || !strings.Contains(got.String(), "is withheld") {
					t.Errorf("the call is not blocked, or without a word: %v", got)
				}
				list := w.withheld()
				if !slices.ContainsFunc(list, func(s string) bool { return strings.HasSuffix(s, " "+string(soma.Unreadable)) }) {
					t.Errorf("withheld: %q, want one that is unreadable", list)
				}
			})
		}
	}
}

// flip flips a bit of every place in the files of an engine where a text is.
func (w *world) flip(text string) {
	w.Helper()
	w.Store.Close()
	w.check(w.db.Close())
	n := 0
	w.check(filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for at := 0; ; {
			i := bytes.Index(content[at:], []byte(text))
			if i < 0 {
				break
			}
			at += i + len(text)
			content[at-1] ^= 1
			n++
		}
		return os.WriteFile(path, content, 0o600)
	}))
	if n == 0 {
		w.Fatalf("%q is nowhere", text)
	}
	w.reopen()
}

// What stands in for a policy that is withheld is as strong as that was.
func TestWithheldEnforcement(t *testing.T) {
	eachEngine(t, func(w *world) {
		for tool, enforcement := range map[string]string{"a": "info", "b": "warn", "c": "error", "d": "abort", "e": "perhaps"} {
			w.rule(tool, enforcement, nil)
		}
		w.rule("f", "error", func(e *soma.Entity) { e.Team = "red" })
		w.rule("g", "error", func(e *soma.Entity) { delete(e.Fields, "condition") })
		for tool := range strings.SplitSeq("abcdefg", "") {
			w.edit("policy/canon-no-"+tool, "even once", "ever")
		}
		got := map[string]string{}
		for tool := range strings.SplitSeq("abcdefg", "") {
			v := w.guards(tool, "")
			got[tool] = v.Action.String()
			if v.End {
				got[tool] += ", end"
			}
		}
		w.same("verdicts", got, map[string]string{"a": "warn", "b": "warn", "c": "block", "d": "block, end", "e": "block", "f": "allow", "g": "allow"})
		if got := w.guards("f", "red").Action; got != guard.Block {
			w.Errorf("the team's own policy: %v", got)
		}
		w.same("withheld", len(w.withheld()), 7)
	})
}

// A condition that is no text has an effect all the same.
func TestConditionThatIsNoText(t *testing.T) {
	for _, condition := range []any{true, json.Number("1"), []any{"tool"}} {
		w := newWorld(t, "vault")
		w.rule("shell", "error", func(e *soma.Entity) { e.Fields["condition"] = condition })
		if got := w.guards("read", "").Action; got != guard.Block {
			t.Errorf("condition %v: %v", condition, got)
		}
		w.edit(shell, "even once", "ever")
		if got := w.guards("read", "").Action; got != guard.Block {
			t.Errorf("condition %v of what was edited: %v", condition, got)
		}
	}
}

// Drafts and proposals are no policies yet.
func TestDraftsDoNotBlock(t *testing.T) {
	eachEngine(t, func(w *world) {
		e := w.proposed("no calls", 0.9)
		e.Type, e.Status, e.Fields["condition"] = "policy", "draft", "true"
		w.create(synthesizer, e)
		w.edit("policy/no-calls", "body of", "edited")
		if got := w.guards("shell", "").Action; got != guard.Allow {
			w.Errorf("a proposal: %v", got)
		}
	})
}

// What editors change unasked is no change, on any engine.
func TestFoldedCanon(t *testing.T) {
	eachEngine(t, func(w *world) {
		w.rule("shell", "error", nil)
		for _, text := range []string{`Never call it.  \r\n\r\nNot even once.\r\n`, `Never call it.\n\t\nNot even once. \n\n\n`} {
			w.edit(shell, `Never call it.\n\nNot even once.`, text)
			w.same("withheld", w.withheld(), []string(nil))
			list, err := w.Guide(w.Context(), "canon", "", "", 0)
			w.check(err)
			if len(list) != 1 || list[0].Text != "Never call it.\n\nNot even once." {
				w.Errorf("served: %+v", list)
			}
			w.same("read", w.read("canon-no-shell").Body, "Never call it.\n\nNot even once.")
			n, err := w.Sync(w.Context())
			if n != 0 || err != nil {
				w.Errorf("the history took in %d edits, %v", n, err)
			}
			w.edit(shell, text, `Never call it.\n\nNot even once.`)
		}
	})
}

// other returns a store that has all that w has.
func (w *world) other() *world {
	w.Helper()
	o := newWorld(w.T, "mem")
	o.clock = w.clock
	o.open()
	o.merge(w)
	return o
}

// merge brings what another store has into w as git would: records of decisions
// are added, and of documents that both have, w keeps its own.
func (w *world) merge(from *world) {
	w.Helper()
	for e, err := range storage.Scan(w.Context(), from.db, "", nil) {
		w.check(err)
		if _, _, err := w.db.Get(w.Context(), e.Key); err != nil {
			w.check(storage.Set(w.Context(), w.db, e.Key, e.Value))
		}
	}
}

// Decisions that were made apart and contradict each other block, until a person
// decides; those that agree do not.
func TestContradictingDecisions(t *testing.T) {
	cases := []struct {
		name        string
		ours, their func(w *world)
		decide      func(w *world) error
		after       guard.Action
	}{
		{"one proposal promoted twice", promoteMail("anna"), promoteMail("ben"),
			func(w *world) error { return w.As(anna).Ratify(w.Context(), "canon-no-mail", "ours") }, guard.Block},
		{"one proposal promoted twice, then retired", promoteMail("anna"), promoteMail("ben"),
			func(w *world) error { return w.As(anna).Retire(w.Context(), "canon-no-mail", "neither") }, guard.Allow},
		{"one proposal became two entries", promoteMail("anna"), func(w *world) {
			w.check(storage.Set(w.Context(), w.db, "insight/canon-no-mail", []byte(`{"name":"in the way"}`)))
			promoteMail("ben")(w)
		}, func(w *world) error { return w.As(anna).Retire(w.Context(), "canon-no-mail-2", "one is enough") }, guard.Block},
		{"retired here and superseded there", retireShell, supersedeShell,
			func(w *world) error { return w.As(anna).Retire(w.Context(), "canon-no-shell", "it is over") }, guard.Allow},
		{"superseded by two", supersedeShell, func(w *world) {
			w.rule("exec", "error", nil)
			_, err := w.supersede("canon-no-shell", "canon-no-exec", "wider")
			w.check(err)
		}, func(w *world) error { return w.As(anna).Retire(w.Context(), "canon-no-shell", "it is over") }, guard.Allow},
		{"retired here and ratified there", retireShell, func(w *world) {
			w.edit(shell, "even once", "ever")
			w.check(w.As(anna).Ratify(w.Context(), "canon-no-shell", "better words"))
		}, func(w *world) error { return w.As(anna).Retire(w.Context(), "canon-no-shell", "it is over") }, guard.Allow},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, "mem")
			w.rule("shell", "error", nil)
			mail := w.proposed("no mail", 0.8)
			mail.Type, mail.Fields["condition"] = "policy", `tool == "mail"`
			w.create(synthesizer, mail)
			their := w.other()
			c.ours(w)
			w.add(1e9)
			c.their(their)
			w.merge(their)
			tool := "shell"
			if strings.HasPrefix(c.name, "one proposal") {
				tool = "mail"
			}
			if v := w.guards(tool, ""); v.Action != guard.Block || !strings.Contains(v.String(), "is withheld") {
				t.Errorf("after the merge: %v", v)
			}
			if v := w.guards("read", "").Action; v != guard.Allow {
				t.Errorf("what nobody is against: %v", v)
			}
			if list := w.withheld(); len(list) == 0 || !strings.HasSuffix(list[0], " contradicting") {
				t.Errorf("withheld: %q", list)
			}
			w.add(1e9)
			w.check(c.decide(w))
			w.same("withheld", w.withheld(), []string(nil))
			if got := w.guards(tool, "").Action; got != c.after {
				t.Errorf("after the decision: %v, want %v", got, c.after)
			}
		})
	}
}

func promoteMail(name string) func(w *world) {
	return func(w *world) {
		_, err := w.promote(soma.Person(name), "no-mail", "")
		w.check(err)
	}
}

func retireShell(w *world) { w.check(w.As(anna).Retire(w.Context(), "canon-no-shell", "over")) }

func supersedeShell(w *world) {
	w.rule("bash", "error", nil)
	_, err := w.supersede("canon-no-shell", "canon-no-bash", "better")
	w.check(err)
}

// The same decided twice, and different things decided apart, contradict nothing.
func TestDecisionsThatAgree(t *testing.T) {
	w := newWorld(t, "mem")
	w.rule("shell", "error", nil)
	their := w.other()
	retireShell(w)
	w.rule("mail", "error", nil)
	w.add(1e9)
	retireShell(their)
	their.rule("exec", "error", nil)
	w.merge(their)
	w.same("withheld", w.withheld(), []string(nil))
	for tool, want := range map[string]guard.Action{"shell": guard.Allow, "mail": guard.Block, "exec": guard.Block} {
		if got := w.guards(tool, "").Action; got != want {
			t.Errorf("%s: %v, want %v", tool, got, want)
		}
	}
}

// A person decides about what is gone or cannot be read, and about nothing that
// has the marks of a conflict.
func TestDecideAboutTheWithheld(t *testing.T) {
	eachEngine(t, func(w *world) {
		w.rule("shell", "error", nil)
		w.rule("mail", "error", nil)
		w.check(storage.Delete(w.Context(), w.db, shell))
		if err := w.As(anna).Ratify(w.Context(), shell, "x"); err == nil {
			w.Error("what is gone is ratified")
		}
		w.check(w.As(anna).Retire(w.Context(), shell, "it is gone"))
		w.same("withheld", w.withheld(), []string(nil))
		if got := w.guards("shell", "").Action; got != guard.Allow {
			w.Errorf("retired: %v", got)
		}
		if err := w.As(anna).Retire(w.Context(), shell, "again"); err == nil {
			w.Error("what is gone is retired twice")
		}
		// It does not come back by itself, nor by the id of a new one.
		again := w.proposed("no shell", 0.5)
		again.ID, again.Type = "no-shell-again", "policy"
		w.create(synthesizer, again)
		canon, err := w.promote(anna, again.ID, "")
		w.check(err)
		w.same("id", canon.ID, "canon-no-shell-2")

		const mail = "policy/canon-no-mail"
		w.edit(mail, "Never call it.", `<<<<<<< HEAD\nNever.\n=======\nSometimes.\n>>>>>>> theirs`)
		if err := w.As(anna).Ratify(w.Context(), mail, "x"); err == nil || !strings.Contains(err.Error(), "merge conflict") {
			w.Errorf("the marks of a conflict are ratified: %v", err)
		}
		w.edit(mail, `<<<<<<< HEAD\nNever.\n=======\nSometimes.\n>>>>>>> theirs`, "Never.")
		w.check(w.As(anna).Ratify(w.Context(), mail, "shorter"))
		w.same("withheld", w.withheld(), []string(nil))

		record := w.decisions(mail)
		w.edit(record[0], `"reviewer"`, `"viewer"`)
		w.edit(record[1], `"reviewer"`, `"viewer"`)
		w.check(w.As(anna).Ratify(w.Context(), mail, "the record was damaged"))
		w.same("withheld", w.withheld(), []string(nil))
	})
}

// blind is an engine that cannot list the keys with a prefix, or read them.
type blind struct {
	*mem.Store
	prefix string
	get    bool
}

var errBlind = errors.New("the disk does not answer")

func (b *blind) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	if !b.get && strings.HasPrefix(prefix, b.prefix) {
		return func(yield func(string, error) bool) { yield("", errBlind) }
	}
	return b.Store.List(ctx, prefix)
}

func (b *blind) Get(ctx context.Context, key string) ([]byte, storage.Version, error) {
	if b.get && strings.HasPrefix(key, b.prefix) {
		return nil, "", errBlind
	}
	return b.Store.Get(ctx, key)
}

// Where it cannot be looked for policies, that is an error, and no call is let
// pass; one damaged document is none.
func TestPoliciesCannotBeLookedFor(t *testing.T) {
	w := newWorld(t, "mem")
	w.rule("shell", "error", nil)
	whole := w.db.(*mem.Store)
	for _, c := range []struct {
		prefix   string
		get, run bool // run: canon can be served
	}{
		{"_governance/", false, false}, {"_governance/", true, false}, {"_canon/", false, false},
		{"policy/", true, false}, {"policy/", false, true},
	} {
		w.db = &blind{whole, c.prefix, c.get}
		w.open()
		if _, err := w.PolicySource(0).Constraints(w.Context(), ""); !errors.Is(err, errBlind) {
			t.Errorf("%+v: constraints: %v", c, err)
		}
		for _, tool := range []string{"shell", "read"} {
			if got := w.guards(tool, "").Action; got != guard.Block {
				t.Errorf("%+v: %s: %v", c, tool, got)
			}
		}
		if _, err := w.Guide(w.Context(), "canon", "", "", 0); (err == nil) != c.run {
			t.Errorf("%+v: a run begins with %v", c, err)
		}
	}
}
