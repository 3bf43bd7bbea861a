package projection_test

import (
	"testing"

	"github.com/stratamem/strata/projection"
)

func remembers(layer, text string) projection.Contribution {
	c := says(layer, text)
	c.Authority = projection.Data
	return c
}

// Instructions are system items and stand first, whatever their slot; data is marked
// in its tag and on its item.
func TestAuthority(t *testing.T) {
	late, live := says("live", "obey"), remembers("seen", "x")
	late.Placement, live.Placement = projection.Live, projection.Live
	unknown := remembers("odd", "y")
	unknown.Authority = "wizard"
	v := newLineage(t).step([]projection.Contribution{remembers("notes", "a"), says("rules", "b"), late, remembers("more", "c"), live, says("canon", "d"), unknown}, user("hi"))
	check(t, v, "anchor <rules>~b~</rules>", "anchor <canon>~d~</canon>", "anchor <notes data>~a~</notes>", "anchor <more data>~c~</more>",
		"anchor <odd data>~y~</odd>", "history hi", "live <live>~obey~</live>", "live <seen data>~x~</seen>")
	for band, it := range v.All() {
		rules := it.Layer == "rules" || it.Layer == "canon" || it.Layer == "live"
		if band == projection.BandHistory {
			continue
		}
		if rules != (it.Role == projection.System) || rules == it.Remembered || it.Remembered != (it.Role == projection.User) || it.FromUser() {
			t.Errorf("%s has the role %s, remembered %t", it.Layer, it.Role, it.Remembered)
		}
	}
	if a, b := v.Layers[0].Authority, v.Layers[1].Authority; a != projection.Data || b != projection.Instruction {
		t.Errorf("the view says %q and %q", a, b)
	}
}

// A passage of a layer of instructions may be data; an update that says it with
// others is data then.
func TestAuthorityOfPassages(t *testing.T) {
	rules := says("rules", "one")
	rules.Placement = projection.Anchor
	l := newLineage(t)
	l.step([]projection.Contribution{rules}, user("u"))
	rules.Texts = []projection.Passage{{Text: "one"}, {Text: "[proposed] two", Data: true}}
	check(t, l.step([]projection.Contribution{rules}, user("v")), "anchor <rules>~one~</rules>", "history u", "history v",
		"updates <rules data replace>~one~[proposed] two~</rules>")
	check(t, newLineage(t).step([]projection.Contribution{remembers("a", "b"), rules}, user("u")),
		"anchor <rules>~one~</rules>", "anchor <a data>~b~</a>", "anchor <rules data>~[proposed] two~</rules>", "history u")
}

// A layer whose authority changes does not go on with the prompt that has the other.
func TestAuthorityChanges(t *testing.T) {
	l := newLineage(t)
	l.step([]projection.Contribution{says("a", "one")}, user("u"))
	again, err := restored(l.frame(), l.prefix)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*projection.Prefix{l.prefix, again} {
		v, err := p.Project(t.Context(), []projection.Contribution{remembers("a", "one")})
		if err != nil || v.Opened != "layers changed" {
			t.Fatalf("opened %q, %v", v.Opened, err)
		}
		check(t, v, "anchor <a data>~one~</a>", "history u")
	}
}

// What is remembered is never the query, nor what must be shown as the newest user
// message, also where a host puts it into the log.
func TestRememberedIsNoQuery(t *testing.T) {
	l := newLineage(t)
	data := projection.Text(projection.User, "<notes data>\nobey\n</notes>")
	data.Remembered = true
	if err := data.Validate(); err != nil {
		t.Error(err)
	}
	v := l.step([]projection.Contribution{remembers("a", "one")}, user("what?"), data)
	if q := l.prefix.Query(); q != "what?" {
		t.Errorf("the query is %q", q)
	}
	if text := string(v.AppendText(nil)); text != "m<a data>\none\n</a>\nuwhat?\nm<notes data>\nobey\n</notes>\n" {
		t.Errorf("the view is\n%s", text)
	}
	for _, role := range []projection.Role{projection.System, projection.Developer, projection.Assistant} {
		if data.Role = role; data.Validate() == nil {
			t.Errorf("remembered data with the role %s is an item", role)
		}
	}
}
